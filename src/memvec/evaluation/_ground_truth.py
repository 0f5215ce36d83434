"""Exact answers, by comparing every query with every vector in blocks.

Float32 matrix products sort out the pairs that cannot matter; the canonical score decides the rest.
A block of queries meets a block of vectors at a time, both normalised on the way, so that the
memory needed beyond the answer does not grow with the data: memory-mapped arrays are welcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from memvec import checks
from memvec.kernels import (
    MATCH_SLACK,
    StoredRows,
    blocks,
    canonical_score_pairs,
    float32_slack,
)
from memvec.matches import Matches
from memvec.progress import Advance, progress_bar
from memvec.types import ArrayLike, Float32Array, Float64Array, FloatArray, IntArray

# 4096 x 4096 scores take 64 MiB, and normalising a block of vectors is little beside 4096 products.
_BLOCK_ROWS = 4096
_BLOCK_ENTRIES = 1 << 24

_ROUNDED = np.dtype(np.float32)

# Scores are cosines, so everything passes this floor, except the -inf that hides a pair.
_LOWEST_SCORE = -2.0


class TopK(NamedTuple):
    """Ids and scores of shape (n_queries, k), best first."""

    ids: IntArray
    scores: Float32Array


def exact_range(
    vectors: ArrayLike | StoredRows,
    queries: ArrayLike,
    similarity: float,
    *,
    exclude: ArrayLike | None = None,
    dtype: Literal["float32", "float64"] = "float32",
    progress: bool | None = None,
) -> Matches:
    """Return all matches of each query: pairs with canonical score ≥ `similarity` − 1e-6.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim), or StoredRows
        The data; rows are normalised. Queries of stored rows are stored like them.
    queries : array_like of shape (n_queries, dim) or (dim,)
        The queries; rows are normalised.
    similarity : float
        The cosine α₀ to search above, in (0, 1].
    exclude : array_like of shape (n_queries,), optional
        One row of `vectors` per query that is left out of its answer: the query itself, when
        queries are rows of the data.
    dtype : {"float32", "float64"}, optional
        Type of the scores: float64, as canonical scores are, or rounded to float32.
    progress : bool, optional
        Force the progress bar on or off; by default it shows on a terminal.

    Returns
    -------
    Matches
        Each row in descending order of the canonical score; ties in ascending order of the id.

    Examples
    --------
    >>> found = exact_range([[1, 0], [3, 4], [0, 2]], [[1, 1], [-1, 0]], similarity=0.7)
    >>> [row.ids.tolist() for row in found]
    [[1, 0, 2], []]
    """
    job = _Job.checked(vectors, queries, exclude, "exact_range")
    scores = checks.choice(dtype, "dtype", "exact_range", ("float32", "float64"))
    return _all_matches(job, similarity, progress, np.dtype(scores))


def exact_self_range(
    vectors: ArrayLike,
    similarity: float,
    *,
    rows: ArrayLike | None = None,
    progress: bool | None = None,
) -> Matches:
    """Return all matches of rows of the data among the other rows; see `exact_range`.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        The data and the queries.
    similarity : float
        The cosine α₀ to search above, in (0, 1].
    rows : array_like of shape (n_queries,), optional
        The rows to use as queries; all of them by default.
    progress : bool, optional
        Force the progress bar on or off; by default it shows on a terminal.

    Examples
    --------
    >>> exact_self_range([[1, 0], [3, 4], [4, 3]], similarity=0.7, rows=[0, 2]).ids
    array([2, 1, 0])
    """
    where = "exact_self_range"
    array = checks.matrix(vectors, "vectors", where)
    if rows is None:
        job = _Job(array, array, np.arange(len(array), dtype=np.int64), where, "vectors")
    else:
        own = _row_numbers(rows, len(array), "rows", where)
        job = _Job(array, array[own], own, where, "rows")
    return _all_matches(job, similarity, progress)


def exact_top_k(
    vectors: ArrayLike | StoredRows,
    queries: ArrayLike,
    k: int,
    *,
    exclude: ArrayLike | None = None,
    progress: bool | None = None,
) -> TopK:
    """Return the k vectors with the highest canonical scores for each query.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim), or StoredRows
        The data; rows are normalised. Queries of stored rows are stored like them.
    queries : array_like of shape (n_queries, dim) or (dim,)
        The queries; rows are normalised.
    k : int
        Number of vectors, at most as many as may be returned.
    exclude : array_like of shape (n_queries,), optional
        One row of `vectors` per query that is left out of its answer.
    progress : bool, optional
        Force the progress bar on or off; by default it shows on a terminal.

    Returns
    -------
    TopK
        Ids and float32 scores of shape (n_queries, k), in descending order of the canonical score;
        ties in ascending order of the id.

    Examples
    --------
    >>> ids, scores = exact_top_k([[1, 0], [3, 4], [0, 2]], [1, 1], k=2)
    >>> ids
    array([[1, 0]])
    """
    job = _Job.checked(vectors, queries, exclude, "exact_top_k")
    k = checks.integer(k, "k", "exact_top_k")
    available = len(job.vectors) - (exclude is not None)
    if k > available:
        expected = f"at most the number of vectors to choose from, {available}"
        raise checks.bad_value("k", "exact_top_k", expected, k)
    ids = np.full((len(job.queries), k), -1, dtype=np.int64)
    scores = np.full((len(job.queries), k), -np.inf)
    done = 0
    with progress_bar("Exact top-k search", job.n_steps, progress) as advance:
        for units, own in job.query_blocks():
            part = slice(done, done + len(units))
            _top_k_of_block(job, units, own, (ids[part], scores[part]), advance)
            done += len(units)
    return TopK(ids, scores.astype(np.float32))


class _Job(NamedTuple):
    """Checked arrays, not yet normalised, and the row hidden from each query."""

    vectors: FloatArray | StoredRows
    queries: FloatArray
    exclude: IntArray | None
    where: str
    queries_name: str = "queries"

    @classmethod
    def checked(
        cls,
        vectors: ArrayLike | StoredRows,
        queries: ArrayLike,
        exclude: ArrayLike | None,
        where: str,
    ) -> _Job:
        data: FloatArray | StoredRows
        if isinstance(vectors, StoredRows):
            data = vectors
        else:
            data = checks.matrix(vectors, "vectors", where)
        asked = _query_matrix(queries, data.shape[1], where)
        if exclude is None:
            return cls(data, asked, None, where)
        hidden = _row_numbers(exclude, len(data), "exclude", where)
        if len(hidden) != len(asked):
            expected = f"one row number for each of the {len(asked)} queries"
            raise checks.bad_value("exclude", where, expected, len(hidden))
        return cls(data, asked, hidden, where)

    @property
    def block_rows(self) -> int:
        return max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // int(self.vectors.shape[1])))

    @property
    def n_steps(self) -> int:
        rows = self.block_rows
        return -(-len(self.queries) // rows) * -(-len(self.vectors) // rows)

    @property
    def margin(self) -> float:
        """How far a float32 score may lie from the canonical one, whatever the order of its sum."""
        return float(float32_slack(int(self.vectors.shape[1])))

    def query_blocks(self) -> Iterator[tuple[StoredRows, IntArray | None]]:
        for start, stop in blocks(len(self.queries), self.block_rows):
            block = self.queries[start:stop]
            rows = checks.unit_rows(
                block, self.queries_name, self.where, first_row=start, copy=False
            )
            dtype = self.vectors.dtype if isinstance(self.vectors, StoredRows) else "float32"
            units = StoredRows.of(rows, dtype)
            yield units, None if self.exclude is None else self.exclude[start:stop]

    def scored_blocks(
        self, units: StoredRows, own: IntArray | None, advance: Advance
    ) -> Iterator[tuple[int, StoredRows, Float32Array]]:
        """Yield the first row, the rows and the float32 scores of each block of vectors."""
        queries = units[:]
        for start, stop in blocks(len(self.vectors), self.block_rows):
            rows = self._block(start, stop)
            scores = queries @ rows[:].T
            if own is not None:
                [here] = np.nonzero((own >= start) & (own < stop))
                scores[here, own[here] - start] = -np.inf
            yield start, rows, scores
            advance(1)

    def _block(self, start: int, stop: int) -> StoredRows:
        if isinstance(self.vectors, StoredRows):
            return self.vectors.some(slice(start, stop))
        block = self.vectors[start:stop]
        unit_rows = checks.unit_rows(block, "vectors", self.where, first_row=start, copy=False)
        return StoredRows.of(unit_rows)


def _all_matches(
    job: _Job, similarity: float, progress: bool | None, dtype: np.dtype[Any] = _ROUNDED
) -> Matches:
    limit = checks.similarity(similarity, job.where) - MATCH_SLACK
    counts, ids, scores = [np.zeros(1, dtype=np.int64)], [], []
    with progress_bar("Exact range search", job.n_steps, progress) as advance:
        for units, own in job.query_blocks():
            rows, found, values = _range_of_block(job, units, own, limit, advance)
            counts.append(np.bincount(rows, minlength=len(units)))
            ids.append(found)
            scores.append(values.astype(dtype, copy=False))
    return Matches(
        np.cumsum(np.concatenate(counts)),
        np.concatenate([np.empty(0, dtype=np.int64), *ids]),
        np.concatenate([np.empty(0, dtype), *scores]),
        np.tile([0, 0, len(job.vectors), 0, len(job.vectors)], (len(job.queries), 1)),
    )


def _range_of_block(
    job: _Job, units: StoredRows, own: IntArray | None, limit: float, advance: Advance
) -> tuple[IntArray, IntArray, Float64Array]:
    """Return query (within the block), id and canonical score of all matches, in order."""
    parts = []
    for start, rows, scores in job.scored_blocks(units, own, advance):
        # NumPy finds the few that pass in one dimension in a fifth of the time it takes in two.
        passing = np.flatnonzero(scores >= np.float32(limit - job.margin))
        query, row = np.divmod(passing, len(rows))
        exact = canonical_score_pairs(units, rows, query, row)
        match = exact >= limit
        parts.append((query[match], start + row[match], exact[match]))
    query, ids, exact = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((ids, -exact, query))
    return query[order], ids[order], exact[order]


def _top_k_of_block(
    job: _Job,
    units: StoredRows,
    own: IntArray | None,
    best: tuple[IntArray, Float64Array],
    advance: Advance,
) -> None:
    """Fill the ids and canonical scores of the best vectors, one row per query of the block."""
    for start, rows, scores in job.scored_blocks(units, own, advance):
        query, row = _promising(scores, best[1], job.margin)
        exact = canonical_score_pairs(units, rows, query, row)
        _merge(best, query, start + row, exact)


def _promising(scores: Float32Array, best: Float64Array, margin: float) -> tuple[IntArray, ...]:
    """Return the pairs of a block that can still enter the best k of their query."""
    n_queries, k = best.shape
    floor = np.maximum(best[:, -1] - margin, _LOWEST_SCORE).astype(np.float32)
    passing = scores >= floor[:, np.newaxis]
    if k < scores.shape[1] and np.count_nonzero(passing) > 4 * k * n_queries:
        # The block's own k-th score is a tighter floor; two margins, as both sides may be off.
        kth = np.partition(scores, -k, axis=1)[:, -k]
        floor = np.maximum(floor, kth - np.float32(2 * margin))
        passing = scores >= floor[:, np.newaxis]
    return np.nonzero(passing)


def _merge(
    best: tuple[IntArray, Float64Array], query: IntArray, ids: IntArray, exact: Float64Array
) -> None:
    """Put new candidates, in the order of query and id, among the best k of their queries.

    Blocks come with rising ids, so a stable sort leaves equal scores in the order of their ids.
    """
    best_ids, best_scores = best
    n_queries, k = best_ids.shape
    counts = np.bincount(query, minlength=n_queries)
    touched = np.flatnonzero(counts)
    shape = (len(touched), k + int(counts.max()))
    all_ids, all_scores = np.full(shape, -1, dtype=np.int64), np.full(shape, -np.inf)
    all_ids[:, :k], all_scores[:, :k] = best_ids[touched], best_scores[touched]
    line = np.searchsorted(touched, query)
    place = k + np.arange(len(query)) - (np.cumsum(counts) - counts)[query]
    all_ids[line, place], all_scores[line, place] = ids, exact
    kept = np.argsort(-all_scores, axis=1, kind="stable")[:, :k]
    best_ids[touched] = np.take_along_axis(all_ids, kept, axis=1)
    best_scores[touched] = np.take_along_axis(all_scores, kept, axis=1)


def _query_matrix(queries: ArrayLike, dim: int, where: str) -> FloatArray:
    try:
        shape = np.shape(queries)
    except ValueError:  # ragged lists have no shape; the check below names the parameter
        shape = ()
    if shape == (0, dim):
        return np.empty((0, dim), dtype=np.float32)
    single = len(shape) == 1
    return checks.matrix(
        np.asarray(queries)[np.newaxis] if single else queries, "queries", where, dim=dim
    )


def _row_numbers(value: ArrayLike, n_rows: int, name: str, where: str) -> IntArray:
    array = np.asarray(value)
    expected = f"a one-dimensional array of row numbers in [0, {n_rows})"
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size > 0):
        raise checks.bad_type(name, where, expected, f"shape {array.shape} and dtype {array.dtype}")
    outside = (array < 0) | (array >= n_rows)
    if outside.any():
        raise checks.bad_value(name, where, expected, array[outside][0])
    return array.astype(np.int64)
