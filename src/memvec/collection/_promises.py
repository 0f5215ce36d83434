"""What an answer from all parts together promises.

Promises of single segments do not add up: the miss rate is a mean over the queries that have
matches, and each segment has other queries. Two segments that miss a half each may miss two thirds
together. So the thresholds of all segments are solved together, on the rows of the same calibration
queries, a sample of the living rows. Vectors that wait pass some of the same tests or none, so they
are missed no more often; deleted or filtered ones leave the rows.
"""

from __future__ import annotations

import hashlib
import math
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memvec.cache import Cache
from memvec.collection._given import GivenQueries
from memvec.collection._joint_table import Ask, AskedByWaiting, JointTable, Strangers
from memvec.collection._sample import Sample, Samples
from memvec.collection._segment import Segment
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.collection._waiting_codes import CodeScans, WaitingCodes
from memvec.guarantee import (
    Calibration,
    CalibrationTable,
    Evidence,
    Guarantee,
    KeptRanges,
    NeededSlack,
    NullLaw,
    Plan,
    Promises,
    Request,
    SolvedPlans,
    known_ranks,
    lowest_cosine,
    lowest_known,
)
from memvec.search import Searched
from memvec.types import BoolArray, Float64Array

_Numbers: TypeAlias = tuple[int, ...]
# Arrays by what tells them apart; who keeps the names keeps the arrays.
_Names: TypeAlias = tuple[int, ...]

# What is kept of each kind, in bytes: a table of a collection of crowded vectors takes 70 MB.
_MOST_KEPT = 128 << 20
# What is read for a sample serves others with bounds of their priorities up to so many times its
# own, as when a fifth of the rows is deleted. All bounds are above the least.
_SPARE, _LEAST_BOUND = 1.25, 1e-12
# Smaller rates do not allow for what codes of waiting vectors lose.
_LEAST_RATE = 1e-4
# Questions to one state whose plans are kept with their certificates.
_MOST_PLANS = 256


@dataclass(eq=False)
class Known:
    """What questions to one state have found out, for those that come after them.

    Attributes
    ----------
    sample : Sample or None
        The calibration queries.
    searched : Searched or None
        How much there is, where no filter takes some out.
    share : float or None
        Of the queries, to be compared by default.
    plans : dict
        By what is asked without a filter: the plan as it was solved, and as it is told.
    """

    sample: Sample | None = None
    searched: Searched | None = None
    share: float | None = None
    plans: dict[tuple[float, Request, bool], tuple[Plan, Plan]] = field(default_factory=dict)

    def keep(self, asked: tuple[float, Request, bool], solved: Plan, told: Plan) -> Plan:
        """Return a plan as it is told, and keep it."""
        if len(self.plans) >= _MOST_PLANS:
            self.plans.clear()
        self.plans[asked] = solved, told
        return told


