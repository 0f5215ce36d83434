"""The k nearest: ranges that widen until k are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from memvec.index._bounded import BoundedSearch
from memvec.index._calibration import Calibration, Slack
from memvec.index._found import ANYTHING, Found
from memvec.index._lines import Lines
from memvec.kernels import N_COUNTS
from memvec.types import Float32Array, Float64Array, IntArray

Find: TypeAlias = Callable[[Float32Array, float, Lines], Found]

# The k-th nearest of this share of queries is above the similarity tried first, second, ….
_SHARES = (0.5, 0.9, 0.99)


def search_best(
    find: Find, rows: Float32Array, k: int, slack: Slack, tries: Sequence[float]
) -> Found:
    """Return at least k hits of each query, the best first, as far as there are so many.

    A range that holds k hits holds the k nearest of what its similarity lets pass, and the slack
    was solved for the similarity of the k-th; so the first range with k hits is the answer.

    Parameters
    ----------
    find : callable
        Finds everything above a similarity with given lines of thresholds.
    tries : sequence of float
        Similarities to try, falling, before everything is visited.
    """
    n_queries, stages = len(rows), slack.lines.slack[0]
    nothing = np.empty(0, dtype=np.int64), np.empty(0)
    answers: list[tuple[IntArray, Float64Array]] = [nothing] * n_queries
    counts = np.zeros((n_queries, N_COUNTS), dtype=np.int64)
    open_queries = np.arange(n_queries)
    for similarity in [*([] if slack.certificate.complete else tries), ANYTHING]:
        if not len(open_queries):
            break
        last = similarity == ANYTHING
        given = np.full_like(stages, np.inf) if last else stages
        found = find(rows[open_queries], similarity, Lines.one(similarity, given))
        counts[open_queries] += found.counts
        enough = np.diff(found.offsets) >= (0 if last else k)
        for position in np.flatnonzero(enough):
            span = _best(found, int(position), k)
            answers[open_queries[position]] = found.ids[span], found.scores[span]
        open_queries = open_queries[~enough]
    return _joined(answers, counts)


def _best(found: Found, position: int, k: int) -> slice:
    """Return where the k best of a query lie, with all that are as good as the k-th."""
    start, stop = int(found.offsets[position]), int(found.offsets[position + 1])
    if stop - start <= k:
        return slice(start, stop)
    falling = -found.scores[start:stop]
    return slice(start, start + int(np.searchsorted(falling, falling[k - 1], side="right")))


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


def likely_similarities(calibration: Calibration, k: int) -> list[float]:
    """Return similarities that the k-th nearest is likely to reach, falling."""
    tries = [calibration.likely_kth_similarity(k, share) for share in _SHARES]
    return [similarity for similarity in tries if similarity > 0]


__all__ = ["Find", "likely_similarities", "search_best", "search_best_exactly"]
