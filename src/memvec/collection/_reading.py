"""What a collection holds, read: items by id, all items, the open state, numbers and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from memvec import checks
from memvec.collection._filters import Bitmaps
from memvec.collection._ids import Id, Ids, Metadata, checked_id, checked_ids, is_one_id
from memvec.collection._items import Item, ids_of, keys_of, records_of
from memvec.collection._naming import MovedError
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.kernels import blocks
from memvec.types import BoolArray, Float32Array, IntArray

#: What hits can carry of items, besides their ids.
Content: TypeAlias = Literal["metadata", "vectors"]
Include: TypeAlias = Content | Iterable[Content]
Where: TypeAlias = Mapping[str, Any]
# Items read from the disk at a time when all are listed.
_PAGE = 1024


@dataclass(frozen=True)
class Stats:
    """What a collection holds.

    Attributes
    ----------
    n_items : int
        Items that can be found.
    n_waiting : int
        Vectors that no segment holds yet, deleted ones among them.
    n_deleted : int
        Deleted vectors that still take space, until `compact`.
    segment_numbers : tuple of int
        What the folders of the segments are called.
    segment_sizes : tuple of int
        Vectors of each segment, deleted ones among them.
    segment_bytes : int
        What the segments take on the disk.
    catalog_bytes : int
        What the catalog and its log take on the disk.
    change : int
        The number of changes committed.
    """

    n_items: int
    n_waiting: int
    n_deleted: int
    segment_numbers: tuple[int, ...]
    segment_sizes: tuple[int, ...]
    segment_bytes: int
    catalog_bytes: int
    change: int


class Carried(NamedTuple):
    """What hits carry of items, match by match; None where it was not asked for."""

    metadata: list[Metadata] | None = None
    vectors: Float32Array | None = None


_NOTHING = Carried()


def checked_include(include: object, where: str) -> frozenset[Content]:
    """Return what hits are to carry."""
    names = (include,) if isinstance(include, str) else include
    if not isinstance(names, Iterable):
        expected = "a sequence of names, or one of them"
        raise checks.bad_type("include", where, expected, repr(include))
    options: tuple[Content, ...] = get_args(Content)
    return frozenset(checks.choice(name, "include", where, options) for name in names)


class Reading:
    """Finds items by id, in the state that is open."""

    def __init__(self, store: Store, *, verify: bool) -> None:
        self._store = store
        self._bitmaps = Bitmaps(store.catalog)
        self._verify = verify
        self._closed = False

    def close(self) -> None:
        """Refuse everything from now on, and let go of what was read."""
        self._closed = True
        self._bitmaps = Bitmaps(self._store.catalog)

    def state(self) -> State:
        """Return what is searched now."""
        if self._closed:
            raise InvalidValueError(f"The collection in {self._store.folder} was closed.")
        return self._store.current()

    def passing(self, state: State, where: Where | None, caller: str) -> list[BoolArray]:
        """Return which rows of each part of a state pass a filter and are alive."""
        return self._bitmaps.passing(state, where, caller)

    def names(self, keys: IntArray) -> dict[int, Id]:
        """Return the ids of keys, deleted or not; some may be gone for good."""
        return ids_of(self._store.catalog, keys)

    def contains(self, name: object) -> bool:
        """Tell whether there is an item of an id."""
        self.state()
        try:
            plain = checked_id(name, "Collection.__contains__")
        except (InvalidTypeError, InvalidValueError):
            return False
        return bool(keys_of(self._store.catalog, [plain]))

    def ids(self) -> Iterator[Id]:
        """Yield all ids, in the order they came."""
        keys = self.state().live_keys()
        for start, stop in blocks(len(keys), _PAGE):
            named = self.names(keys[start:stop])
            yield from (named[key] for key in keys[start:stop].tolist() if key in named)

    def get(self, ids: Id | Ids, caller: str) -> Item | list[Item]:
        """Return items in the order of their ids; of one bare id, the item itself."""
        self.state()
        plain = checked_ids([ids] if is_one_id(ids) else ids, caller)
        with self._store.catalog.lock:
            state, keys = self.found(plain, caller)
            items = self._items(state, np.array([keys[name] for name in plain], dtype=np.int64))
        return items[0] if is_one_id(ids) else items

    def carried(self, state: State, keys: IntArray, include: frozenset[Content]) -> Carried:
        """Return what is included of items of a state, item by item.

        Neither changes while a key exists: both are of the state, whatever was committed since.
        """
        if not include:
            return _NOTHING
        metadata = vectors = None
        if "metadata" in include:
            unique = np.unique(keys)
            records = records_of(self._store.catalog, unique)
            if len(records) < len(unique):
                raise MovedError
            metadata = [records[key][1] for key in keys.tolist()]
        if "vectors" in include:
            vectors = state.vectors(keys, self._store.settings.dim)
        return Carried(metadata, vectors)

    def stream(self, state: State, keys: IntArray) -> Iterator[Item]:
        """Yield items, read from the disk as they are asked for."""
        for start, stop in blocks(len(keys), _PAGE):
            yield from self._items(state, keys[start:stop])

    def stats(self) -> Stats:
        """Return the numbers of items and segments, and their sizes on disk."""
        state, path = self.state(), self._store.catalog.path
        segments = [part.rows for part in state.segments]
        files = [path, path.with_name(f"{path.name}-wal")]
        return Stats(
            n_items=state.n_items,
            n_waiting=len(state.waiting.keys),
            n_deleted=sum(len(part.keys) - part.n_alive for part in state.parts),
            segment_numbers=tuple(segment.number for segment in segments),
            segment_sizes=tuple(len(segment) for segment in segments),
            segment_bytes=sum(segment.size for segment in segments),
            catalog_bytes=sum(file.stat().st_size for file in files if file.exists()),
            change=state.change,
        )

    def found(
        self, ids: list[Id], where: str, argument: str = "ids"
    ) -> tuple[State, dict[Id, int]]:
        """Return the keys of ids, and a state that has them all."""
        with self._store.catalog.lock:
            keys = self.keys(ids, where, argument)
            return self.state(), keys

    def keys(self, ids: list[Id], where: str, argument: str = "ids") -> dict[Id, int]:
        """Return the keys of ids, all of which must exist."""
        keys = keys_of(self._store.catalog, ids)
        for name in ids:
            if name not in keys:
                raise checks.bad_value(argument, where, "in the collection", repr(name))
        return keys

    def check_segments(self, state: State) -> None:
        """Compare the files of segments with their checksums, at first use."""
        if self._verify:
            for part in state.segments:
                part.rows.check_once()

    def _items(self, state: State, keys: IntArray) -> list[Item]:
        """Return those items of a state that were not compacted away since."""
        self.check_segments(state)
        records = records_of(self._store.catalog, keys)
        vectors = state.vectors(keys, self._store.settings.dim)
        return [
            Item(records[key][0], vector, records[key][1])
            for key, vector in zip(keys.tolist(), vectors, strict=True)
            if key in records
        ]
