"""All pairs of similar items, block by block; and which items are copies of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from memvec.collection._question import Question
from memvec.collection._state import Part, State
from memvec.guarantee import Plan
from memvec.kernels import blocks
from memvec.matches import Matches
from memvec.progress import progress_bar
from memvec.search import search_scopes
from memvec.types import BoolArray, Float32Array, IntArray

# Items that are queries at the same time: their matches are held in memory together.
_QUERIES_AT_ONCE = 64
# Those that wait are compared by products of matrices, which pay off for many.
_WAITING_AT_ONCE = 512
_HASHED_AT_ONCE = 8192


class Pairs(NamedTuple):
    """Some pairs of items, by key."""

    left: IntArray
    right: IntArray
    scores: Float32Array


def pair_blocks(
    question: Question, plan: Plan, threads: int | None, progress: bool | None
) -> Iterator[Pairs]:
    """Yield each pair of rows that pass and are similar, once.

    Rows of a part are queries to it and to the parts behind it; within a part, a pair counts when
    it is found from its first row.
    """
    total = sum(int(np.count_nonzero(some)) for some in question.passing)
    with progress_bar("joining", total, progress) as advance:
        for number, passing in enumerate(question.passing):
            rows = np.flatnonzero(passing)
            waits = number == len(question.state.segments)
            for start, stop in blocks(len(rows), _WAITING_AT_ONCE if waits else _QUERIES_AT_ONCE):
                yield _pairs_of(question, plan, number, rows[start:stop], threads)
                advance(stop - start)


def _pairs_of(
    question: Question, plan: Plan, number: int, rows: IntArray, threads: int | None
) -> Pairs:
    """Return the pairs of some rows of a part with rows behind them."""
    part, similarity = question.state.parts[number], question.similarity
    queries, own = part.rows.vectors(rows), part.keys[rows]
    here, behind = question.scopes[number : number + 1], question.scopes[number + 1 :]
    found = search_scopes(here, queries, similarity, plan.thresholds, threads)
    found = found.kept(found.ids > own[found.queries])
    others = search_scopes(behind, queries, similarity, plan.thresholds, threads)
    both = Matches.merged([found, others], len(rows))
    return Pairs(own[both.queries], both.ids, both.scores.astype(np.float32))


def first_copies(state: State, passing: Sequence[BoolArray]) -> tuple[IntArray, IntArray]:
    """Return the keys of all rows that pass, rising, and of each the first with an equal vector."""
    parts = list(zip(state.parts, passing, strict=True))
    keys = np.concatenate([part.keys[some] for part, some in parts])
    hashes = np.concatenate([_hashes(part, some) for part, some in parts])
    order = np.argsort(keys)
    keys, hashes = keys[order], hashes[order]
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    firsts = keys[first[group]]
    # Equal hashes almost always mean equal vectors; almost is looked after.
    suspects = np.flatnonzero(firsts != keys)
    for start, stop in blocks(len(suspects), _HASHED_AT_ONCE):
        some = suspects[start:stop]
        equal = _vectors(state, keys[some]) == _vectors(state, firsts[some])
        different = some[~equal.all(axis=1)]
        firsts[different] = keys[different]
    return keys, firsts


def _vectors(state: State, keys: IntArray) -> Float32Array:
    return state.vectors(keys, state.waiting.rows.rows.shape[1])


def _hashes(part: Part[Any], passing: BoolArray) -> IntArray:
    """Return a number for each row that passes, the same for equal vectors.

    The bits of the entries, as odd multiples of fixed random numbers, added modulo 2⁶⁴.
    """
    rows = np.flatnonzero(passing)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for start, stop in blocks(len(rows), _HASHED_AT_ONCE):
        # −0 and 0 are equal, and their bits are not.
        bits = (part.rows.vectors(rows[start:stop]) + np.float32(0)).view(np.uint32)
        rng = np.random.default_rng(0)
        weights = rng.integers(2**63, size=bits.shape[1], dtype=np.uint64) * np.uint64(2)
        mixed = bits.astype(np.uint64) * (weights + np.uint64(1))
        hashes[start:stop] = (mixed ^ (mixed >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
    return hashes.view(np.int64)
