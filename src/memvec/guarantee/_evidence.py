"""What promises rest on: matches of vectors that no unit has seen, found or planted."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import numpy as np

from memvec.evaluation import TopK, exact_range, exact_top_k
from memvec.guarantee._cascade import Cascade, seen_by_stages
from memvec.guarantee._cells import sizes_of_strata
from memvec.guarantee._certificate import EvidenceSource
from memvec.guarantee._null_law import NullLaw
from memvec.guarantee._table import CalibrationTable
from memvec.kernels import MATCH_SLACK, StoredRows, blocks
from memvec.matches import Matches
from memvec.types import Float32Array, IntArray

# The reserve: at most so many vectors, and this share of the data; fewer than 100 say too little.
_LARGEST_RESERVE = 2000
RESERVE_SHARE = 0.05
_SMALLEST_RESERVE = 100
# Products spent on finding the matches of the reserve; 8·10¹² take about eighty seconds of CPU, and
# suffice for 2,000 vectors among ten million of dimension 384.
_GROUND_TRUTH_PRODUCTS = 8e12
# Matches below this share of the similarity asked at the build are not looked for.
_LOWEST_SHARE = 0.75
# Ranks that are calibrated for top-k searches.
LARGEST_K = 100
# Matches drawn of a query that has many, besides its nearest: a table stays under 10⁶ rows.
_DRAWN_MATCHES = 400
_CROWDED_PAIRS = 20_000_000
# Random pairs whose cosines are the law of unrelated vectors.
_NULL_PAIRS, _NULL_PAIRS_EACH = 100_000, 20


@dataclass(frozen=True, eq=False)
class Evidence:
    """Calibration queries with their matches, and random pairs.

    Attributes
    ----------
    table : CalibrationTable or None
        The matches of the calibration queries; None where there are no queries.
    source : {"reserve", "queries"} or None
        Where the queries came from.
    floor : float
        Below this similarity not all matches were looked for.
    null_law : NullLaw
        The law of the cosine of vectors that have nothing to do with each other.
    left_out : int
        Queries given that were not used: copies of stored vectors, which units know already.
    calibrated : str
        When, in ISO 8601.
    state : str
        A fingerprint of the units.
    """

    table: CalibrationTable | None
    source: EvidenceSource | None
    floor: float
    null_law: NullLaw
    left_out: int
    calibrated: str
    state: str


def lowest_known(similarity: float) -> float:
    """Return the similarity down to which matches are looked for, of a build for another.

    Examples
    --------
    >>> lowest_known(0.8)
    0.6
    """
    return round(_LOWEST_SHARE * similarity, 10)


def reserve_size(n_vectors: int, dim: int) -> int:
    """Return how many vectors to keep out of the units."""
    size = min(largest_reserve(n_vectors, dim), int(RESERVE_SHARE * n_vectors))
    return size if size >= _SMALLEST_RESERVE else 0


def largest_reserve(n_vectors: int, dim: int) -> int:
    """Return how many calibration queries are enough, or all whose matches can be found."""
    return min(_LARGEST_RESERVE, int(_GROUND_TRUTH_PRODUCTS / (n_vectors * dim)))


class Truth(Protocol):
    """Finds the true matches of calibration queries, by rows of a cascade."""

    def nearest(self, queries: Float32Array, k: int, exclude: IntArray | None) -> TopK:
        """Return the k rows of highest canonical score; `exclude` is one row for each query."""

    def above(self, queries: Float32Array, floor: float, exclude: IntArray | None) -> Matches:
        """Return everything above a similarity."""


@dataclass(frozen=True, eq=False)
class Exhaustive:
    """The truth by comparing every query with every row, on this machine."""

    vectors: StoredRows
    progress: bool | None

    def nearest(self, queries: Float32Array, k: int, exclude: IntArray | None) -> TopK:
        """Return the k rows of highest canonical score."""
        return exact_top_k(self.vectors, queries, k, exclude=exclude, progress=self.progress)

    def above(self, queries: Float32Array, floor: float, exclude: IntArray | None) -> Matches:
        """Return everything above a similarity."""
        return exact_range(self.vectors, queries, floor, exclude=exclude, progress=self.progress)


def gather_evidence(
    cascade: Cascade,
    queries: Float32Array | None,
    n_reserve: int,
    similarity: float,
    state: str,
    seed: int,
    progress: bool | None,
    truth: Truth | None = None,
) -> Evidence:
    """Calibrate on queries that were given, or on the reserve, or on nothing.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, dim) or None
        The caller's, as unit rows.
    n_reserve : int
        The last so many members belong to no unit that is tested.
    similarity : float
        Matches down to three quarters of it are looked for.
    state : str
        A fingerprint of the units.
    truth : Truth, optional
        Finds the matches; this machine compares everything without it.
    """
    vectors = cascade.vectors
    truth = Exhaustive(vectors, progress) if truth is None else truth
    own: IntArray | None = None
    source: EvidenceSource | None = None
    if queries is not None:
        source = "queries"
    elif n_reserve:
        own = np.arange(len(vectors) - n_reserve, len(vectors))
        queries, source = vectors[own], "reserve"
    table, left_out = None, 0
    if queries is not None:
        top = _nearest(truth, len(vectors), queries, own)
        if own is None:
            fresh = top.scores[:, 0] < 1 - MATCH_SLACK
            left_out, queries = int((~fresh).sum()), queries[fresh]
            top = TopK(top.ids[fresh], top.scores[fresh])
        if len(queries):
            table = _table_of(cascade, truth, queries, own, top, similarity)
    return Evidence(
        table,
        source,
        lowest_known(similarity),
        null_law_of(vectors, seed),
        left_out,
        datetime.now(UTC).isoformat(timespec="seconds"),
        state,
    )


def _nearest(truth: Truth, n_vectors: int, queries: Float32Array, own: IntArray | None) -> TopK:
    """Return the nearest vectors of the calibration queries, as many as are calibrated for."""
    return truth.nearest(queries, min(LARGEST_K, n_vectors - (own is not None)), own)


def build_table(
    cascade: Cascade,
    queries: Float32Array,
    own: IntArray | None,
    similarity: float,
    progress: bool | None,
) -> CalibrationTable:
    """Find the matches of calibration queries, and what the stages see of them.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, dim)
        The calibration queries.
    own : ndarray of shape (n_queries,) or None
        Their rows among the members, which are no matches of theirs.
    similarity : float
        Matches down to three quarters of it are looked for.
    """
    truth = Exhaustive(cascade.vectors, progress)
    top = _nearest(truth, len(cascade.vectors), queries, own)
    return _table_of(cascade, truth, queries, own, top, similarity)


def _table_of(
    cascade: Cascade,
    truth: Truth,
    queries: Float32Array,
    own: IntArray | None,
    top: TopK,
    similarity: float,
) -> CalibrationTable:
    """Return the table of queries whose nearest vectors are known already."""
    vectors = cascade.vectors
    ones = np.ones(top.ids.shape[1], dtype=np.float32)
    found = [_Matches(*pair, ones) for pair in zip(*top, strict=True)]
    floor = lowest_known(similarity)
    crowded = np.flatnonzero(top.scores[:, -1] >= floor)
    # So many queries at a time that memory suffices if they match everything.
    for start, stop in blocks(len(crowded), max(1, _CROWDED_PAIRS // len(vectors))):
        some = crowded[start:stop]
        excluded = None if own is None else own[some]
        more = truth.above(queries[some], floor, excluded)
        for query, row in zip(some, more, strict=True):
            # What is drawn for a query does not depend on which others are asked with it.
            rng = np.random.default_rng([len(vectors), zlib.crc32(queries[query].tobytes())])
            found[query] = _thinned(row.ids, row.scores.astype(np.float32), rng)
    sizes = np.array([len(one.rows) for one in found])
    query_of = np.repeat(np.arange(len(queries)), sizes)
    row_of = np.concatenate([one.rows for one in found])
    cosines = np.concatenate([one.cosines for one in found]).astype(np.float64)
    seen, slopes = seen_by_stages(cascade, queries, query_of, row_of, cosines)
    return CalibrationTable(
        queries=query_of,
        cosines=cosines,
        ranks=np.concatenate([one.ranks for one in found]),
        keys=cascade.keys[row_of],
        copies=np.concatenate([one.copies for one in found]),
        scores=seen,
        slopes=slopes,
    )


class _Matches(NamedTuple):
    """The matches of one calibration query, the nearest first."""

    rows: IntArray
    cosines: Float32Array
    copies: Float32Array

    @property
    def ranks(self) -> IntArray:
        """How many vectors are nearer, as far as it is known."""
        before = np.cumsum(self.copies, dtype=np.float64) - self.copies
        return np.rint(before).astype(np.int64)


def _thinned(rows: IntArray, cosines: Float32Array, rng: np.random.Generator) -> _Matches:
    """Keep the nearest matches, and of the others some that stand for all of them.

    The others are drawn cell by cell of the cosine. Of n in a cell, k are drawn without
    replacement, and each stands for n/k. Any of the n is drawn with probability k/n, so that a sum
    over what was drawn, of n/k where a search misses it, is on average the number in the cell that
    the search misses (Horvitz and Thompson, 1952). At the end of a cell the number of matches is
    exact, and the estimated share missed is unbiased; within one, both are estimates.
    """
    copies = np.ones(len(rows), dtype=np.float32)
    if len(rows) - LARGEST_K <= _DRAWN_MATCHES:
        return _Matches(rows, cosines, copies)
    sizes = sizes_of_strata(cosines[LARGEST_K:])
    sizes = sizes[sizes > 0]
    most = _most_of_each(sizes, _DRAWN_MATCHES)
    kept, start = [np.arange(LARGEST_K)], LARGEST_K
    for size in sizes.tolist():
        count = min(size, most)
        some = start + np.sort(rng.choice(size, count, replace=False))
        copies[some] = size / count
        kept.append(some)
        start += size
    chosen = np.concatenate(kept)
    return _Matches(rows[chosen], cosines[chosen], copies[chosen])


def _most_of_each(sizes: IntArray, total: int) -> int:
    """Return how many to take of each cell, as far as it has so many, to take about `total`."""
    most, taken = 0, 0
    rising = np.sort(sizes)
    for position, size in enumerate(rising.tolist()):
        left = len(rising) - position
        if taken + left * size > total:
            most = (total - taken) // left
            break
        most, taken = size, taken + size
    return max(1, most)


def null_law_of(vectors: StoredRows, seed: int) -> NullLaw:
    """Return the law of the cosine of random pairs of distinct rows."""
    n = len(vectors)
    if n < 2:
        return NullLaw.of_pairs(np.zeros(1, dtype=np.float32))
    rng = np.random.default_rng([seed, 2])
    n_pairs = min(_NULL_PAIRS, _NULL_PAIRS_EACH * n)
    left = rng.integers(n, size=n_pairs)
    right = (left + rng.integers(1, n, size=n_pairs)) % n
    return NullLaw.of_pairs(vectors.own_scores(left, right).astype(np.float32))
