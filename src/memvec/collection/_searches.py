"""Searches of a collection: one question to one state, over its segments and waiting rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from memvec import checks
from memvec.collection._given import GivenQueries
from memvec.collection._ids import Id
from memvec.collection._naming import MovedError, named, pages, still_named
from memvec.collection._open_units import UNIT_SIZE, OpenUnits
from memvec.collection._promises import JointPromises
from memvec.collection._question import Live, Question, default_share
from memvec.collection._reading import Carried, Content, Where
from memvec.collection._roles import Held, Reader
from memvec.collection._state import State
from memvec.collection._streams import MatchBlock, RangeStream
from memvec.errors import CorruptIndexError
from memvec.guarantee import (
    Certificate,
    Draw,
    Guarantee,
    Health,
    Measurement,
    Plan,
    Request,
    Rule,
    SolvedPlans,
)
from memvec.index import check_enough, share_of_queries
from memvec.kernels import StoredRows, blocks
from memvec.matches import Matches
from memvec.metric import checked_level, scores_of
from memvec.search import (
    Explanation,
    Hits,
    IdArray,
    Scope,
    Source,
    TopHits,
    explain,
    find_nearest,
    find_range,
    measure,
    observe_nearest,
    observe_range,
    search_scopes,
)
from memvec.types import BoolArray, Float32Array

Online = Literal["scan", "units"]
_Result = TypeVar("_Result")

# Queries that are answered before their matches are passed on, and ids read for them at a time.
_QUERIES_AT_ONCE = 16
_IDS_AT_ONCE = 4096
# Without an order, so many pairs of a query and a row are looked at before matches are passed on:
# if all match, they take 24 MB.
_PAIRS_AT_ONCE = 1 << 20
# Rows of the k nearest are filled up to so many, or to the number of items.
_FILLED = 1000


class Inquiry(NamedTuple):
    """What is asked for, checked.

    Attributes
    ----------
    similarity : float
        α₀, of a range.
    request : Request
        What is to be promised.
    where : mapping or None
        The filter.
    threads : int or None
        How many share the queries.
    caller : str
        The method that users called, for errors.
    """

    similarity: float
    request: Request
    where: Where | None
    threads: int | None
    caller: str


class Searches:
    """Finds items by vector; what it is given is checked already.

    Parameters
    ----------
    store : Held
        Where the state comes from.
    reading : Reader
        Sees to it that segments are whole before they are searched.
    online : {"scan", "units"}
        How waiting vectors are searched.
    solved : SolvedPlans or None
        Where ranges that were solved are kept; None keeps them in memory alone.
    """

    def __init__(
        self, store: Held, reading: Reader, online: Online, solved: SolvedPlans | None
    ) -> None:
        self._store, self._reading, self._solved = store, reading, solved
        # Replaced as a whole where a search may be under way.
        self.live = Live.of(store.settings, solved=self._solved)
        self._share: float | None = None
        self._open_units: OpenUnits | None = None
        if online == "units":
            settings = store.settings
            size = settings.config.unit_size
            size = UNIT_SIZE if size == "auto" else size
            self._open_units = OpenUnits(settings.dim, size, settings.config.seed)

    def forget(self) -> None:
        """Let go of what was solved for segments, and codes of what waits: both hold memory."""
        self.live = Live.of(self._store.settings, solved=self._solved)
        self._open_units = None

    def solve_ahead(self) -> None:
        """Solve the ranges that are asked for first, and keep them in the folder."""
        state = self._store.state
        for part in state.segments:
            part.rows.check_sizes()
        if state.segments:
            # What it reads and finds on the way is given up again.
            joint = JointPromises(self._store.settings, solved=self._solved)
            joint.for_ranges(state, [part.alive for part in state.parts]).solve_ahead()
            for part in state.segments:
                part.rows.forget_pages()

    def inquiry(
        self,
        level: tuple[float | None, float | None],
        promise: tuple[float | None, Guarantee | None, float | None],
        where: Where | None,
        threads: int | None,
        caller: str,
        *,
        of_range: bool = True,
    ) -> Inquiry:
        """Return what is asked for.

        `level` is similarity and radius, `promise` is miss rate, guarantee and confidence; all may
        be None. Of a range, open units are tested by the law, and support no more.
        """
        settings = self._store.settings
        similarity = checked_level(settings.metric, *level, settings.similarity, caller)
        request = self.live.promises.request(*promise, caller)
        guarantee = promise[1]
        by_law = of_range and self._open_units is not None
        if by_law and guarantee in ("expected", "high_probability"):
            expected = "'model' or 'exact' in a collection that was opened with online='units'"
            raise checks.bad_value("guarantee", caller, expected, repr(guarantee))
        return Inquiry(similarity, request, where, checks.threads(threads, caller), caller)

    def range(
        self, rows: Float32Array, asked: Inquiry, share: float | None, include: frozenset[Content]
    ) -> Hits:
        """Return everything above a similarity, by id, with what is included of the items."""

        def ask(state: State) -> Hits:
            live, question = self.live, self.question_to(state, asked)
            found, plan = self._found(question, rows, asked)
            ids, keys = named(self._reading.names, found)
            certificate = self._observed(live, question, rows, found, plan, share)
            carried = self._reading.carried(state, keys, include)
            return _hits(found, ids, certificate, question, carried)

        return self.of_one_state(ask)

    def counted(self, rows: Float32Array, asked: Inquiry) -> Matches:
        """Return everything above a similarity, by key."""

        def ask(state: State) -> Matches:
            live, question = self.live, self.question_to(state, asked)
            found, plan = self._found(question, rows, asked)
            self._observed(live, question, rows, found, plan, None)
            return found

        return self.of_one_state(ask)

    def _found(
        self, question: Question, rows: Float32Array, asked: Inquiry
    ) -> tuple[Matches, Plan]:
        plan = question.range_plan(asked.similarity, asked.request, asked.caller)
        return find_range(question, rows, asked.similarity, plan, asked.threads), plan

    def stream(self, rows: Float32Array, asked: Inquiry, *, ordered: bool) -> RangeStream:
        """Return everything above a similarity, as it is asked for; the state is that of the call.

        Where it is not ordered, blocks hold the matches of some queries among some rows.
        """
        live, question = self.live, self.question(asked)
        plan = question.range_plan(asked.similarity, asked.request, asked.caller)
        metric = question.searched.metric

        def whole() -> Iterator[MatchBlock]:
            for start, stop in blocks(len(rows), _QUERIES_AT_ONCE):
                some = rows[start:stop]
                found = find_range(question, some, asked.similarity, plan, asked.threads)
                self._observed(live, question, some, found, plan, None)
                yield from self._matches(found, start)

        def parts() -> Iterator[MatchBlock]:
            for start, scopes in _small_parts(question.joined_scopes, len(rows)):
                some = rows[start : start + _queries_at_once(scopes)]
                thresholds = plan.thresholds
                found = search_scopes(scopes, some, asked.similarity, thresholds, asked.threads)
                yield from self._matches(found, start)

        certificate = live.monitor.marked(plan.certificate).in_metric(metric)
        return RangeStream(whole() if ordered else parts(), certificate, question.searched)

    def _matches(self, found: Matches, first: int) -> Iterator[MatchBlock]:
        """Yield what was found, less what was compacted away while it was read."""
        for page in pages(found, _IDS_AT_ONCE):
            some = still_named(self._reading.names, page)
            ids, _ = named(self._reading.names, some)
            scores = scores_of(self._store.settings.metric, some.scores)
            yield MatchBlock(some.queries + first, ids, scores)

    def nearest(
        self, rows: Float32Array, wanted: int, asked: Inquiry, include: frozenset[Content]
    ) -> TopHits:
        """Return the nearest items, by id, with what is included of them."""

        def ask(state: State) -> TopHits:
            live, question = self.live, self.question_to(state, asked, one_by_one=True)
            k = min(wanted, max(state.n_items, _FILLED))
            plan = question.nearest_plan(k, asked.request, asked.caller)
            found = find_nearest(question, rows, k, plan, asked.threads)
            ids, keys = named(self._reading.names, found)
            certificate = observe_nearest(live.monitor, rows, found, plan.certificate)
            carried = self._reading.carried(state, keys, include)
            return TopHits.of(_hits(found, ids, certificate, question, carried), k)

        return self.of_one_state(ask)

    def explain(self, query: Float32Array, name: Id, asked: Inquiry) -> Explanation:
        """Tell what the stages see of a query and an item, wherever it lies."""
        # Together: a replaced item has another key in the state before.
        state, keys = self._reading.found([name], asked.caller, "id")
        question = self.question_to(state, asked)
        plan = question.range_plan(asked.similarity, asked.request, asked.caller)
        source, row = _place_of(question, keys[name])
        settings = self._store.settings
        vector = StoredRows.of(state.vectors(np.array([keys[name]]), settings.dim), settings.dtype)
        similarity, searched = asked.similarity, question.searched
        return explain(source, vector, row, name, query, similarity, plan, searched)

    def measure(self, rows: Float32Array, asked: Inquiry, progress: bool | None) -> Measurement:
        """Compare answers with the exhaustive search."""
        similarity, request, _, _, caller = asked

        def ask(state: State) -> Measurement:
            question = self.question_to(state, asked)
            return measure(question, rows, similarity, request, caller, progress)

        return self.of_one_state(ask)

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
        return self.live.monitor.health.in_metric(self._store.settings.metric)

    def recalibrate(
        self, rows: Float32Array | None, progress: bool | None, caller: str
    ) -> Certificate:
        """Solve anew on recent queries, or on queries given."""
        settings, monitor = self._store.settings, self.live.monitor
        # Looks that wait are worked out even where queries are given: they are recent ones, too.
        recent, seen = monitor.recent, monitor.recent_rows(settings.dim)
        rows = seen if rows is None else rows
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
        asked = self.inquiry((None, None), (None, None, None), None, None, caller)
        plan = self.question_to(state, asked).range_plan(level, asked.request, caller)
        return plan.in_metric(settings.metric).certificate

    def question(self, asked: Inquiry, *, one_by_one: bool = False) -> Question:
        """Return what is asked of the state now; `one_by_one` leaves open units out."""
        return self.of_one_state(
            lambda state: self.question_to(state, asked, one_by_one=one_by_one)
        )

    def question_to(self, state: State, asked: Inquiry, *, one_by_one: bool = False) -> Question:
        """Return what is asked of a state, the files of its segments checked at first use."""
        similarity, request, where, _, caller = asked
        passing = self._reading.passing(state, where, caller)
        self._reading.check_segments(state)
        units, filtered = None if one_by_one else self._open_units, where is not None
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
        known = self.live.promises.known(state)
        if known.share is None:
            known.share = default_share(state, self._store.settings.dim)
        return known.share

    def of_one_state(self, ask: Callable[[State], _Result]) -> _Result:
        """Answer on one state; on the next, where what was found is compacted away meanwhile."""
        while True:
            state = self._reading.state()
            try:
                return ask(state)
            except MovedError:
                self._catch_up()
                if self._store.state is state:
                    text = "is damaged: a vector belongs to no item"
                    raise CorruptIndexError(f"{self._store.folder} {text}.") from None

    def _catch_up(self) -> None:
        if not self._store.read_only:
            # Reads nothing, unless an interrupt came between a commit and memory.
            self._store.refresh()

    def passing(self, where: Where | None, caller: str) -> tuple[State, list[BoolArray]]:
        """Return a state, and which rows of each of its parts pass."""
        return self.of_one_state(lambda state: (state, self._reading.passing(state, where, caller)))


def _hits(
    found: Matches, ids: IdArray, certificate: Certificate, question: Question, carried: Carried
) -> Hits:
    """Return what was found as users see it."""
    searched, metric = question.searched, question.searched.metric
    scores, certificate = scores_of(metric, found.scores), certificate.in_metric(metric)
    return Hits(found.offsets, ids, scores, certificate, found.spent, searched, *carried)


def _small_parts(scopes: Sequence[Scope], n_queries: int) -> Iterator[tuple[int, list[Scope]]]:
    """Yield the first query and the rows of each part of a question that fits into memory.

    Rows of a large scope come in several parts, each of which tests the units anew.
    """
    small = sum(len(scope.source) for scope in scopes) <= _PAIRS_AT_ONCE
    for part in [list(scopes)] if small else [[one] for scope in scopes for one in _cut(scope)]:
        for start in range(0, n_queries, _queries_at_once(part)):
            yield start, part


def _cut(scope: Scope) -> Iterator[Scope]:
    """Yield a scope in pieces of a bounded number of rows."""
    n_rows = len(scope.source)
    allowed = scope.allowed if len(scope.allowed) else np.ones(n_rows, dtype=bool)
    for start, stop in blocks(n_rows, _PAIRS_AT_ONCE):
        here = np.zeros(n_rows, dtype=bool)
        here[start:stop] = allowed[start:stop]
        yield scope._replace(allowed=here)


def _queries_at_once(scopes: Sequence[Scope]) -> int:
    n_rows = min(_PAIRS_AT_ONCE, sum(len(scope.source) for scope in scopes))
    return max(1, _PAIRS_AT_ONCE // max(1, n_rows))


def _place_of(question: Question, key: int) -> tuple[Source, int]:
    """Return where an item lies, and its row there."""
    for part, scope in zip(question.state.parts, question.own_scopes, strict=True):
        here, rows = part.find(np.array([key]))
        if here.any():
            return scope.source, int(rows[0])
    raise CorruptIndexError(f"The collection is damaged: the item of key {key} has no vector.")
