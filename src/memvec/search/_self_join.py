"""Sources joined with themselves: all similar pairs, block by block, and groups of duplicates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from memvec.guarantee import Plan, Thresholds
from memvec.kernels import blocks
from memvec.matches import Matches
from memvec.progress import progress_bar
from memvec.search._groups import Components, Grouping, grouped, star_labels
from memvec.search._searcher import Scope, compare_scopes, search_scopes
from memvec.search._source import UnitSource
from memvec.types import BoolArray, Float32Array, IntArray

# Entries of the vectors that are hashed or compared at a time: a few arrays of 16 MB.
_ENTRIES_AT_ONCE = 1 << 21
# Entries of a vector that are hashed first.
_FIRST_ENTRIES = 16
# Rows that tell how many others bounds leave to be tested.
_PROBES = 16


class Pairs(NamedTuple):
    """Some pairs of rows, by key."""

    left: IntArray
    right: IntArray
    scores: Float32Array


@runtime_checkable
class JoinsItself(Protocol):
    """A source that finds similar pairs of its own rows faster than query by query."""

    def own_pairs(
        self,
        similarity: float,
        thresholds: Thresholds | None,
        allowed: BoolArray,
        progress: bool | None,
    ) -> Iterator[Pairs] | None:
        """Yield each pair of rows above a similarity once, left < right; None if it does not."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Which of some rows have equal vectors.

    Attributes
    ----------
    keys : ndarray of shape (n_rows,)
        All rows, rising.
    firsts : ndarray of shape (n_rows,)
        Of each the first row with an equal vector, which is itself where there is none before.
    """

    keys: IntArray
    firsts: IntArray

    @cached_property
    def distinct(self) -> IntArray:
        """The first row of each vector, rising."""
        return np.asarray(self.keys[self.firsts == self.keys])

    @property
    def pairs(self) -> Pairs:
        """Each copy with the first row of its vector."""
        copied = self.firsts != self.keys
        ones = np.ones(np.count_nonzero(copied), dtype=np.float32)
        return Pairs(self.firsts[copied], self.keys[copied], ones)


class FoundGroups(NamedTuple):
    """Groups of near-duplicates.

    Attributes
    ----------
    members : list of ndarray
        Places among all rows: that of the one to keep, then the others, rising. Groups come in the
        order of the lowest place in each.
    n_pairs : int
        Pairs of different vectors that were found.
    """

    members: list[IntArray]
    n_pairs: int


@dataclass(frozen=True, eq=False)
class SelfJoin:
    """Rows of some scopes, all of them queries to all of them.

    Attributes
    ----------
    scopes : sequence of Scope
        What is joined; rows that are not allowed are left out. Keys of a scope rise.
    vectors : callable
        Returns the vectors of keys.
    similarity : float
        α₀: pairs above it are found.
    plan : Plan
        How.
    threads : int or None
        How many share the queries.
    progress : bool or None
        Show a bar; None shows it on a terminal.
    """

    scopes: Sequence[Scope]
    vectors: Callable[[IntArray], Float32Array]
    similarity: float
    plan: Plan
    threads: int | None
    progress: bool | None
    #: Rows that are queries at the same time: their matches are held in memory together.
    queries_at_once: ClassVar[int] = 64
    #: The same, where matches are counted as they come; more took 2 % less time.
    unit_queries_at_once: ClassVar[int] = 256
    #: Rows that are compared by products of matrices, which pay off for many.
    products_at_once: ClassVar[int] = 2048
    #: Matches that are held in memory together, of 140 bytes each while they are put in order.
    matches_at_once: ClassVar[int] = 1 << 20
    #: Where bounds leave more than this share to be tested, a product of matrices is faster. It
    #: took 0.3 ms for a row of 20,000 × 384 embeddings. Bounds took 1.8 ms above 0.8, 0.3 above
    #: 0.9 and, leaving 24 %, 0.07 above 0.99.
    share_tested: ClassVar[float] = 0.5

    def pair_blocks(self) -> Iterator[Pairs]:
        """Yield each pair of rows that is similar, once.

        Rows of a scope are queries to it and to the scopes behind it; within a scope, a pair counts
        when it is found from its first row. Sources that join themselves find their own pairs.
        """
        own = self._own_pairs(self.scopes[0], self.progress) if len(self.scopes) == 1 else None
        if own is not None:
            yield from own
            return
        total = sum(len(_rows_of(scope)) for scope in self.scopes)
        with progress_bar("joining", total, self.progress) as advance:
            for number, scope in enumerate(self.scopes):
                own = self._own_pairs(scope, progress=False)
                yield from own or ()
                rows = _rows_of(scope)
                if own is not None and not self._n_behind(number):
                    advance(len(rows))
                    continue
                for start, stop in blocks(len(rows), self._at_once):
                    yield self._pairs_of(number, rows[start:stop], within=own is None)
                    advance(stop - start)

    def _n_behind(self, number: int) -> int:
        """Return how many rows the scopes behind one have."""
        return sum(len(_rows_of(scope)) for scope in self.scopes[number + 1 :])

    def _own_pairs(self, scope: Scope, progress: bool | None) -> Iterator[Pairs] | None:
        """Return the pairs within a source that joins itself; None for others."""
        source, keys, allowed = scope
        if not isinstance(source, JoinsItself):
            return None
        found = source.own_pairs(self.similarity, self.plan.thresholds, allowed, progress)
        if found is None or keys is None:
            return found
        return (Pairs(keys[left], keys[right], scores) for left, right, scores in found)

    def _pairs_of(self, number: int, rows: IntArray, *, within: bool) -> Pairs:
        """Return the pairs of some rows of a scope with rows behind them, within it or not."""
        here, behind = self.scopes[number], self.scopes[number + 1 :]
        own = _keys_of(here)[rows]
        queries = self.vectors(own)
        found = Matches.merged([], len(rows))
        if within:
            if not isinstance(here.source, UnitSource):
                here = here._replace(allowed=_from(here, int(rows[0])))
            found = self._search(here, self._by_products[number], queries)
            found = found.kept(found.ids > own[found.queries])
        if behind:
            found = Matches.merged([found, *self._found_behind(number, queries)], len(rows))
        return Pairs(own[found.queries], found.ids, found.scores.astype(np.float32))

    def _found_behind(self, number: int, queries: Float32Array) -> list[Matches]:
        """Return what is found in the scopes behind one; those that are searched, at once."""
        ways = self._ways[number + 1 :]
        searched = [scope for scope, by_products in ways if not by_products]
        compared = [self._search(*way, queries) for way in ways if way[1]]
        level, thresholds = self.similarity, self.plan.thresholds
        return [*compared, search_scopes(searched, queries, level, thresholds, self.threads)]

    def pairs_between(self, left: int, right: int) -> Iterator[Pairs]:
        """Yield the pairs of rows of a scope with those of another, or of the same one, once each.

        Parameters
        ----------
        left, right : int
            Numbers of scopes; rows of the left one are the queries, in their order.
        """
        here, (other, by_products) = self.scopes[left], self._ways[right]
        keys = _keys_of(here)[_rows_of(here)]
        most = self.products_at_once if by_products else self.unit_queries_at_once
        start, at_once = 0, self.queries_at_once
        while start < len(keys):
            own = keys[start : start + at_once]
            start += len(own)
            found = self._search(other, by_products, self.vectors(own))
            # As many as match what fits into memory, if they are like these.
            fitting = self.matches_at_once * len(own) // max(1, len(found.ids))
            at_once = max(1, min(fitting, 2 * len(own), most))
            if left == right:
                found = found.kept(found.ids > own[found.queries])
            yield Pairs(own[found.queries], found.ids, found.scores.astype(np.float32))

    @property
    def _ways(self) -> list[tuple[Scope, bool]]:
        """Each scope, and whether its rows are all compared."""
        return list(zip(self.scopes, self._by_products, strict=True))

    def _search(self, scope: Scope, by_products: bool, queries: Float32Array) -> Matches:
        if by_products:
            return compare_scopes([scope], queries, self.similarity, self.threads)
        thresholds = self.plan.thresholds
        return search_scopes([scope], queries, self.similarity, thresholds, self.threads)

    @cached_property
    def _by_products(self) -> list[bool]:
        """Whether the rows of each scope are all compared; units are not, where they save tests."""
        return [
            isinstance(scope.source, UnitSource) and self._tests_nearly_all(scope)
            for scope in self.scopes
        ]

    def _tests_nearly_all(self, scope: Scope) -> bool:
        thresholds, rows = self.plan.thresholds, _rows_of(scope)
        if thresholds is not None or not len(rows):
            return thresholds is not None and thresholds.pass_everything
        probes = rows[:: -(-len(rows) // _PROBES)]
        found = self._search(scope, False, self.vectors(_keys_of(scope)[probes]))
        return bool(found.spent[:, 2].mean() > self.share_tested * len(rows))

    @cached_property
    def _at_once(self) -> int:
        """How many rows are queries at the same time."""
        by_units = all(
            isinstance(scope.source, UnitSource)
            and not isinstance(scope.source, JoinsItself)
            and not by_products
            for scope, by_products in zip(self.scopes, self._by_products, strict=True)
            if len(_rows_of(scope))
        )
        return self.queries_at_once if by_units else self.products_at_once

    def limited_to(self, keys: IntArray) -> SelfJoin:
        """Return the join of some of the rows."""
        scopes = [
            scope._replace(allowed=np.isin(_keys_of(scope), keys, assume_unique=True))
            for scope in self.scopes
        ]
        return replace(self, scopes=scopes)

    def copies(self) -> Copies:
        """Return which rows have equal vectors."""
        keys = [_keys_of(scope)[_rows_of(scope)] for scope in self.scopes]
        return find_copies(np.sort(np.concatenate(keys)), self.vectors)

    def groups(self, copies: Copies, ranks: IntArray, grouping: Grouping) -> FoundGroups:
        """Return groups of near-duplicates, from a join of distinct vectors.

        Parameters
        ----------
        copies : Copies
            All rows; this is a join of their distinct ones.
        ranks : ndarray of shape (n_rows,)
            A number for each row, the lowest for the one to keep before all others.
        grouping : {"components", "star"}
            What makes a group.
        """
        nodes = copies.distinct
        node_of = np.searchsorted(nodes, copies.firsts)
        if grouping == "components":
            labels, n_pairs = self._components(nodes)
        else:
            best = np.full(len(nodes), np.iinfo(np.int64).max)
            np.minimum.at(best, node_of, ranks)
            near = partial(self._near, nodes)
            labels, n_pairs = star_labels(best, near, self._at_once, self.progress)
        members = [_best_first(some, ranks) for some in grouped(labels[node_of])]
        # A label is the smallest of a component, and the centre of a star.
        return FoundGroups(sorted(members, key=np.min), n_pairs)

    def _components(self, nodes: IntArray) -> tuple[IntArray, int]:
        components, n_pairs = Components(np.arange(len(nodes))), 0
        for pairs in self.pair_blocks():
            components.join(np.searchsorted(nodes, pairs.left), np.searchsorted(nodes, pairs.right))
            n_pairs += len(pairs.left)
        return components.labels(), n_pairs

    def _near(self, nodes: IntArray, some: IntArray) -> Matches:
        """Return which nodes some of them are near."""
        queries = self.vectors(nodes[some])
        found = Matches.merged([self._search(*way, queries) for way in self._ways], len(some))
        return Matches(found.offsets, np.searchsorted(nodes, found.ids), found.scores, found.spent)


def _best_first(places: IntArray, ranks: IntArray) -> IntArray:
    best = np.argmin(ranks[places])
    return np.concatenate([places[best : best + 1], np.delete(places, best)])


def find_copies(keys: IntArray, vectors: Callable[[IntArray], Float32Array]) -> Copies:
    """Return which of some rows have equal vectors.

    Parameters
    ----------
    keys : ndarray of shape (n_rows,)
        The rows, rising.
    vectors : callable
        Returns the vectors of keys.
    """
    if not len(keys):
        return Copies(keys, keys)
    at_once = max(1, _ENTRIES_AT_ONCE // vectors(keys[:1]).shape[1])
    hashes = np.empty(len(keys), dtype=np.int64)
    for start, stop in blocks(len(keys), at_once):
        hashes[start:stop] = _hashes(vectors(keys[start:stop])[:, :_FIRST_ENTRIES])
    # Nearly all rows differ from all others in their first entries.
    _, group, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(counts[group] > 1)
    for start, stop in blocks(len(alike), at_once):
        hashes[alike[start:stop]] = _hashes(vectors(keys[alike[start:stop]]))
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    firsts = keys[first[group]]
    # Equal hashes almost always mean equal vectors; almost is looked after.
    suspects = np.flatnonzero(firsts != keys)
    for start, stop in blocks(len(suspects), at_once):
        some = suspects[start:stop]
        equal = vectors(keys[some]) == vectors(firsts[some])
        different = some[~equal.all(axis=1)]
        firsts[different] = keys[different]
    return Copies(keys, firsts)


def _hashes(vectors: Float32Array) -> IntArray:
    """Return a number for each vector, the same for equal ones.

    The bits of the entries, as odd multiples of fixed random numbers, added modulo 2⁶⁴.
    """
    # −0 and 0 are equal, and their bits are not.
    bits = (vectors + np.float32(0)).view(np.uint32)
    rng = np.random.default_rng(0)
    weights = rng.integers(2**63, size=bits.shape[1], dtype=np.uint64) * np.uint64(2)
    mixed = bits.astype(np.uint64) * (weights + np.uint64(1))
    summed = (mixed ^ (mixed >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
    return np.asarray(summed).view(np.int64)


def _keys_of(scope: Scope) -> IntArray:
    return np.arange(len(scope.source)) if scope.keys is None else scope.keys


def _rows_of(scope: Scope) -> IntArray:
    """Return the rows that count."""
    if len(scope.allowed):
        return np.flatnonzero(scope.allowed)
    return np.arange(len(scope.source))


def _from(scope: Scope, row: int) -> BoolArray:
    """Return which rows count, from one of them on."""
    allowed = np.arange(len(scope.source)) >= row
    return allowed & scope.allowed if len(scope.allowed) else allowed
