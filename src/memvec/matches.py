"""What searches find: `Matches`, the one result that passes between rooms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from memvec import checks
from memvec.types import ArrayLike, BoolArray, Float32Array, Float64Array, IntArray

# What is counted of each query: unit tests, units visited, members tested, whole codes tested,
# exact products.
N_COUNTS = 5


_NO_IDS, _NO_SCORES = np.empty(0, np.int64), np.empty(0, np.float32)
_NOTHING_SPENT = np.empty((0, N_COUNTS), np.int64)


class MatchRow(NamedTuple):
    """The matches of one query: ids of shape (n_matches,) and their scores."""

    ids: IntArray
    scores: Float32Array | Float64Array


@dataclass(eq=False, repr=False, slots=True)
class Matches:
    """Matches of many queries in flat form; iterating gives one `MatchRow` a query.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,)
        The matches of query i are ``ids[offsets[i]:offsets[i + 1]]``, the best first.
    ids : ndarray of shape (n_matches,)
        Rows of what was searched, or keys of a collection.
    scores : ndarray of shape (n_matches,)
        Canonical scores: float64 of one source, float32 where sources are merged.
    spent : ndarray of shape (n_queries, N_COUNTS)
        What each query took, as the kernels count it.

    Examples
    --------
    >>> found = Matches.from_rows([[4, 1], [], [7]])
    >>> found
    Matches(n_queries=3, n_matches=3)
    >>> [row.ids.tolist() for row in found]
    [[4, 1], [], [7]]
    """

    offsets: IntArray
    ids: IntArray
    scores: Float32Array | Float64Array
    spent: IntArray

    @classmethod
    def from_rows(
        cls, ids: Sequence[ArrayLike], scores: Sequence[ArrayLike] | None = None
    ) -> Matches:
        """Return the flat form of one list of ids per query; scores are 0 where not given."""
        rows = [_id_row(row) for row in ids]
        sizes = [len(row) for row in rows]
        values = [np.zeros(size, np.float32) for size in sizes]
        if scores is not None:
            values = [np.asarray(row).reshape(-1) for row in scores]
        if [len(row) for row in values] != sizes:
            expected = f"as long as the ids of each query, {sizes}"
            got = f"lengths {[len(row) for row in values]}"
            raise checks.bad_value("scores", "Matches.from_rows", expected, got)
        none = np.zeros((len(rows), N_COUNTS), np.int64)
        return cls.of_rows(list(map(MatchRow, rows, values)), none)

    @classmethod
    def of_rows(cls, rows: Sequence[MatchRow], spent: IntArray) -> Matches:
        """Return the flat form of one row per query."""
        if not rows:
            return cls(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0), spent)
        ids, scores = zip(*rows, strict=True)
        offsets = np.array(list(accumulate(map(len, ids), initial=0)), dtype=np.int64)
        return cls(offsets, np.concatenate(ids), np.concatenate(scores), spent)

    @classmethod
    def of_pairs(
        cls,
        queries: IntArray,
        ids: IntArray,
        scores: Float32Array | Float64Array,
        spent: IntArray,
    ) -> Matches:
        """Return matches that are given pair by pair, in the order of the queries."""
        offsets = np.searchsorted(queries, np.arange(len(spent) + 1))
        return cls(offsets, ids, scores, spent)

    @classmethod
    def stacked(cls, blocks: Sequence[Matches]) -> Matches:
        """Return the matches of blocks of queries, one after the other."""
        if not blocks:
            return cls.of_rows([], _NOTHING_SPENT)
        starts = np.cumsum([0, *(len(block.ids) for block in blocks)])
        shifted = [block.offsets[:-1] + start for block, start in zip(blocks, starts, strict=False)]
        return cls(
            np.concatenate([*shifted, starts[-1:]]),
            np.concatenate([block.ids for block in blocks]),
            np.concatenate([block.scores for block in blocks]),
            np.concatenate([block.spent for block in blocks]),
        )

    @classmethod
    def merged(cls, sources: Sequence[Matches], n_queries: int) -> Matches:
        """Return what several sources find for the same queries, by falling score, then by id."""
        spent = np.zeros((n_queries, N_COUNTS), np.int64)
        if not sources:
            return cls(np.zeros(n_queries + 1, np.int64), _NO_IDS, _NO_SCORES, spent)
        for one in sources:
            spent += one.spent
        ids = np.concatenate([one.ids for one in sources])
        scores = np.concatenate([one.scores.astype(np.float32) for one in sources])
        if n_queries == 1:  # as services ask
            order = np.lexsort((ids, -scores))
            return cls(np.array([0, len(ids)]), ids[order], scores[order], spent)
        queries = np.concatenate([one.queries for one in sources])
        order = np.lexsort((ids, -scores, queries))
        return cls.of_pairs(queries[order], ids[order], scores[order], spent)

    @property
    def counts(self) -> IntArray:
        """The number of matches of each query."""
        return np.diff(self.offsets)

    @property
    def queries(self) -> IntArray:
        """The query of each match."""
        return np.repeat(np.arange(len(self)), self.counts)

    def named(self, names: IntArray) -> Matches:
        """Return the same matches under other names, by row."""
        return Matches(self.offsets, names[self.ids], self.scores, self.spent)

    def kept(self, chosen: BoolArray) -> Matches:
        """Return some of the matches."""
        queries = self.queries[chosen]
        return Matches.of_pairs(queries, self.ids[chosen], self.scores[chosen], self.spent)

    def of_queries(self, chosen: IntArray) -> Matches:
        """Return the matches of some queries, in the order given."""
        return Matches.of_rows([self[query] for query in chosen.tolist()], self.spent[chosen])

    def best(self, k: int) -> list[MatchRow]:
        """Return the k best of each query, and all that are as good as the k-th."""
        rows = []
        for start, stop in pairwise(self.offsets.tolist()):
            if stop - start > k:
                falling = -self.scores[start:stop]
                stop = start + int(np.searchsorted(falling, falling[k - 1], side="right"))
            rows.append(MatchRow(self.ids[start:stop], self.scores[start:stop]))
        return rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> MatchRow:
        start, stop = self.offsets[:-1][query], self.offsets[1:][query]
        return MatchRow(self.ids[start:stop], self.scores[start:stop])

    def __iter__(self) -> Iterator[MatchRow]:
        return (self[query] for query in range(len(self)))

    def __repr__(self) -> str:
        return f"Matches(n_queries={len(self)}, n_matches={len(self.ids)})"


def _id_row(row: ArrayLike | set[int]) -> IntArray:
    # Sets are how ground truths are often held, and NumPy would make one object of them.
    expected = "a sequence of integer ids for each query"
    try:
        array: Any = np.asarray(sorted(row) if isinstance(row, set | frozenset) else row)
    except ValueError:  # ragged
        where = "Matches.from_rows"
        raise checks.bad_type("ids", where, expected, repr(row)) from None
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
        got = f"a row of shape {array.shape} and dtype {array.dtype}"
        raise checks.bad_type("ids", "Matches.from_rows", expected, got)
    return np.asarray(array, dtype=np.int64)


__all__ = ["N_COUNTS", "MatchRow", "Matches"]
