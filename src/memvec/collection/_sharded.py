"""Several shards, searched as one collection with one certificate."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from memvec.collection._collection import Collection
from memvec.collection._joined_state import JoinedState
from memvec.collection._joins import Joins
from memvec.collection._naming import MovedError
from memvec.collection._question import Live, Question
from memvec.collection._searches import Inquiry, Searches
from memvec.collection._shard import Sought
from memvec.collection._sharded_parts import ShardedReading, ShardedWriting
from memvec.collection._sharded_store import Link, ShardedStore
from memvec.collection._state import State
from memvec.collection._streams import PairStream, RangeStream
from memvec.collection._waiting_source import WaitingSource
from memvec.errors import ShardError, StorageError
from memvec.guarantee import Plan, Request, Thresholds
from memvec.matches import Matches
from memvec.search import ALL_ALLOWED, Scope, StageView
from memvec.storage import CheckReport
from memvec.types import BoolArray, Float32Array, IntArray

_Result = TypeVar("_Result")


class SharedRows:
    """Queries as all shards are given them: shared once, however many shards are asked."""

    def __init__(self) -> None:
        self._rows: Float32Array | None = None
        self._shared: Any = None

    def of(self, link: Link, rows: Float32Array) -> Any:
        """Return rows as an argument for links."""
        if rows is not self._rows:
            self._rows, self._shared = rows, link.share(rows)
        return self._shared


@dataclass(frozen=True, eq=False)
class ShardSource:
    """A shard as a source; ids are keys, or rows by rising key where `keys` are given.

    Attributes
    ----------
    store : ShardedStore
        Is told when a shard has a newer state.
    link : Link
        The way to the shard.
    state : State
        Of the shard.
    request : Request
        What is to be promised.
    where : mapping or None
        The filter.
    shared : SharedRows
        The queries, for all shards of a question.
    keys : ndarray of int or None
        All keys of the shard, rising.
    """

    store: ShardedStore
    link: Link
    state: State
    request: Request
    where: Any
    shared: SharedRows
    keys: IntArray | None = None

    def __len__(self) -> int:
        return sum(len(part.keys) for part in self.state.parts)

    def begin(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
        everything: bool = False,
    ) -> Callable[[], Matches]:
        """Begin a search; return what waits for its end."""
        packed = np.packbits(allowed).tobytes() if len(allowed) else None
        change = self.state.change
        sought = Sought(
            change, similarity, thresholds, self.request, self.where, threads, packed, everything
        )
        waiting = self.link.begin("find", self.shared.of(self.link, queries), sought)

        def answer() -> Matches:
            found, newest, ids = waiting()
            self.store.remember(ids)
            if newest != change:
                self.store.outdated()
            if self.keys is None:
                return found  # type: ignore[no-any-return]
            rows = np.searchsorted(self.keys, found.ids)
            return Matches(found.offsets, rows, found.scores, found.spent)

        return answer

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return everything above a similarity that passes the thresholds; None misses nothing."""
        return self.begin(queries, similarity, thresholds, threads, allowed)()

    def compare_all(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Matches:
        """Return everything above a similarity, by comparing everything that is allowed."""
        return self.begin(queries, similarity, None, threads, allowed, True)()

    def see(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return NaN: what stages see is asked of the segments."""
        unseen = np.full((len(ids), 1), np.nan, dtype=np.float32)
        return unseen, unseen

    def stages(
        self, query: Float32Array, row: int, thresholds: Thresholds | None
    ) -> tuple[StageView, ...]:
        """Return nothing: what stages see is asked of the segments."""
        return ()


@dataclass(frozen=True, eq=False)
class ShardedQuestion(Question):
    """A question to the shards of a store; plans are those of their joined state."""

    store: ShardedStore | None = None
    where: Any = None

    @cached_property
    def _sources(self) -> list[ShardSource]:
        assert self.store is not None
        shared, links = SharedRows(), self.store.links
        return [
            ShardSource(self.store, links[number], state, self.request, self.where, shared)
            for number, state in _joined(self.state).of_shards.items()
        ]

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The shards."""
        return tuple(Scope(source) for source in self._sources)

    @property
    def joined_scopes(self) -> tuple[Scope, ...]:
        """The shards, with all their keys and which of them count."""
        everything = [part.keys for part in self.state.parts]
        keys = np.concatenate(everything)
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], np.concatenate(self.passing)[order]
        ends = np.cumsum([len(source) for source in self._sources])[:-1]
        return tuple(
            Scope(replace(source, keys=some), some, allowed)
            for source, some, allowed in zip(
                self._sources, np.split(keys, ends), np.split(counts, ends), strict=True
            )
        )

    @cached_property
    def waiting(self) -> WaitingSource:
        """The rows that wait, for those who explain them: each is compared with the query."""
        rate = self.request.miss_rate
        return WaitingSource(self.state.waiting, None, None, self.similarity, rate)

    def range_plan(self, similarity: float, request: Request, where: str) -> Plan:
        """Return how to find everything above a similarity, and what comes of it."""
        return self._of_answering(super().range_plan(similarity, request, where))

    def nearest_plan(self, k: int, request: Request, where: str) -> Plan:
        """Return how to find the k nearest, and what comes of it."""
        return self._of_answering(super().nearest_plan(k, request, where))

    def _of_answering(self, plan: Plan) -> Plan:
        """Return a plan whose certificate names the shards that do not answer."""
        if not (missing := _joined(self.state).missing):
            return plan
        told = replace(plan.certificate, missing_shards=missing, complete=False)
        return replace(plan, certificate=told)


def _joined(state: State) -> JoinedState:
    assert isinstance(state, JoinedState)
    return state


class ShardedSearches(Searches):
    """Searches of shards: one question to the joined state of all of them."""

    def __init__(self, store: ShardedStore, reading: ShardedReading) -> None:
        super().__init__(store, reading, "scan", None)
        self._shards = store
        self.live = Live.of(store.settings, ask=store.ask)

    def question_to(self, state: State, asked: Inquiry, *, one_by_one: bool = False) -> Question:
        """Return what is asked of a state."""
        similarity, request, where, _, caller = asked
        passing = self._reading.passing(state, where, caller)
        return ShardedQuestion(
            self.live.promises,
            state,
            passing,
            where is not None,
            request,
            similarity,
            store=self._shards,
            where=where,
        )

    def of_one_state(self, ask: Callable[[State], _Result]) -> _Result:
        """Answer on one state; where a shard is lost, on that of the others, if that is allowed."""
        while True:
            try:
                return super().of_one_state(ask)
            except ShardError as lost:
                self._shards.lose(lost)

    def _catch_up(self) -> None:
        """Read the state anew, a reader's too: a shard that came back has no other."""
        self._shards.refresh()

    def stream(self, rows: Float32Array, asked: Inquiry, *, ordered: bool) -> RangeStream:
        """Return everything above a similarity, as it is asked for; the state is that of the call.

        The shards keep that state until the stream is gone.
        """
        made = super().stream(rows, asked, ordered=ordered)
        return RangeStream(_of_kept_state(made.blocks()), made.certificate, made.searched)


class ShardedJoins(Joins):
    """Joins of shards, each of one state, which the shards keep until the stream is gone."""

    def pairs(self, asked: Inquiry, collapse_copies: bool, progress: bool | None) -> PairStream:
        """Return all pairs of items above a similarity, each once, as they are found."""
        made = super().pairs(asked, collapse_copies, progress)
        return PairStream(_of_kept_state(made.blocks()), made.certificate)


def _of_kept_state(found: Iterator[_Result]) -> Iterator[_Result]:
    """Yield what is found in a state, or say that it is gone."""
    try:
        yield from found
    except MovedError:
        text = "A shard was restarted, and no longer has the state that is read here. Ask again."
        raise StorageError(errno.ESTALE, text) from None


class ShardedCollection(Collection):
    """A collection in several folders, each of them an ordinary one; made by `memvec.cluster.open`.

    A hash of its id determines the shard of an item; items are listed shard by shard. What one call
    adds to a shard is added completely or not at all. Calibration queries are a sample of all
    shards, and every shard answers them, so an answer has one certificate. The first and the last
    item of a group of duplicates are those of this order.

    Examples
    --------
    >>> import tempfile
    >>> from memvec.cluster import open
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/animals", shards=2, dim=3, local=True) as animals:
    ...         animals.add([[1, 0, 0], [0, 1, 0]], ids=["cat", "dog"])
    ...         animals.search([0.8, 0.6, 0], k=2).ids
    ['cat', 'dog']
    array([['cat', 'dog']], dtype=object)
    """

    def __init__(self, store: ShardedStore) -> None:
        reading = ShardedReading(store)
        searches = ShardedSearches(store, reading)
        #: The shards: the way to each, and the states that searches see.
        self.shards = store
        self._check = self._checked
        joins = ShardedJoins(store, reading, searches)
        self._take(store, reading, searches, joins, ShardedWriting(store, reading))

    @property
    def missing_shards(self) -> tuple[int, ...]:
        """Shards that do not answer and are left out, if partial answers are allowed."""
        return self.shards.missing

    @property
    def n_shards(self) -> int:
        """Number of shards, including those that do not answer."""
        return len(self.shards.links)

    def _checked(self) -> CheckReport:
        """Check every shard; one that does not answer is a problem."""
        reports: list[CheckReport] = []
        for link in self.shards.links:
            try:
                reports.append(link.begin("check")())
            except ShardError as lost:
                reports.append(CheckReport((str(lost),), 0, 0))
        try:
            for _ in self._reading.ids():
                pass  # each is looked at: it may belong to another shard
        except ShardError as lost:
            if not any(str(lost) in report.problems for report in reports):
                reports.append(CheckReport((str(lost),), 0, 0))
        return CheckReport(
            tuple(problem for report in reports for problem in report.problems),
            sum(report.n_files for report in reports),
            sum(report.n_bytes for report in reports),
        )

    def __repr__(self) -> str:
        if not self._closed:
            self._reading.state()
        told = f"{self.n_shards} shards"
        if self.missing_shards:
            told += f", {len(self.missing_shards)} missing"
        return f"Sharded{super().__repr__()[:-1]}, {told})"
