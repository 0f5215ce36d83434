"""Items by id, one by one or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from memvec import checks
from memvec.collection._ids import Id, Ids, checked_id, checked_ids
from memvec.collection._items import Item, ids_of, keys_of, records_of
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.collection._verify import Verification, verify_store
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.kernels import blocks
from memvec.types import IntArray

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


class Lookup:
    """The part of a collection that finds items by id."""

    def __init__(self, store: Store, *, verify: bool) -> None:
        self._store = store
        self._verify = verify
        self._closed = False
        self._was = ""

    @property
    def settings(self) -> Settings:
        """What the collection was created with."""
        return self._store.settings

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self._store.settings.dim

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._store.read_only

    def refresh(self) -> None:
        """See what was committed since the collection was opened to be read.

        A reader that never does so keeps the log of the writer from being emptied.
        """
        self._store.refresh()

    def close(self) -> None:
        """Let the next writer in; nothing is lost without it."""
        if not self._closed:
            self._was = repr(self)
            self._closed = True
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return f"{self._was[:-1]}; closed)"
        state = self._store.state
        return (
            f"Collection({state.n_items} items of dimension {self.dim}, "
            f"{len(state.segments)} segments, {state.waiting.n_alive} waiting)"
        )

    def __len__(self) -> int:
        return self._state().n_items

    def __contains__(self, name: object) -> bool:
        self._state()
        try:
            plain = checked_id(name, "Collection.__contains__")
        except (InvalidTypeError, InvalidValueError):
            return False
        return bool(keys_of(self._store.catalog, [plain]))

    def __iter__(self) -> Iterator[Id]:
        """Yield all ids, in the order they came."""
        keys = self._state().live_keys()
        for start, stop in blocks(len(keys), _PAGE):
            named = ids_of(self._store.catalog, keys[start:stop])
            yield from (named[key] for key in keys[start:stop].tolist() if key in named)

    def get(self, ids: Ids) -> list[Item]:
        """Return items in the order of their ids.

        Parameters
        ----------
        ids : sequence of int or str
            Ids that exist.

        Examples
        --------
        >>> import tempfile, memvec
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with memvec.open(folder + "/one.mv", dim=2) as collection:
        ...         collection.add([[3.0, 4.0]], ids=["a"], metadata=[{"tag": "x"}])
        ...         collection.get(["a"])
        ['a']
        [Item(id='a', vector=array([0.6, 0.8], dtype=float32), metadata={'tag': 'x'})]
        """
        where = "Collection.get"
        self._state()
        plain = checked_ids(ids, where)
        with self._store.catalog.lock:
            state, keys = self._found(plain, where)
            return self._items(state, np.array([keys[name] for name in plain], dtype=np.int64))

    def _stream(self, state: State, keys: IntArray) -> Iterator[Item]:
        for start, stop in blocks(len(keys), _PAGE):
            yield from self._items(state, keys[start:stop])

    def stats(self) -> Stats:
        """Return numbers and sizes."""
        state, path = self._state(), self._store.catalog.path
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

    def verify(self) -> Verification:
        """Read everything again and compare checksums.

        A collection that is too damaged to be opened is verified by
        :func:`memvec.collection.verify_collection`.
        """
        return verify_store(self._store)

    def _state(self) -> State:
        """Return what is searched now."""
        if self._closed:
            raise InvalidValueError(f"The collection in {self._store.folder} was closed.")
        return self._store.current()

    def _found(self, ids: list[Id], where: str) -> tuple[State, dict[Id, int]]:
        """Return the keys of ids, and a state that has them all."""
        with self._store.catalog.lock:
            keys = self._keys(ids, where)
            return self._state(), keys

    def _keys(self, ids: list[Id], where: str) -> dict[Id, int]:
        """Return the keys of ids, all of which must exist."""
        keys = keys_of(self._store.catalog, ids)
        for name in ids:
            if name not in keys:
                got = f"{name!r}, which does not exist"
                raise InvalidValueError(checks.message("ids", where, "ids that exist", got))
        return keys

    def _check_segments(self, state: State) -> None:
        """Compare the files of segments with their checksums, at first use."""
        if self._verify:
            for part in state.segments:
                part.rows.check_once()

    def _items(self, state: State, keys: IntArray) -> list[Item]:
        """Return those items of a state that were not compacted away since."""
        self._check_segments(state)
        records = records_of(self._store.catalog, keys)
        vectors = state.vectors(keys, self.dim)
        return [
            Item(records[key][0], vector, records[key][1])
            for key, vector in zip(keys.tolist(), vectors, strict=True)
            if key in records
        ]


__all__ = ["Item", "Lookup", "Stats"]
