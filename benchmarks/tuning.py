"""The fastest setting of a contender that misses no more than it may, found on tuning queries."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.peers import Answer, Contender, Ladder, Setting
from memvec.evaluation import Misses, count_misses
from memvec.matches import Matches
from memvec.types import Float32Array

# Rungs are timed on so many queries; more would cost more than the choice is worth.
_TIMED = 200
_WARMING = 5
# A first look at so many queries with matches tells hopeless rungs apart.
_FIRST_LOOK = 150
# A ladder is left when a rung is so much slower than the best setting that reached the target:
# timings of single rungs are noisy.
_TOO_SLOW = 1.3
_FINALISTS = 5


@dataclass(frozen=True)
class Question:
    """Queries with their exact answers at one similarity."""

    queries: Float32Array
    truth: Matches
    similarity: float

    def with_matches(self) -> Question:
        """Return the queries that have something to miss."""
        return self.rows(np.flatnonzero(self.truth.counts))

    def rows(self, chosen: np.ndarray) -> Question:
        """Return some of the queries."""
        truth = Matches.from_rows([self.truth[int(row)].ids for row in chosen])
        return Question(self.queries[chosen], truth, self.similarity)


@dataclass(frozen=True)
class Tuned:
    """A setting, what it missed of the tuning queries, and the mean time of one query."""

    setting: Setting
    misses: Misses
    milliseconds: float
    reached: bool
    tried: int


def answers(contender: Contender, question: Question, setting: Setting) -> Answer:
    """Answer one query after the other."""
    similarity = question.similarity
    return Answer.of_rows(
        [contender.search(query, similarity, setting) for query in question.queries]
    )


def measure_misses(contender: Contender, question: Question, setting: Setting) -> Misses:
    """Return what the setting misses, query by query; exact contenders answer as a batch."""
    if contender.exact:
        found = contender.search_batch(question.queries, question.similarity, setting, 1)
    else:
        found = answers(contender, question, setting)
    return count_misses(question.truth, found)


def latencies(
    contender: Contender,
    question: Question,
    setting: Setting,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the milliseconds of each query, one at a time, in this thread."""
    found = []
    search, similarity = contender.search, question.similarity
    for query in question.queries:
        started = clock()
        search(query, similarity, setting)
        found.append(1e3 * (clock() - started))
    return found


class Tuner:
    """Climbs ladders: leaps up to the first rung that reaches the target, then halves back."""

    def __init__(
        self,
        contender: Contender,
        question: Question,
        target: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.contender, self.target, self.clock = contender, target, clock
        self.matched = question.with_matches()
        self.first_look = self.matched.rows(np.arange(min(_FIRST_LOOK, len(self.matched.truth))))
        self.timed = question.rows(np.arange(min(_TIMED, len(question.queries))))
        self.warming = self.timed.rows(np.arange(min(_WARMING, len(self.timed.queries))))
        self.tried = 0
        self.best: Tuned | None = None
        self.closest: Tuned | None = None
        self.reached: list[Tuned] = []

    def run(self) -> Tuned:
        """Return the fastest setting that reaches the target, or else the one that misses least."""
        for ladder in self.contender.settings(self.matched.truth.counts):
            self._climb(ladder)
        found = self._final() or self.closest
        if found is None:
            raise RuntimeError(f"{self.contender.name} offers no setting")
        return replace(found, tried=self.tried)

    def _final(self) -> Tuned | None:
        """Time the fastest once more, in turn: a single timing is a matter of luck."""
        fastest = sorted(self.reached, key=lambda one: one.milliseconds)[:_FINALISTS]
        if len(fastest) < 2:
            return self.best
        rounds = [[self._time(one.setting) for one in fastest] for _ in range(3)]
        medians = np.median(rounds, axis=0)
        winner = int(np.argmin(medians))
        return replace(fastest[winner], milliseconds=float(medians[winner]))

    def _climb(self, ladder: Ladder) -> None:
        low, high, step = -1, 0, 1
        while True:
            outcome = self._try(ladder[high])
            if outcome is None:
                return
            if outcome.reached:
                break
            if high == len(ladder) - 1:
                return
            low, high, step = high, min(high + step, len(ladder) - 1), 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            outcome = self._try(ladder[middle])
            if outcome is not None and outcome.reached:
                high = middle
            else:
                low = middle

    def _try(self, setting: Setting) -> Tuned | None:
        """Measure one rung; None where it is too slow to be of use."""
        self.tried += 1
        milliseconds = self._time(setting)
        if self.best and milliseconds > _TOO_SLOW * self.best.milliseconds:
            return None
        misses = measure_misses(self.contender, self.first_look, setting)
        hopeless = misses.miss_rate - 3 * misses.standard_error > self.target
        if not hopeless:
            misses = measure_misses(self.contender, self.matched, setting)
        outcome = Tuned(setting, misses, milliseconds, misses.miss_rate <= self.target, self.tried)
        if outcome.reached:
            self.reached.append(outcome)
        if outcome.reached and (not self.best or milliseconds < self.best.milliseconds):
            self.best = outcome
        if not self.closest or misses.miss_rate < self.closest.misses.miss_rate:
            self.closest = outcome
        return outcome

    def _time(self, setting: Setting) -> float:
        # The first queries warm up; a slow contender is timed on the few that fit a second.
        first = latencies(self.contender, self.warming, setting, self.clock)
        affordable = max(1, int(1000 / statistics.median(first)))
        some = self.timed.rows(np.arange(min(affordable, len(self.timed.queries))))
        return statistics.fmean(latencies(self.contender, some, setting, self.clock))