class JointPromises:
    """Promises of a collection; what was solved for some segments is kept as long as they are.

    A segment that was merged or compacted away is given up here with the last state that holds it:
    what was kept for it would keep its files on the disk.
    """

    def __init__(
        self,
        settings: Settings,
        given: GivenQueries | None = None,
        solved: SolvedPlans | None = None,
        ask: Ask | None = None,
    ) -> None:
        self.settings = settings
        # What was solved before, by this process or another, on the reserves.
        self._plans = solved if given is None else None
        # What is calibrated on instead of the reserves.
        self._given = given
        self._codes = CodeScans(settings)
        self._samples = Samples(settings.config.seed)
        self._asked = AskedByWaiting(ask)
        self._default = Request(
            settings.miss_rate, settings.guarantee, settings.confidence, explicit=False
        )
        # By the numbers of segments, by the sample, and by what of the segments counts.
        self._kept: Cache[tuple[_Numbers, bytes, float, bytes], Promises] = Cache(
            _MOST_KEPT, lambda joint: joint.n_bytes
        )
        self._recent: Cache[tuple[_Numbers, bytes, float, _Names], _Recent] = Cache(
            _MOST_KEPT, lambda recent: recent.joint.n_bytes + _n_bytes(recent.passing)
        )
        self._ranked: Cache[tuple[_Numbers, bytes, _Names, int, Request], _Ranked] = Cache(
            _MOST_KEPT, lambda ranked: _n_bytes(ranked.passing)
        )
        # By the least cosine that they hold: tables for ranges are a fraction of the others.
        self._tables: Cache[tuple[_Numbers, bytes, float], JointTable] = Cache(
            _MOST_KEPT, lambda whole: whole.n_bytes
        )
        # What samples for ranges take their rows of: each delete of a sampled row makes another.
        self._strangers: Cache[tuple[_Numbers, _Numbers, float], Strangers] = Cache(
            _MOST_KEPT, lambda strangers: strangers.n_bytes
        )
        self._laws: Cache[tuple[_Numbers], NullLaw] = Cache(
            _MOST_KEPT, lambda law: int(law.cosines.nbytes)
        )
        # Without a table: what is planted depends on the segments alone, and is planted once.
        self._solvers: Cache[tuple[_Numbers], Promises] = Cache(
            _MOST_KEPT, lambda joint: joint.n_bytes
        )
        self._least = lowest_cosine(settings.similarity)
        self._watched: weakref.WeakSet[Segment] = weakref.WeakSet()
        # It goes with the state, whose segments it must not keep on the disk.
        self._known: weakref.WeakKeyDictionary[State, Known] = weakref.WeakKeyDictionary()

    def request(
        self,
        miss_rate: float | None,
        guarantee: Guarantee | None,
        confidence: float | None,
        where: str,
    ) -> Request:
        """Return what is asked for, checked."""
        return self._default.replaced(miss_rate, guarantee, confidence, where)

    def for_ranges(self, state: State, passing: Sequence[BoolArray]) -> Promises:
        """Return what is promised about ranges of the rows that count."""
        return self._joint(state, self.sample(state), passing, self._least)

    def for_ranks(self, state: State) -> Promises:
        """Return what is promised about the nearest of everything that was not deleted."""
        return self._joint(state, self.sample(state), _alive(state), -np.inf)

    def sample(self, state: State) -> Sample:
        """Return the calibration queries."""
        known = self.known(state)
        if known.sample is None:
            known.sample = self._samples.of(state)
        return known.sample

    def known(self, state: State) -> Known:
        """Return what is the same for all questions to a state."""
        known = self._known.get(state)
        if known is None:
            self._known[state] = known = Known()
        return known

    def waiting_codes(self, state: State, request: Request) -> WaitingCodes | None:
        """Return what waits and is scanned by codes; none where a rate allows for no loss."""
        return self._codes.of(state) if request.miss_rate >= _LEAST_RATE else None

    def needed_slack(
        self, state: State, similarity: float, request: Request
    ) -> tuple[NeededSlack, Float64Array] | None:
        """Return how to tell the slack that matches need, and that of the calibration queries."""
        return self.for_ranges(state, _alive(state)).needed_slack(similarity, request)

    def support(self, state: State, similarity: float) -> tuple[int, int]:
        """Return how many calibration queries have living matches, and how many are needed."""
        promises = self.for_ranges(state, _alive(state))
        return promises.calibration.n_calibration_queries(similarity), promises.queries_needed

    def best_passing(
        self, state: State, passing: Sequence[BoolArray], k: int, request: Request
    ) -> Plan | None:
        """Return how to find the k nearest that pass; None where too little is known of them."""
        arrays, sample = tuple(passing[: len(state.segments)]), self.sample(state)

        def made() -> _Ranked:
            whole = self._whole(state, sample, -np.inf)
            found = None
            if whole.table is not None:
                sizes = [len(part.keys) for part in state.segments]
                known = known_ranks(whole.table, whole.places, sizes, whole.counting(arrays), k)
                found = known.best(k, request, partial(self._solved, state))
            return _Ranked(arrays, found)

        name = (_numbers(state), sample.name, _names(arrays), k, request)
        return self._ranked.get(name, made).plan

    def _joint(
        self, state: State, sample: Sample, passing: Sequence[BoolArray], least: float
    ) -> Promises:
        """Return the promise for the rows of segments that count, on matches from a cosine on.

        The same arrays of rows mean the same promise, and nothing is looked at but which they are.
        """
        arrays = tuple(passing[: len(state.segments)])

        def made() -> _Recent:
            self._watch(state)
            return _Recent(arrays, self._joint_of_counting(state, sample, arrays, least))

        names = (_numbers(state), sample.name, least, _names(arrays))
        return self._recent.get(names, made).joint

    def _watch(self, state: State) -> None:
        """See to it that nothing kept here outlives a segment."""
        for part in state.segments:
            if part.rows not in self._watched:
                self._watched.add(part.rows)
                gone = weakref.finalize(part.rows, _forget, weakref.ref(self), part.rows.number)
                gone.atexit = False

    def forget(self, number: int) -> None:
        """Drop what was kept for a segment, without any lock: it is called when one dies."""
        self._asked.forget(number)
        everything: tuple[Cache[Any, Any], ...] = (
            *(self._kept, self._recent, self._ranked, self._tables, self._strangers),
            *(self._laws, self._solvers),
        )
        for kept in everything:
            kept.drop(lambda key: number in key[0])

    def _joint_of_counting(
        self, state: State, sample: Sample, passing: Sequence[BoolArray], least: float
    ) -> Promises:
        """Return the promise for the rows that count, solved before or now.

        What is deleted or filtered matters only if a calibration query has it for a match: other
        changes leave what was solved as it is.
        """
        whole = self._whole(state, sample, least)
        counts = whole.counting(passing)
        # Filters are too many to keep what was solved for them.
        everything = zip(passing, state.segments, strict=True)
        keeps = least == self._least and all(one is part.alive for one, part in everything)

        def made() -> Promises:
            self._watch(state)
            joint = self._solved(state, whole.left(counts))
            if keeps and self._plans is not None:
                evidence = _evidence(state, sample, digest)
                joint.kept = KeptRanges(self._plans, joint.calibration, _content(state), evidence)
            return joint

        # By a digest: tables have up to a million rows.
        digest = _digest(np.packbits(counts))
        return self._kept.get((whole.numbers, sample.name, least, digest), made)

    def _whole(self, state: State, sample: Sample, least: float) -> JointTable:
        """Return the rows of the sample against these segments, from a cosine on."""
        numbers = _numbers(state)

        def made() -> JointTable:
            self._watch(state)
            if self._given is None:
                strangers = self._strangers_for(state, sample, least)
                return strangers.sampled(state, sample, self._asked, least)
            return JointTable.of(self._given.table([part.rows for part in state.segments]), state)

        return self._tables.get((numbers, sample.name, least), made)

    def _strangers_for(self, state: State, sample: Sample, least: float) -> Strangers:
        """Return what the rows of a sample are chosen of."""
        if least != self._least:  # the k nearest need many rows, which nobody keeps
            return Strangers.of(state, sample.below, least)
        # A little more than the sample, so that the next ones find theirs here, too.
        below = _SPARE ** math.ceil(math.log(max(sample.below, _LEAST_BOUND), _SPARE))
        below = max(below, sample.below)
        living = tuple(part.rows.number for part in state.segments if part.n_alive)
        name = (_numbers(state), living, below)
        return self._strangers.get(name, lambda: Strangers.of(state, below, least))

    def _solved(self, state: State, table: CalibrationTable | None) -> Promises:
        """Return the promise that a table of calibration queries against all segments supports."""
        found = self._solvers.get((_numbers(state),), lambda: self._without_table(state))
        solver = found.calibration
        return Promises(solver if table is None else solver.with_table(table), self._default)

    def _without_table(self, state: State) -> Promises:
        settings, given = self.settings, self._given
        segments = [part.rows.index for part in state.segments]
        evidence = Evidence(
            table=None,
            source="reserve" if given is None else "queries",
            floor=lowest_known(settings.similarity),
            null_law=self.null_law(state),
            left_out=0 if given is None else given.n_left_out,
            calibrated=segments[-1].evidence.calibrated if given is None else given.calibrated,
            state=state_of(state) or "",
        )
        cascades = tuple(index.units.cascade for index in segments)
        seed = segments[0].config.seed
        solver = Calibration(cascades, evidence, settings.similarity, settings.listed, seed)
        return Promises(solver, self._default)

    def null_law(self, state: State) -> NullLaw:
        """Return what vectors that have nothing to do with each other score."""
        numbers = _numbers(state)
        return self._laws.get((numbers,), lambda: _null_law(state))


