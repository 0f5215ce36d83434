"""Searches of units on a card: columns, units, members, scores, without a wait between them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from memvec.errors import DeviceMemoryError
from memvec.gpu._join import launch_join
from memvec.gpu._limits import Limits
from memvec.gpu._members import launch_members
from memvec.gpu._packages import cupy
from memvec.gpu._queue import Queue
from memvec.gpu._scan import launch_scan
from memvec.gpu._scores import CardRows, launch_scores
from memvec.gpu._units import CardUnits
from memvec.kernels import MATCH_SLACK
from memvec.matches import N_COUNTS, Matches
from memvec.types import Float64Array, IntArray

# Pairs that a search has room for at first, at each step; and at most, before queries are shared
# out over several searches: 1 GiB.
_ROOM, _MOST_ROOM = 1 << 20, 1 << 27
# How much more room there is than was needed before, and of how many plans that is remembered.
_MORE, _REMEMBERED = 1.25, 64
#: Queries that are searched at the same time.
QUERIES_AT_ONCE = 1 << 14


class Asked(NamedTuple):
    """Queries on a card.

    Attributes
    ----------
    rows : CardRows
        Stored like the rows that are searched.
    codes : cupy.ndarray of shape (n_queries, bits / 32), uint32
    """

    rows: CardRows
    codes: Any

    def __len__(self) -> int:
        return len(self.codes)

    def some(self, start: int, stop: int) -> Asked:
        """Return some of the queries."""
        data, scales, _ = self.rows
        part = CardRows(data[start:stop], None if scales is None else scales[start:stop])
        return Asked(part, self.codes[start:stop])


class Steps:
    """Queues between the steps of a search: columns, units, members, hits.

    Counts are theirs, in this order, and those of the members that are tested.
    """

    def __init__(self, units: CardUnits, room: int, counts: Any = None) -> None:
        self._card = units.card
        self.counts = units.card.empty("Counts", (5,), np.uint64) if counts is None else counts
        self.queues = [
            Queue(units.card, room, count=self.counts[step : step + 1], scored=step == 3)
            for step in range(4)
        ]

    def clear(self) -> None:
        """Forget what was found."""
        self.counts.fill(0)

    def launch(
        self,
        units: CardUnits,
        limits: Limits,
        asked: Asked,
        lowest: float,
        *,
        allowed: Any = None,
    ) -> None:
        """Start a search that appends to the queues, and do not wait.

        Of one query without groups, the second queue counts the columns of single rows.
        """
        columns, passed, members, hits = self.queues
        codes = units.as_columns_see(asked.codes)
        if len(asked) == 1:
            launch_scan(codes, units.columns, limits.columns, columns)
            if units.groups is None:
                n_tested = units.n_tested
                launch_scan(codes, units.columns[n_tested:], limits.columns[n_tested:], passed)
        else:
            launch_join(codes, units.columns, limits.columns, columns)
        candidates = columns
        if units.groups is not None and limits.units is not None:
            seen = units.as_units_see(asked.codes)
            launch_members(seen, columns, units.groups, limits.units, passed)
            candidates = passed
        given, tested = (candidates, units.units, limits.members), self.counts[4:]
        launch_members(asked.codes, *given, members, tested=tested)
        launch_scores(asked.rows, units.rows, members, lowest, hits, allowed=allowed)

    def grow(self, counts: Any, most: int = 1 << 40) -> bool | None:
        """Make room for what had none; None where all had room, False where it would be too much.

        Steps behind one that had no room have seen too little; their turn comes later.
        """
        for step, n in enumerate(counts[:4].tolist()):
            queue = self.queues[step]
            if n > queue.capacity:
                if n > most:
                    return False
                room, count = int(n) + int(n) // 8, queue.count
                self.queues[step] = Queue(self._card, room, count=count, scored=step == 3)
                return True
        return None


class Rooms:
    """What searches had to have room for, so that the next ones have it from the beginning."""

    def __init__(self) -> None:
        self._most: dict[int, float] = {}

    def of(self, limits: Limits, n_queries: int) -> int:
        """Return the pairs to make room for, for some queries."""
        most = self._most.get(id(limits.columns), 0.0)
        return min(max(_ROOM, int(_MORE * most * n_queries)), _MOST_ROOM)

    def saw(self, limits: Limits, n_queries: int, counts: Any) -> None:
        """Take note of what some queries took."""
        if len(self._most) > _REMEMBERED:
            self._most = {}
        key, most = id(limits.columns), float(counts[:4].max()) / n_queries
        self._most[key] = max(self._most.get(key, 0.0), most)


def search_units(
    units: CardUnits,
    limits: Limits,
    asked: Asked,
    similarity: float,
    *,
    allowed: Any = None,
    rooms: Rooms | None = None,
) -> Matches:
    """Return everything above a similarity that passes.

    Parameters
    ----------
    units : CardUnits
    limits : Limits
        Of the thresholds.
    asked : Asked
        The queries.
    similarity : float
    allowed : cupy.ndarray of shape (n_rows,), uint8, optional
        By place; all may be hits without it.
    rooms : Rooms, optional
        What earlier searches had to have room for.
    """
    rooms = Rooms() if rooms is None else rooms
    found, start, size = [], 0, QUERIES_AT_ONCE
    steps = _some_steps(units, rooms.of(limits, min(size, len(asked))))
    lowest = similarity - MATCH_SLACK
    while start < len(asked):
        some = asked.some(start, start + size)
        steps.clear()
        steps.launch(units, limits, some, lowest, allowed=allowed)
        counts = steps.counts.get()
        grown = _grown(steps, counts, len(some))
        if grown is None:
            rooms.saw(limits, len(some), counts)
            found.append(_matches(units, steps, counts, len(some)))
            start += len(some)
        elif not grown:
            size = -(-len(some) // 2)
    return Matches.stacked(found)


def _some_steps(units: CardUnits, room: int) -> Steps:
    """Return steps with as much room as there was before, or less on a card that is nearly full."""
    with suppress(DeviceMemoryError):
        return Steps(units, room)
    return Steps(units, min(room, _ROOM))  # what was taken before is given back by now


def _grown(steps: Steps, counts: Any, n_queries: int) -> bool | None:
    """Make room, as `Steps.grow`; several queries are shared out where the card has no more."""
    if n_queries == 1:
        return steps.grow(counts)
    try:
        return steps.grow(counts, _MOST_ROOM)
    except DeviceMemoryError:
        return False


def _matches(units: CardUnits, steps: Steps, counts: Any, n_queries: int) -> Matches:
    """Return what the queues hold, in order."""
    columns, passed, members, hits = (
        queue.entries[: int(n)] for queue, n in zip(steps.queues, counts[:4].tolist(), strict=True)
    )
    spent = spent_on(units, columns, passed, members, n_queries)
    scores = steps.queues[3].scores[: len(hits)]
    ids = units.ids(hits[:, 1])
    return in_order(hits[:, 0].get(), ids.get(), scores.get(), spent)


def in_order(queries: Any, ids: IntArray, scores: Float64Array, spent: IntArray) -> Matches:
    """Return hits by query, falling score and id; a hit of two units counts once."""
    order = np.lexsort((ids, -scores, queries))
    queries, ids, scores = queries[order], ids[order], scores[order]
    once = np.ones(len(ids), dtype=bool)
    once[1:] = (ids[1:] != ids[:-1]) | (queries[1:] != queries[:-1])
    return Matches.of_pairs(queries[once], ids[once], scores[once], spent)


def spent_on(units: CardUnits, columns: Any, passed: Any, members: Any, n_queries: int) -> IntArray:
    """Return what queries took: tests and visits of units, codes of members, exact products.

    Rows that no unit stands for are one unit, which is visited without a test.
    """
    n_tested, n_groups = units.n_tested, len(units.group_scales)
    n_singles = len(units.units.begins) - n_tested
    spent = np.zeros((n_queries, N_COUNTS), dtype=np.int64)
    spent[:, 0], candidates = n_groups or n_tested, columns
    if units.groups is not None:
        groups = columns[columns[:, 1] < n_groups]
        sizes = (units.groups.ends - units.groups.begins)[groups[:, 1]]
        spent[:, 0] += _added(groups[:, 0], n_queries, sizes)
        candidates = passed
    size = units.unit_size if units.shape.first_words == units.shape.n_words else None
    if size is None or not units.in_order or units.shape.doubles:
        tested = candidates[candidates[:, 1] < n_tested]
        sizes = (units.units.ends - units.units.begins)[tested[:, 1]]
        spent[:, 1] = _added(tested[:, 0], n_queries)
        spent[:, 2] = _added(tested[:, 0], n_queries, sizes)
    else:
        # Single rows pass as columns where they pass as members: of these there are few.
        singles = members[members[:, 1] >= n_tested * size]
        passing = _added(candidates[:, 0], n_queries) - _added(singles[:, 0], n_queries)
        spent[:, 1], spent[:, 2] = passing, passing * size
    spent[:, 1] += n_singles > 0
    spent[:, 2] += n_singles
    spent[:, 3] = spent[:, 2]
    spent[:, 4] = _added(members[:, 0], n_queries)
    return spent


def _added(queries: Any, n_queries: int, numbers: Any = None) -> Any:
    if not len(queries):
        return 0
    added = cupy().bincount(queries, weights=numbers, minlength=n_queries)
    return added.get().astype(np.int64)
