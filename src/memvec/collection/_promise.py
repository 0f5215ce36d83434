"""What an answer from all parts together promises.

Promises of single segments do not add up: the miss rate is a mean over the queries that have
matches, and each segment has other queries. Two segments that miss a half each may miss two thirds
together. So the thresholds of all segments are solved together, on the rows of the same calibration
queries. Vectors that wait pass some of the same tests or none, so they are missed no more often;
deleted or filtered ones leave the rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from memvec.collection._calibration import joint_table
from memvec.collection._code_scan import CodeScans, WaitingCodes
from memvec.collection._segment import Segment
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.guarantee import CalibrationTable, Certificate
from memvec.index import (
    Found,
    Guarantee,
    JointPromise,
    Lines,
    Request,
    Slack,
    search_bounds,
    search_lines,
)
from memvec.types import BoolArray, Float32Array

_MOST_KEPT = 32
_CONFIDENCE = 0.95
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
    """

    request: Request
    lines: Lines | None
    certificate: Certificate
    tries: tuple[float, ...] = ()
    waiting: WaitingCodes | None = None

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
        self, segment: Segment, queries: Float32Array, similarity: float, threads: int | None
    ) -> Found:
        """Search a segment."""
        if self.lines is None:
            return search_bounds(segment.index, queries, similarity, threads)
        return search_lines(segment.index, queries, similarity, self.lines, threads)


class Promises:
    """Promises of a collection; what was solved for some segments is kept."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._codes = CodeScans(settings)
        self._default = Request(settings.miss_rate, "expected", _CONFIDENCE, explicit=False)
        self._kept: OrderedDict[tuple[object, ...], JointPromise] = OrderedDict()
        self._table: tuple[tuple[int, ...], CalibrationTable | None] | None = None
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
        joint = self._joint(state, passing)
        slack = joint.for_range(similarity, request, where)
        certificate = slack.certificate
        if filtered:
            natural = certificate.source == "reserve"
            certificate = replace(certificate, filter=_CALIBRATED if natural else _NOT_CALIBRATED)
        if by_units and not certificate.complete:
            certificate = Certificate("model", similarity=similarity, miss_rate=request.miss_rate)
        waiting = self._codes.of(state)
        return Promise(request, slack.lines, certificate, waiting=waiting)

    def of_best(
        self,
        state: State,
        passing: Sequence[BoolArray],
        k: int,
        request: Request,
        where: str,
        *,
        filtered: bool,
    ) -> Promise:
        """Return how to find the k nearest, and what comes of it."""
        if request.guarantee == "exact" or not state.segments:
            return _exact(request, None)
        joint = self._joint(state, [part.alive for part in state.parts])
        slack, tries = joint.for_best(k, request, where)
        certificate = slack.certificate
        if filtered and not certificate.complete:
            # The k nearest that pass may be beyond the ranks that were calibrated.
            certificate = replace(certificate, filter=_NOT_CALIBRATED)
        return Promise(request, slack.lines, certificate, tuple(tries), self._codes.of(state))

    def _joint(self, state: State, passing: Sequence[BoolArray]) -> JointPromise:
        """Return the promise for the rows of segments that count.

        What is deleted or filtered matters only if a calibration query has it for a match: other
        changes leave what was solved as it is.
        """
        whole = self._whole(state)
        counts = None if whole is None else _counting(whole, state, passing)
        numbers = tuple(part.rows.number for part in state.segments)
        key = (numbers, None if counts is None else hash(counts.tobytes()))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        left = None if whole is None or counts is None else _left(whole, counts)
        made = self._solved(state, left)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def _whole(self, state: State) -> CalibrationTable | None:
        """Return the rows of all calibration queries against these segments."""
        numbers = tuple(part.rows.number for part in state.segments)
        with self._lock:
            if self._table is not None and self._table[0] == numbers:
                return self._table[1]
        table = joint_table([part.rows for part in state.segments], state.calibration)
        with self._lock:
            self._table = (numbers, table)
        return table

    def _solved(self, state: State, table: CalibrationTable | None) -> JointPromise:
        segments = [part.rows for part in state.segments]
        newest = segments[-1].index.evidence
        return JointPromise.of(
            [segment.index for segment in segments],
            table,
            similarity=self._settings.similarity,
            default=self._default,
            calibrated=newest.calibrated,
            state=newest.state,
        )


def _counting(table: CalibrationTable, state: State, passing: Sequence[BoolArray]) -> BoolArray:
    """Tell which rows of the table are matches that count."""
    counts = np.zeros(len(table), dtype=bool)
    for part, some in zip(state.segments, passing, strict=False):
        here, rows = part.find(table.keys)
        counts[here] = some[rows]
    return counts


def _left(table: CalibrationTable, counts: BoolArray) -> CalibrationTable | None:
    """Return the rows that count, ranked among themselves; None if there are none."""
    rows = table.rows(counts)
    return CalibrationTable.merged([rows]) if len(rows) else None


def _exact(request: Request, similarity: float | None) -> Promise:
    certificate = Certificate(
        "exact", similarity=similarity, miss_rate=0.0, bound=0.0, complete=True
    )
    return Promise(request, None, certificate)


__all__ = ["Guarantee", "Promise", "Promises"]
