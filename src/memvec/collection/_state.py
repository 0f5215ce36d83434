"""One committed state of a collection: what a search sees from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from memvec.collection._calibration import Blocks, read_tables
from memvec.collection._catalog import Catalog
from memvec.collection._contents import (
    check_apart,
    files_of_segments,
    keys_in,
    misfits,
    read_waiting,
    sizes_of_segments,
    wrong_extent,
)
from memvec.collection._segment import Segment, segment_folder
from memvec.collection._settings import Settings
from memvec.collection._waiting import Waiting
from memvec.errors import CorruptIndexError
from memvec.kernels import StoredRows
from memvec.types import BoolArray, Float32Array, IntArray

Rows = TypeVar("Rows", Segment, Waiting)


@dataclass(frozen=True, eq=False)
class Part(Generic[Rows]):
    """A segment, or the waiting vectors, with what of them was deleted.

    Attributes
    ----------
    rows : Segment or Waiting
        Vectors by row number, and the key of each.
    alive : ndarray of shape (n_rows,)
        False where the item was deleted or replaced.
    """

    rows: Rows
    alive: BoolArray

    @cached_property
    def n_alive(self) -> int:
        """Items that were not deleted."""
        return int(np.count_nonzero(self.alive))

    @property
    def keys(self) -> IntArray:
        """The item of each row, rising."""
        return self.rows.keys

    def find(self, keys: IntArray) -> tuple[BoolArray, IntArray]:
        """Return which keys are here, and the rows of those that are."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=bool), np.empty(0, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        here = np.asarray(self.keys[rows] == keys)
        return here, rows[here]

    def without(self, keys: IntArray) -> Part[Rows]:
        """Return the part after a deletion."""
        here, rows = self.find(keys)
        if not here.any():
            return self
        alive = self.alive.copy()
        alive[rows] = False
        return Part(self.rows, alive)


@dataclass(frozen=True, eq=False)
class State:
    """Everything that is searched.

    Attributes
    ----------
    change : int
        The number of changes committed before.
    segments : tuple of Part
        In the order they were made.
    waiting : Part
        What no segment holds yet.
    calibration : mapping
        What the reserve of a segment finds in another: tables by segment and source.
    """

    change: int
    segments: tuple[Part[Segment], ...]
    waiting: Part[Waiting]
    calibration: Blocks

    @classmethod
    def empty(cls, settings: Settings) -> State:
        """Return a state of nothing."""
        nothing = Waiting.empty(settings.dim, settings.dtype)
        return cls(-1, (), Part(nothing, np.empty(0, dtype=bool)), {})

    @property
    def parts(self) -> tuple[Part[Segment] | Part[Waiting], ...]:
        """The segments, then what waits."""
        return (*self.segments, self.waiting)

    @cached_property
    def n_items(self) -> int:
        """Items that were not deleted."""
        return sum(part.n_alive for part in self.parts)

    @property
    def last_key(self) -> int:
        """The largest key of a vector, deleted or not; -1 where there is none."""
        return max((int(part.keys[-1]) for part in self.parts if len(part.keys)), default=-1)

    def without(self, keys: IntArray) -> State:
        """Return the state after a deletion, its number the same."""
        segments = tuple(part.without(keys) for part in self.segments)
        return replace(self, segments=segments, waiting=self.waiting.without(keys))

    def with_waiting(self, rows: StoredRows, keys: IntArray) -> State:
        """Return the state after an addition, its number the same."""
        alive = np.concatenate([self.waiting.alive, np.ones(len(keys), dtype=bool)])
        return replace(self, waiting=Part(self.waiting.rows.followed_by(rows, keys), alive))

    def live_keys(self) -> IntArray:
        """Return the keys of all items, rising: the order in which they came."""
        return np.sort(np.concatenate([part.keys[part.alive] for part in self.parts]))

    def vectors(self, keys: IntArray, dim: int) -> Float32Array:
        """Return the vectors of items, all of which are here, deleted or not, as unit rows."""
        vectors = np.empty((len(keys), dim), dtype=np.float32)
        missing = np.ones(len(keys), dtype=bool)
        for part in self.parts:
            here, rows = part.find(keys)
            if here.any():
                vectors[here] = part.rows.vectors(rows)
                missing &= ~here
        if missing.any():
            raise CorruptIndexError(
                f"The collection is damaged: the item of key {keys[missing][0]} has no vector."
            )
        return vectors

    def lying(self, keys: IntArray, dim: int) -> Float32Array:
        """Return the same, not to be written to: waiting rows that lie in a row are not copied.

        BLAS halves the product of an array with itself.
        """
        here, rows = self.waiting.find(keys)
        if len(rows) and here.all():
            return self.waiting.rows.vectors(rows)
        return self.vectors(keys, dim)


def load_state(
    catalog: Catalog, folder: Path, settings: Settings, device: str, known: State | None
) -> State:
    """Read the state that is committed now; of what is known already, nothing is read again.

    The caller sees to it that all that is read belongs to one state.
    """
    change = catalog.change()
    dead = keys_in(catalog, "SELECT key FROM items WHERE deleted = 1")
    opened = {part.rows.number: part.rows for part in known.segments} if known else {}
    segments = tuple(
        Part(segment, ~np.isin(segment.keys, dead))
        for segment in _segments(catalog, folder, settings, device, opened)
    )
    waiting = _still_waiting(catalog, settings, known)
    last = int(waiting.keys[-1]) if len(waiting) else -1
    for rows, keys in read_waiting(catalog, settings, last):
        waiting = waiting.followed_by(rows, keys)
    left = Part(waiting, ~np.isin(waiting.keys, dead))
    check_apart(catalog, [*(part.keys for part in segments), waiting.keys])
    tables = read_tables(catalog, known.calibration if known else {})
    for _, wrong in misfits(catalog.path, [part.rows for part in segments], tables):
        raise CorruptIndexError(wrong)
    return State(change, segments, left, tables)


def _still_waiting(catalog: Catalog, settings: Settings, known: State | None) -> Waiting:
    """Return what is known of the waiting vectors, less what was sealed."""
    [(first,)] = catalog.rows("SELECT min(first_key) FROM waiting")
    if known is None or first is None or not len(known.waiting.keys):
        return Waiting.empty(settings.dim, settings.dtype)
    waiting = known.waiting.rows
    return waiting if first == waiting.keys[0] else waiting.after(first - 1)


def _segments(
    catalog: Catalog,
    folder: Path,
    settings: Settings,
    device: str,
    opened: Mapping[int, Segment],
) -> Iterator[Segment]:
    sizes = sizes_of_segments(catalog)
    for number, files in files_of_segments(catalog).items():
        if number in opened:
            yield opened[number]
            continue
        segment = Segment.open(segment_folder(folder, number), number, files, device)
        for wrong in wrong_extent(segment, sizes[number], settings.dim, settings.dtype):
            raise CorruptIndexError(wrong)
        yield segment


def check_items(catalog: Catalog, state: State) -> None:
    """Raise where items and vectors differ in number: some have lost the others."""
    n_items = catalog.number("SELECT count(*) FROM items WHERE deleted = 0")
    if n_items != state.n_items:
        raise CorruptIndexError(
            f"{catalog.path} is damaged: it has {n_items} items and {state.n_items} vectors that "
            "are not deleted. Check and repair the collection."
        )
