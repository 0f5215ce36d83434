"""Blocks of queries: several threads share them, and what they find is put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import numpy as np

from memvec.kernels._threads import run_blocks
from memvec.matches import N_COUNTS, Matches
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# A similarity below every cosine, at which everything matches.
ANYTHING = -2.0
# Which ids may be hits, where all may: no search looks anything up.
ALL_ALLOWED: BoolArray = np.empty(0, dtype=bool)
# Queries that one thread answers at a time; those of a block share the reading of unit codes.
_QUERY_BLOCK = 16
_INT64 = np.dtype(np.int64)
# Hits that a block of queries has room for before it is asked again with more. Room that is not
# filled is asked for and given back, and never touched.
_ROOM = 65_536


# Where a block of queries puts its hits, in the order of the kernels' arguments: bounds, ids,
# scores, counts.
Room: TypeAlias = tuple[IntArray, IntArray, Float64Array, IntArray]
# One query an entry: rows, or their numbers.
Queries = TypeVar("Queries", Float32Array, IntArray)


def _room_of(n_queries: int, n_hits: int) -> Room:
    return (
        np.empty(n_queries + 1, _INT64),
        np.empty(n_hits, _INT64),
        np.empty(n_hits),
        np.empty((n_queries, N_COUNTS), _INT64),
    )


def room_for(similarity: float, n_vectors: int) -> int:
    """Return how many hits each query has room for; 0 where those of a block share some."""
    return n_vectors if similarity == ANYTHING else 0


def search_blocks(
    some: Callable[[Queries, Room], int],
    queries: Queries,
    room_each: int,
    threads: int | None,
) -> Matches:
    """Search blocks of queries, several threads sharing them, and join their hits."""
    if len(queries) <= _QUERY_BLOCK:
        return _search_block(some, queries, room_each)
    parts: dict[int, Matches] = {}

    def search_block(start: int, stop: int) -> None:
        parts[start] = _search_block(some, queries[start:stop], room_each)

    run_blocks(search_block, len(queries), _QUERY_BLOCK, threads=threads)
    return Matches.stacked([parts[start] for start in sorted(parts)])


def _search_block(
    some: Callable[[Queries, Room], int], queries: Queries, room_each: int
) -> Matches:
    """Search a block of queries, twice where there are more hits than there was room for."""
    n_queries = len(queries)
    n_hits = max(_ROOM, room_each * n_queries)
    room = _room_of(n_queries, n_hits)
    found = some(queries, room)
    if found > n_hits:
        room = _room_of(n_queries, found)
        found = some(queries, room)
    bounds, ids, scores, counts = room
    # Copies: who keeps the hits need not keep the room for all that might have been.
    return Matches(bounds, ids[:found].copy(), scores[:found].copy(), counts)
