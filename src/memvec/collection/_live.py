"""What a collection sees of live queries."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from memvec.collection._answers import Answer, scan_rows
from memvec.collection._given import GivenQueries
from memvec.collection._promise import Promise, Promises
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.evaluation import Ranges
from memvec.guarantee import Certificate, Level, RecentQueries
from memvec.index import (
    Asked,
    Monitor,
    NeededSlack,
    Request,
    Work,
    search_everything,
    seen_pairs,
    shadow_share,
)
from memvec.types import Float32Array, Float64Array, IntArray

# The watch for drift starts again where so much more of the segments was deleted.
_DELETED_STEPS = 20


class Live:
    """What searches use and what they leave behind; a new calibration replaces it as a whole.

    Attributes
    ----------
    promises : Promises
        What searches may ask for.
    monitor : Monitor
        What was seen of them.
    """

    def __init__(
        self,
        settings: Settings,
        given: GivenQueries | None = None,
        recent: RecentQueries | None = None,
    ) -> None:
        self.promises = Promises(settings, given)
        self.monitor = Monitor(settings.config.seed, recent)

    def observed(
        self,
        state: State,
        rows: Float32Array,
        answer: Answer,
        promise: Promise,
        share: float,
        *,
        filtered: bool,
    ) -> Certificate:
        """Take note of live queries, and return the certificate with what is known against it.

        What a filter leaves is neither watched nor compared, nor are answers that miss nothing.
        """
        certificate, monitor = promise.certificate, self.monitor
        similarity = certificate.similarity
        plain = not filtered and not certificate.complete
        looked_at, compared = monitor.count(len(rows), share if plain else 0.0)
        if looked_at:
            question = None
            if plain and certificate.natural:
                question = self._question(state, promise)
            monitor.look_at(looked_at, rows, answer.ranges(len(rows)), question)
        if not plain or similarity is None:
            return certificate
        asked = Asked(similarity, promise.request.allowed, certificate.level)
        if compared:
            found = answer.ranges(len(rows))
            truth = partial(truth_of, state, similarity)
            monitor.compare(compared, rows, found, asked, truth)
        return monitor.marked(certificate, asked)

    def _question(self, state: State, promise: Promise) -> CollectionQuestion:
        """Return a range as the watch for drift sees it."""
        certificate = promise.certificate
        assert certificate.similarity is not None
        return CollectionQuestion(
            self.promises,
            weakref.ref(state),
            certificate.similarity,
            promise.request,
            certificate.level,
        )


@dataclass(frozen=True)
class CollectionQuestion:
    """A range that a collection is asked for, as the watch for drift sees it.

    The state is not held: what was compacted away since must leave the disk.
    """

    promises: Promises
    state: weakref.ref[State]
    similarity: float
    request: Request
    level: Level

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
        return self.promises.needed_slack(state, self.similarity, self.request, self.level)

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
            found = seen_pairs(part.rows.index, queries, query_of[here], rows)
            if scores.shape[1] != found[0].shape[1]:
                scores, slopes = np.full((2, len(ids), found[0].shape[1]), np.nan, np.float32)
            scores[here], slopes[here] = found
        return scores, slopes


def truth_of(state: State, similarity: float, rows: Float32Array) -> Ranges:
    """Return everything living above a similarity, by comparing everything."""
    answers = []
    for part in state.segments:
        found = search_everything(part.rows.index, rows, similarity)
        query_of = np.repeat(np.arange(len(rows)), np.diff(found.offsets))
        alive = part.alive[found.ids]
        keys = part.keys[found.ids[alive]]
        scores = np.ones(len(keys), dtype=np.float32)
        answers.append(Answer(query_of[alive], keys, scores, Work(0, 0, 0, 0, 0, 0, 0)))
    waiting = state.waiting
    answers.append(scan_rows(waiting, np.flatnonzero(waiting.alive), rows, similarity, None))
    return Answer.of_parts(answers, len(rows), 0).ordered().ranges(len(rows))


def default_share(state: State, dim: int) -> float:
    """Return the share of queries to compare by default: at most 2 % of the time."""
    if not state.segments:
        return 0.0
    designs = [part.rows.index.design for part in state.segments]
    times = [design.expected_microseconds for design in designs]
    known = None if None in times else sum(time for time in times if time is not None)
    return shadow_share(known, state.n_items, dim)


__all__ = ["CollectionQuestion", "Live", "default_share", "truth_of"]
