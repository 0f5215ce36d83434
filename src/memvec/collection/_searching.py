"""Searches over all segments and over what waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np

from memvec import checks
from memvec.collection._answers import (
    Answer,
    are_few,
    best_of_parts,
    exact_best_of_parts,
    part_range,
)
from memvec.collection._filters import Bitmaps
from memvec.collection._items import Item
from memvec.collection._live import Live, default_share
from memvec.collection._lookup import Lookup
from memvec.collection._naming import MovedError, named, still_named
from memvec.collection._open_units import UNIT_SIZE, OpenUnits
from memvec.collection._promise import Guarantee, Promise, Promises
from memvec.collection._results import CollectionHits, CollectionTopHits, Match
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.errors import CorruptIndexError, InvalidValueError
from memvec.guarantee import Certificate
from memvec.index import Request, share_of_queries
from memvec.kernels import blocks
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray

Where = Mapping[str, Any]
Online = Literal["scan", "units"]
_Result = TypeVar("_Result")

# Queries that are answered before their matches are passed on, and ids read for them at a time.
_QUERIES_AT_ONCE = 16
_IDS_AT_ONCE = 4096
# Rows of the k nearest are filled up to so many, or to the number of items.
_FILLED = 1000


class Searches(Lookup):
    """The part of a collection that finds items by vector."""

    def __init__(self, store: Store, *, verify: bool, online: Online) -> None:
        super().__init__(store, verify=verify)
        self._bitmaps = Bitmaps(store.catalog)
        # Replaced as a whole where a search may be under way.
        self._live = Live(store.settings)
        self._share: float | None = None
        self._open_units: OpenUnits | None = None
        if online == "units":
            config = store.settings.config
            size = UNIT_SIZE if config.unit_size == "auto" else config.unit_size
            self._open_units = OpenUnits(self.dim, size, config.seed)

    def close(self) -> None:
        """Let the next writer in; nothing is lost without it."""
        super().close()
        # What was solved for segments, and codes of what waits, would keep their memory.
        self._bitmaps, self._live = Bitmaps(self._store.catalog), Live(self.settings)
        self._open_units = None

    @property
    def _promises(self) -> Promises:
        return self._live.promises

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        shadow: float | None = None,
        threads: int | None = None,
    ) -> CollectionHits:
        """Find everything above a similarity.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        similarity : float, optional
            α₀ in (0, 1]; that of the collection by default.
        miss_rate : float, optional
            ε in (0, 1); that of the collection by default.
        guarantee : {"expected", "model", "high_probability", "exact"}, optional
            What the answer is to promise; what the collection was created for by default, and what
            the evidence supports where that is too little. A level that is named here is kept or
            refused; with ``online="units"`` all but "model" and "exact" are.
        confidence : float, optional
            1 − δ in (0, 1), for "high_probability"; that of the collection by default.
        where : mapping, optional
            Find only items whose metadata passes this filter, such as
            ``{"year": {"$gte": 2020}, "tag": {"$in": ["a", "b"]}}``. Operators are $eq, $ne, $gt,
            $gte, $lt, $lte, $in, $nin, $exists, $and, $or and $not; a plain value means $eq.
            Numbers are compared with numbers and strings with strings; $ne and $nin hold where the
            field is missing.
        shadow : float, optional
            Compare this share of the queries with the exhaustive search and keep the tally in
            `health`; `Collection.shadow` by default. Searches with a filter are not compared.
        threads : int, optional
            How many threads share the queries; the answer does not depend on it.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/three.mv", dim=2) as collection:
        ...         ids = collection.add(
        ...             [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]],
        ...             ids=["east", "between", "north"],
        ...             metadata=[{"year": 2019}, {"year": 2020}, {"year": 2021}],
        ...         )
        ...         [row.ids.tolist() for row in collection.range_search([1.0, 0.1], 0.8)]
        ...         collection.range_search([1.0, 0.1], 0.8, where={"year": {"$gte": 2020}}).ids
        [['east', 'between']]
        array(['between'], dtype=object)
        """
        where_from = "Collection.range_search"
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        level = self._similarity(similarity, where_from)
        request = self._range_request(miss_rate, guarantee, confidence, where_from)
        share = None if shadow is None else share_of_queries(shadow, where_from)
        check_threads(threads, where_from)

        def ask(state: State) -> CollectionHits:
            live = self._live
            passing = self._bitmaps.passing(state, where, where_from)
            promise = self._promise(state, passing, level, request, where, where_from)
            answer = self._range(state, passing, rows, level, promise, threads)
            ids = named(self._store.catalog, answer)
            certificate = self._observed(live, state, rows, answer, promise, where, share)
            bounds = answer.ranges(len(rows)).offsets
            return CollectionHits(bounds, ids, answer.scores, certificate, answer.work)

        return self._of_one_state(ask)

    def iter_range(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> Iterator[Match]:
        """Yield everything above a similarity, match by match, in the order of `range_search`.

        Few queries are answered at a time, and ids are read as they are asked for: memory holds
        the scores of a few queries, however many matches there are. The state is that of the call;
        what a writer deletes and compacts away before it is asked for is left out.

        Parameters
        ----------
        queries, similarity, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        """
        where_from = "Collection.iter_range"
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        level = self._similarity(similarity, where_from)
        request = self._range_request(miss_rate, guarantee, confidence, where_from)
        check_threads(threads, where_from)
        state, passing = self._passing(where, where_from)
        live = self._live
        promise = self._promise(state, passing, level, request, where, where_from)

        def stream() -> Iterator[Match]:
            for start, stop in blocks(len(rows), _QUERIES_AT_ONCE):
                some = rows[start:stop]
                answer = self._range(state, passing, some, level, promise, threads)
                self._observed(live, state, some, answer, promise, where)
                yield from self._matches(answer, start)

        return stream()

    def _matches(self, answer: Answer, first: int) -> Iterator[Match]:
        """Yield what an ordered answer holds, less what was compacted away while it was read."""
        for page in answer.pages(_IDS_AT_ONCE):
            some = still_named(self._store.catalog, answer.taken(page))
            ids = named(self._store.catalog, some)
            queries = (some.queries + first).tolist()
            for query, name, score in zip(queries, ids, some.scores.tolist(), strict=True):
                yield Match(query, name, score)

    def count(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> IntArray:
        """Count everything above a similarity, for each query.

        Parameters
        ----------
        queries, similarity, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        """
        where_from = "Collection.count"
        request = self._range_request(miss_rate, guarantee, confidence, where_from)
        return self._counts(queries, similarity, request, where, threads, where_from)

    def contains(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> BoolArray:
        """Tell for each query whether some item is that similar.

        Parameters
        ----------
        queries, similarity, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.

        Returns
        -------
        ndarray of shape (n_queries,)
            bool.
        """
        where_from = "Collection.contains"
        request = self._range_request(miss_rate, guarantee, confidence, where_from)
        return self._counts(queries, similarity, request, where, threads, where_from) > 0

    def _counts(
        self,
        queries: ArrayLike,
        similarity: float | None,
        request: Request,
        where: Where | None,
        threads: int | None,
        where_from: str,
    ) -> IntArray:
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        level = self._similarity(similarity, where_from)
        check_threads(threads, where_from)
        state, passing = self._passing(where, where_from)
        live = self._live
        promise = self._promise(state, passing, level, request, where, where_from)
        answer = self._range(state, passing, rows, level, promise, threads)
        self._observed(live, state, rows, answer, promise, where)
        return np.bincount(answer.queries, minlength=len(rows))

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> CollectionTopHits:
        """Find the k most similar items; equally similar ones by id.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        k : int
            How many. Where fewer items pass, the rest of a row is None, with score -inf; beyond
            1,000, rows are no longer than there are items.
        miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`; ε is the share of the k nearest that may be missed.
        """
        where_from = "Collection.search"
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        return self._nearest(rows, k, request, where, threads, where_from)

    def _nearest(
        self,
        rows: Float32Array,
        k: int,
        request: Request,
        where: Where | None,
        threads: int | None,
        where_from: str,
    ) -> CollectionTopHits:
        wanted = checks.integer(k, "k", where_from)
        check_threads(threads, where_from)

        def ask(state: State) -> CollectionTopHits:
            live = self._live
            k = min(wanted, max(state.n_items, _FILLED))
            passing = self._bitmaps.passing(state, where, where_from)
            parts = list(self._checked_parts(state, passing))
            filtered = where is not None
            scanned = filtered and are_few(parts)
            promise = _settled(
                self._promises.of_best(
                    state, passing, k, request, where_from, filtered=filtered, scanned=scanned
                )
            )
            best = exact_best_of_parts if promise.is_exact else best_of_parts
            answer = best(parts, rows, k, promise, threads)
            top = self._top(answer, len(rows), k, promise)
            looked_at, _ = live.monitor.count(len(rows))
            live.monitor.look_at(looked_at, rows, answer.ranges(len(rows)), None)
            return replace(top, certificate=live.monitor.marked(top.certificate))

        return self._of_one_state(ask)

    def items(self, where: Where | None = None) -> Iterator[Item]:
        """Yield all items in the order they came, read from the disk as they are asked for.

        The state is that of the call; what a writer deletes and compacts away before it is asked
        for is left out.

        Parameters
        ----------
        where : mapping, optional
            Only those whose metadata passes; as in :meth:`range_search`.
        """
        state, passing = self._passing(where, "Collection.items")
        keys = [part.keys[some] for part, some in zip(state.parts, passing, strict=True)]
        return self._stream(state, np.sort(np.concatenate(keys)))

    def _range(
        self,
        state: State,
        passing: list[BoolArray],
        rows: Float32Array,
        similarity: float,
        promise: Promise,
        threads: int | None,
    ) -> Answer:
        by_units = self._testing_units(promise)
        answers = [
            by_units.range(part, some, rows, similarity, promise.request.miss_rate, threads)
            if by_units is not None and part is state.waiting
            else part_range(part, some, rows, similarity, promise, threads)
            for part, some in self._checked_parts(state, passing)
        ]
        n_vectors = sum(len(part.keys) for part in state.parts)
        return Answer.of_parts(answers, len(rows), n_vectors).ordered()

    def _observed(
        self,
        live: Live,
        state: State,
        rows: Float32Array,
        answer: Answer,
        promise: Promise,
        where: Where | None,
        share: float | None = None,
    ) -> Certificate:
        """Take note of live queries, unless a new calibration came between."""
        if live is not self._live:
            return promise.certificate
        share = self._shadow(state) if share is None else share
        return live.observed(state, rows, answer, promise, share, filtered=where is not None)

    def _shadow(self, state: State) -> float:
        """Return the share of queries that are compared with the exhaustive search."""
        return default_share(state, self.dim) if self._share is None else self._share

    def _top(self, answer: Answer, n_queries: int, k: int, promise: Promise) -> CollectionTopHits:
        ids = named(self._store.catalog, answer)
        bounds = answer.ranges(n_queries).offsets
        found = CollectionHits(bounds, ids, answer.scores, promise.certificate, answer.work)
        return CollectionTopHits.of(found, k)

    def _checked_parts(
        self, state: State, passing: list[BoolArray]
    ) -> Iterator[tuple[Any, BoolArray]]:
        """Yield each part and its rows that pass, the files of segments checked at first use."""
        self._check_segments(state)
        yield from zip(state.parts, passing, strict=True)

    def _of_one_state(self, ask: Callable[[State], _Result]) -> _Result:
        """Answer on one state; on the next, where what was found is compacted away meanwhile."""
        while True:
            state = self._state()
            try:
                return ask(state)
            except MovedError:
                if not self.read_only:
                    # Reads nothing, unless an interrupt came between a commit and memory.
                    self._store.refresh()
                if self._store.state is state:
                    text = "is damaged: a vector belongs to no item"
                    raise CorruptIndexError(f"{self._store.catalog.path} {text}.") from None

    def _passing(self, where: Where | None, where_from: str) -> tuple[State, list[BoolArray]]:
        """Return a state, and which rows of each of its parts pass."""
        return self._of_one_state(
            lambda state: (state, self._bitmaps.passing(state, where, where_from))
        )

    def _range_request(
        self,
        miss_rate: float | None,
        guarantee: Guarantee | None,
        confidence: float | None,
        where_from: str,
    ) -> Request:
        """Return what is asked of a range; units are tested by the law, and support no more."""
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        if self._open_units is not None and guarantee in ("expected", "high_probability"):
            expected = "'model' or 'exact' in a collection that was opened with online='units'"
            got = repr(guarantee)
            raise InvalidValueError(checks.message("guarantee", where_from, expected, got))
        return request

    def _testing_units(self, promise: Promise) -> OpenUnits | None:
        """Return the units that test what waits; None where nothing may be missed."""
        return None if promise.certificate.complete else self._open_units

    def _promise(
        self,
        state: State,
        passing: list[BoolArray],
        similarity: float,
        request: Request,
        where: Where | None,
        where_from: str,
        *,
        one_by_one: bool = False,
    ) -> Promise:
        """Return how a range is searched; `one_by_one` leaves the open units out."""
        return _settled(
            self._promises.of_range(
                state,
                passing,
                similarity,
                request,
                where_from,
                filtered=where is not None,
                by_units=self._open_units is not None and not one_by_one,
            )
        )

    def _similarity(self, similarity: float | None, where_from: str) -> float:
        if similarity is None:
            return self.settings.similarity
        return checks.similarity(similarity, where_from)


def _settled(promise: Promise) -> Promise:
    """Return a promise that says it misses nothing where it does, whatever was allowed."""
    if not promise.certificate.complete:
        return promise
    return replace(promise, certificate=replace(promise.certificate, miss_rate=0.0, bound=0.0))


def check_threads(threads: int | None, where_from: str) -> None:
    """Raise where there is no such number of threads."""
    if threads is not None:
        checks.integer(threads, "threads", where_from)


__all__ = ["Online", "Searches", "Where", "check_threads"]
