"""One call for an array: its similar pairs, its duplicates, its join with another array."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple, get_args

import numpy as np

from memvec import checks
from memvec.evaluation import exact_range
from memvec.guarantee import Guarantee, Plan, complete_plan
from memvec.index._index import Index, join_of_index
from memvec.index._joins import (
    KeptRow,
    all_pairs,
    duplicate_rows,
    pairs_of_matches,
    ranks_to_keep,
)
from memvec.kernels import StoredRows
from memvec.metric import Metric, checked_level, radius_of, scores_of
from memvec.progress import heeds_progress
from memvec.search import (
    DuplicateRows,
    Grouping,
    PlainRows,
    Scope,
    SelfJoin,
    SimilarPairs,
    find_copies,
)
from memvec.types import ArrayLike, Float32Array, IntArray

# Where each row has at most so many to be compared with, the product of matrices is faster than an
# index: of 384 dimensions, 8,000 products take as long as an index takes to be built, for each row.
_FEW_OTHERS = 8_000
# Queries that an index of the other array is calibrated on.
_CALIBRATED_ON = 2_000


class _Asked(NamedTuple):
    """What is asked for, checked."""

    similarity: float
    metric: Metric
    miss_rate: float
    guarantee: Guarantee
    confidence: float
    threads: int | None
    progress: bool | None

    @classmethod
    def checked(
        cls,
        level: tuple[float | None, float | None],
        promise: tuple[float, Guarantee, float],
        threads: int | None,
        progress: bool | None,
        where: str,
    ) -> _Asked:
        similarity, radius = level
        miss_rate, guarantee, confidence = promise
        metric: Metric = "cosine" if radius is None else "euclidean"
        return cls(
            checked_level(metric, similarity, radius, 0.9, where),
            metric,
            checks.miss_rate(miss_rate, where),
            checks.choice(guarantee, "guarantee", where, get_args(Guarantee)),
            checks.miss_rate(confidence, where, "confidence"),
            checks.threads(threads, where),
            progress,
        )

    def index_of(self, rows: Float32Array, queries: Float32Array | None = None) -> Index:
        """Return an index of some rows, for what is asked."""
        by_cosine = self.metric == "cosine"
        return Index.build(
            rows,
            similarity=self.similarity if by_cosine else None,
            radius=None if by_cosine else radius_of(self.similarity),
            metric=self.metric,
            miss_rate=self.miss_rate,
            guarantee=self.guarantee,
            confidence=self.confidence,
            queries=queries,
            progress=self.progress,
        )

    def unit_rows(
        self, vectors: ArrayLike, name: str, where: str, dim: int | None = None
    ) -> Float32Array:
        """Return rows as they are compared."""
        scale = self.metric == "cosine"
        return checks.unit_rows(vectors, name, where, dim=dim, copy=False, scale=scale)

    def complete_plan(self) -> Plan:
        """Return the plan of comparing everything."""
        return complete_plan(self.similarity).in_metric(self.metric)


def compares_everything(guarantee: Guarantee, n_others: float) -> bool:
    """Tell whether everything is compared, of rows with so many others each."""
    return guarantee == "exact" or n_others <= _FEW_OTHERS


@heeds_progress
def self_join(
    vectors: ArrayLike,
    similarity: float | None = None,
    *,
    radius: float | None = None,
    miss_rate: float = 0.01,
    guarantee: Guarantee = "expected",
    confidence: float = 0.95,
    threads: int | None = None,
    progress: bool | None = None,
) -> SimilarPairs:
    """Find all pairs of rows of an array above a similarity.

    Up to 16,000 rows, all pairs are compared and nothing is missed. More rows are indexed.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        float16, float32 or float64; rows are scaled to norm 1. Zero, NaN and infinite rows are
        refused.
    similarity : float, optional
        α₀ in (0, 1], the cosine of a pair; 0.9 by default. At 1, exact copies are found.
    radius : float, optional
        r in [0, √2), in place of `similarity`: the Euclidean distance of a pair, r² = 2 − 2α₀.
        Scores are then distances, and rows whose norm is not 1 are refused.
    miss_rate : float, default 0.01
        ε in (0, 1), the share of pairs that may be missed.
    guarantee : {"expected", "model", "high_probability", "exact"}
        Level of the promise. "exact" compares all pairs.
    confidence : float, default 0.95
        1 − δ in (0, 1), for "high_probability".
    threads : int, optional
        Number of threads; the answer does not depend on it.
    progress : bool, optional
        Show bars; None shows them on a terminal.

    Returns
    -------
    SimilarPairs
        Each pair once, `left` < `right`. The certificate is about queries like the stored vectors
        that were not used to build the units. The rows of a join were used; docs/duplicates.md
        gives the miss rates measured for joins.

    Examples
    --------
    >>> import memvec
    >>> found = memvec.self_join([[1, 0], [0, 1], [1, 0.1], [0.1, 1]])
    >>> found
    SimilarPairs(2 pairs)
    >>> found.left, found.right
    (array([0, 1]), array([2, 3]))
    """
    where = "memvec.self_join"
    asked = _Asked.checked(
        (similarity, radius), (miss_rate, guarantee, confidence), threads, progress, where
    )
    rows = asked.unit_rows(vectors, "vectors", where)
    return all_pairs(_join_of(rows, np.arange(len(rows)), asked, where))


@heeds_progress
def deduplicate(
    vectors: ArrayLike,
    similarity: float | None = None,
    *,
    radius: float | None = None,
    keep: KeptRow = "first",
    scores: ArrayLike | None = None,
    groups: Grouping = "components",
    miss_rate: float = 0.01,
    guarantee: Guarantee = "expected",
    confidence: float = 0.95,
    threads: int | None = None,
    progress: bool | None = None,
) -> DuplicateRows:
    """Find groups of near-duplicates among the rows of an array, and the row of each to keep.

    Up to 16,000 different rows, all pairs are compared and nothing is missed. More rows are
    indexed.

    Parameters
    ----------
    vectors, similarity, radius, miss_rate, guarantee, confidence, threads, progress
        As in :func:`self_join`. Copies of a vector are always found.
    keep : {"first", "last", "best"}
        Row of a group to keep: the first, the last, or the one of highest score; ties keep the
        first.
    scores : array_like of shape (n_vectors,), optional
        How good each row is, for ``keep="best"``.
    groups : {"components", "star"}
        "components" groups rows that a chain of similar pairs connects; the ends of a chain may
        differ. "star" takes rows in the order of `keep` and drops only those similar to a kept row.

    Returns
    -------
    DuplicateRows
        `kept` and `drop`, the groups, and `expected_missed`: about how many pairs may be left.

    Examples
    --------
    >>> import memvec
    >>> found = memvec.deduplicate([[1, 0], [0, 1], [1, 0.1], [1, 0]], similarity=0.9)
    >>> found
    DuplicateRows(1 group, 2 of 4 to drop)
    >>> found.kept
    array([0, 1])
    """
    where = "memvec.deduplicate"
    asked = _Asked.checked(
        (similarity, radius), (miss_rate, guarantee, confidence), threads, progress, where
    )
    rows = asked.unit_rows(vectors, "vectors", where)
    ranks = ranks_to_keep(len(rows), keep, scores, groups, where)
    copies = find_copies(np.arange(len(rows)), partial(_rows_at, rows))
    return duplicate_rows(_join_of(rows, copies.distinct, asked, where), copies, ranks, groups)


@heeds_progress
def join(
    left: ArrayLike,
    right: ArrayLike,
    similarity: float | None = None,
    *,
    radius: float | None = None,
    miss_rate: float = 0.01,
    guarantee: Guarantee = "expected",
    confidence: float = 0.95,
    threads: int | None = None,
    progress: bool | None = None,
) -> SimilarPairs:
    """Find all pairs of a row of one array and a row of another above a similarity.

    The larger array is indexed and searched with the rows of the smaller one. If the smaller one
    has at most 8,000 rows, all pairs are compared instead, and nothing is missed.

    Parameters
    ----------
    left, right : array_like of shape (n_vectors, dim)
        As `vectors` of :func:`self_join`, of the same dimension.
    similarity, radius, miss_rate, guarantee, confidence, threads, progress
        As in :func:`self_join`.

    Returns
    -------
    SimilarPairs
        Rows of `left` and of `right`. The certificate is about queries like the rows of the smaller
        array: it is calibrated on 2,000 of them, drawn at random.

    Examples
    --------
    >>> import memvec
    >>> [(pair.left, pair.right) for pair in memvec.join([[1, 0], [0, 1]], [[1, 0.1]])]
    [(0, 0)]
    """
    where = "memvec.join"
    asked = _Asked.checked(
        (similarity, radius), (miss_rate, guarantee, confidence), threads, progress, where
    )
    first = asked.unit_rows(left, "left", where)
    second = asked.unit_rows(right, "right", where, first.shape[1])
    swapped = len(first) > len(second)
    queries, rows = (second, first) if swapped else (first, second)
    if compares_everything(asked.guarantee, len(queries)):
        found = exact_range(rows, queries, asked.similarity, dtype="float64", progress=progress)
        found.scores = scores_of(asked.metric, found.scores)
        return pairs_of_matches(found, asked.complete_plan().certificate, swapped=swapped)
    drawn = np.random.default_rng(0).choice(len(queries), _CALIBRATED_ON, replace=False)
    index = asked.index_of(rows, queries[np.sort(drawn)])
    hits = index.range_search(queries, shadow=0.0, threads=asked.threads)
    return pairs_of_matches(hits, hits.certificate, swapped=swapped)


def _join_of(rows: Float32Array, keys: IntArray, asked: _Asked, where: str) -> SelfJoin:
    """Return the join of some rows: of all their pairs, or by an index of them."""
    chosen = rows if len(keys) == len(rows) else rows[keys]
    if compares_everything(asked.guarantee, len(keys) / 2):
        scope, plan = Scope(PlainRows(StoredRows.of(chosen)), keys), asked.complete_plan()
        threads, progress = asked.threads, asked.progress
        vectors = partial(_rows_at, rows)
        return SelfJoin([scope], vectors, asked.similarity, plan, threads, progress)
    index = asked.index_of(chosen)
    level, promise = index.design.similarity, (None, None, None)
    found = join_of_index(index, level, promise, asked.threads, asked.progress, where)
    return replace(found, scopes=[Scope(index.source, keys)], vectors=rows.__getitem__)


def _rows_at(rows: Float32Array, places: IntArray) -> Float32Array:
    """Return some rows; those that lie in a row are not copied: BLAS halves X Xᵀ of one array."""
    if len(places) and places[-1] - places[0] == len(places) - 1 and np.all(np.diff(places) == 1):
        return rows[places[0] : places[-1] + 1]
    return rows[places]
