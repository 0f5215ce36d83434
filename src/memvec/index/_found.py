"""What cascades find: blocks of queries, shared by threads, and their hits joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memvec.kernels import N_COUNTS, run_blocks
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# A similarity below every cosine, at which everything matches.
ANYTHING = -2.0
# Which ids may be hits, where all may: no search looks anything up.
ALL_ALLOWED: BoolArray = np.empty(0, dtype=bool)
# Queries that one thread answers at a time; those of a block share the reading of unit codes.
_QUERY_BLOCK = 16
# Hits that a block of queries has room for before it is asked again with more.
_ROOM = 16_384


@dataclass(frozen=True, eq=False)
class Found:
    """Hits of some queries, flat, with what was spent on each."""

    offsets: IntArray
    ids: IntArray
    scores: Float64Array
    counts: IntArray


class Room(NamedTuple):
    """Where a block of queries puts its hits, in the order of the kernels' arguments."""

    bounds: IntArray
    ids: IntArray
    scores: Float64Array
    counts: IntArray

    @classmethod
    def of(cls, n_queries: int, n_hits: int) -> Room:
        return cls(
            np.empty(n_queries + 1, dtype=np.int64),
            np.empty(n_hits, dtype=np.int64),
            np.empty(n_hits),
            np.empty((n_queries, N_COUNTS), dtype=np.int64),
        )


def room_for(similarity: float, n_vectors: int) -> int:
    """Return how many hits a query has room for, before it is asked again with more."""
    return n_vectors if similarity == ANYTHING else _ROOM // _QUERY_BLOCK


def search_blocks(
    some: Callable[[Float32Array, Room], int],
    queries: Float32Array,
    room_each: int,
    threads: int | None,
) -> Found:
    """Search blocks of queries, several threads sharing them, and join their hits."""
    rooms: dict[int, Room] = {}

    def search_block(start: int, stop: int) -> None:
        rows = queries[start:stop]
        room = Room.of(stop - start, room_each * (stop - start))
        n_hits = some(rows, room)
        if n_hits > len(room.ids):
            room = Room.of(stop - start, n_hits)
            some(rows, room)
        rooms[start] = room

    if len(queries) <= _QUERY_BLOCK:
        search_block(0, len(queries))
    else:
        run_blocks(search_block, len(queries), _QUERY_BLOCK, threads=threads)
    return _joined([rooms[start] for start in sorted(rooms)])


def _joined(rooms: list[Room]) -> Found:
    if len(rooms) == 1:
        [room] = rooms
        n_hits = room.bounds[-1]
        return Found(room.bounds, room.ids[:n_hits].copy(), room.scores[:n_hits], room.counts)
    sizes = [room.bounds[-1] for room in rooms]
    starts: list[int] = np.cumsum([0, *sizes[:-1]]).tolist() if rooms else []
    bounds = [room.bounds[:-1] + start for room, start in zip(rooms, starts, strict=True)]
    return Found(
        np.concatenate([*bounds, [sum(sizes)]]).astype(np.int64),
        np.concatenate([np.empty(0, dtype=np.int64), *(r.ids[: r.bounds[-1]] for r in rooms)]),
        np.concatenate([np.empty(0), *(r.scores[: r.bounds[-1]] for r in rooms)]),
        np.concatenate([np.empty((0, N_COUNTS), dtype=np.int64), *(r.counts for r in rooms)]),
    )


__all__ = ["ALL_ALLOWED", "ANYTHING", "Found", "Room", "room_for", "search_blocks"]
