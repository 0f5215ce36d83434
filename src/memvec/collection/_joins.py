"""A collection searched for its own items: similar pairs, and groups of duplicates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from memvec import checks
from memvec.collection._ids import Id
from memvec.collection._items import Item
from memvec.collection._naming import MovedError
from memvec.collection._question import Question
from memvec.collection._roles import Held, Reader
from memvec.collection._searches import Inquiry, Searches
from memvec.collection._state import State
from memvec.collection._streams import PairBlock, PairStream
from memvec.kernels import blocks
from memvec.metric import scores_of
from memvec.search import DuplicateGroup, Duplicates, Grouping, Pairs, SelfJoin
from memvec.types import IntArray

Order = Literal["first", "last"] | Callable[[Item], Any]
Keep = Literal["longest", "best"] | Order
Fusion = Literal["pinv", "sum"]

_IDS_AT_ONCE = 4096


class Joins:
    """Searches a collection in itself; what it is given is checked already."""

    def __init__(self, store: Held, reading: Reader, searches: Searches) -> None:
        self._store, self._reading, self._searches = store, reading, searches

    def pairs(self, asked: Inquiry, collapse_copies: bool, progress: bool | None) -> PairStream:
        """Return all pairs of items above a similarity, each once, as they are found."""
        join = self._join(self._searches.question(asked, one_by_one=True), asked, progress)

        def found() -> Iterator[PairBlock]:
            left = join
            if collapse_copies:
                copies = join.copies()
                yield from self._named_pairs(copies.pairs)
                left = join.limited_to(copies.distinct)
            for pairs in left.pair_blocks():
                yield from self._named_pairs(pairs)

        return PairStream(found(), join.plan.certificate)

    def duplicates(
        self, asked: Inquiry, order: Order, grouping: Grouping, progress: bool | None
    ) -> Duplicates[Id]:
        """Return groups of near-duplicates and the one of each to keep."""

        def ask(state: State) -> Duplicates[Id]:
            question = self._searches.question_to(state, asked, one_by_one=True)
            join = self._join(question, asked, progress)
            copies = join.copies()
            keys, ranks = copies.keys, self._ranks(state, copies.keys, order)
            found = join.limited_to(copies.distinct).groups(copies, ranks, grouping)
            groups = tuple(self._group(keys[some]) for some in found.members)
            return Duplicates(groups, len(keys), found.n_pairs, join.plan.certificate)

        return self._searches.of_one_state(ask)

    def _join(self, question: Question, asked: Inquiry, progress: bool | None) -> SelfJoin:
        """Return the join of all rows that a question is about."""
        plan = question.range_plan(asked.similarity, asked.request, asked.caller)
        plan = plan.in_metric(self._store.settings.metric)
        vectors = partial(question.state.lying, dim=self._store.settings.dim)
        similarity = asked.similarity
        return SelfJoin(question.joined_scopes, vectors, similarity, plan, asked.threads, progress)

    def _named_pairs(self, pairs: Pairs) -> Iterator[PairBlock]:
        """Yield pairs by id; those with an item that was compacted away meanwhile are left out."""
        for start, stop in blocks(len(pairs.left), _IDS_AT_ONCE):
            left, right = pairs.left[start:stop], pairs.right[start:stop]
            names = self._reading.names(np.unique(np.concatenate([left, right])))
            scores = scores_of(self._store.settings.metric, pairs.scores[start:stop])
            known = [
                (names[a], names[b], score)
                for a, b, score in zip(left.tolist(), right.tolist(), scores.tolist(), strict=True)
                if a in names and b in names
            ]
            if known:
                yield PairBlock(*map(list, zip(*known, strict=True)))

    def _ranks(self, state: State, keys: IntArray, order: Order) -> IntArray:
        """Return a number for each item, the lowest for the one to keep before all others."""
        if order == "first":
            return np.arange(len(keys))
        if order == "last":
            return np.arange(len(keys))[::-1]
        values = [order(item) for item in self._reading.stream(state, keys)]
        if len(values) < len(keys):
            raise MovedError
        best_first = sorted(range(len(values)), key=values.__getitem__, reverse=True)
        ranks = np.empty(len(keys), dtype=np.int64)
        ranks[best_first] = np.arange(len(keys))
        return ranks

    def _group(self, keys: IntArray) -> DuplicateGroup[Id]:
        names = self._reading.names(keys)
        if len(names) < len(keys):
            raise MovedError
        kept, *dropped = (names[key] for key in keys.tolist())
        return DuplicateGroup(kept, dropped)


def order_to_keep(keep: Keep, scores: str | None, where: str) -> Order:
    """Return which item of a group to keep, checked: by place, or by what a callable returns."""
    if keep not in ("first", "last", "longest", "best") and not callable(keep):
        expected = "'first', 'last', 'longest', 'best' or a callable"
        raise checks.bad_type("keep", where, expected, repr(keep))
    if keep != "best":
        if scores is not None:
            expected = "left out unless keep is 'best'"
            raise checks.bad_value("scores", where, expected, repr(scores))
        return _length if keep == "longest" else keep
    if not isinstance(scores, str):
        expected = "the name of a metadata field where keep is 'best'"
        raise checks.bad_type("scores", where, expected, repr(scores))
    return partial(_score, name=scores, where=where)


def _score(item: Item, name: str, where: str) -> float:
    value = item.metadata.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        expected = f"a field with a number in every item; {name!r} of item {item.id!r} has none"
        raise checks.bad_value("scores", where, expected, repr(value))
    return value


def _length(item: Item) -> int:
    return len(json.dumps(item.metadata, ensure_ascii=False))
