"""Flat range results: all rows of hits in one array, and where each row begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from memvec.checks import message
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation._id_rows import id_rows, refuse_repeated
from memvec.types import ArrayLike, Float32Array, IntArray


class FlatRows(Protocol):
    """Anything with the ids of all queries in one array and the offset of each query's part."""

    @property
    def offsets(self) -> Any:
        """Where each query's part begins, and the end: shape (n_queries + 1,)."""

    @property
    def ids(self) -> Any:
        """The ids of all queries, one part after the other."""


class RangeRow(NamedTuple):
    """The hits of one query: ids of shape (n_hits,) and their scores."""

    ids: IntArray
    scores: Float32Array


@dataclass(frozen=True, eq=False, repr=False)
class Ranges:
    """Hits of many queries in flat form; iterating gives one `RangeRow` per query.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,)
        The hits of query i are ``ids[offsets[i]:offsets[i + 1]]``.
    ids : ndarray of shape (n_hits,)
        Row numbers of the data.
    scores : ndarray of shape (n_hits,)
        Canonical scores rounded to float32.

    Examples
    --------
    >>> found = Ranges.from_rows([[4, 1], [], [7]])
    >>> found
    Ranges(n_queries=3, n_hits=3)
    >>> [row.ids.tolist() for row in found]
    [[4, 1], [], [7]]
    """

    offsets: IntArray
    ids: IntArray
    scores: Float32Array

    @classmethod
    def from_rows(
        cls, ids: Sequence[ArrayLike], scores: Sequence[ArrayLike] | None = None
    ) -> Ranges:
        """Return the flat form of one list of ids per query; scores are 0 where not given."""
        rows = id_rows(ids, "ids", "Ranges.from_rows")
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        values = [np.zeros(count) for count in counts] if scores is None else _rows_of(scores)
        if [len(row) for row in values] != counts.tolist():
            raise InvalidValueError(
                message(
                    "scores",
                    "Ranges.from_rows",
                    f"as long as the ids of each query, {counts.tolist()}",
                    f"lengths {[len(row) for row in values]}",
                )
            )
        return cls(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.concatenate([np.empty(0, dtype=np.int64), *rows]),
            np.concatenate([np.empty(0), *values]).astype(np.float32),
        )

    @property
    def counts(self) -> IntArray:
        """The number of hits of each query."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> RangeRow:
        start, stop = self.offsets[:-1][query], self.offsets[1:][query]
        return RangeRow(self.ids[start:stop], self.scores[start:stop])

    def __iter__(self) -> Iterator[RangeRow]:
        return (self[query] for query in range(len(self)))

    def __repr__(self) -> str:
        return f"Ranges(n_queries={len(self)}, n_hits={len(self.ids)})"


def _rows_of(scores: Sequence[ArrayLike]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    return [np.asarray(row, dtype=np.float64).reshape(-1) for row in scores]


def flat_rows(value: FlatRows, name: str, where: str) -> tuple[IntArray, IntArray]:
    """Return the number of the query and the id of every hit, refusing what is not flat rows."""
    if not (hasattr(value, "offsets") and hasattr(value, "ids")):
        raise InvalidTypeError(
            message(name, where, "an object with offsets and ids", type(value).__name__)
        )
    offsets, ids = np.asarray(value.offsets), np.asarray(value.ids)
    _check_integers(offsets, ids, name, where)
    rising = len(offsets) > 0 and offsets[0] == 0 and bool((offsets[1:] >= offsets[:-1]).all())
    if not rising or offsets[-1] != len(ids):
        got = f"offsets {_short(offsets)} for {len(ids)} ids"
        expected = "flat rows whose offsets rise from 0 to the number of ids"
        raise InvalidValueError(message(name, where, expected, got))
    starts = offsets.astype(np.int64)
    counts = starts[1:] - starts[:-1]
    queries = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    ids = ids.astype(np.int64)
    refuse_repeated(queries, ids, name, where)
    return queries, ids


def _check_integers(
    offsets: np.ndarray[Any, Any], ids: np.ndarray[Any, Any], name: str, where: str
) -> None:
    for part, array in (("offsets", offsets), ("ids", ids)):
        # An empty list of ids becomes float64 and is as good as an empty one of integers.
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
            got = f"{part} of shape {array.shape} and dtype {array.dtype}"
            expected = "flat rows of one-dimensional integer offsets and ids"
            raise InvalidTypeError(message(name, where, expected, got))


def _short(values: np.ndarray[Any, Any]) -> str:
    return np.array2string(values, threshold=6, edgeitems=2, separator=", ")