class _Recent(NamedTuple):
    """A promise, with the arrays it was made for; held, so that no others take their place."""

    passing: tuple[BoolArray, ...]
    joint: Promises


class _Ranked(NamedTuple):
    """How the k nearest that pass are found, with the arrays of what passes, which are held."""

    passing: tuple[BoolArray, ...]
    plan: Plan | None


def _alive(state: State) -> list[BoolArray]:
    return [part.alive for part in state.parts]


def _numbers(state: State) -> _Numbers:
    return tuple(part.rows.number for part in state.segments)


def _forget(promises: weakref.ref[JointPromises], number: int) -> None:
    if (found := promises()) is not None:
        found.forget(number)


def _names(arrays: tuple[BoolArray, ...]) -> _Names:
    return tuple(id(one) for one in arrays)


def _n_bytes(arrays: Sequence[BoolArray]) -> int:
    return sum(int(one.nbytes) for one in arrays)


def state_of(state: State) -> str | None:
    """Return a fingerprint of all segments; None without any."""
    states = [part.rows.index.evidence.state for part in state.segments]
    if len(states) < 2:
        return states[0] if states else None
    return f"{zlib.crc32(' '.join(states).encode()):08x}"


def _content(state: State) -> str:
    """Return what tells the segments from any others: the checksums of all their files."""
    files = [(part.rows.number, sorted(part.rows.files.items())) for part in state.segments]
    return hashlib.blake2b(repr(files).encode(), digest_size=16).hexdigest()


def _evidence(state: State, sample: Sample, counting: bytes) -> str:
    """Return what tells a table of the segments from any others: what it was made of.

    These are the checksums of the tables between segments, the sample, and which matches count.
    They say as much as the table, which may have a million rows.
    """
    between = sorted((name, table.crc32) for name, table in state.calibration.items())
    waiting = state.waiting.rows.vectors(sample.waiting) if len(sample.waiting) else np.empty(0)
    return repr((between, _digest(sample.keys), _digest(waiting), counting))


def _digest(array: NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()


def _null_law(state: State) -> NullLaw:
    cosines = [part.rows.index.evidence.null_law.cosines for part in state.segments]
    return NullLaw.of_pairs(np.concatenate(cosines) if cosines else np.zeros(1, dtype=np.float32))
