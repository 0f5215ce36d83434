"""Plain rows as a source: no units, every row is scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.evaluation import exact_range
from memvec.guarantee import Thresholds
from memvec.kernels import ALL_ALLOWED, StoredRows, collect_matches, run_blocks
from memvec.matches import Matches, MatchRow
from memvec.search._explain import StageView
from memvec.types import BoolArray, Float32Array, IntArray

# Queries that one thread answers at a time.
_QUERY_BLOCK = 4
# So many pairs, and queries, are compared by products of matrices; for fewer, to start them takes
# longer. Measured at 384 dimensions, scan and products in ms: 0.05 and 0.07 for 200 rows × 4
# queries, 0.19 and 0.13 for 1,000 × 4, 11.4 and 1.9 for 500 × 500, 0.9 and 0.9 for 10,000 × 2, 1.7
# and 0.8 for 10,000 × 4; about the same for rows of float16 and int8.
_MANY_PAIRS, _MANY_QUERIES = 1 << 11, 4


def scan_rows(
    vectors: StoredRows,
    ids: IntArray,
    queries: Float32Array,
    similarity: float,
    threads: int | None,
    allowed: BoolArray = ALL_ALLOWED,
    *,
    n_allowed: int | None = None,
    progress: bool | None = False,
) -> Matches:
    """Return all rows above a similarity, by scoring every one.

    Parameters
    ----------
    vectors, ids : StoredRows, ndarray
        The rows, and what each is called.
    allowed : ndarray of bool
        By id; all rows may be hits where it is empty.
    n_allowed : int, optional
        How many rows are allowed, for the count of work; all by default.
    progress : bool, optional
        Show a bar; None shows it on a terminal.
    """
    n_scored = len(vectors) if n_allowed is None else n_allowed
    spent = np.tile([0, 0, n_scored, 0, n_scored], (len(queries), 1))
    many = len(queries) >= _MANY_QUERIES and len(vectors) * len(queries) >= _MANY_PAIRS
    if many and 0 < similarity <= 1:
        every = exact_range(vectors, queries, similarity, dtype="float64", progress=progress)
        every = every.named(ids)
        every = every.kept(allowed[every.ids]) if len(allowed) else every
        return Matches(every.offsets, every.ids, every.scores, spent)
    offsets, first = np.array([0, len(vectors)]), np.zeros(1, np.int64)
    stored, rows = vectors.queries(queries), vectors.for_kernel
    found: dict[int, MatchRow] = {}

    def answer(start: int, stop: int) -> None:
        kept, scores = np.empty(len(vectors), dtype=np.int64), np.empty(len(vectors))
        for query in range(start, stop):
            n = collect_matches(
                stored[query], *rows, ids, offsets, first, similarity, allowed, kept, scores
            )
            found[query] = MatchRow(kept[:n].copy(), scores[:n].copy())

    if len(vectors):
        run_blocks(answer, len(queries), _QUERY_BLOCK, threads=threads)
    none = MatchRow(np.empty(0, dtype=np.int64), np.empty(0))
    answers = [found.get(query, none) for query in range(len(queries))]
    return Matches.of_rows(answers, spent)


@dataclass(frozen=True, eq=False)
class PlainRows:
    """Rows as a source that misses nothing; ids are row numbers.

    Attributes
    ----------
    vectors : StoredRows of shape (n_rows, dim)
        The rows.
    """

    vectors: StoredRows

    def __len__(self) -> int:
        return len(self.vectors)

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return everything above a similarity, whatever the thresholds."""
        return self.compare_all(queries, similarity, threads, allowed)

    def compare_all(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Matches:
        """Return everything above a similarity, by comparing everything that is allowed."""
        chosen = np.arange(len(self)) if not len(allowed) else np.flatnonzero(allowed)
        if not len(chosen):
            return scan_rows(self.vectors.some(slice(0)), chosen, queries, similarity, threads)
        rows = np.arange(chosen[0], chosen[-1] + 1)
        # Skipping some rows of a run costs less than copying the others.
        if len(rows) <= 2 * len(chosen):
            lying = self.vectors.some(slice(rows[0], rows[-1] + 1))
            some = ALL_ALLOWED if len(rows) == len(chosen) else allowed
            return scan_rows(lying, rows, queries, similarity, threads, some, n_allowed=len(chosen))
        return scan_rows(self.vectors.some(chosen), chosen, queries, similarity, threads)

    def see(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return NaN: no stage sees these rows."""
        nothing = np.full((len(ids), 1), np.nan, dtype=np.float32)
        return nothing, nothing

    def stages(
        self, query: Float32Array, row: int, thresholds: Thresholds | None
    ) -> tuple[StageView, ...]:
        """Return nothing: no stage tests these rows."""
        return ()
