"""Rows of a card joined with themselves: each unordered pair is tested once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from memvec.errors import DeviceMemoryError
from memvec.gpu._join import launch_join
from memvec.gpu._limits import Limits
from memvec.gpu._members import launch_members
from memvec.gpu._packages import cupy
from memvec.gpu._queue import Queue
from memvec.gpu._scores import launch_scores
from memvec.gpu._units import CardUnits
from memvec.kernels import MATCH_SLACK
from memvec.progress import progress_bar

# Rows that are queries at the same time, at first; pairs that each step has room for.
_ROWS, _MOST_ROWS = 1 << 16, 1 << 21
_ROOM, _LEAST_ROOM = 1 << 26, 1 << 20
# The last step, of three.
_HITS = 2
# Blocks of rows grow while they fill less than this share of the room.
_FILLED = 4


class OwnPairs(NamedTuple):
    """Some pairs of rows on a card.

    Attributes
    ----------
    left, right : cupy.ndarray of shape (n_pairs,), int32
        Places of the rows.
    scores : cupy.ndarray of shape (n_pairs,), float64
    """

    left: Any
    right: Any
    scores: Any


def joins_itself(units: CardUnits) -> bool:
    """Tell whether `own_pairs` joins these units: of one level, a row in one unit."""
    return units.in_order and not units.shape.doubles


def own_pairs(
    units: CardUnits,
    limits: Limits,
    similarity: float,
    *,
    allowed: Any = None,
    progress: bool | None = False,
) -> Iterator[OwnPairs]:
    """Yield all pairs of different rows above a similarity that pass, block by block.

    A row is tested against the units of the rows behind it, in the order of the codes.

    Parameters
    ----------
    units : CardUnits
        Such as `joins_itself` accepts.
    limits : Limits
        Of the thresholds.
    similarity : float
    allowed : cupy.ndarray of shape (n_rows,), uint8, optional
        By place: which rows are joined; all without it.
    progress : bool, optional
        Show a bar; None shows it on a terminal.
    """
    with progress_bar("joining", units.n_rows, progress) as advance:
        join = _Join(units, limits, similarity - MATCH_SLACK, allowed)
        start, size = 0, _ROWS
        while start < units.n_rows:
            stop = min(start + size, units.n_rows)
            most = join.run(start, stop)
            if most > join.room:
                if stop - start == 1:
                    join.make_room(most)
                size = max(1, int((stop - start) * min(0.5, join.room / most)))
                continue
            yield join.found()
            advance(stop - start)
            start = stop
            if _FILLED * most < join.room:
                size = min(2 * size, _MOST_ROWS)


class _Join:
    """Queues of a join, and how a block of rows is joined."""

    def __init__(self, units: CardUnits, limits: Limits, lowest: float, allowed: Any) -> None:
        self._units, self._limits, self._lowest = units, limits, lowest
        self._allowed, self._queues = allowed, list[Queue]()
        with units.card.at_work("A join"):
            # Only rows before the last member of a unit can have a member behind them.
            self._stops = units.units.ends - 1
        self._make_some_room()

    def make_room(self, room: int) -> None:
        """Make room for so many pairs at each step."""
        card, self.room = self._units.card, room
        self._queues.clear()  # given back first
        self._queues += [Queue(card, room, scored=step == _HITS) for step in range(3)]

    def _make_some_room(self) -> None:
        """Make as much room as is usual, or less on a card that is nearly full."""
        room = _ROOM
        while True:
            try:
                return self.make_room(room)
            except DeviceMemoryError:
                if room <= _LEAST_ROOM:
                    raise
            room //= 8

    def run(self, start: int, stop: int) -> int:
        """Join some rows; return how many pairs a step had, beyond its room too."""
        with self._units.card.at_work("A join"):
            return self._run(start, stop)

    def _run(self, start: int, stop: int) -> int:
        units, limits = self._units, self._limits
        columns, members, hits = self._queues
        for queue in self._queues:
            queue.clear()
        # Units before the first have no member behind any of the rows.
        ends = units.units.ends
        first = int(cupy().searchsorted(ends, cupy().asarray([start + 1], ends.dtype), "right")[0])
        launch_join(
            units.units.codes,
            units.columns[first:],
            limits.columns[first:],
            columns,
            stops=self._stops[first:],
            row_range=(start, stop),
        )
        n_candidates = columns.length()
        if n_candidates > self.room:
            return n_candidates
        columns.entries[:n_candidates, 1] += first
        given = units.units, limits.members, members
        launch_members(units.units.codes, columns, *given, once=True)
        rows = units.rows
        launch_scores(rows, rows, members, self._lowest, hits, allowed=self._allowed)
        return max(n_candidates, members.length())

    def found(self) -> OwnPairs:
        """Return the pairs of the rows that were joined last."""
        with self._units.card.at_work("A join"):
            hits, places = self._queues[_HITS], self._units.rows.places
            n = hits.length()
            left, right, scores = places[hits.entries[:n, 0]], hits.entries[:n, 1], hits.scores[:n]
            if self._allowed is None:
                return OwnPairs(left, right.copy(), scores.copy())
            kept = self._allowed[left] > 0
            return OwnPairs(left[kept], right[kept], scores[kept])
