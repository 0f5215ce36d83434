"""The k nearest: ranges that widen until k are found."""

from __future__ import annotations

import numpy as np

from memvec.index._bounded import BoundedSearch
from memvec.index._calibration import Calibration
from memvec.index._cascades import ANYTHING, Cascade, Found, Lines
from memvec.kernels import N_COUNTS
from memvec.types import Float32Array, Float64Array, IntArray

# The k-th nearest of this share of queries is above the similarity tried first, second, ….
_SHARES = (0.5, 0.9, 0.99)


def search_best(
    cascade: Cascade,
    calibration: Calibration,
    rows: Float32Array,
    k: int,
    slack: Float64Array,
    threads: int | None,
) -> Found:
    """Return at least k hits of each query, the best first.

    A range that holds k hits holds the k nearest of what its similarity lets pass, and the slack
    was solved for the similarity of the k-th; so the first range with k hits is the answer.
    """
    n_queries = len(rows)
    answers: list[tuple[IntArray, Float64Array]] = [
        (np.empty(0, np.int64), np.empty(0))
    ] * n_queries
    counts = np.zeros((n_queries, N_COUNTS), dtype=np.int64)
    open_queries = np.arange(n_queries)
    tries = [] if np.isinf(slack).any() else _similarities(calibration, k)
    for similarity in [*tries, ANYTHING]:
        if not len(open_queries):
            break
        given = np.full_like(slack, np.inf) if similarity == ANYTHING else slack
        found = cascade.search(
            rows[open_queries], similarity, Lines.one(similarity, given), threads
        )
        counts[open_queries] += found.counts
        enough = np.diff(found.offsets) >= k
        for position in np.flatnonzero(enough):
            span = slice(found.offsets[position], found.offsets[position] + k)
            answers[open_queries[position]] = found.ids[span], found.scores[span]
        open_queries = open_queries[~enough]
    return _joined(answers, counts)


def search_best_exactly(
    bounded: BoundedSearch, found: Found, rows: Float32Array, k: int, threads: int | None
) -> Found:
    """Return the k nearest of each query: everything as good as the k-th that was found."""
    counts = found.counts.copy()
    answers = []
    for query, row in enumerate(rows):
        last = found.scores[found.offsets[query] + k - 1]
        range_ = bounded.search(row[np.newaxis], float(last), threads)
        answers.append((range_.ids[:k], range_.scores[:k]))
        counts[query] += range_.counts[0]
    return _joined(answers, counts)


def _joined(answers: list[tuple[IntArray, Float64Array]], counts: IntArray) -> Found:
    return Found(
        np.cumsum([0, *(len(ids) for ids, _ in answers)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(ids for ids, _ in answers)]),
        np.concatenate([np.empty(0), *(scores for _, scores in answers)]),
        counts,
    )


def _similarities(calibration: Calibration, k: int) -> list[float]:
    tries = [calibration.likely_kth_similarity(k, share) for share in _SHARES]
    return [similarity for similarity in tries if similarity > 0]


__all__ = ["search_best", "search_best_exactly"]
