"""The k nearest: ranges that widen until k are found."""

from __future__ import annotations

import numpy as np

from memvec.index._build import IndexParts
from memvec.index._cascades import ANYTHING, Found
from memvec.kernels import N_COUNTS
from memvec.types import Float32Array, Float64Array

# The k-th nearest of this share of queries is above the similarity tried first, second, ….
_SHARES = (0.5, 0.9, 0.99)


def search_best(
    parts: IndexParts, rows: Float32Array, k: int, slack: Float64Array, threads: int | None
) -> Found:
    """Return at least k hits of each query, the best first.

    A range that holds k hits holds the k nearest of what its similarity lets pass, and the slack
    was solved for the similarity of the k-th; so the first range with k hits is the answer.
    """
    n_queries = len(rows)
    answers: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0), np.empty(0))] * n_queries
    counts = np.zeros((n_queries, N_COUNTS), dtype=np.int64)
    open_queries = np.arange(n_queries)
    tries = [] if np.isinf(slack).any() else _similarities(parts, k)
    for similarity in [*tries, ANYTHING]:
        if not len(open_queries):
            break
        given = np.full_like(slack, np.inf) if similarity == ANYTHING else slack
        found = parts.cascade.search(rows[open_queries], similarity, given, threads)
        counts[open_queries] += found.counts
        enough = np.diff(found.offsets) >= k
        for position in np.flatnonzero(enough):
            span = slice(found.offsets[position], found.offsets[position] + k)
            answers[open_queries[position]] = found.ids[span], found.scores[span]
        open_queries = open_queries[~enough]
    return Found(
        np.cumsum([0, *(len(ids) for ids, _ in answers)]),
        np.concatenate([np.empty(0, dtype=np.int64), *(ids for ids, _ in answers)]),
        np.concatenate([np.empty(0), *(scores for _, scores in answers)]),
        counts,
    )


def _similarities(parts: IndexParts, k: int) -> list[float]:
    tries = [parts.calibration.likely_kth_similarity(k, share) for share in _SHARES]
    return [similarity for similarity in tries if similarity > 0]


__all__ = ["search_best"]
