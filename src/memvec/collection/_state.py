"""One committed state of a collection: what a search sees from its beginning to its end."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from memvec.collection._calibration import Blocks, read_tables
from memvec.collection._catalog import Catalog
from memvec.collection._checksums import FileSum, crc_text, item_sum
from memvec.collection._segment import Segment, segment_folder
from memvec.collection._waiting import Waiting
from memvec.errors import CorruptIndexError
from memvec.types import BoolArray, Float32Array, IntArray

# Items that are read at a time where all are.
_PAGE = 4096

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
    def empty(cls, dim: int) -> State:
        """Return a state of nothing."""
        return cls(-1, (), Part(Waiting.empty(dim), np.empty(0, dtype=bool)), {})

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

    def with_waiting(self, rows: Float32Array, keys: IntArray) -> State:
        """Return the state after an addition, its number the same."""
        alive = np.concatenate([self.waiting.alive, np.ones(len(keys), dtype=bool)])
        return replace(self, waiting=Part(self.waiting.rows.followed_by(rows, keys), alive))

    def live_keys(self) -> IntArray:
        """Return the keys of all items, rising: the order in which they came."""
        return np.sort(np.concatenate([part.keys[part.alive] for part in self.parts]))

    def vectors(self, keys: IntArray, dim: int) -> Float32Array:
        """Return the vectors of items, all of which are here, deleted or not."""
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


def load_state(catalog: Catalog, folder: Path, dim: int, known: State | None) -> State:
    """Read the state that is committed now; of what is known already, nothing is read again.

    The caller sees to it that all that is read belongs to one state.
    """
    dead = _keys(catalog, "SELECT key FROM items WHERE deleted = 1")
    opened = {part.rows.number: part.rows for part in known.segments} if known else {}
    segments = tuple(
        Part(segment, ~np.isin(segment.keys, dead))
        for segment in _segments(catalog, folder, opened)
    )
    waiting = _still_waiting(catalog, dim, known)
    last = int(waiting.keys[-1]) if len(waiting) else -1
    for rows, keys in _read_waiting(catalog, dim, last):
        waiting = waiting.followed_by(rows, keys)
    left = Part(waiting, ~np.isin(waiting.keys, dead))
    tables = read_tables(catalog, known.calibration if known else {})
    return State(catalog.change(), segments, left, tables)


def _still_waiting(catalog: Catalog, dim: int, known: State | None) -> Waiting:
    """Return what is known of the waiting vectors, less what was sealed."""
    [(first,)] = catalog.rows("SELECT min(first_key) FROM waiting")
    if known is None or first is None or not len(known.waiting.keys):
        return Waiting.empty(dim)
    waiting = known.waiting.rows
    return waiting if first == waiting.keys[0] else waiting.after(first - 1)


def _keys(catalog: Catalog, sql: str) -> IntArray:
    keys = [key for (key,) in catalog.rows(sql)]
    if not all(isinstance(key, int) for key in keys):
        raise CorruptIndexError(f"{catalog.path} is damaged: a key is not a number.")
    return np.array(keys, dtype=np.int64)


def _segments(catalog: Catalog, folder: Path, opened: Mapping[int, Segment]) -> Iterator[Segment]:
    for number, files in files_of_segments(catalog).items():
        if number in opened:
            yield opened[number]
        else:
            yield Segment.open(segment_folder(folder, number), number, files)


def files_of_segments(catalog: Catalog) -> dict[int, dict[str, FileSum]]:
    """Return the size and checksum of each file of each segment, in the order of numbers."""
    numbers = _keys(catalog, "SELECT segment FROM segments ORDER BY segment")
    files: dict[int, dict[str, FileSum]] = {number: {} for number in numbers.tolist()}
    sql = "SELECT segment, file, size, crc32 FROM segment_files JOIN segments USING (segment)"
    for row in catalog.rows(sql):
        match row:
            case (int(segment), str(file), int(size), str(crc32)) if segment in files:
                files[segment][file] = FileSum(size, crc32)
            case _:
                raise CorruptIndexError(
                    f"{catalog.path} is damaged: a file of a segment is said to be {row}."
                )
    return files


def _read_waiting(
    catalog: Catalog, dim: int, after: int
) -> Iterator[tuple[Float32Array, IntArray]]:
    """Yield the waiting vectors of larger keys than one, and their keys, blob by blob."""
    for first_key, n_rows, blob, wrong in _blobs(catalog, dim, after):
        if wrong:
            raise CorruptIndexError(wrong)
        rows = np.frombuffer(blob, dtype="<f4").reshape(n_rows, dim)
        yield rows, np.arange(first_key, first_key + n_rows)


def broken_blobs(catalog: Catalog, dim: int) -> Iterator[tuple[int, str]]:
    """Yield the first key of each blob that is damaged, and what is wrong."""
    for first_key, _, _, wrong in _blobs(catalog, dim, -1):
        if wrong:
            yield first_key, wrong


def _blobs(catalog: Catalog, dim: int, after: int) -> Iterator[tuple[int, int, bytes, str]]:
    """Yield first key, number of rows and content of each blob of larger keys, each read once.

    The last is what is wrong with it, or empty.
    """
    # A flipped bit may have made the blob a text of the same bytes, or nothing.
    blob_of = "ifnull(CAST(vectors AS BLOB), x'')"
    sql = f"SELECT n_rows, crc32, {blob_of} FROM waiting WHERE first_key = ?"
    first_keys = _keys(catalog, "SELECT first_key FROM waiting ORDER BY first_key")
    for first_key in first_keys[first_keys > after].tolist():
        # Listed, and yet not found: its number is damaged.
        [(n_rows, saved, blob)] = catalog.rows(sql, [first_key]) or [(0, "none", b"")]
        found = crc_text(zlib.crc32(blob))
        whole = found == saved and isinstance(n_rows, int) and len(blob) == 4 * dim * n_rows
        wrong = (
            f"{catalog.path} is damaged: the checksum (CRC-32) of the {n_rows} vectors from "
            f"key {first_key} on is {found}, saved was {saved}."
        )
        yield first_key, n_rows, blob, "" if whole else wrong


def waiting_keys(catalog: Catalog, dim: int) -> IntArray:
    """Return the keys of all waiting vectors."""
    # By their length, since their number may be damaged, and be any.
    sql = "SELECT first_key, ifnull(length(CAST(vectors AS BLOB)), 0) FROM waiting"
    keys = [np.arange(first, first + size // (4 * dim)) for first, size in catalog.rows(sql)]
    return np.concatenate([np.empty(0, dtype=np.int64), *keys])


def item_keys(catalog: Catalog) -> IntArray:
    """Return the keys of all items, deleted or not."""
    return _keys(catalog, "SELECT key FROM items ORDER BY key")


def broken_items(catalog: Catalog) -> Iterator[tuple[int, str]]:
    """Yield the key of each item that is not what was written, and what is wrong."""
    if not catalog.has_sums:
        return
    sql = """
        SELECT key, id, metadata, crc32 FROM items WHERE key >= ? AND crc32 IS NOT NULL
        ORDER BY key LIMIT ?
    """
    first = -1
    while page := catalog.rows(sql, [first, _PAGE]):
        for key, name, metadata, saved in page:
            found = item_sum(key, name, metadata)
            if found != saved:
                yield (
                    key,
                    f"{catalog.path} is damaged: the checksum (CRC-32) of the item {name!r} "
                    f"is {crc_text(found)}, saved was {crc_text(saved)}.",
                )
        first = page[-1][0] + 1


__all__ = [
    "Part",
    "State",
    "broken_blobs",
    "broken_items",
    "files_of_segments",
    "item_keys",
    "load_state",
    "waiting_keys",
]
