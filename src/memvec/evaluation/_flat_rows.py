"""Answers of any library in flat form: all rows of ids in one array, and where each row begins."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from memvec.checks import bad_type, bad_value
from memvec.evaluation._id_rows import refuse_repeated
from memvec.types import IntArray


class FlatRows(Protocol):
    """Any object with the ids of all queries in one array, and the offset of each query's part."""

    @property
    def offsets(self) -> Any:
        """The beginning of each query's part, and the end: shape (n_queries + 1,)."""

    @property
    def ids(self) -> Any:
        """The ids of all queries, query by query."""


def flat_rows(value: FlatRows, name: str, where: str) -> tuple[IntArray, IntArray]:
    """Return the number of the query and the id of every hit, refusing what is not flat rows."""
    if not (hasattr(value, "offsets") and hasattr(value, "ids")):
        raise bad_type(name, where, "an object with offsets and ids", type(value).__name__)
    offsets, ids = np.asarray(value.offsets), np.asarray(value.ids)
    _check_integers(offsets, ids, name, where)
    rising = len(offsets) > 0 and offsets[0] == 0 and bool((offsets[1:] >= offsets[:-1]).all())
    if not rising or offsets[-1] != len(ids):
        got = f"offsets {_short(offsets)} for {len(ids)} ids"
        expected = "flat rows whose offsets rise from 0 to the number of ids"
        raise bad_value(name, where, expected, got)
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
            raise bad_type(name, where, "flat rows of one-dimensional integer offsets and ids", got)


def _short(values: np.ndarray[Any, Any]) -> str:
    return np.array2string(values, threshold=6, edgeitems=2, separator=", ")
