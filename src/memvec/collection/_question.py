"""A question to a collection: scopes and plans of one state, for the rows that count."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from memvec.collection._given import GivenQueries
from memvec.collection._joint_table import Ask
from memvec.collection._open_units import OpenUnits
from memvec.collection._promises import JointPromises, state_of
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.collection._waiting_source import WaitingSource
from memvec.guarantee import (
    Certificate,
    Monitor,
    NeededSlack,
    Plan,
    Promises,
    RecentQueries,
    Request,
    SolvedPlans,
    Thresholds,
    complete_plan,
)
from memvec.index import shadow_share
from memvec.search import Scope, Searched, Source, are_few
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Where the k nearest are looked for among fewer rows than so many times as many, all are scored: a
# search takes a look or several, and a range.
_FEW_TIMES = 4
# Where fewer drawn matches of crowded queries pass a filter, they say too little of the others.
_FEWEST_DRAWN = 20
_CALIBRATED = "calibrated on the matches that pass"
_NOT_CALIBRATED = "not calibrated"
# The watch for drift starts again where so much more of the segments was deleted.
_DELETED_STEPS = 20


class Live(NamedTuple):
    """What searches use and what they leave behind; a new calibration replaces it as a whole."""

    promises: JointPromises
    monitor: Monitor

    @classmethod
    def of(
        cls,
        settings: Settings,
        given: GivenQueries | None = None,
        recent: RecentQueries | None = None,
        solved: SolvedPlans | None = None,
        ask: Ask | None = None,
    ) -> Live:
        """Return what a collection begins with, or goes on with after a calibration."""
        promises = JointPromises(settings, given, solved, ask)
        return cls(promises, Monitor(settings.config.seed, recent))


@dataclass(frozen=True, eq=False)
class Question:
    """Sources and promises of one state, for one request.

    Attributes
    ----------
    promises : JointPromises
        What may be promised about all parts together.
    state : State
        What is searched.
    passing : sequence of ndarray
        Which rows of each part count.
    filtered : bool
        Whether a filter took some out, besides what was deleted.
    request : Request
        What is asked for.
    similarity : float
        α₀, of a range.
    open_units : OpenUnits or None
        What tests the waiting rows, at the level of the model, instead of one by one.
    """

    promises: JointPromises
    state: State
    passing: Sequence[BoolArray]
    filtered: bool
    request: Request
    similarity: float
    open_units: OpenUnits | None = None

    @cached_property
    def own_scopes(self) -> tuple[Scope, ...]:
        """The segments, then what waits."""
        sources: list[Source] = [part.rows.source for part in self.state.segments]
        keys = [part.keys for part in self.state.parts]
        scopes = zip([*sources, self.waiting], keys, self.passing, strict=True)
        return tuple(Scope(*scope) for scope in scopes)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What is searched."""
        return self.own_scopes

    @property
    def joined_scopes(self) -> tuple[Scope, ...]:
        """What is joined with itself."""
        return self.scopes

    @cached_property
    def waiting(self) -> WaitingSource:
        """The rows that wait."""
        codes = self.promises.waiting_codes(self.state, self.request)
        rate = self.request.miss_rate
        return WaitingSource(self.state.waiting, codes, self.open_units, self.similarity, rate)

    @cached_property
    def searched(self) -> Searched:
        """How much there is, and what unrelated vectors score."""
        known = self.promises.known(self.state)
        if self.filtered or known.searched is None:
            n_vectors = sum(len(part.keys) for part in self.state.parts)
            law = self.promises.null_law(self.state)
            made = Searched(n_vectors, self.n_passing, law, self.promises.settings.metric)
            if self.filtered:
                return made
            known.searched = made
        return known.searched

    @property
    def n_passing(self) -> int:
        """Rows that count."""
        if not self.filtered:
            return self.state.n_items
        return sum(int(np.count_nonzero(some)) for some in self.passing)

    def range_plan(self, similarity: float, request: Request, where: str) -> Plan:
        """Return how to find everything above a similarity, and what comes of it."""
        state, by_units = self.state, self.open_units is not None
        if request.guarantee == "exact" or not (state.segments or by_units):
            return complete_plan(similarity, state_of(state))
        by_law = Certificate("model", similarity=similarity, miss_rate=request.miss_rate)
        if not state.segments:
            return Plan(Thresholds.one(similarity, np.zeros(1)), by_law)
        joint = self.promises.for_ranges(state, self.passing)
        plan = joint.for_range(similarity, request, where)

        def told() -> Certificate:
            certificate = self._of_passing(self._of_sample(plan.certificate), joint, similarity)
            return by_law if by_units and not certificate.complete else certificate

        return self._told(plan, (similarity, request, by_units), told)

    def _told(
        self,
        plan: Plan,
        asked: tuple[float, Request, bool],
        certificate: Callable[[], Certificate],
    ) -> Plan:
        """Return a plan with the certificate that users see, written once for a state."""
        known = self.promises.known(self.state)
        kept = None if self.filtered else known.plans.get(asked)
        if kept is not None and kept[0] is plan:
            return kept[1]
        told = replace(plan, certificate=_settled(certificate()))
        return told if self.filtered else known.keep(asked, plan, told)

    def nearest_plan(self, k: int, request: Request, where: str) -> Plan:
        """Return how to find the k nearest; where few rows count, all of them are compared."""
        few = are_few(self.n_passing, _FEW_TIMES)
        if (self.filtered and few) or not self.state.segments:
            return complete_plan(None, state_of(self.state))
        plan = self._calibrated_nearest_plan(k, request, where)
        return Plan(None, plan.certificate) if few else plan

    def _calibrated_nearest_plan(self, k: int, request: Request, where: str) -> Plan:
        state, plan = self.state, None
        if request.guarantee == "exact":
            first = self._calibrated_nearest_plan(k, request.lowered(), where)
            return complete_plan(None, state_of(state), first)
        # What was deleted has left gaps in the ranks, as a filter does.
        has_gaps = any(part.n_alive < len(part.keys) for part in state.segments)
        if self.filtered or has_gaps:
            plan = self.promises.best_passing(state, self.passing, k, request)
        about = _CALIBRATED if plan else _NOT_CALIBRATED
        if plan is None:
            joint = self.promises.for_ranks(state)
            plan = joint.for_best(k, request, where)
            if has_gaps and not plan.certificate.complete:
                plan = joint.calibration.everything(None, request.miss_rate)
        solved = plan

        def told() -> Certificate:
            certificate = self._of_sample(solved.certificate)
            if self.filtered and not certificate.complete:
                certificate = replace(certificate, filter=about)
            return certificate

        return self._told(solved, (-float(k), request, False), told)

    def _of_sample(self, certificate: Certificate) -> Certificate:
        """Return a certificate that says what its calibration queries are a sample of."""
        state = self.state
        n_living, n_stored = state.n_items, sum(len(part.keys) for part in state.parts)
        if certificate.source is not None:
            certificate = replace(certificate, deleted=(n_stored - n_living) / n_stored)
        if certificate.source != "reserve":
            return certificate
        population = self.promises.sample(state).population
        stale = (n_living - population) / n_living
        return replace(certificate, population=population, stale=stale)

    def _of_passing(
        self, certificate: Certificate, joint: Promises, similarity: float
    ) -> Certificate:
        """Return a certificate that says what is known of the matches that a filter leaves."""
        table = joint.calibration.table
        if table is not None and (self.filtered or certificate.deleted > 0):
            # How many of those that drawn matches stand for were taken out, nobody counted.
            drawn = bool((table.copies > 1).any())
            certificate = replace(certificate, estimated=certificate.estimated or drawn)
        if not self.filtered:
            return certificate
        about = _NOT_CALIBRATED
        if certificate.natural and table is not None:
            known = table.effective_rows(similarity) >= _FEWEST_DRAWN
            about = _CALIBRATED if known else _NOT_CALIBRATED
        return replace(certificate, filter=about)

    def watched(self, similarity: float, request: Request) -> WatchedRange:
        """Return a range as the watch for drift sees it."""
        return WatchedRange(self.promises, weakref.ref(self.state), similarity, request)


