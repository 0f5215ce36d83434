"""The collection: what users hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Self, get_args, overload

import numpy as np

from memvec import checks
from memvec.collection._check import check_store
from memvec.collection._ids import Id, Ids, Rows, checked_ids
from memvec.collection._items import Item
from memvec.collection._joins import Fusion, Joins, Keep, order_to_keep
from memvec.collection._reading import Include, Reading, Stats, Where, checked_include
from memvec.collection._roles import Held, Reader, Writer
from memvec.collection._searches import Online, Searches
from memvec.collection._settings import Settings
from memvec.collection._store import Store
from memvec.collection._streams import PairStream, RangeStream
from memvec.collection._writing import Vectors, Writing
from memvec.constructions import memory_vector
from memvec.display import html_table, html_text
from memvec.guarantee import Certificate, Guarantee, Health, Measurement, SolvedPlans
from memvec.index import share_of_queries
from memvec.kernels import rounded_rows
from memvec.metric import Metric, limit_text
from memvec.progress import heeds_progress
from memvec.search import (
    Duplicates,
    Explanation,
    Grouping,
    Hits,
    TopHits,
    rate_of_recall,
    sampled,
)
from memvec.storage import CheckReport
from memvec.types import ArrayLike, BoolArray, Float32Array, IntArray, RowType


class Collection:
    """Vectors with ids and metadata, on disk; made by :func:`memvec.open`.

    When a call returns, its changes are on disk, and the next search sees them. A collection has
    one writer at a time and any number of readers.

    Examples
    --------
    >>> import tempfile, memvec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with memvec.open(folder + "/animals.mv", dim=3) as animals:
    ...         animals.add([[1, 0, 0], [0, 1, 0]], ids=["cat", "dog"])
    ...         animals.search([0.8, 0.6, 0], k=2).ids
    ...         animals.delete(["cat"])
    ...         animals.search([0.8, 0.6, 0], k=2).ids
    ['cat', 'dog']
    array([['cat', 'dog']], dtype=object)
    1
    array([['dog', None]], dtype=object)
    """

    _check: Callable[[], CheckReport]

    def __init__(
        self, store: Store, *, verify: bool = True, online: Online = "scan", background: bool = True
    ) -> None:
        solved = None if store.scratch else SolvedPlans(store.folder.absolute())
        reading = Reading(store, verify=verify)
        searches = Searches(store, reading, online, solved)
        solve = searches.solve_ahead
        self._check = partial(check_store, store)
        self._take(
            store,
            reading,
            searches,
            Joins(store, reading, searches),
            Writing(store, reading, solve, background=background),
        )

    def _take(
        self, store: Held, reading: Reader, searches: Searches, joins: Joins, writing: Writer
    ) -> None:
        """Begin with these parts."""
        self._store, self._reading, self._searches = store, reading, searches
        self._joins, self._writing = joins, writing
        self._closed, self._was = False, ""

    def add(
        self,
        vectors: Vectors,
        ids: Id | Ids | Iterable[Id] | None = None,
        metadata: Rows | None = None,
    ) -> list[Id]:
        """Add new items: all or none of them, or block by block from an iterator.

        Parameters
        ----------
        vectors : array_like of shape (n_vectors, dim) or (dim,), or iterator of such
            Rows are scaled to norm 1. Zero, NaN and infinite rows are refused. An iterator gives
            blocks: arrays, or what :func:`memvec.files.read_blocks` yields. One block is held in
            memory at a time and committed before the next is read. If a block is refused or the
            iterator raises, the blocks before it stay.
        ids : sequence of int or str, optional
            Ids that are not in use, each once; by default, integers above all others. A single
            vector takes a single id, and an iterator takes an iterable of the ids of all blocks.
        metadata : sequence of mappings or None, optional
            One mapping per vector, of values that JSON can hold; NumPy numbers and arrays are
            stored as numbers and lists. A single vector takes a single mapping, and an iterator
            takes an iterable of the mappings of all blocks.

        Returns
        -------
        list of int or str
            The ids.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/some.mv", dim=2) as collection:
        ...         collection.add([3.0, 4.0], ids="a", metadata={"tag": "x"})
        ...         collection.add(iter([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]]))
        ['a']
        [1, 2, 3]
        """
        return self._writing.insert(vectors, ids, metadata, "Collection.add", replace=False)

    def upsert(
        self,
        vectors: Vectors,
        ids: Id | Ids | Iterable[Id],
        metadata: Rows | None = None,
    ) -> list[Id]:
        """Add items and replace those that have the same ids; all or none of them.

        Parameters
        ----------
        vectors, metadata
            As in :meth:`add`. The metadata is replaced, too.
        ids : sequence of int or str
            New or existing ids, each once; a single id for a single vector.
        """
        return self._writing.insert(vectors, ids, metadata, "Collection.upsert", replace=True)

    def delete(self, ids: Id | Ids) -> int:
        """Delete items, all or none of them.

        Parameters
        ----------
        ids : sequence of int or str, or one of them
            Ids that exist.

        Returns
        -------
        int
            How many.
        """
        return self._writing.delete(ids, "Collection.delete")

    @heeds_progress
    def seal(self, *, merge: bool = True, progress: bool | None = None) -> int:
        """Make a segment of all waiting vectors; return how many it holds.

        Parameters
        ----------
        merge : bool, default True
            Also merge ten segments of about the same size into one; False leaves this to a later
            call.
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        return self._writing.seal(progress, merge=merge)

    @heeds_progress
    def compact(self, *, progress: bool | None = None) -> int:
        """Merge everything into one segment, without deleted items; return how many it holds.

        Vectors are assigned to new units. Readers keep the state they have.

        Parameters
        ----------
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        return self._writing.compact(progress)

    def range_search(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        include: Include = (),
        shadow: float | None = None,
        threads: int | None = None,
    ) -> Hits:
        """Find everything above a similarity.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        similarity : float, optional
            α₀ in (0, 1]; that of the collection by default.
        radius : float, optional
            r in [0, √2), in place of `similarity` if the metric is "euclidean".
        miss_rate : float, optional
            ε in (0, 1); that of the collection by default.
        guarantee : {"expected", "model", "high_probability", "exact"}, optional
            Level of the promise. A level named here is kept or refused; with ``online="units"``,
            only "model" and "exact" are accepted. By default it is the level of the collection, or
            a lower one if there is too little evidence.
        confidence : float, optional
            1 − δ in (0, 1), for "high_probability"; that of the collection by default.
        where : mapping, optional
            Find only items whose metadata passes this filter, such as
            ``{"year": {"$gte": 2020}, "tag": {"$in": ["a", "b"]}}``. Operators are $eq, $ne, $gt,
            $gte, $lt, $lte, $in, $nin, $exists, $and, $or and $not; a plain value means $eq.
            Numbers are compared with numbers and strings with strings; $ne and $nin hold where the
            field is missing.
        include : sequence of {"metadata", "vectors"}, or one of them
            What to return with the hits, in ``hits.metadata`` and ``hits.vectors``.
        shadow : float, optional
            Share of the queries to compare with an exhaustive search, for the counts in `health`;
            `Collection.shadow` by default. Searches with a filter are not compared.
        threads : int, optional
            Number of threads; the answer does not depend on it.

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
        ...         collection.range_search([1.0, 0.1], 0.8, include="metadata").metadata
        [['east', 'between']]
        array(['between'], dtype=object)
        [{'year': 2019}, {'year': 2020}]
        """
        caller = "Collection.range_search"
        rows = self._rows(queries, caller)
        promise = miss_rate, guarantee, confidence
        asked = self._searches.inquiry((similarity, radius), promise, where, threads, caller)
        share = None if shadow is None else share_of_queries(shadow, caller)
        return self._searches.range(rows, asked, share, checked_include(include, caller))

    def iter_range(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        ordered: bool = True,
        threads: int | None = None,
    ) -> RangeStream:
        """Find everything above a similarity, read match by match or block by block.

        Ids are read on demand. Matches show the state at the time of the call, without items that a
        writer deletes and compacts away before they are read.

        Parameters
        ----------
        queries, similarity, radius, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        ordered : bool, default True
            Return matches in the order of `range_search`; those of a few queries are held in
            memory, 16 bytes each. False returns blocks in any order and holds one at a time, of at
            most 2²⁰ matches; `health` does not watch such queries.

        Returns
        -------
        RangeStream
            An iterator of matches, with ``blocks()`` and a ``certificate``.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/two.mv", dim=2) as collection:
        ...         ids = collection.add([[1.0, 0.0], [0.6, 0.8]], ids=["east", "between"])
        ...         stream = collection.iter_range([1.0, 0.0], 0.5)
        ...         list(stream), stream.certificate.complete
        ([Match(query=0, id='east', score=1.0), Match(query=0, id='between', score=0.6...)], True)
        """
        caller = "Collection.iter_range"
        rows = self._rows(queries, caller)
        promise = miss_rate, guarantee, confidence
        asked = self._searches.inquiry((similarity, radius), promise, where, threads, caller)
        return self._searches.stream(rows, asked, ordered=ordered)

    def count(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> IntArray:
        """Count everything above a similarity, for each query.

        Parameters
        ----------
        queries, similarity, radius, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        """
        caller = "Collection.count"
        rows = self._rows(queries, caller)
        promise = miss_rate, guarantee, confidence
        asked = self._searches.inquiry((similarity, radius), promise, where, threads, caller)
        return self._searches.counted(rows, asked).counts

    def contains(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
    ) -> BoolArray:
        """Return for each query whether any item is above a similarity.

        Parameters
        ----------
        queries, similarity, radius, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.

        Returns
        -------
        ndarray of shape (n_queries,)
            bool.
        """
        caller = "Collection.contains"
        rows = self._rows(queries, caller)
        promise = miss_rate, guarantee, confidence
        asked = self._searches.inquiry((similarity, radius), promise, where, threads, caller)
        return self._searches.counted(rows, asked).counts > 0

    def search(
        self,
        queries: ArrayLike,
        k: int,
        *,
        miss_rate: float | None = None,
        target_recall: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        include: Include = (),
        threads: int | None = None,
    ) -> TopHits:
        """Find the k most similar items; ties are ordered by id.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Rows are scaled to norm 1.
        k : int
            Number of items. If fewer pass, the rest of a row is None, with the score -inf; above
            1,000, rows are no longer than the number of items.
        miss_rate : float, optional
            ε, the share of the k nearest that may be missed on average.
        target_recall : float, optional
            1 − miss_rate, in place of `miss_rate`.
        guarantee, confidence, where, include, threads
            As in :meth:`range_search`.
        """
        caller = "Collection.search"
        rows = self._rows(queries, caller)
        promise = rate_of_recall(miss_rate, target_recall, caller), guarantee, confidence
        return self._nearest(rows, k, promise, where, include, threads, caller)

    def search_set(
        self,
        vectors: ArrayLike,
        k: int,
        *,
        construction: Fusion = "pinv",
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        include: Include = (),
        threads: int | None = None,
    ) -> TopHits:
        """Find the k items most similar to several vectors together: more like these.

        The vectors are fused into one memory vector, as queries are by Sicre and Jégou ("Memory
        vectors for particular object retrieval with multiple queries", ICMR 2015); scores are
        cosines with it.

        Parameters
        ----------
        vectors : array_like of shape (n_vectors, dim)
            Vectors to find similar items for.
        k : int
            How many.
        construction : {"pinv", "sum"}
            "sum" gives more weight to vectors that resemble each other; "pinv" gives all vectors
            the same weight.
        miss_rate, guarantee, confidence, where, include, threads
            As in :meth:`search`.
        """
        caller = "Collection.search_set"
        rows = self._rows(checks.matrix(vectors, "vectors", caller), caller, "vectors")
        checks.choice(construction, "construction", caller, get_args(Fusion))
        fused = memory_vector(rows, construction)
        query = checks.unit_queries(fused, "vectors", caller, dim=self.dim)
        promise = miss_rate, guarantee, confidence
        return self._nearest(query, k, promise, where, include, threads, caller)

    def self_join(
        self,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        collapse_copies: bool = False,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> PairStream:
        """Find all pairs of items above a similarity, each once, as a stream.

        Waiting vectors that are due to be sealed (`seal_at`) are sealed first.

        Parameters
        ----------
        similarity, radius, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`; both items of a pair pass the filter.
        collapse_copies : bool, default False
            Treat items with equal vectors as one: each copy is paired with the first of them only,
            and only the first is paired with other items. 10,000 copies give 9,999 pairs instead of
            50 million.
        progress : bool, optional
            Show a bar; None shows it on a terminal.

        Returns
        -------
        PairStream
            An iterator of pairs, with ``blocks()`` and a ``certificate``.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/three.mv", dim=2) as collection:
        ...         ids = collection.add([[1, 0], [0, 1], [1, 0.1]], ids=["a", "b", "c"])
        ...         [(pair.left, pair.right) for pair in collection.self_join(0.9)]
        [('a', 'c')]
        """
        caller = "Collection.self_join"
        level, promise = (similarity, radius), (miss_rate, guarantee, confidence)
        asked = self._searches.inquiry(level, promise, where, threads, caller, of_range=False)
        self._writing.settle()
        return self._joins.pairs(asked, collapse_copies, progress)

    @heeds_progress
    def deduplicate(
        self,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        keep: Keep = "first",
        scores: str | None = None,
        groups: Grouping = "components",
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> Duplicates[Id]:
        """Find groups of near-duplicates and the one of each to keep. Nothing is deleted.

        Waiting vectors that are due to be sealed (`seal_at`) are sealed first.

        Parameters
        ----------
        similarity, radius, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        keep : {"first", "last", "longest", "best"} or callable
            Item of a group to keep: the first or the last added, the one with the longest metadata
            (as JSON), the one with the highest score, or the one for which the callable, called
            with each :class:`Item`, returns the highest value. Ties keep the first.
        scores : str, optional
            The metadata field that contains the score of each item, for ``keep="best"``.
        groups : {"components", "star"}
            "components" groups items that a chain of similar pairs connects; the ends of a chain
            may differ. "star" takes items in the order of `keep` and drops only those similar to a
            kept item.
        progress : bool, optional
            Show a bar; None shows it on a terminal.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/three.mv", dim=2) as collection:
        ...         ids = collection.add([[1, 0], [0, 1], [1, 0.1]], ids=["a", "b", "c"])
        ...         found = collection.deduplicate(0.9)
        ...         found, found.drop
        (Duplicates(1 group, 1 of 3 to drop), ['c'])
        """
        caller = "Collection.deduplicate"
        level, promise = (similarity, radius), (miss_rate, guarantee, confidence)
        asked = self._searches.inquiry(level, promise, where, threads, caller, of_range=False)
        checks.choice(groups, "groups", caller, get_args(Grouping))
        order = order_to_keep(keep, scores, caller)
        self._writing.settle()
        return self._joins.duplicates(asked, order, groups, progress)

    def explain(
        self,
        query: ArrayLike,
        id: Id,  # noqa: A002 - what hits call it
        similarity: float | None = None,
        *,
        radius: float | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
    ) -> Explanation:
        """Explain why an item is, or is not, returned for a query.

        Parameters
        ----------
        query : array_like of shape (dim,)
            One query.
        id : int or str
            An item.
        similarity, radius, miss_rate, guarantee, confidence
            As in :meth:`range_search`.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/two.mv", dim=2) as collection:
        ...         ids = collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
        ...         collection.explain([1.0, 0.1], "east").reason
        'Returned.'
        """
        caller = "Collection.explain"
        rows = self._rows(query, caller, "query")
        if len(rows) != 1:
            raise checks.bad_value("query", caller, "one query", len(rows))
        promise = miss_rate, guarantee, confidence
        asked = self._searches.inquiry((similarity, radius), promise, None, None, caller)
        [name] = checked_ids([id], caller)
        return self._searches.explain(rows[0], name, asked)

    @heeds_progress
    def measure(
        self,
        queries: ArrayLike,
        similarity: float | None = None,
        *,
        radius: float | None = None,
        sample: int | None = None,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        progress: bool | None = None,
    ) -> Measurement:
        """Measure the miss rate: compare answers with the exhaustive search.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim) or (dim,)
            Queries like those you will ask.
        sample : int, optional
            Number of queries to compare, drawn at random; all by default.
        similarity, radius, miss_rate, guarantee, confidence, where
            As in :meth:`range_search`.
        progress : bool, optional
            Show a bar; None shows it on a terminal.
        """
        caller = "Collection.measure"
        seed = self.settings.config.seed
        rows = sampled(self._rows(queries, caller), sample, seed, caller)
        promise = miss_rate, guarantee, confidence
        asked = self._searches.inquiry((similarity, radius), promise, where, None, caller)
        return self._searches.measure(rows, asked, progress)

    @property
    def shadow(self) -> float:
        """The share of range queries that are compared with the exhaustive search.

        By default, comparisons take at most 2 % of the time, by the cost model; 0 turns them off.
        """
        return self._searches.shadow

    @shadow.setter
    def shadow(self, share: float) -> None:
        self._searches.shadow = share

    @property
    def health(self) -> Health:
        """How well the promise holds: queries answered, misses seen by `shadow`, drift."""
        return self._searches.health

    @heeds_progress
    def recalibrate(
        self, queries: ArrayLike | None = None, *, progress: bool | None = None
    ) -> Certificate:
        """Calibrate on recent queries, or on queries given, and return the new certificate.

        Searches of this process use the new evidence from then on; it is not written to disk.
        Segments that are sealed later are calibrated on the same queries when they are first
        searched. The counts and the drift test of `health` start again. An error changes nothing.

        Parameters
        ----------
        queries : array_like of shape (n_queries, dim), optional
            Queries like those you will ask. By default, the last 2,000 queries of this process that
            `health` sampled: at least one in twelve, each once. Copies of sealed vectors are left
            out.
        progress : bool, optional
            Show a bar; None shows it on a terminal.
        """
        caller = "Collection.recalibrate"
        rows = None if queries is None else self._rows(queries, caller)
        return self._searches.recalibrate(rows, progress, caller)

    @property
    def settings(self) -> Settings:
        """The settings that the collection was created with."""
        return self._store.settings

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self._store.settings.dim

    @property
    def dtype(self) -> RowType:
        """The type that vectors are stored in: "float32", "float16" or "int8"."""
        return self._store.settings.dtype

    @property
    def metric(self) -> Metric:
        """Whether scores are cosines or distances: "cosine" or "euclidean"."""
        return self._store.settings.metric

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._store.read_only

    def __len__(self) -> int:
        return self._reading.state().n_items

    def __contains__(self, name: object) -> bool:
        return self._reading.contains(name)

    def __iter__(self) -> Iterator[Id]:
        """Yield all ids, in the order they came."""
        return self._reading.ids()

    @overload
    def get(self, ids: Id) -> Item: ...  # type: ignore[overload-overlap]  # text is a sequence

    @overload
    def get(self, ids: Ids) -> list[Item]: ...

    def get(self, ids: Id | Ids) -> Item | list[Item]:
        """Return the items with several ids, in their order, or the item with one id.

        Parameters
        ----------
        ids : sequence of int or str, or one of them
            Ids that exist.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/one.mv", dim=2) as collection:
        ...         collection.add([[3.0, 4.0]], ids=["a"], metadata=[{"tag": "x"}])
        ...         collection.get(["a"])
        ...         collection.get("a").metadata
        ['a']
        [Item(id='a', vector=array([0.6, 0.8], dtype=float32), metadata={'tag': 'x'})]
        {'tag': 'x'}
        """
        return self._reading.get(ids, "Collection.get")

    def items(self, where: Where | None = None, *, first: Id | None = None) -> Iterator[Item]:
        """Yield all items in the order they were added, read from disk on demand.

        Items show the state at the time of the call, without those that a writer deletes and
        compacts away before they are read.

        Parameters
        ----------
        where : mapping, optional
            Yield only items whose metadata passes this filter, as in :meth:`range_search`.
        first : int or str, optional
            Begin with this item; those before it are not read.
        """
        state, passing = self._searches.passing(where, "Collection.items")
        parts = [part.keys[some] for part, some in zip(state.parts, passing, strict=True)]
        keys = np.sort(np.concatenate(parts))
        if first is not None:
            names = checked_ids([first], "Collection.items")
            _, places = self._reading.found(names, "Collection.items", "first")
            keys = keys[np.searchsorted(keys, places[first]) :]
        return self._reading.stream(state, keys)

    def stats(self) -> Stats:
        """Return the numbers of items and segments, and their sizes on disk."""
        return self._reading.stats()

    def check(self) -> CheckReport:
        """Read every file of the collection and compare checksums.

        A collection that is too damaged to be opened is checked by ``memvec check``, or by
        :func:`memvec.collection.check_collection`.
        """
        return self._check()

    def refresh(self) -> None:
        """Move a reader to the state that is committed now.

        A reader that never refreshes keeps the writer from emptying its log.
        """
        self._store.refresh()

    def close(self) -> None:
        """Finish sealing and release the lock. Nothing is lost without this call.

        If segments were made, thresholds of ranges are solved for the next process, unless an
        exception ends the ``with`` block. If sealing takes longer than a second, a line on the
        terminal says so, or the logger "memvec" at level INFO. Afterwards, no file is open or
        mapped, and every method raises InvalidValueError, as Python's files raise ValueError;
        results remain valid.
        """
        self._writing.end(self._close, solve=True)

    def _close(self) -> None:
        if not self._closed:
            self._was = repr(self)
            self._closed = True
        self._reading.close()
        self._store.close()
        self._searches.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Whoever was interrupted wants to go on.
        self._writing.end(self._close, solve=kind is None)

    def _repr_html_(self) -> str:
        if self._closed:
            return html_text(repr(self))
        made = self.settings
        limit = limit_text(made.metric, made.similarity)
        facts = [
            ["promise", f"at most {100 * made.miss_rate:g} % missed {limit}"],
            ["level", made.guarantee],
            ["rows", f"{self.dtype}, {self.metric}"],
        ]
        return html_text(repr(self)) + html_table([], facts)

    def __repr__(self) -> str:
        if self._closed:
            return f"{self._was[:-1]}; closed)"
        state = self._store.state
        return (
            f"Collection({checks.counted(state.n_items, 'item')} of dimension {self.dim}, "
            f"{checks.counted(len(state.segments), 'segment')}, {state.waiting.n_alive:,} waiting)"
        )

    def _rows(self, queries: ArrayLike, caller: str, name: str = "queries") -> Float32Array:
        scale = self.metric == "cosine"
        rows = checks.unit_queries(queries, name, caller, dim=self.dim, scale=scale)
        return rounded_rows(rows, self.dtype)

    def _nearest(
        self,
        rows: Float32Array,
        k: int,
        promise: tuple[float | None, Guarantee | None, float | None],
        where: Where | None,
        include: Include,
        threads: int | None,
        caller: str,
    ) -> TopHits:
        wanted = checks.integer(k, "k", caller)
        level = None, None
        asked = self._searches.inquiry(level, promise, where, threads, caller, of_range=False)
        return self._searches.nearest(rows, wanted, asked, checked_include(include, caller))
