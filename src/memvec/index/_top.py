"""The k nearest: a quick look for k that are near, and the range from the last of them on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np

from memvec.index._bounded import BoundedSearch
from memvec.index._calibration import Calibration, Slack
from memvec.index._found import ANYTHING, Found
from memvec.index._lines import Lines
from memvec.kernels import N_COUNTS
from memvec.types import Float32Array, Float64Array, IntArray

Find: TypeAlias = Callable[[Float32Array, float, Lines], Found]

# The k-th nearest of this share of queries is above the similarity looked at first, second, ….
_SHARES = (0.5, 0.9, 0.99, 1.0)
# The slack of a look, as a share of what was solved. On 115,659 embeddings 0 and 0.5 took at most a
# fifth longer: with less slack looks find too few, with more they cost as much as ranges.
_LOOK = 0.25
# Ranges begin at the look or at a multiple of this above it. So queries of a batch share them, and
# an answer does not depend on the batch.
_STEP = 0.01
# Where neighbours are as far as this, as a share of the similarity of the build, a look at the
# similarity of the build comes first.
_FAR = 0.5
_NOTHING: tuple[IntArray, Float64Array] = np.empty(0, dtype=np.int64), np.empty(0)


def search_best(
    find: Find, rows: Float32Array, k: int, slack: Slack, tries: Sequence[float]
) -> Found:
    """Return at least k hits of each query, the best first, as far as there are so many.

    A look at a likely similarity, with little slack, finds k vectors that are near, if not all of
    the nearest. The k-th nearest is at least as near as the last of them, and the slack was solved
    for the similarity of the k-th; so the range from there on is the answer.

    Parameters
    ----------
    find : callable
        Finds everything above a similarity with given lines of thresholds.
    tries : sequence of float
        Similarities to look at, falling, before everything is visited.
    """
    answers = _Answers(len(rows), k)
    stages = slack.lines.slack[0]
    waiting = np.arange(len(rows))
    for similarity in [] if slack.certificate.complete else tries:
        if not len(waiting):
            break
        # A large miss rate may leave less slack than none.
        look = Lines.one(similarity, np.minimum(_LOOK * stages, stages))
        near = find(rows[waiting], similarity, look)
        answers.spend(waiting, near)
        for step, positions in _by_step(near, k):
            queries, at = waiting[positions], max(step * _STEP, similarity)
            # By the line of the look, the range holds what was seen, and so at least k.
            lines = Lines(np.array([at, similarity]), np.array([stages, look.slack[0]]))
            answers.take(queries, find(rows[queries], at, lines))
        waiting = answers.short_of(waiting)
    if len(waiting):
        everything = Lines.one(ANYTHING, np.full_like(stages, np.inf))
        answers.take(waiting, find(rows[waiting], ANYTHING, everything))
    return answers.found


def _by_step(near: Found, k: int) -> Iterable[tuple[int, list[int]]]:
    """Return which queries have their k-th hit between two multiples of the step, and which."""
    steps: dict[int, list[int]] = {}
    for position, (start, stop) in enumerate(pairwise(near.offsets.tolist())):
        if stop - start >= k:
            step = math.floor(near.scores[start + k - 1] / _STEP)
            steps.setdefault(step, []).append(position)
    return steps.items()


class _Answers:
    """The hits of each query, and the work that was spent on them."""

    def __init__(self, n_queries: int, k: int) -> None:
        self._k = k
        self._hits: list[tuple[IntArray, Float64Array]] = [_NOTHING] * n_queries
        self._counts = np.zeros((n_queries, N_COUNTS), dtype=np.int64)

    def spend(self, queries: IntArray, found: Found) -> None:
        """Count the work of a search."""
        self._counts[queries] += found.counts

    def take(self, queries: IntArray, found: Found) -> None:
        """Answer queries with the best of what was found."""
        self.spend(queries, found)
        for position, query in enumerate(queries.tolist()):
            span = _best(found, position, self._k)
            self._hits[query] = found.ids[span], found.scores[span]

    def short_of(self, queries: IntArray) -> IntArray:
        """Return those of some queries that have fewer than k hits."""
        short = [query for query in queries.tolist() if len(self._hits[query][0]) < self._k]
        return np.array(short, dtype=np.int64)

    @property
    def found(self) -> Found:
        """All answers."""
        return _joined(self._hits, self._counts)


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
    if not answers:
        return Found(np.zeros(1, dtype=np.int64), *_NOTHING, counts)
    ids, scores = zip(*answers, strict=True)
    offsets = list(accumulate(map(len, ids), initial=0))
    return Found(np.array(offsets), np.concatenate(ids), np.concatenate(scores), counts)


def likely_similarities(calibration: Calibration, k: int) -> list[float]:
    """Return similarities that the k-th nearest is likely to reach, falling."""
    reached = calibration.kth_similarities(k, _SHARES)
    tries = [similarity for similarity in reached if similarity > 0]
    if reached and reached[0] < _FAR * calibration.designed_for:
        # A query may have what it was built for all the same, and that is seen quickly.
        tries.insert(0, calibration.designed_for)
    return tries


__all__ = ["Find", "likely_similarities", "search_best", "search_best_exactly"]
