"""The k nearest: a quick look for k that are near, and the range from the last of them on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from memvec.guarantee import Plan, Thresholds
from memvec.kernels import ANYTHING
from memvec.matches import N_COUNTS, Matches, MatchRow
from memvec.types import Float32Array, IntArray

#: Finds everything above a similarity with given thresholds; None misses nothing.
Find: TypeAlias = Callable[[Float32Array, float, Thresholds | None], Matches]

# The slack of a look, as a share of what was solved. On 115,659 embeddings 0 and 0.5 took at most a
# fifth longer: with less slack looks find too few, with more they cost as much as ranges.
_LOOK = 0.25
# Ranges begin at the look or at a multiple of this above it. So queries of a batch share them, and
# an answer does not depend on the batch.
_STEP = 0.01
_NOTHING = MatchRow(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


def search_nearest(find: Find, rows: Float32Array, k: int, plan: Plan) -> Matches:
    """Return the k nearest of each query and all that are as near, the best first.

    Where there are fewer, these.
    """
    if plan.thresholds is not None:
        return _search_likely(find, rows, k, plan, plan.thresholds)
    if plan.first is None or plan.first.thresholds is None:
        every = find(rows, ANYTHING, None)
        return Matches.of_rows(every.best(k), every.spent)
    near = _search_likely(find, rows, k, plan.first, plan.first.thresholds)
    return near if plan.first.certificate.complete else _search_exactly(find, rows, k, near)


def _search_likely(
    find: Find, rows: Float32Array, k: int, plan: Plan, thresholds: Thresholds
) -> Matches:
    """Return the k nearest, but for what thresholds miss.

    A look at a likely similarity, with little slack, finds k vectors that are near, if not all of
    the nearest. The k-th nearest is at least as near as the last of them, and the slack was solved
    for the similarity of the k-th; so the range from there on is the answer.
    """
    answers = _Answers(len(rows), k)
    stages = thresholds.slack[0]
    waiting = np.arange(len(rows))
    for similarity in () if plan.certificate.complete else plan.tries:
        if not len(waiting):
            break
        # A large miss rate may leave less slack than none.
        look = Thresholds.one(similarity, np.minimum(_LOOK * stages, stages))
        near = find(rows[waiting], similarity, look)
        answers.spend(waiting, near)
        for step, positions in _by_step(near, k):
            queries, at = waiting[positions], max(step * _STEP, similarity)
            # What passed the look passes here, too: so the range holds at least k.
            both = Thresholds(np.array([at, similarity]), np.array([stages, look.slack[0]]))
            answers.take(queries, find(rows[queries], at, both))
        waiting = answers.short_of(waiting)
    if len(waiting):
        everything = Thresholds.one(ANYTHING, np.full_like(stages, np.inf))
        answers.take(waiting, find(rows[waiting], ANYTHING, everything))
    return answers.matches


def _search_exactly(find: Find, rows: Float32Array, k: int, near: Matches) -> Matches:
    """Return everything as good as the k-th of what was found already."""
    answers = _Answers(len(rows), k)
    answers.spend(np.arange(len(rows)), near)
    for query, (start, stop) in enumerate(pairwise(near.offsets.tolist())):
        floor = float(near.scores[start + k - 1]) if stop - start >= k else ANYTHING
        answers.take(np.array([query]), find(rows[query : query + 1], floor, None))
    return answers.matches


def _by_step(near: Matches, k: int) -> Iterable[tuple[int, list[int]]]:
    """Return which queries have their k-th hit between two multiples of the step, and which."""
    steps: dict[int, list[int]] = {}
    for position, (start, stop) in enumerate(pairwise(near.offsets.tolist())):
        if stop - start >= k:
            step = math.floor(float(near.scores[start + k - 1]) / _STEP)
            steps.setdefault(step, []).append(position)
    return steps.items()


class _Answers:
    """The hits of each query, and the work that was spent on them."""

    def __init__(self, n_queries: int, k: int) -> None:
        self._k = k
        self._rows: list[MatchRow] = [_NOTHING] * n_queries
        self._spent = np.zeros((n_queries, N_COUNTS), dtype=np.int64)

    def spend(self, queries: IntArray, found: Matches) -> None:
        """Count the work of a search."""
        self._spent[queries] += found.spent

    def take(self, queries: IntArray, found: Matches) -> None:
        """Answer queries with the best of what was found."""
        self.spend(queries, found)
        for query, row in zip(queries.tolist(), found.best(self._k), strict=True):
            self._rows[query] = row

    def short_of(self, queries: IntArray) -> IntArray:
        """Return those of some queries that have fewer than k hits."""
        short = [query for query in queries.tolist() if len(self._rows[query].ids) < self._k]
        return np.array(short, dtype=np.int64)

    @property
    def matches(self) -> Matches:
        """All answers."""
        return Matches.of_rows(self._rows, self._spent)
