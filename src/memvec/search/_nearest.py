"""The k nearest: in one visit where units have codes, by falling ranges where they have none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memvec.guarantee import Plan, Thresholds
from memvec.kernels import ANYTHING
from memvec.matches import N_COUNTS, Matches, MatchRow
from memvec.search._searcher import Scope, Target, search_scopes
from memvec.search._source import UnitSource
from memvec.types import Float32Array, Float64Array, IntArray

# Ranges begin at a multiple of this. So queries of a batch share them, and an answer does not
# depend on the batch.
_STEP = 0.01
_NOTHING = MatchRow(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))


def find_nearest(
    target: Target, rows: Float32Array, k: int, plan: Plan, threads: int | None
) -> Matches:
    """Return the k nearest of each query and all that are as near, the best first, by a plan.

    Where there are fewer, these.
    """
    nearest = _Nearest(target.scopes, k, threads)
    if plan.thresholds is not None:
        return nearest.likely(rows, plan, plan.thresholds)
    if plan.first is None or plan.first.thresholds is None or nearest.compares_fast:
        every = nearest.everything(rows)
        return Matches.of_rows(every.best(k), every.spent)
    near = nearest.likely(rows, plan.first, plan.first.thresholds)
    return near if plan.first.certificate.complete else nearest.exactly(rows, near)


@dataclass(frozen=True)
class _Nearest:
    """A search of scopes for the k nearest."""

    scopes: Sequence[Scope]
    k: int
    threads: int | None

    def above(
        self, rows: Float32Array, similarity: float, thresholds: Thresholds | None
    ) -> Matches:
        """Return everything above a similarity."""
        return search_scopes(self.scopes, rows, similarity, thresholds, self.threads)

    @property
    def compares_fast(self) -> bool:
        """Whether some source finds the k nearest of all queries at once."""
        return any(map(_best_of_all, self.scopes))

    def everything(self, rows: Float32Array, thresholds: Thresholds | None = None) -> Matches:
        """Return at least the k nearest, by comparing everything."""
        if not self.compares_fast or not len(rows):
            return self.above(rows, ANYTHING, thresholds)
        found, others = [], []
        for scope in self.scopes:
            best = _best_of_all(scope)
            if best is None:
                others.append(scope)
                continue
            here = best(rows, self.k, self.threads, scope.allowed)
            found.append(here if scope.keys is None else here.named(scope.keys))
        near = found[0] if len(found) == 1 else Matches.merged(found, len(rows))
        if not any(len(scope.source) for scope in others):
            return near
        lowest = [row.scores[self.k - 1] if len(row.ids) >= self.k else -np.inf for row in near]
        behind = self._above_each(others, rows, np.array(lowest), thresholds)
        return Matches.merged([near, *behind], len(rows))

    def _above_each(
        self,
        scopes: Sequence[Scope],
        rows: Float32Array,
        scores: Float64Array,
        thresholds: Thresholds | None,
    ) -> Iterator[Matches]:
        """Yield what is above a score of its own for each query, and a little below it."""
        for at, queries in _by_step(scores):
            here = search_scopes(scopes, rows[queries], at, thresholds, self.threads)
            yield _spread(here, queries, len(rows))

    def likely(self, rows: Float32Array, plan: Plan, thresholds: Thresholds) -> Matches:
        """Return the k nearest, but for what thresholds miss.

        Their slack was solved for the similarity of the k-th nearest. Tests at a lower one pass
        more.
        """
        visited, others = _parted(self.scopes)
        if plan.certificate.complete or not len(rows) or not visited:
            tries = () if plan.certificate.complete else plan.tries
            return self._by_ranges(rows, tries, thresholds.slack[0])
        found = self._visited(visited, others, rows, plan.tries, thresholds)
        fewest = len(found.ids) if len(rows) == 1 else int(found.counts.min())
        if fewest == self.k and len(found.ids) == self.k * len(rows):  # as nearly always
            return found
        if fewest >= self.k:
            return Matches.of_rows(found.best(self.k), found.spent)
        return self._by_ranges(rows, (), thresholds.slack[0], found)

    def _by_ranges(
        self,
        rows: Float32Array,
        tries: Sequence[float],
        stages: Float64Array,
        found: Matches | None = None,
    ) -> Matches:
        """Return the k nearest by falling ranges, of those that have not been found before."""
        answers, waiting = _Answers(len(rows), self.k), np.arange(len(rows))
        if found is not None:
            answers.take(waiting, found)
        for similarity in tries:
            waiting = answers.short_of(waiting)
            lines = Thresholds.one(similarity, stages)
            answers.take(waiting, self.above(rows[waiting], similarity, lines))
        waiting = answers.short_of(waiting)
        if len(waiting):
            everything = Thresholds.one(ANYTHING, np.full_like(stages, np.inf))
            answers.take(waiting, self.everything(rows[waiting], everything))
        return answers.matches

    def _visited(
        self,
        visited: Sequence[Scope],
        others: Sequence[Scope],
        rows: Float32Array,
        tries: tuple[float, ...],
        thresholds: Thresholds,
    ) -> Matches:
        """Return what one visit finds: first where units have codes, then above the k-th of that.

        What one source finds tightens the thresholds of the next.
        """
        best, cuts = np.full((len(rows), self.k), -np.inf), np.array([*tries, ANYTHING])
        found = []
        for source, keys, allowed in visited:
            assert isinstance(source, UnitSource)
            here = source.nearest(rows, cuts, thresholds, best, self.threads, allowed)
            found.append(here if keys is None else here.named(keys))
        if others:
            for at, queries in _by_step(best[:, 0]):
                lines = Thresholds.one(at, thresholds.slack[0])
                here = search_scopes(others, rows[queries], at, lines, self.threads)
                found.append(_spread(here, queries, len(rows)))
        return found[0] if len(found) == 1 else Matches.merged(found, len(rows))

    def exactly(self, rows: Float32Array, near: Matches) -> Matches:
        """Return everything as good as the k-th of what was found already."""
        answers = _Answers(len(rows), self.k)
        answers.spend(np.arange(len(rows)), near)
        for query, (start, stop) in enumerate(pairwise(near.offsets.tolist())):
            floor = float(near.scores[start + self.k - 1]) if stop - start >= self.k else ANYTHING
            answers.take(np.array([query]), self.above(rows[query : query + 1], floor, None))
        return answers.matches


def _best_of_all(scope: Scope) -> Callable[..., Matches] | None:
    """Return what finds at least the k nearest by comparing everything; None for other sources."""
    return getattr(scope.source, "best_of_all", None)


def _parted(scopes: Sequence[Scope]) -> tuple[list[Scope], list[Scope]]:
    """Return the scopes that are visited best first, and the others that hold anything."""
    visited, others = [], []
    for scope in scopes:
        if isinstance(scope.source, UnitSource) and scope.source.visits_best_first:
            visited.append(scope)
        elif len(scope.source):
            others.append(scope)
    return visited, others


def _by_step(scores: Float64Array) -> Iterator[tuple[float, IntArray]]:
    """Yield multiples of the step, and the queries whose score is up to one above."""
    steps: dict[int, list[int]] = {}
    lowest = math.floor(ANYTHING / _STEP)
    for query, score in enumerate(scores.tolist()):
        step = math.floor(score / _STEP) if score > ANYTHING else lowest
        steps.setdefault(step, []).append(query)
    for step, queries in steps.items():
        yield (ANYTHING if step == lowest else step * _STEP), np.array(queries)


def _spread(found: Matches, queries: IntArray, n_queries: int) -> Matches:
    """Return what some queries find, with nothing for the others."""
    if len(queries) == n_queries:
        return found
    sizes, spent = np.zeros(n_queries, np.int64), np.zeros((n_queries, N_COUNTS), np.int64)
    sizes[queries], spent[queries] = found.counts, found.spent
    return Matches(np.concatenate([[0], np.cumsum(sizes)]), found.ids, found.scores, spent)


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
