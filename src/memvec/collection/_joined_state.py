"""The states of several shards as one, and the tables between their segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from memvec.collection._calibration import Blocks, asked_strangers, least_near
from memvec.collection._catalog import NUMBERS_OF_SHARD
from memvec.collection._joint_table import Ask
from memvec.collection._packed_table import PackedTable
from memvec.collection._segment import Segment
from memvec.collection._state import Part, State
from memvec.collection._waiting import Waiting
from memvec.errors import MemvecError
from memvec.storage import disk, open_folder, write_folder
from memvec.types import Float32Array, IntArray

_FORMAT = 1
# As for one collection, more than a sample holds; within a shard at least as many are asked, since
# it has at most about half of the items.
_ASKED_OF_SHARDS = 5000


class SeveralWaiting(Waiting):
    """What waits in several shards, shard by shard; the vectors stay where they are."""

    def __init__(self, parts: Sequence[Waiting]) -> None:
        self._several = parts
        self._starts = np.cumsum([0, *(len(one) for one in parts)])
        self.keys = np.concatenate([one.keys for one in parts])

    def vectors(self, rows: IntArray) -> Float32Array:
        """Return the vectors of some rows, as unit rows."""
        found = np.empty((len(rows), self._several[0].rows.shape[1]), dtype=np.float32)
        of_part = np.searchsorted(self._starts, rows, side="right") - 1
        for number, part in enumerate(self._several):
            here = of_part == number
            if here.any():
                found[here] = part.vectors(rows[here] - self._starts[number])
        return found


@dataclass(frozen=True, eq=False)
class JoinedState(State):
    """The state of several shards; their keys and segments have numbers of their own.

    Attributes
    ----------
    of_shards : mapping of int to State
        That of each shard, by rising number.
    missing : tuple of int
        Shards that did not answer, whose items are left out.
    """

    of_shards: Mapping[int, State]
    missing: tuple[int, ...]

    def left_without(self, lost: int) -> JoinedState:
        """Return the state after a shard was lost; the tables of the others are here already."""
        left = {number: one for number, one in self.of_shards.items() if number != lost}
        tables = {
            names: table
            for names, table in self.calibration.items()
            if not any(name // NUMBERS_OF_SHARD == lost for name in names)
        }
        return joined_state(left, tables, tuple(sorted({*self.missing, lost})))


def joined_state(
    of_shards: Mapping[int, State], tables: Blocks, missing: tuple[int, ...]
) -> JoinedState:
    """Return the state of several shards.

    Parameters
    ----------
    of_shards : mapping of int to State
        By rising number of the shard.
    tables : mapping
        What segments of different shards find in each other.
    missing : tuple of int
        Shards that did not answer.
    """
    states = list(of_shards.values())
    waiting = SeveralWaiting([state.waiting.rows for state in states])
    alive = np.concatenate([state.waiting.alive for state in states])
    blocks: dict[tuple[int, int], PackedTable] = dict(tables)
    for state in states:
        blocks |= state.calibration
    return JoinedState(
        sum(state.change for state in states),
        tuple(part for state in states for part in state.segments),
        Part(waiting, alive),
        blocks,
        of_shards,
        missing,
    )


class SharedTables:
    """What segments of different shards find in each other, in a folder beside the shards.

    Whoever makes a segment visible asks for its tables first. They can be made again at any time:
    a folder that is damaged is taken for an empty one.
    """

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self._folder, self._read_only = folder, read_only
        self._kept: dict[tuple[int, int], PackedTable] = _read(folder)

    def between(self, states: Sequence[State], ask: Ask) -> Blocks:
        """Return the tables between all segments of different shards; missing ones are made.

        Parameters
        ----------
        states : sequence of State
            Of the shards.
        ask : callable
            Returns the matches of rows in a segment, and what its stages see of them.
        """
        n_items = sum(state.n_items for state in states)
        tables, fresh = {}, False
        for here in states:
            for there in states:
                if here is there:
                    continue
                for segment, source in _pairs(here, there):
                    name = segment.rows.number, source.rows.number
                    made = self._kept.get(name)
                    if made is None:
                        made, fresh = _found(segment, source, n_items, ask), True
                    tables[name] = made
        changed = fresh or len(tables) < len(self._kept)
        self._kept = tables
        if changed and not self._read_only:
            _write(self._folder, tables)
        return {name: table for name, table in tables.items() if table.blob}


def _pairs(here: State, there: State) -> list[tuple[Part[Segment], Part[Segment]]]:
    return [(segment, source) for segment in here.segments for source in there.segments]


_NOTHING = PackedTable(b"")


def _found(segment: Part[Segment], source: Part[Segment], n_items: int, ask: Ask) -> PackedTable:
    """Return what the strangers of a segment find in another; one without a blob where none do."""
    places = asked_strangers(
        segment.rows, segment.alive, source.rows, source.alive, n_items, _ASKED_OF_SHARDS
    )
    if not len(places):
        return _NOTHING
    table = ask(segment.rows, source.rows.vectors(source.rows.strangers[places]))
    queries, keys = places[table.queries], segment.rows.keys[table.keys]
    return PackedTable.of(replace(table, queries=queries, keys=keys), least_near(segment.rows))


def _write(folder: Path, tables: Mapping[tuple[int, int], PackedTable]) -> None:
    blobs = [table.blob for table in tables.values()]
    arrays = {
        "names": np.array(list(tables), dtype=np.int64).reshape(-1, 2),
        "offsets": np.cumsum([0, *map(len, blobs)]),
        "blobs": np.frombuffer(b"".join(blobs), dtype=np.uint8),
    }
    # A full disk: whoever opens the shards next makes them again.
    with suppress(MemvecError, OSError), disk.refusals(folder):
        write_folder(folder, arrays, {"format": _FORMAT})


def _read(folder: Path) -> dict[tuple[int, int], PackedTable]:
    tables: dict[tuple[int, int], PackedTable] = {}
    with suppress(MemvecError, OSError, KeyError, ValueError):
        arrays, meta = open_folder(folder, verify=True)
        if meta["format"] != _FORMAT:
            return {}
        content, offsets = arrays["blobs"].tobytes(), arrays["offsets"].tolist()
        for number, (segment, source) in enumerate(arrays["names"].tolist()):
            blob = content[offsets[number] : offsets[number + 1]]
            tables[segment, source] = PackedTable.read(blob) if blob else _NOTHING
    return tables