@dataclass(frozen=True)
class WatchedRange:
    """A range that a collection is asked for, as the watch for drift sees it.

    The state is not held: what was compacted away since must leave the disk.
    """

    promises: JointPromises
    state: weakref.ref[State]
    similarity: float
    request: Request

    @property
    def place(self) -> tuple[float, Request]:
        """What is asked for."""
        return self.similarity, self.request

    @cached_property
    def version(self) -> tuple[int, ...]:
        """Which segments there are, and in twentieths how much of them was deleted."""
        state = self.state()
        if state is None:
            return ()
        alive = sum(part.n_alive for part in state.segments)
        total = max(1, sum(len(part.keys) for part in state.segments))
        numbers = (part.rows.number for part in state.segments)
        return (*numbers, _DELETED_STEPS * (total - alive) // total)

    def begin(self) -> tuple[NeededSlack, Float64Array] | None:
        """Return how scores are found, and those of the calibration queries."""
        state = self.state()
        if state is None or not state.segments:
            return None
        return self.promises.needed_slack(state, self.similarity, self.request)

    def seen(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs; NaN of what waits or is no longer here."""
        state = self.state()
        segments = () if state is None else state.segments
        scores = slopes = np.full((len(ids), 1), np.nan, dtype=np.float32)
        for part in segments:
            here, rows = part.find(ids)
            if not here.any():
                continue
            found = part.rows.index.units.see(queries, query_of[here], rows)
            if scores.shape[1] != found[0].shape[1]:
                scores, slopes = np.full((2, len(ids), found[0].shape[1]), np.nan, np.float32)
            scores[here], slopes[here] = found
        return scores, slopes


def _settled(certificate: Certificate) -> Certificate:
    """Return a certificate that says it misses nothing where it does, whatever was allowed."""
    if not certificate.complete:
        return certificate
    return replace(certificate, miss_rate=0.0, bound=0.0)


def default_share(state: State, dim: int) -> float:
    """Return the share of queries to compare by default: at most 2 % of the time."""
    if not state.segments:
        return 0.0
    designs = [part.rows.index.design for part in state.segments]
    times = [design.expected_microseconds for design in designs]
    known = None if None in times else sum(time for time in times if time is not None)
    return shadow_share(known, state.n_items, dim)
