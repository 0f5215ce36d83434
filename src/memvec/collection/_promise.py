"""What an answer from all parts together promises.

Promises of single segments do not add up: the miss rate is a mean over the queries that have
matches, and each segment has other queries. Two segments that miss a half each may miss two thirds
together. So the thresholds of all segments are solved together, on the rows of the same calibration
queries, a sample of the living rows. Vectors that wait pass some of the same tests or none, so they
are missed no more often; deleted or filtered ones leave the rows.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec.cache import Cache
from memvec.collection._code_scan import CodeScans, WaitingCodes
from memvec.collection._given import GivenQueries
from memvec.collection._joint import Asked, JointTable
from memvec.collection._ranks import Best, known_ranks
from memvec.collection._sample import Sample, Samples
from memvec.collection._segment import Segment
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.guarantee import CalibrationTable, Certificate, Level
from memvec.index import (
    Found,
    Guarantee,
    JointPromise,
    Lines,
    NeededSlack,
    Request,
    Slack,
    lowest_cosine,
    search_bounds,
    search_lines,
)
from memvec.types import BoolArray, Float32Array, Float64Array

_Numbers: TypeAlias = tuple[int, ...]
# Arrays by what tells them apart; who keeps the names keeps the arrays.
_Names: TypeAlias = tuple[int, ...]

# What is kept of each kind, in bytes: a table of a collection of crowded vectors takes 70 MB.
_MOST_KEPT = 128 << 20
# Smaller rates do not allow for what codes of waiting vectors lose.
_LEAST_RATE = 1e-4
# Where fewer drawn matches of crowded queries pass a filter, they say too little of the others.
_FEWEST_DRAWN = 20
_CALIBRATED = "calibrated on the matches that pass"
_NOT_CALIBRATED = "not calibrated"


@dataclass(frozen=True, eq=False)
class Promise:
    """How segments are searched for one question, and what is promised about all of them.

    Attributes
    ----------
    request : Request
        What was asked for.
    lines : Lines or None
        The thresholds of all segments; None misses nothing.
    certificate : Certificate
        What the answer promises.
    tries : tuple of float
        Similarities that the k-th nearest is likely to reach, of a search for the k nearest.
    waiting : WaitingCodes or None
        The waiting vectors that are scanned by codes; None scores them all in float32.
    first : Promise or None
        Of an exact search for the k nearest: how to find k that are near, fast.
    """

    request: Request
    lines: Lines | None
    certificate: Certificate
    tries: tuple[float, ...] = ()
    waiting: WaitingCodes | None = None
    first: Promise | None = None

    @property
    def is_exact(self) -> bool:
        """Whether nothing is missed, by bounds."""
        return self.lines is None

    @property
    def slack(self) -> Slack:
        """The thresholds with their certificate, as the search for the k nearest takes them."""
        assert self.lines is not None
        return Slack(self.lines, self.certificate)

    def range_search(
        self,
        segment: Segment,
        queries: Float32Array,
        similarity: float,
        threads: int | None,
        allowed: BoolArray,
    ) -> Found:
        """Search a segment; `allowed` tells which rows may be hits, all where it is empty."""
        if self.lines is None:
            return search_bounds(segment.index, queries, similarity, threads, allowed)
        return search_lines(segment.index, queries, similarity, self.lines, threads, allowed)


class Promises:
    """Promises of a collection; what was solved for some segments is kept as long as they are.

    A segment that was merged or compacted away is given up here with the last state that holds it:
    what was kept for it would keep its files on the disk.
    """

    def __init__(self, settings: Settings, given: GivenQueries | None = None) -> None:
        self._settings = settings
        # What is calibrated on instead of the reserves.
        self._given = given
        self._codes = CodeScans(settings)
        self._samples = Samples(settings.config.seed)
        self._asked = Asked()
        self._default = Request(
            settings.miss_rate, settings.guarantee, settings.confidence, explicit=False
        )
        # By the numbers of segments, by the sample, and by what of the segments counts.
        self._kept: Cache[tuple[_Numbers, bytes, float, bytes], JointPromise] = Cache(
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
        self._least = lowest_cosine(settings.similarity)
        self._watched: weakref.WeakSet[Segment] = weakref.WeakSet()
        self._lock = threading.Lock()

    def request(
        self,
        miss_rate: float | None,
        guarantee: Guarantee | None,
        confidence: float | None,
        where: str,
    ) -> Request:
        """Return what is asked for, checked."""
        return self._default.replaced(miss_rate, guarantee, confidence, where)

    def of_range(
        self,
        state: State,
        passing: Sequence[BoolArray],
        similarity: float,
        request: Request,
        where: str,
        *,
        filtered: bool,
        by_units: bool,
    ) -> Promise:
        """Return how to find everything above a similarity, and what comes of it.

        Parameters
        ----------
        passing : sequence of ndarray
            Which rows of each part count.
        filtered : bool
            Whether a filter took some out, besides what was deleted.
        by_units : bool
            Whether waiting vectors are tested by open units, at the level of the model, instead of
            one by one.
        """
        if request.guarantee == "exact" or not (state.segments or by_units):
            return _exact(request, similarity)
        if not state.segments:
            by_law = Certificate("model", similarity=similarity, miss_rate=request.miss_rate)
            return Promise(request, Lines.one(similarity, np.zeros(1)), by_law)
        sample = self._samples.of(state)
        joint = self._joint(state, sample, passing, self._least)
        slack = joint.for_range(similarity, request, where)
        table = joint.promises.calibration.table
        certificate = _of_sample(slack.certificate, sample, state)
        if table is not None and (filtered or certificate.deleted > 0):
            # How many of those that drawn matches stand for were taken out, nobody counted.
            drawn = bool((table.copies > 1).any())
            certificate = replace(certificate, estimated=certificate.estimated or drawn)
        if filtered:
            about = _NOT_CALIBRATED
            if certificate.natural and table is not None:
                known = table.effective_rows(similarity) >= _FEWEST_DRAWN
                about = _CALIBRATED if known else _NOT_CALIBRATED
            certificate = replace(certificate, filter=about)
        if by_units and not certificate.complete:
            certificate = Certificate("model", similarity=similarity, miss_rate=request.miss_rate)
        return Promise(request, slack.lines, certificate, waiting=self._waiting(state, request))

    def _waiting(self, state: State, request: Request) -> WaitingCodes | None:
        """Return what waits and is scanned by codes; none where a rate allows for no loss."""
        return self._codes.of(state) if request.miss_rate >= _LEAST_RATE else None

    def needed_slack(
        self, state: State, similarity: float, request: Request, level: Level
    ) -> tuple[NeededSlack, Float64Array] | None:
        """Return how to tell the slack that matches need, and that of the calibration queries."""
        return self._living(state).promises.needed_slack(similarity, request, level)

    def support(self, state: State, similarity: float) -> tuple[int, int]:
        """Return how many calibration queries have living matches, and how many are needed."""
        promises = self._living(state).promises
        return promises.calibration.n_calibration_queries(similarity), promises.queries_needed

    def _living(self, state: State) -> JointPromise:
        """Return the promise for ranges of everything that was not deleted."""
        alive = [part.alive for part in state.parts]
        return self._joint(state, self._samples.of(state), alive, self._least)

    def of_best(
        self,
        state: State,
        passing: Sequence[BoolArray],
        k: int,
        request: Request,
        where: str,
        *,
        filtered: bool,
        scanned: bool = False,
    ) -> Promise:
        """Return how to find the k nearest, and what comes of it.

        Parameters
        ----------
        passing, filtered
            As in :meth:`of_range`.
        scanned : bool
            Whether so few pass that all of them are compared.
        """
        if scanned or not state.segments:
            return _exact(request, None)
        if request.guarantee == "exact":
            fast = request._replace(guarantee="expected", explicit=False)
            first = self.of_best(state, passing, k, fast, where, filtered=filtered)
            return replace(_exact(request, None), first=first)
        sample = self._samples.of(state)
        # What was deleted has left gaps in the ranks, as a filter does.
        has_gaps = any(part.n_alive < len(part.keys) for part in state.segments)
        best = None
        if filtered or has_gaps:
            best = self._best_passing(state, sample, passing, k, request)
        about = _CALIBRATED if best else _NOT_CALIBRATED
        if best is None:
            joint = self._joint(state, sample, [part.alive for part in state.parts], -np.inf)
            slack, tries = joint.for_best(k, request, where)
            if has_gaps and not slack.certificate.complete:
                slack = joint.promises.calibration.everything(None, request.miss_rate)
            best = Best(slack, tuple(tries))
        certificate = _of_sample(best.slack.certificate, sample, state)
        if filtered and not certificate.complete:
            certificate = replace(certificate, filter=about)
        waiting = self._waiting(state, request)
        return Promise(request, best.slack.lines, certificate, best.tries, waiting)

    def _best_passing(
        self,
        state: State,
        sample: Sample,
        passing: Sequence[BoolArray],
        k: int,
        request: Request,
    ) -> Best | None:
        """Return how to find the k nearest that pass; None where too little is known of them."""
        arrays = tuple(passing[: len(state.segments)])

        def made() -> _Ranked:
            whole = self._whole(state, sample, -np.inf)
            found = None
            if whole.table is not None:
                places = [here for here, _ in whole.places]
                sizes = [len(part.keys) for part in state.segments]
                known = known_ranks(whole.table, places, sizes, whole.counting(arrays), k)
                found = known.best(k, request, partial(self._solved, state))
            return _Ranked(arrays, found)

        name = (_numbers(state), sample.name, _names(arrays), k, request)
        return self._ranked.get(name, made).best

    def _joint(
        self, state: State, sample: Sample, passing: Sequence[BoolArray], least: float
    ) -> JointPromise:
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
            *(self._kept, self._recent, self._ranked, self._tables),
        )
        for kept in everything:
            kept.drop(lambda key: number in key[0])

    def _joint_of_counting(
        self, state: State, sample: Sample, passing: Sequence[BoolArray], least: float
    ) -> JointPromise:
        """Return the promise for the rows that count, solved before or now.

        What is deleted or filtered matters only if a calibration query has it for a match: other
        changes leave what was solved as it is.
        """
        whole = self._whole(state, sample, least)
        counts = whole.counting(passing)

        def made() -> JointPromise:
            self._watch(state)
            return self._solved(state, whole.left(counts))

        # By a digest: tables have up to a million rows.
        digest = hashlib.blake2b(np.packbits(counts).tobytes(), digest_size=16).digest()
        return self._kept.get((whole.numbers, sample.name, least, digest), made)

    def _whole(self, state: State, sample: Sample, least: float) -> JointTable:
        """Return the rows of the sample against these segments, from a cosine on."""
        numbers = _numbers(state)

        def made() -> JointTable:
            self._watch(state)
            if self._given is None:
                return JointTable.of_sample(state, sample, self._asked, least)
            return JointTable.of(self._given.table([part.rows for part in state.segments]), state)

        return self._tables.get((numbers, sample.name, least), made)

    def _solved(self, state: State, table: CalibrationTable | None) -> JointPromise:
        segments = [part.rows for part in state.segments]
        newest = segments[-1].index.evidence
        return JointPromise.of(
            [segment.index for segment in segments],
            table,
            similarity=self._settings.similarity,
            similarities=self._settings.listed,
            default=self._default,
            source="reserve" if self._given is None else "queries",
            calibrated=newest.calibrated if self._given is None else self._given.calibrated,
            state=newest.state,
            left_out=0 if self._given is None else self._given.n_left_out,
        )


class _Recent(NamedTuple):
    """A promise, with the arrays it was made for; held, so that no others take their place."""

    passing: tuple[BoolArray, ...]
    joint: JointPromise


class _Ranked(NamedTuple):
    """How the k nearest that pass are found, with the arrays of what passes, which are held."""

    passing: tuple[BoolArray, ...]
    best: Best | None


def _of_sample(certificate: Certificate, sample: Sample, state: State) -> Certificate:
    """Return a certificate that says what its calibration queries are a sample of."""
    n_living, n_stored = state.n_items, sum(len(part.keys) for part in state.parts)
    if certificate.source is not None:
        certificate = replace(certificate, deleted=(n_stored - n_living) / n_stored)
    if certificate.source != "reserve":
        return certificate
    stale = (n_living - sample.population) / n_living
    return replace(certificate, population=sample.population, stale=stale)


def _numbers(state: State) -> _Numbers:
    return tuple(part.rows.number for part in state.segments)


def _forget(promises: weakref.ref[Promises], number: int) -> None:
    if (found := promises()) is not None:
        found.forget(number)


def _names(arrays: tuple[BoolArray, ...]) -> _Names:
    return tuple(id(one) for one in arrays)


def _n_bytes(arrays: Sequence[BoolArray]) -> int:
    return sum(int(one.nbytes) for one in arrays)


def _exact(request: Request, similarity: float | None) -> Promise:
    certificate = Certificate(
        "exact", similarity=similarity, miss_rate=0.0, bound=0.0, complete=True
    )
    return Promise(request, None, certificate)


__all__ = ["Guarantee", "Promise", "Promises"]
