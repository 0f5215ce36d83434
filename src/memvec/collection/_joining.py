"""Searches of a collection in itself: joins, duplicates, and queries made of several vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from memvec import checks
from memvec.collection._answers import Answer, part_range
from memvec.collection._groups import Components, grouped
from memvec.collection._ids import Id
from memvec.collection._inspecting import Inspections
from memvec.collection._items import Item, ids_of
from memvec.collection._naming import MovedError
from memvec.collection._pairs import Pairs, first_copies, pair_blocks
from memvec.collection._promise import Guarantee, Promise
from memvec.collection._results import CollectionTopHits
from memvec.collection._searching import Where, check_threads
from memvec.collection._state import State
from memvec.constructions import memory_vector
from memvec.errors import InvalidTypeError
from memvec.guarantee import Certificate
from memvec.kernels import blocks
from memvec.progress import progress_bar
from memvec.types import ArrayLike, BoolArray, IntArray

Keep = Literal["first", "longest"] | Callable[[Item], Any]
Grouping = Literal["components", "stars"]
Fusion = Literal["pinv", "sum"]

_IDS_AT_ONCE = 4096
_STARS_AT_ONCE = 64


class SimilarPair(NamedTuple):
    """Two items that are similar."""

    left: Id
    right: Id
    score: float


class DuplicateGroup(NamedTuple):
    """Items that are duplicates of each other: one to keep, the others to drop."""

    kept: Id
    dropped: list[Id]


@dataclass(frozen=True)
class Duplicates:
    """What a deduplication found.

    Attributes
    ----------
    groups : tuple of DuplicateGroup
        In the order in which the first item of each came.
    n_items : int
        Items looked at.
    certificate : Certificate
        What is promised about the pairs missed.
    """

    groups: tuple[DuplicateGroup, ...]
    n_items: int
    certificate: Certificate

    @property
    def drop(self) -> list[Id]:
        """The ids to drop, group by group."""
        return [name for group in self.groups for name in group.dropped]

    def __repr__(self) -> str:
        return f"Duplicates({len(self.groups)} groups, {len(self.drop)} of {self.n_items} to drop)"


class Joins(Inspections):
    """The part of a collection that searches it in itself."""

    def self_join(
        self,
        similarity: float | None = None,
        *,
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        collapse_copies: bool = False,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> Iterator[SimilarPair]:
        """Yield all pairs of items above a similarity, each once, as they are found.

        Parameters
        ----------
        similarity, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`; both items of a pair pass the filter.
        collapse_copies : bool, default False
            Take items with equal vectors for one: each copy makes one pair, with the first of
            them, and the first alone is paired with others. Of 10,000 copies come 9,999 pairs
            instead of 50 million.
        progress : bool, optional
            Show a bar; None shows it on a terminal.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/three.mv", dim=2) as collection:
        ...         ids = collection.add([[1, 0], [0, 1], [1, 0.1]], ids=["a", "b", "c"])
        ...         [(pair.left, pair.right) for pair in collection.self_join(0.9)]
        [('a', 'c')]
        """
        where_from = "Collection.self_join"
        level = self._similarity(similarity, where_from)
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        check_threads(threads, where_from)
        state, passing = self._passing(where, where_from)
        promise = self._promise(state, passing, level, request, where, where_from, one_by_one=True)

        def stream() -> Iterator[SimilarPair]:
            self._check_segments(state)
            left = passing
            if collapse_copies:
                keys, firsts = first_copies(state, passing)
                copied = firsts != keys
                ones = np.ones(np.count_nonzero(copied), dtype=np.float32)
                yield from self._named_pairs(Pairs(firsts[copied], keys[copied], ones))
                left = _only(state, keys[~copied])
            for pairs in pair_blocks(state, left, level, promise, threads, progress):
                yield from self._named_pairs(pairs)

        return stream()

    def deduplicate(
        self,
        similarity: float | None = None,
        *,
        keep: Keep = "first",
        groups: Grouping = "components",
        miss_rate: float | None = None,
        guarantee: Guarantee | None = None,
        confidence: float | None = None,
        where: Where | None = None,
        threads: int | None = None,
        progress: bool | None = None,
    ) -> Duplicates:
        """Find groups of near-duplicates and the one of each to keep. Nothing is deleted.

        Parameters
        ----------
        similarity, miss_rate, guarantee, confidence, where, threads
            As in :meth:`range_search`.
        keep : {"first", "longest"} or callable
            Keep the item that came first, that with the longest metadata (as JSON), or that for
            which the callable, called with each :class:`Item`, returns the most; of equals, the
            first.
        groups : {"components", "stars"}
            "components" puts items together that a chain of similar pairs connects; its ends may
            be unlike. "stars" keeps items in the order of `keep`, and drops only what is similar
            to a kept item itself.
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
        (Duplicates(1 groups, 1 of 3 to drop), ['c'])
        """
        where_from = "Collection.deduplicate"
        level = self._similarity(similarity, where_from)
        checks.choice(groups, "groups", where_from, get_args(Grouping))
        if keep not in ("first", "longest") and not callable(keep):
            expected = "'first', 'longest' or a callable"
            raise InvalidTypeError(checks.message("keep", where_from, expected, repr(keep)))
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        check_threads(threads, where_from)

        def ask(state: State) -> Duplicates:
            passing = self._bitmaps.passing(state, where, where_from)
            promise = self._promise(
                state, passing, level, request, where, where_from, one_by_one=True
            )
            self._check_segments(state)
            keys, firsts = first_copies(state, passing)
            ranks = self._ranks(state, keys, keep)
            nodes, node_of = np.unique(firsts, return_inverse=True)
            left = _only(state, nodes)
            if groups == "components":
                blocks_of_pairs = pair_blocks(state, left, level, promise, threads, progress)
                labels = _components(nodes, blocks_of_pairs)
            else:
                best = _best_ranks(node_of, ranks, len(nodes))
                labels = self._stars(state, nodes, best, left, level, promise, threads, progress)
            found = [self._group(keys[some], ranks[some]) for some in grouped(labels[node_of])]
            return Duplicates(tuple(found), len(keys), promise.certificate)

        return self._of_one_state(ask)

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
        threads: int | None = None,
    ) -> CollectionTopHits:
        """Find the k items most similar to several vectors together: more like these.

        The vectors are fused into one memory vector, as queries are by Sicre and Jégou ("Memory
        vectors for particular object retrieval with multiple queries", ICMR 2015); scores are
        cosines with it.

        Parameters
        ----------
        vectors : array_like of shape (n_vectors, dim)
            What to find more of.
        k : int
            How many.
        construction : {"pinv", "sum"}
            "sum" lets vectors that are much alike count more; with "pinv" each counts alike.
        miss_rate, guarantee, confidence, where, threads
            As in :meth:`search`.
        """
        where_from = "Collection.search_set"
        rows = checks.unit_rows(vectors, "vectors", where_from, dim=self.dim)
        checks.choice(construction, "construction", where_from, get_args(Fusion))
        fused = memory_vector(rows, construction)
        query = checks.unit_queries(fused, "vectors", where_from, dim=self.dim)
        request = self._promises.request(miss_rate, guarantee, confidence, where_from)
        return self._nearest(query, k, request, where, threads, where_from)

    def _named_pairs(self, pairs: Pairs) -> Iterator[SimilarPair]:
        """Yield pairs by id; those with an item that was compacted away meanwhile are left out."""
        for start, stop in blocks(len(pairs.left), _IDS_AT_ONCE):
            left, right = pairs.left[start:stop], pairs.right[start:stop]
            names = ids_of(self._store.catalog, np.unique(np.concatenate([left, right])))
            scores = pairs.scores[start:stop].tolist()
            for a, b, score in zip(left.tolist(), right.tolist(), scores, strict=True):
                if a in names and b in names:
                    yield SimilarPair(names[a], names[b], score)

    def _ranks(self, state: State, keys: IntArray, keep: Keep) -> IntArray:
        """Return a number for each item, the lowest for the one to keep before all others."""
        if keep == "first":
            return np.arange(len(keys))
        value: Callable[[Item], Any] = _length if keep == "longest" else keep
        values = [value(item) for item in self._stream(state, keys)]
        if len(values) < len(keys):
            raise MovedError
        best_first = sorted(range(len(values)), key=values.__getitem__, reverse=True)
        ranks = np.empty(len(keys), dtype=np.int64)
        ranks[best_first] = np.arange(len(keys))
        return ranks

    def _group(self, keys: IntArray, ranks: IntArray) -> DuplicateGroup:
        names = ids_of(self._store.catalog, keys)
        if len(names) < len(keys):
            raise MovedError
        kept = int(keys[np.argmin(ranks)])
        dropped = [names[key] for key in keys.tolist() if key != kept]
        return DuplicateGroup(names[kept], dropped)

    def _stars(
        self,
        state: State,
        nodes: IntArray,
        ranks: IntArray,
        passing: list[BoolArray],
        similarity: float,
        promise: Promise,
        threads: int | None,
        progress: bool | None,
    ) -> IntArray:
        """Return of each node the kept one that it belongs to, going through them by rank."""
        labels = np.full(len(nodes), -1)
        order = np.argsort(ranks)
        with progress_bar("grouping", len(order), progress) as advance:
            for start, stop in blocks(len(order), _STARS_AT_ONCE):
                some = order[start:stop]
                some = some[labels[some] < 0]
                queries = state.vectors(nodes[some], self.dim)
                answers = [
                    part_range(part, left, queries, similarity, promise, threads)
                    for part, left in zip(state.parts, passing, strict=True)
                ]
                found = Answer.of_parts(answers, len(some), 0).ordered()
                _cover(labels, some, nodes, found)
                advance(stop - start)
        return labels


def _cover(labels: IntArray, centres: IntArray, nodes: IntArray, found: Answer) -> None:
    """Let each centre that is free still take what it found and is free."""
    bounds = np.searchsorted(found.queries, np.arange(len(centres) + 1))
    for number, centre in enumerate(centres.tolist()):
        if labels[centre] < 0:
            near = np.searchsorted(nodes, found.keys[bounds[number] : bounds[number + 1]])
            labels[near[labels[near] < 0]] = centre
            labels[centre] = centre


def _components(nodes: IntArray, found: Iterator[Pairs]) -> IntArray:
    components = Components(len(nodes))
    for pairs in found:
        components.join(np.searchsorted(nodes, pairs.left), np.searchsorted(nodes, pairs.right))
    return components.labels()


def _best_ranks(node_of: IntArray, ranks: IntArray, n_nodes: int) -> IntArray:
    """Return the best rank among the copies that each node stands for."""
    best = np.full(n_nodes, np.iinfo(np.int64).max)
    np.minimum.at(best, node_of, ranks)
    return best


def _only(state: State, keys: IntArray) -> list[BoolArray]:
    """Return which rows of each part have one of these keys."""
    return [np.isin(part.keys, keys) for part in state.parts]


def _length(item: Item) -> int:
    return len(json.dumps(item.metadata, ensure_ascii=False))


__all__ = ["DuplicateGroup", "Duplicates", "Joins", "SimilarPair"]
