"""The matches of a sample in all segments, as one table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from memvec.collection._calibration import Blocks
from memvec.collection._sample import Sample
from memvec.collection._segment import Segment
from memvec.collection._state import State
from memvec.errors import CorruptIndexError
from memvec.guarantee import CalibrationTable, seen_by_stages
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Returns the matches of rows in a segment, and what its stages see of them.
Ask: TypeAlias = Callable[[Segment, Float32Array], CalibrationTable]


class AskedByWaiting:
    """What rows that wait find in segments: asked once for each, and kept while it is of use."""

    def __init__(self, ask: Ask | None = None) -> None:
        self._ask = ask or (lambda segment, rows: segment.index.calibration_rows(rows))
        # By the number of a segment; queries are numbered by their keys.
        self._kept: dict[int, CalibrationTable] = {}
        self._lock = threading.Lock()

    def of(self, segment: Segment, keys: IntArray, vectors: Float32Array) -> CalibrationTable:
        """Return the matches of rows in a segment, queries numbered by the keys, which rise."""
        with self._lock:
            tables = []
            fresh = np.ones(len(keys), dtype=bool)
            if (kept := self._kept.get(segment.number)) is not None:
                tables.append(kept.rows(np.isin(kept.queries, keys)))
                fresh = ~np.isin(keys, kept.queries)
            if fresh.any():
                table = self._ask(segment, vectors[fresh])
                asked = keys[fresh]
                tables.append(
                    replace(table, queries=asked[table.queries], keys=segment.keys[table.keys])
                )
            found = tables[0] if len(tables) == 1 else CalibrationTable.merged(tables)
            self._kept[segment.number] = found
            return found

    def forget(self, number: int) -> None:
        """Drop what was found in a segment."""
        self._kept.pop(number, None)


class JointTable(NamedTuple):
    """Matches of calibration queries in some segments, and where they are.

    Attributes
    ----------
    numbers : tuple of int
        Of the segments.
    table : CalibrationTable or None
        None without any match.
    segment_of, row_of : ndarray of shape (n_rows,)
        The place of the segment that holds the match of each row, −1 where none does, and its row
        there.
    """

    numbers: tuple[int, ...]
    table: CalibrationTable | None
    segment_of: IntArray
    row_of: IntArray

    @classmethod
    def of(cls, table: CalibrationTable | None, state: State) -> JointTable:
        """Find where the matches of a table are."""
        numbers = tuple(part.rows.number for part in state.segments)
        n_rows = 0 if table is None else len(table)
        segment_of, row_of = np.full(n_rows, -1), np.zeros(n_rows, dtype=np.int64)
        if table is not None:
            for place, part in enumerate(state.segments):
                here, rows = part.find(table.keys)
                segment_of[here], row_of[here] = place, rows
        return cls(numbers, table, segment_of, row_of)

    @property
    def places(self) -> list[IntArray]:
        """For each segment the rows of the table whose match it holds."""
        return [np.flatnonzero(self.segment_of == place) for place in range(len(self.numbers))]

    @property
    def n_bytes(self) -> int:
        """What the table and the places take."""
        places = int(self.segment_of.nbytes + self.row_of.nbytes)
        return places + (0 if self.table is None else self.table.n_bytes)

    def counting(self, passing: Sequence[BoolArray]) -> BoolArray:
        """Tell which rows of the table are matches that count."""
        counts = np.zeros(len(self.row_of), dtype=bool)
        for place, some in enumerate(passing[: len(self.numbers)]):
            here = np.flatnonzero(self.segment_of == place)
            counts[here] = some[self.row_of[here]]
        return counts

    def left(self, counts: BoolArray) -> CalibrationTable | None:
        """Return the rows that count, ranked among themselves; None if there are none."""
        if self.table is None or not counts.any():
            return None
        if counts.all():
            return self.table
        return self.table.rows(counts).ranked()

    def asked_by(self, numbers: IntArray) -> JointTable:
        """Return the rows of some queries, with the numbers that they have now; −1 is for none.

        The order of the queries stays.
        """
        if self.table is None:
            return self
        now = numbers[self.table.queries]
        some = now >= 0
        table = self.table.rows(some).asked_by(now[some]) if some.any() else None
        return JointTable(self.numbers, table, self.segment_of[some], self.row_of[some])

    def followed_by(self, more: JointTable) -> JointTable:
        """Return the rows of two tables of the same segments; the queries of one come later."""
        if self.table is None or more.table is None:
            return self if more.table is None else more
        return JointTable(
            self.numbers,
            CalibrationTable.joined([self.table, more.table]),
            np.concatenate([self.segment_of, more.segment_of]),
            np.concatenate([self.row_of, more.row_of]),
        )


class Strangers(NamedTuple):
    """What the strangers of all segments find, from a cosine on: samples take their rows of it.

    Attributes
    ----------
    joint : JointTable
        Queries are numbered by the place of their segment, and among its strangers.
    starts : ndarray of shape (n_segments + 1,)
        The number of the first stranger of each segment, and of none.
    """

    joint: JointTable
    starts: IntArray

    @classmethod
    def of(cls, state: State, below: float, least: float) -> Strangers:
        """Find the matches, from a cosine on, of strangers with priorities below a bound."""
        living = [part.rows for part in state.segments if part.n_alive]
        starts = np.cumsum([0, *(len(part.rows.strangers) for part in state.segments)])
        tables: list[CalibrationTable] = []
        for first, part in zip(starts.tolist(), state.segments, strict=False):
            asking = part.rows.stranger_priorities < below
            numbers = np.where(asking, first + np.arange(len(asking)), -1)
            for table in _tables_of_source(part.rows, living, state.calibration, least):
                tables.append(_renumbered(table, numbers[table.queries], least))
        return cls(JointTable.of(_merged(tables), state), starts)

    @property
    def n_bytes(self) -> int:
        """What the rows take."""
        return self.joint.n_bytes

    def sampled(
        self, state: State, sample: Sample, asked: AskedByWaiting, least: float
    ) -> JointTable:
        """Return the rows of a sample, and those of its queries that wait.

        Matches among the rows that wait are left out. They are scanned, so that they are missed
        less than others or not at all: with them, the share of a range that a query misses would be
        no larger, and more queries would have a share of nothing. Among the k nearest they take
        ranks that other rows have here: with as many waiting as in segments, 1.6 to 3 % were missed
        where 5 % were allowed.
        """
        chosen = [start + places for start, places in zip(self.starts, sample.chosen, strict=False)]
        queries = np.concatenate([np.empty(0, dtype=np.int64), *chosen])
        numbers = np.full(self.starts[-1], -1)
        numbers[queries] = np.arange(len(queries))
        waiting = _table_of_waiting(state, sample, len(queries), asked, least)
        return self.joint.asked_by(numbers).followed_by(JointTable.of(waiting, state))


def _table_of_waiting(
    state: State, sample: Sample, first: int, asked: AskedByWaiting, least: float
) -> CalibrationTable | None:
    """Return what the queries of a sample that wait find in segments, numbered from the first."""
    if not len(sample.waiting):
        return None
    keys = state.waiting.keys[sample.waiting]
    vectors = state.waiting.rows.vectors(sample.waiting)
    tables = []
    for part in state.segments:
        if part.n_alive:
            table = asked.of(part.rows, keys, vectors)
            queries = first + np.searchsorted(keys, table.queries)
            tables.append(_renumbered(table, queries, least))
    return _merged(tables)


def _merged(tables: Sequence[CalibrationTable]) -> CalibrationTable | None:
    return CalibrationTable.merged(tables) if sum(map(len, tables)) else None


def _tables_of_source(
    source: Segment, segments: Sequence[Segment], blocks: Blocks, least: float
) -> Iterator[CalibrationTable]:
    """Yield what the strangers of a segment find in each of several, from a cosine on at least."""
    for segment in segments:
        if segment is not source:
            if (packed := blocks.get((segment.number, source.number))) is not None:
                is_whole = least < packed.least
                yield packed.whole(partial(_seen, segment, source)) if is_whole else packed.near()
        elif (table := source.index.calibration_table) is not None:
            near = table if least == -np.inf else table.rows(table.cosines >= least)
            yield replace(near, keys=source.keys[near.keys])


def _seen(
    segment: Segment, source: Segment, asked: IntArray, keys: IntArray, cosines: Float64Array
) -> tuple[Float32Array, Float32Array]:
    """Return what the stages of a segment see of strangers of another and of their matches."""
    rows = np.minimum(np.searchsorted(segment.keys, keys), len(segment) - 1)
    if not np.array_equal(segment.keys[rows], keys):
        raise CorruptIndexError(
            f"The collection is damaged: a calibration cannot be read: segment {segment.number} "
            "has no such rows. Check and repair it."
        )
    strangers, query_of = np.unique(asked, return_inverse=True)
    queries = source.vectors(source.strangers[strangers])
    cascade = segment.index.units.cascade
    places = cascade.units.places[rows].astype(np.int64)
    return seen_by_stages(cascade, queries, query_of, places, cosines)


def _renumbered(table: CalibrationTable, queries: IntArray, least: float) -> CalibrationTable:
    """Return the rows from a cosine on, with the numbers that queries have now; −1 is for none."""
    kept = (queries >= 0) & (table.cosines >= least)
    return table.rows(kept).asked_by(queries[kept])
