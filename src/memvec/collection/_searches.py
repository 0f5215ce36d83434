"""Searches over all segments and over what waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from memvec import checks
from memvec.collection._filters import Bitmaps
from memvec.collection._given import GivenQueries
from memvec.collection._ids import Id
from memvec.collection._naming import MovedError, named, pages, still_named
from memvec.collection._open_units import UNIT_SIZE, OpenUnits
from memvec.collection._question import Live, Question, default_share
from memvec.collection._reading import Reading
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.errors import CorruptIndexError, InvalidValueError
from memvec.guarantee import (
    Certificate,
    Draw,
    Guarantee,
    Health,
    Measurement,
    Plan,
    Request,
    Rule,
)
from memvec.index import check_enough, share_of_queries
from memvec.kernels import blocks
from memvec.matches import Matches
from memvec.search import (
    Explanation,
    Hits,
    Scope,
    TopHits,
    explain,
    find_nearest,
    find_range,
    measure,
    observe_nearest,
    observe_range,
)
from memvec.types import BoolArray, Float32Array

Where = Mapping[str, Any]
Online = Literal["scan", "units"]
_Result = TypeVar("_Result")

# Queries that are answered before their matches are passed on, and ids read for them at a time.
_QUERIES_AT_ONCE = 16
_IDS_AT_ONCE = 4096
# Rows of the k nearest are filled up to so many, or to the number of items.
_FILLED = 1000


class Match(NamedTuple):
    """One match of one query."""

    query: int
    id: Id
    score: float


class Searches:
    """Finds items by vector; what it is given is checked already.

    Parameters
    ----------
    store : Store
        Where the state comes from.
    reading : Reading
        Sees to it that segments are whole before they are searched.
    online : {"scan", "units"}
        How waiting vectors are searched.
    """

    def __init__(self, store: Store, reading: Reading, online: Online) -> None:
        self._store, self._reading = store, reading
        self._bitmaps = Bitmaps(store.catalog)
        # Replaced as a whole where a search may be under way.
        self.live = Live.of(store.settings)
        self._share: float | None = None
        self._open_units: OpenUnits | None = None
        if online == "units":
            settings = store.settings
            size = settings.config.unit_size
            size = UNIT_SIZE if size == "auto" else size
            self._open_units = OpenUnits(settings.dim, size, settings.config.seed)

    def forget(self) -> None:
        """Let go of what was solved for segments, and codes of what waits: both hold memory."""
        self._bitmaps, self.live = Bitmaps(self._store.catalog), Live.of(self._store.settings)
        self._open_units = None

    def request(
        self,
        miss_rate: float | None,
        guarantee: Guarantee | None,
        confidence: float | None,
        caller: str,
    ) -> Request:
        """Return what is asked for."""
        return self.live.promises.request(miss_rate, guarantee, confidence, caller)

    def range_request(
        self,
        miss_rate: float | None,
        guarantee: Guarantee | None,
        confidence: float | None,
        caller: str,
    ) -> Request:
        """Return what is asked of a range; units are tested by the law, and support no more."""
        request = self.request(miss_rate, guarantee, confidence, caller)
        if self._open_units is not None and guarantee in ("expected", "high_probability"):
            expected = "'model' or 'exact' in a collection that was opened with online='units'"
            raise InvalidValueError(checks.message("guarantee", caller, expected, repr(guarantee)))
        return request

    def similarity(self, similarity: float | None, caller: str) -> float:
        """Return α₀, that of the collection by default."""
        if similarity is None:
            return self._store.settings.similarity
        return checks.similarity(similarity, caller)

    def range(
        self,
        rows: Float32Array,
        similarity: float,
        request: Request,
        where: Where | None,
        share: float | None,
        threads: int | None,
        caller: str,
    ) -> Hits:
        """Return everything above a similarity, by id."""

        def ask(state: State) -> Hits:
            live = self.live
            question = self.question_to(state, similarity, request, where, caller)
            plan = question.range_plan(similarity, request, caller)
            found = find_range(question, rows, similarity, plan, threads)
            ids = named(self._store.catalog, found)
            certificate = self._observed(live, question, rows, found, plan, share)
            scores, spent = found.scores.astype(np.float32), found.spent
            return Hits(found.offsets, ids, scores, certificate, spent, question.searched)

        return self.of_one_state(ask)

    def counted(
        self,
        rows: Float32Array,
        similarity: float,
        request: Request,
        where: Where | None,
        threads: int | None,
        caller: str,
    ) -> Matches:
        """Return everything above a similarity, by key."""
        live = self.live
        question = self.question(similarity, request, where, caller)
        plan = question.range_plan(similarity, request, caller)
        found = find_range(question, rows, similarity, plan, threads)
        self._observed(live, question, rows, found, plan, None)
        return found

    def stream(
        self,
        rows: Float32Array,
        similarity: float,
        request: Request,
        where: Where | None,
        threads: int | None,
        caller: str,
    ) -> Iterator[Match]:
        """Yield everything above a similarity, match by match; the state is that of the call."""
        live = self.live
        question = self.question(similarity, request, where, caller)
        plan = question.range_plan(similarity, request, caller)

        def matches() -> Iterator[Match]:
            for start, stop in blocks(len(rows), _QUERIES_AT_ONCE):
                some = rows[start:stop]
                found = find_range(question, some, similarity, plan, threads)
                self._observed(live, question, some, found, plan, None)
                yield from self._matches(found, start)

        return matches()

    def _matches(self, found: Matches, first: int) -> Iterator[Match]:
        """Yield what was found, less what was compacted away while it was read."""
        for page in pages(found, _IDS_AT_ONCE):
            some = still_named(self._store.catalog, page)
            ids = named(self._store.catalog, some)
            queries = (some.queries + first).tolist()
            for query, name, score in zip(queries, ids, some.scores.tolist(), strict=True):
                yield Match(query, name, score)

    def nearest(
        self,
        rows: Float32Array,
        wanted: int,
        request: Request,
        where: Where | None,
        threads: int | None,
        caller: str,
    ) -> TopHits:
        """Return the nearest items, by id."""

        def ask(state: State) -> TopHits:
            live = self.live
            k = min(wanted, max(state.n_items, _FILLED))
            question = self.question_to(state, 0.0, request, where, caller, one_by_one=True)
            plan = question.nearest_plan(k, request, caller)
            found = find_nearest(question, rows, k, plan, threads)
            ids = named(self._store.catalog, found)
            certificate = observe_nearest(live.monitor, rows, found, plan.certificate)
            scores, spent = found.scores.astype(np.float32), found.spent
            searched = question.searched
            return TopHits.of(Hits(found.offsets, ids, scores, certificate, spent, searched), k)

        return self.of_one_state(ask)

    def explain(
        self,
        query: Float32Array,
        name: Id,
        similarity: float,
        request: Request,
        caller: str,
    ) -> Explanation:
        """Tell what the stages see of a query and an item, wherever it lies."""
        # Together: a replaced item has another key in the state before.
        state, keys = self._reading.found([name], caller)
        question = self.question_to(state, similarity, request, None, caller)
        plan = question.range_plan(similarity, request, caller)
        key = np.array([keys[name]])
        scope, row = _place_of(question, keys[name])
        [vector] = state.vectors(key, self._store.settings.dim)
        return explain(scope.source, vector, row, name, query, similarity, plan, question.searched)

    def measure(
        self,
        rows: Float32Array,
        similarity: float,
        request: Request,
        where: Where | None,
        caller: str,
        progress: bool | None,
    ) -> Measurement:
        """Compare answers with the exhaustive search."""
        question = self.question(similarity, request, where, caller)
        return measure(question, rows, similarity, request, caller, progress)

    @property
    def shadow(self) -> float:
        """The share of queries that are compared with the exhaustive search."""
        return self._shadow(self._reading.state())

    @shadow.setter
    def shadow(self, share: float) -> None:
        self._share = share_of_queries(share, "Collection.shadow")

    @property
    def health(self) -> Health:
        """How the promise is being kept."""
        return self.live.monitor.health

    def recalibrate(
        self, rows: Float32Array | None, progress: bool | None, caller: str
    ) -> Certificate:
        """Solve anew on recent queries, or on queries given."""
        settings, monitor = self._store.settings, self.live.monitor
        recent = monitor.recent
        if rows is None:
            rows = monitor.recent_rows(settings.dim)
        state, level = self._reading.state(), settings.similarity
        given = GivenQueries(rows)
        made = Live.of(settings, given, recent)
        have, needed = 0, Rule("expected", settings.miss_rate).queries_needed
        if len(rows) and state.segments:
            self._reading.check_segments(state)
            given.find([part.rows for part in state.segments], progress)
            have, needed = made.promises.support(state, level)
        check_enough(have, needed, level, len(rows), given.n_left_out, caller)
        recent.remember([Draw.of(row, settings.config.seed).digest for row in rows])
        self.live = made
        request = made.promises.request(None, None, None, caller)
        question = self.question_to(state, level, request, None, caller)
        return question.range_plan(level, request, caller).certificate

    def question(
        self,
        similarity: float,
        request: Request,
        where: Where | None,
        caller: str,
        *,
        one_by_one: bool = False,
    ) -> Question:
        """Return a range as it is asked of the state now; `one_by_one` leaves open units out."""
        return self.of_one_state(
            lambda state: self.question_to(
                state, similarity, request, where, caller, one_by_one=one_by_one
            )
        )

    def question_to(
        self,
        state: State,
        similarity: float,
        request: Request,
        where: Where | None,
        caller: str,
        *,
        one_by_one: bool = False,
    ) -> Question:
        """Return a question to a state, the files of its segments checked at first use."""
        passing = self._bitmaps.passing(state, where, caller)
        self._reading.check_segments(state)
        units = None if one_by_one else self._open_units
        filtered = where is not None
        return Question(self.live.promises, state, passing, filtered, request, similarity, units)

    def _observed(
        self,
        live: Live,
        question: Question,
        rows: Float32Array,
        found: Matches,
        plan: Plan,
        share: float | None,
    ) -> Certificate:
        """Take note of live queries, unless a new calibration came between."""
        if live is not self.live:
            return plan.certificate
        share = self._shadow(question.state) if share is None else share
        return observe_range(question, live.monitor, rows, found, plan, question.request, share)

    def _shadow(self, state: State) -> float:
        if self._share is not None:
            return self._share
        return default_share(state, self._store.settings.dim)

    def of_one_state(self, ask: Callable[[State], _Result]) -> _Result:
        """Answer on one state; on the next, where what was found is compacted away meanwhile."""
        while True:
            state = self._reading.state()
            try:
                return ask(state)
            except MovedError:
                if not self._store.read_only:
                    # Reads nothing, unless an interrupt came between a commit and memory.
                    self._store.refresh()
                if self._store.state is state:
                    text = "is damaged: a vector belongs to no item"
                    raise CorruptIndexError(f"{self._store.catalog.path} {text}.") from None

    def passing(self, where: Where | None, caller: str) -> tuple[State, list[BoolArray]]:
        """Return a state, and which rows of each of its parts pass."""
        return self.of_one_state(lambda state: (state, self._bitmaps.passing(state, where, caller)))


def _place_of(question: Question, key: int) -> tuple[Scope, int]:
    """Return where an item lies, and its row there."""
    for part, scope in zip(question.state.parts, question.scopes, strict=True):
        here, rows = part.find(np.array([key]))
        if here.any():
            return scope, int(rows[0])
    raise CorruptIndexError(f"The collection is damaged: the item of key {key} has no vector.")
