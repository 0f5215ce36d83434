"""A collection searched for its own items: similar pairs, and groups of duplicates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from memvec.collection._groups import Components, grouped
from memvec.collection._ids import Id
from memvec.collection._items import Item, ids_of
from memvec.collection._naming import MovedError
from memvec.collection._pairs import Pairs, first_copies, pair_blocks
from memvec.collection._question import Question
from memvec.collection._reading import Reading
from memvec.collection._searches import Inquiry, Searches
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.guarantee import Certificate, Plan
from memvec.kernels import blocks
from memvec.matches import Matches
from memvec.progress import progress_bar
from memvec.search import find_range
from memvec.types import BoolArray, IntArray

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


class Joins:
    """Searches a collection in itself; what it is given is checked already."""

    def __init__(self, store: Store, reading: Reading, searches: Searches) -> None:
        self._store, self._reading, self._searches = store, reading, searches

    def pairs(
        self, asked: Inquiry, collapse_copies: bool, progress: bool | None
    ) -> Iterator[SimilarPair]:
        """Yield all pairs of items above a similarity, each once, as they are found."""
        question = self._searches.question(asked, one_by_one=True)
        plan = question.range_plan(asked.similarity, asked.request, asked.caller)

        def stream() -> Iterator[SimilarPair]:
            left, state = question, question.state
            if collapse_copies:
                keys, firsts = first_copies(state, question.passing)
                copied = firsts != keys
                ones = np.ones(np.count_nonzero(copied), dtype=np.float32)
                yield from self._named_pairs(Pairs(firsts[copied], keys[copied], ones))
                left = replace(question, passing=_only(state, keys[~copied]))
            for pairs in pair_blocks(left, plan, asked.threads, progress):
                yield from self._named_pairs(pairs)

        return stream()

    def duplicates(
        self, asked: Inquiry, keep: Keep, groups: Grouping, progress: bool | None
    ) -> Duplicates:
        """Return groups of near-duplicates and the one of each to keep."""

        def ask(state: State) -> Duplicates:
            question = self._searches.question_to(state, asked, one_by_one=True)
            plan = question.range_plan(asked.similarity, asked.request, asked.caller)
            keys, firsts = first_copies(state, question.passing)
            ranks = self._ranks(state, keys, keep)
            nodes, node_of = np.unique(firsts, return_inverse=True)
            left = replace(question, passing=_only(state, nodes))
            if groups == "components":
                labels = _components(nodes, pair_blocks(left, plan, asked.threads, progress))
            else:
                best = _best_ranks(node_of, ranks, len(nodes))
                labels = self._stars(left, plan, nodes, best, asked.threads, progress)
            found = [self._group(keys[some], ranks[some]) for some in grouped(labels[node_of])]
            return Duplicates(tuple(found), len(keys), plan.certificate)

        return self._searches.of_one_state(ask)

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
        values = [value(item) for item in self._reading.stream(state, keys)]
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
        question: Question,
        plan: Plan,
        nodes: IntArray,
        ranks: IntArray,
        threads: int | None,
        progress: bool | None,
    ) -> IntArray:
        """Return of each node the kept one that it belongs to, going through them by rank."""
        labels = np.full(len(nodes), -1)
        order = np.argsort(ranks)
        dim, similarity = self._store.settings.dim, question.similarity
        with progress_bar("grouping", len(order), progress) as advance:
            for start, stop in blocks(len(order), _STARS_AT_ONCE):
                some = order[start:stop]
                some = some[labels[some] < 0]
                queries = question.state.vectors(nodes[some], dim)
                found = find_range(question, queries, similarity, plan, threads)
                _cover(labels, some, nodes, found)
                advance(stop - start)
        return labels


def _cover(labels: IntArray, centres: IntArray, nodes: IntArray, found: Matches) -> None:
    """Let each centre that is free still take what it found and is free."""
    for centre, row in zip(centres.tolist(), found, strict=True):
        if labels[centre] < 0:
            near = np.searchsorted(nodes, row.ids)
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
