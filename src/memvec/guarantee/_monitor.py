"""What is seen of live queries: how many, whether they drift, what some of them miss."""

from __future__ import annotations

import inspect
import random
import threading
import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from memvec.errors import DriftWarning
from memvec.evaluation import count_misses
from memvec.guarantee._certificate import Certificate
from memvec.guarantee._drift import FALSE_ALARMS, Drift, DriftWatch, drift_p_value
from memvec.guarantee._measurement import Asked, Health, LiveTally, Measurement
from memvec.guarantee._needed import NeededSlack
from memvec.guarantee._recent import Draw, RecentQueries
from memvec.kernels import MATCH_SLACK
from memvec.matches import Matches
from memvec.types import Float32Array, Float64Array, IntArray

# One query in so many is looked at on average, and more where the last ones seem to need more
# slack: of 5,000 with matches that is enough to see a doubled miss rate, as
# tests/guarantee/test_monitor.py shows. A look takes about ten microseconds.
_SELDOM, _OFTEN = 12, 2
# Which queries of a large batch are looked at is settled before anything is seen of them.
_LARGE_BATCH, _IN_BATCHES = 500, 6
# Of a very large one so many are enough: more would take longer than a GPU takes to search.
_MOST_OF_BATCH = 640
# What is seen of so many is worked out together.
_AT_ONCE = 96
# Hits drawn besides the first, until one needs less slack than there is.
_DRAWN = 3
_MOST_HITS = 1024
_MOST_QUESTIONS = 8
_MOST_TALLIES = 64
# Which queries to look at, and which to compare.
Chosen: TypeAlias = tuple[list[int], list[int]]
#: Of nearly every single query.
NOTHING_CHOSEN: Chosen = [], []


