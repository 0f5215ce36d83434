"""Searches over all segments and over what waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import numpy as np

from memvec import checks
from memvec.collection._answers import (
    Answer,
    best_of_parts,
    exact_best_of_parts,
    part_range,
)
from memvec.collection._filters import Bitmaps
from memvec.collection._items import Item
from memvec.collection._lookup import Lookup
from memvec.collection._naming import MovedError, named, still_named
from memvec.collection._open_units import UNIT_SIZE, OpenUnits
from memvec.collection._promise import Guarantee, Promise, Promises
from memvec.collection._results import CollectionHits, CollectionTopHits, Match
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.errors import CorruptIndexError
from memvec.index import Request
from memvec.kernels import blocks
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray

Where = Mapping[str, Any]
Online = Literal["scan", "units"]
_Result = TypeVar("_Result")

# Queries that are answered before their matches are passed on, and ids read for them at a time.
_QUERIES_AT_ONCE = 16
_IDS_AT_ONCE = 4096


class Searches(Lookup):
    """The part of a collection that finds items by vector."""

    def __init__(self, store: Store, *, verify: bool, online: Online) -> None:
        super().__init__(store, verify=verify)
        self._bitmaps = Bitmaps(store.catalog)
        self._promises = Promises(store.settings)
        self._open_units: OpenUnits | None = None
        if online == "units":
            config = store.settings.config
            size = UNIT_SIZE if config.unit_size == "auto" else config.unit_size
            self._open_units = OpenUnits(self.dim, size, config.seed)

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
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
            What the answer is to promise; "expected" by default, and what the evidence supports
            where that is too little. A level that is named here is kept or refused.
        confidence : float, optional
            1 − δ in (0, 1), for "high_probability"; 0.95 by default.
        where : mapping, optional
            Find only items whose metadata passes this filter, such as
            ``{"year": {"$gte": 2020}, "tag": {"$in": ["a", "b"]}}``. Operators are $eq, $ne, $gt,
            $gte, $lt, $lte, $in, $nin, $exists, $and, $or and $not; a plain value means $eq.
            Numbers are compared with numbers and strings with strings; $ne and $nin hold where the
            field is missing.
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
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)

        def ask(state: State) -> CollectionHits:
            passing = self._bitmaps.passing(state, where, where_from)
            promise = self._promise(state, passing, level, request, where, where_from)
            answer = self._range(state, passing, rows, level, promise, threads)
            bounds = np.searchsorted(answer.queries, np.arange(len(rows) + 1))
            ids = named(self._store.catalog, answer)
            return CollectionHits(bounds, ids, answer.scores, promise.certificate, answer.work)

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
        the scores of a few queries, however many matches there are.

        Parameters
        ----------
        queries, similarity, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        """
        where_from = "Collection.iter_range"
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        level = self._similarity(similarity, where_from)
        state = self._store.state
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        passing = self._bitmaps.passing(state, where, where_from)
        promise = self._promise(state, passing, level, request, where, where_from)

        def stream() -> Iterator[Match]:
            for start, stop in blocks(len(rows), _QUERIES_AT_ONCE):
                answer = self._range(state, passing, rows[start:stop], level, promise, threads)
                yield from self._matches(answer, start)

        return stream()

    def _matches(self, answer: Answer, first: int) -> Iterator[Match]:
        """Yield what an ordered answer holds, less what was compacted away while it was read."""
        for page in _pages(answer):
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
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        level = self._similarity(similarity, where_from)
        state = self._store.state
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        passing = self._bitmaps.passing(state, where, where_from)
        promise = self._promise(state, passing, level, request, where, where_from)
        answer = self._range(state, passing, rows, level, promise, threads)
        return np.bincount(answer.queries, minlength=len(rows))

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
        counts = self.count(
            queries,
            similarity,
            miss_rate=miss_rate,
            guarantee=guarantee,
            confidence=confidence,
            where=where,
            threads=threads,
        )
        return counts > 0

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
            How many. Where fewer items pass, the rest of a row is None, with score -inf.
        miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`; ε is the share of the k nearest that may be missed.
        """
        where_from = "Collection.search"
        rows = checks.unit_queries(queries, "queries", where_from, dim=self.dim)
        k = checks.integer(k, "k", where_from)
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)

        def ask(state: State) -> CollectionTopHits:
            passing = self._bitmaps.passing(state, where, where_from)
            filtered = where is not None
            promise = self._promises.of_best(
                state, passing, k, request, where_from, filtered=filtered
            )
            parts = list(self._checked_parts(state, passing))
            best = exact_best_of_parts if promise.is_exact else best_of_parts
            answer = best(parts, rows, k, promise, threads)
            return self._top(answer, len(rows), k, promise)

        return self._of_one_state(ask)

    def items(self, where: Where | None = None) -> Iterator[Item]:
        """Yield all items in the order they came, read from the disk as they are asked for.

        Parameters
        ----------
        where : mapping, optional
            Only those whose metadata passes; as in :meth:`range_search`.
        """
        state = self._store.state
        passing = self._bitmaps.passing(state, where, "Collection.items")
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
        by_units = None if promise.is_exact else self._open_units
        answers = [
            by_units.range(part, some, rows, similarity, promise.request.miss_rate, threads)
            if by_units is not None and part is state.waiting
            else part_range(part, some, rows, similarity, promise, threads)
            for part, some in self._checked_parts(state, passing)
        ]
        return Answer.of_parts(answers, len(rows), _size(state)).ordered()

    def _top(self, answer: Answer, n_queries: int, k: int, promise: Promise) -> CollectionTopHits:
        names = named(self._store.catalog, answer)
        ids = np.full((n_queries, k), None, dtype=object)
        scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
        bounds = np.searchsorted(answer.queries, np.arange(n_queries + 1))
        for query in range(n_queries):
            start, stop = bounds[query], min(bounds[query] + k, bounds[query + 1])
            ids[query, : stop - start] = names[start:stop]
            scores[query, : stop - start] = answer.scores[start:stop]
        return CollectionTopHits(ids, scores, promise.certificate, answer.work)

    def _checked_parts(
        self, state: State, passing: list[BoolArray]
    ) -> Iterator[tuple[Any, BoolArray]]:
        """Yield each part and its rows that pass, the files of segments checked at first use."""
        self._check_segments(state)
        yield from zip(state.parts, passing, strict=True)

    def _of_one_state(self, ask: Callable[[State], _Result]) -> _Result:
        """Answer on one state; on the next, where what was found is compacted away meanwhile."""
        while True:
            state = self._store.state
            try:
                return ask(state)
            except MovedError:
                if self._store.state is state:
                    text = "is damaged: a vector belongs to no item"
                    raise CorruptIndexError(f"{self._store.catalog.path} {text}.") from None

    def _promise(
        self,
        state: State,
        passing: list[BoolArray],
        similarity: float,
        request: Request,
        where: Where | None,
        where_from: str,
    ) -> Promise:
        return self._promises.of_range(
            state,
            passing,
            similarity,
            request,
            where_from,
            filtered=where is not None,
            by_units=self._open_units is not None,
        )

    def _similarity(self, similarity: float | None, where_from: str) -> float:
        if similarity is None:
            return self.settings.similarity
        return checks.similarity(similarity, where_from)


def _size(state: State) -> int:
    return sum(len(part.keys) for part in state.parts)


def _pages(answer: Answer) -> Iterator[IntArray]:
    """Yield the matches in pages that do not part equal scores of a query."""
    queries, scores = answer.queries, answer.scores
    start = 0
    while start < len(scores):
        stop = min(start + _IDS_AT_ONCE, len(scores))
        while stop < len(scores) and (queries[stop], scores[stop]) == (
            queries[stop - 1],
            scores[stop - 1],
        ):
            stop += 1
        yield np.arange(start, stop)
        start = stop


__all__ = ["Online", "Searches", "Where"]