class Watched(Protocol):
    """A question whose promise rests on calibration queries, which live ones may differ from."""

    @property
    def place(self) -> Hashable:
        """What is asked for: one watch for each."""

    @property
    def version(self) -> Hashable:
        """What is searched: where it changes, the watch starts again."""

    def begin(self) -> tuple[NeededSlack, Float64Array] | None:
        """Return how scores are found, and those of the calibration queries; None without any."""

    def seen(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs; NaN of hits that were not tested."""


class _Look(NamedTuple):
    """A query that is watched, and its hits."""

    row: Float32Array
    ids: IntArray
    place: Hashable
    version: Hashable


class _Watch:
    """The watch of one question."""

    def __init__(self, number: int, question: Watched) -> None:
        self.number = number
        self.version = question.version
        begun = question.begin()
        self._needed = begun[0] if begun is not None and len(begun[1]) else None
        self.test = None if begun is None or self._needed is None else DriftWatch(begun[1])

    def saw(self, looks: list[_Look], draws: list[Draw], question: Watched) -> None:
        """Take note of queries that came for the first time, and were drawn for."""
        if self.test is None or self._needed is None:
            return
        pairs = list(zip(looks, draws, strict=True))
        queries = np.array([look.row for look in looks])
        drawn = np.array([look.ids[draw.place(len(look.ids))] for look, draw in pairs])
        seen = question.seen(queries, np.arange(len(looks)), drawn)
        scores = self._needed.of_pairs(*seen)
        some = np.flatnonzero(np.isnan(scores))
        if len(some):
            # The first of some others that needs less slack than there is.
            rejected = [pairs[one] for one in some.tolist()]
            others = np.array(
                [look.ids[draw.places(len(look.ids), _DRAWN)] for look, draw in rejected]
            )
            query_of = np.repeat(np.arange(len(some)), _DRAWN)
            more = question.seen(queries[some], query_of, others.ravel())
            needed = self._needed.of_pairs(*more).reshape(len(some), _DRAWN)
            first = np.argmax(~np.isnan(needed), axis=1)
            scores[some] = needed[np.arange(len(some)), first]
        known = ~np.isnan(scores)
        self.test.saw(scores[known], np.array([draw.uniform for draw in draws])[known])

    @property
    def n_queries(self) -> int:
        """Queries that were tested."""
        return 0 if self.test is None else self.test.n_queries

    @property
    def p_value(self) -> float | None:
        """Of this watch among all; None before the first test."""
        if self.test is None or not self.test.n_queries:
            return None
        return drift_p_value(self.number, self.test.highest)


class Monitor:
    """Counts live queries, looks at some for drift, and compares others with the whole truth.

    Parameters
    ----------
    seed : int
        Fixes which queries are looked at, and what is drawn of them.
    recent : RecentQueries
        What was seen before: queries that were calibrated on are not watched again.
    """

    def __init__(self, seed: int, recent: RecentQueries | None = None) -> None:
        self._seed = seed
        self.recent = RecentQueries() if recent is None else recent
        self._lock = threading.Lock()
        self._gaps = random.Random(seed)
        self._n_queries = 0
        self._every = _SELDOM
        self._next = self._gaps.randrange(_SELDOM)
        self._looks: list[_Look] = []
        # One thread at a time works out what was seen.
        self._testing = threading.Lock()
        self._questions: dict[Hashable, Watched] = {}
        self._watches: dict[Hashable, _Watch] = {}
        self._n_started = 0
        self._unwatched: set[int] = set()
        # The least p-value of watches that were given up, and the queries they saw.
        self._least: float | None = None
        self._n_given_up = 0
        #: Whether matches of live queries were found to need more slack.
        self.drifted = False
        self._warned = False
        self._owed = 0.0
        self._tallies: dict[Asked, LiveTally] = {}
        self._contradicted: dict[Asked, tuple[float, float]] = {}

    def count(self, n_queries: int, share: float = 0.0) -> Chosen:
        """Count queries; return which of them to look at, and which to compare.

        One in twelve is looked at, of large batches one in six, and where the last ones are
        suspicious one in two, but of a batch about 640 at most; gaps are drawn. A share of all is
        compared, evenly over time.
        """
        with self._lock:
            first = self._n_queries
            self._n_queries = stop = first + n_queries
            before = self._owed
            self._owed = owed = before + share * n_queries
            if stop <= self._next and owed < 1.0:
                return NOTHING_CHOSEN
            chosen: list[int] = []
            compared: list[int] = []
            every = self._every if n_queries < _LARGE_BATCH else min(self._every, _IN_BATCHES)
            every = max(every, n_queries // _MOST_OF_BATCH)
            while self._next < stop:
                chosen.append(self._next - first)
                self._next += 1 + int(self._gaps.random() * (2 * every - 1))
            if owed >= 1.0:
                # Every query owes its share; whole ones are paid.
                self._owed = owed % 1.0
                each = before + share * (1 + np.arange(n_queries))
                compared = np.flatnonzero(np.floor(each) > np.floor(each - share)).tolist()
        return chosen, compared

    def look_at(
        self,
        chosen: list[int],
        queries: Float32Array,
        found: Matches,
        question: Watched | None,
    ) -> None:
        """Keep the chosen queries, and watch the slack that their hits need.

        Copies of stored vectors, as in a search of the data for itself, are not looked at: units
        know them, and calibration leaves them out, too.
        """
        place, version = None, None
        if question is not None:
            place, version = question.place, question.version
        rows = queries[np.array(chosen, dtype=np.int64)]  # at once: they may lie on a device
        for row, query in zip(rows, chosen, strict=True):
            start, stop = int(found.offsets[query]), int(found.offsets[query + 1])
            if stop > start and found.scores[start] >= 1 - MATCH_SLACK:
                continue
            # Of very many hits every so manyth will do, from one that is drawn on.
            step = -(-(stop - start) // _MOST_HITS) or 1
            ids = found.ids[start + int(step * self._gaps.random()) : stop : step].copy()
            if question is not None:
                self._questions[place] = question
            self._looks.append(_Look(row.copy(), ids, place, version))
            if len(self._looks) >= _AT_ONCE:
                self._test()

    def recent_rows(self, dim: int) -> Float32Array:
        """Return the distinct queries that were looked at last, shape (n_queries, dim)."""
        self._test()
        return self.recent.rows(dim)

    def _test(self) -> None:
        """Work out what was seen of the queries that wait for it."""
        with self._testing:
            looks, self._looks = self._looks, []
            questions, self._questions = self._questions, {}
            draws = [Draw.of(look.row, self._seed) for look in looks]
            pairs = list(zip(looks, draws, strict=True))
            fresh = self.recent.add([(draw.digest, look.row) for look, draw in pairs])
            new = [pair for pair, one in zip(pairs, fresh, strict=True) if one]
            for place, question in list(questions.items()):
                version = question.version
                some = [
                    pair for pair in new if pair[0][2:] == (place, version) and len(pair[0].ids)
                ]
                watch = self._watch_of(question) if some else None
                if watch is not None:
                    watch.saw([look for look, _ in some], [draw for _, draw in some], question)
            tests = [watch.test for watch in self._watches.values() if watch.test is not None]
            self._every = _OFTEN if any(test.suspicious for test in tests) else _SELDOM
            alarms = [one for one in self._p_values() if one <= FALSE_ALARMS]
        if alarms and not self.drifted:
            self.drifted = True
            self._warn(
                "Matches of recent queries are harder to find than those of the calibration "
                f"queries (p = {min(alarms):.1g}): the promise may not hold for them. Measure the "
                "miss rate (measure()), or call recalibrate()."
            )

    def _p_values(self) -> list[float]:
        of_watches = [watch.p_value for watch in self._watches.values()]
        return [one for one in (self._least, *of_watches) if one is not None]

    def _watch_of(self, question: Watched) -> _Watch | None:
        """Return the watch of a question; None where there are too many already."""
        place = question.place
        watch = self._watches.get(place)
        if watch is not None and watch.version == question.version:
            return watch
        if watch is None and len(self._watches) >= _MOST_QUESTIONS:
            if len(self._unwatched) < _MOST_TALLIES:
                self._unwatched.add(hash(place))
            return None
        if watch is not None:
            self._give_up(watch)
        self._n_started += 1
        self._watches[place] = _Watch(self._n_started, question)
        return self._watches[place]

    def _give_up(self, watch: _Watch) -> None:
        self._n_given_up += watch.n_queries
        self._least = min((p for p in (self._least, watch.p_value) if p is not None), default=None)

    def compare(
        self,
        compared: list[int],
        queries: Float32Array,
        answer: Matches,
        asked: Asked,
        truth: Callable[[Float32Array], Matches],
    ) -> None:
        """Compare answers with the exhaustive search.

        Which ones follows from their number alone. Were it by time, slow queries would be compared
        more often than others.

        Parameters
        ----------
        asked : Asked
            The question.
        truth : callable
            Returns all matches of queries.
        """
        chosen = np.array(compared, dtype=np.int64)
        misses = count_misses(truth(queries[chosen]), answer.of_queries(chosen))
        with self._lock:
            if asked not in self._tallies and len(self._tallies) >= _MOST_TALLIES:
                return
            tally = self._tallies.setdefault(asked, LiveTally(asked.miss_rate))
            tally.add(misses)
            seen = tally.seen
        if not seen.kept:
            self._contradict(asked, seen)

    def _contradict(self, asked: Asked, seen: Measurement) -> None:
        self._contradicted[asked] = seen.interval
        low, high = seen.interval
        self._warn(
            f"Live queries miss {100 * low:.2f} % to {100 * high:.2f} % of their matches above "
            f"{asked.similarity:g}, where {100 * asked.miss_rate:g} % was asked for: "
            f"{seen.n_queries:,} were compared with the exhaustive search. Call recalibrate()."
        )

    def _warn(self, message: str) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        warnings.warn(message, DriftWarning, stacklevel=_depth_of_caller())

    @property
    def has_news(self) -> bool:
        """Whether anything is known against certificates."""
        return self.drifted or bool(self._contradicted)

    def marked(self, certificate: Certificate, asked: Asked | None = None) -> Certificate:
        """Return a certificate that says what is known against it."""
        if not self.has_news:
            return certificate
        drifted = self.drifted and certificate.natural
        live = None if asked is None else self._contradicted.get(asked)
        return replace(certificate, drifted=drifted, live=live)

    @property
    def health(self) -> Health:
        """What was seen so far."""
        with self._lock:
            tallies = {asked: tally.seen for asked, tally in self._tallies.items()}
        with self._testing:
            watches = [watch for watch in self._watches.values() if watch.test is not None]
            drift = Drift(
                self._n_given_up + sum(watch.n_queries for watch in watches),
                min(self._p_values(), default=None),
                self.drifted,
                len(watches),
                len(self._unwatched),
            )
        return Health(self._n_queries, tallies, drift, len(self.recent))


def _depth_of_caller() -> int:
    """Return the stack level, as whoever warns counts, of the first frame outside the package."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "memvec":
        frame, depth = frame.f_back, depth + 1
    return depth
