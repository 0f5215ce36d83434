"""What is read and written of several shards: each item in the shard of its id."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from memvec import checks
from memvec.cache import Cache
from memvec.collection._catalog import NUMBERS_OF_SHARD
from memvec.collection._filters import compile_filter
from memvec.collection._ids import Id, Ids, Metadata, Rows, checked_id, checked_ids, is_one_id
from memvec.collection._items import Item, check_fresh
from memvec.collection._joined_state import JoinedState
from memvec.collection._naming import MovedError
from memvec.collection._reading import Carried, Content, Stats, Where
from memvec.collection._sharded_store import ShardedStore
from memvec.collection._state import State
from memvec.collection._writing import Vectors, blocks_of, checked_block
from memvec.errors import InvalidTypeError, InvalidValueError, StorageError
from memvec.kernels import blocks
from memvec.types import BoolArray, IntArray

# Items read from the shards at a time when all are listed.
_PAGE = 1024
# The state of each shard: its number, and that of its last change.
_Changes: TypeAlias = tuple[tuple[int, int], ...]
# What is kept of filters, in bytes: a row is a byte.
_MOST_KEPT = 64 << 20


class ShardedReading:
    """Finds items by id, in the shard that each belongs to."""

    def __init__(self, store: ShardedStore) -> None:
        self._store = store
        self._closed = False
        self._passing: Cache[tuple[_Changes, str], list[BoolArray]] = Cache(
            _MOST_KEPT, lambda arrays: sum(int(one.nbytes) for one in arrays)
        )

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True
        self._passing.drop(lambda key: True)

    def state(self) -> State:
        """Return what is searched now."""
        if self._closed:
            raise InvalidValueError(f"The collection in {self._store.folder} was closed.")
        return self._store.current()

    def passing(self, state: State, where: Where | None, caller: str) -> list[BoolArray]:
        """Return which rows of each part of a state pass a filter and are alive."""
        if where is None:
            return [part.alive for part in state.parts]
        condition = compile_filter(where, caller)
        assert isinstance(state, JoinedState)
        changes = tuple((number, one.change) for number, one in state.of_shards.items())

        def made() -> list[BoolArray]:
            links = self._store.links
            begun = [
                links[number].begin("passing", change, where, caller) for number, change in changes
            ]
            found = [answer() for answer in begun]
            waiting = np.concatenate([arrays[-1] for arrays in found])
            return [*(one for arrays in found for one in arrays[:-1]), waiting]

        name = json.dumps([condition.sql, condition.parameters])
        return self._passing.get((changes, name), made)

    def names(self, keys: IntArray) -> dict[int, Id]:
        """Return the ids of keys, deleted or not; some may be gone for good."""
        known = self._store.known_ids
        listed = keys.tolist()
        found = {key: known[key] for key in listed if key in known}
        if len(found) < len(listed):
            asked = self._of_keys("names", keys[[key not in found for key in listed]])
            self._store.check_places(asked)
            found |= asked
        return found

    def contains(self, name: object) -> bool:
        """Tell whether there is an item of an id."""
        self.state()
        try:
            plain = checked_id(name, "Collection.__contains__")
        except (InvalidTypeError, InvalidValueError):
            return False
        return bool(self.keys([plain]))

    def ids(self) -> Iterator[Id]:
        """Yield all ids, shard by shard, in the order they came."""
        keys = self.state().live_keys()
        for start, stop in blocks(len(keys), _PAGE):
            named = self.names(keys[start:stop])
            yield from (named[key] for key in keys[start:stop].tolist() if key in named)

    def keys(self, ids: list[Id]) -> dict[Id, int]:
        """Return the keys of those ids that are there."""
        found: dict[Id, int] = {}
        for one in self.at_home("keys", ids, lambda places: [[ids[place] for place in places]]):
            found |= one
        return found

    def known(self, ids: list[Id], where: str, argument: str = "ids") -> dict[Id, int]:
        """Return the keys of ids, all of which must exist."""
        keys = self.keys(ids)
        for name in ids:
            if name not in keys:
                raise checks.bad_value(argument, where, "in the collection", repr(name))
        return keys

    def get(self, ids: Id | Ids, caller: str) -> Item | list[Item]:
        """Return items in the order of their ids; of one bare id, the item itself."""
        self.state()
        plain = checked_ids([ids] if is_one_id(ids) else ids, caller)
        self.known(plain, caller)
        found = self.at_home("get", plain, lambda places: [[plain[place] for place in places]])
        items = {item.id: item for some in found for item in some}
        return items[plain[0]] if is_one_id(ids) else [items[name] for name in plain]

    def carried(self, state: State, keys: IntArray, include: frozenset[Content]) -> Carried:
        """Return what is included of items of a state, item by item."""
        metadata = vectors = None
        if "metadata" in include:
            records = self._records(np.unique(keys))
            metadata = [records[key][1] for key in keys.tolist()]
        if "vectors" in include:
            vectors = state.vectors(keys, self._store.settings.dim)
        return Carried(metadata, vectors)

    def stream(self, state: State, keys: IntArray) -> Iterator[Item]:
        """Yield items, read from the shards as they are asked for."""
        for start, stop in blocks(len(keys), _PAGE):
            some = keys[start:stop]
            records: dict[int, tuple[Id, Metadata]] = self._of_keys("records", some)
            self._store.check_places({key: record[0] for key, record in records.items()})
            vectors = state.vectors(some, self._store.settings.dim)
            for key, vector in zip(some.tolist(), vectors, strict=True):
                if key in records:
                    yield Item(records[key][0], vector, records[key][1])

    def stats(self) -> Stats:
        """Return numbers and sizes of all shards together."""
        self.state()
        every: list[Stats] = self._store.everywhere("stats")
        return Stats(
            n_items=sum(one.n_items for one in every),
            n_waiting=sum(one.n_waiting for one in every),
            n_deleted=sum(one.n_deleted for one in every),
            segment_numbers=tuple(number for one in every for number in one.segment_numbers),
            segment_sizes=tuple(size for one in every for size in one.segment_sizes),
            segment_bytes=sum(one.segment_bytes for one in every),
            catalog_bytes=sum(one.catalog_bytes for one in every),
            change=sum(one.change for one in every),
        )

    def found(
        self, ids: list[Id], where: str, argument: str = "ids"
    ) -> tuple[State, dict[Id, int]]:
        """Return the keys of ids, and a state that has them all."""
        keys = self.known(ids, where, argument)
        if not self._store.read_only:
            # Another thread may have added them since the state was read.
            self._store.outdated()
        return self.state(), keys

    def check_segments(self, state: State) -> None:
        """Do nothing: each shard looks after its own files before it searches them."""

    def at_home(
        self, method: str, ids: Sequence[Id], arguments: Callable[[list[int]], list[Any]]
    ) -> list[Any]:
        """Call a method of each shard that ids belong to, at once; return what each returns.

        `arguments` makes those of one shard from the places of its ids.
        """
        places: dict[int, list[int]] = {}
        for place, name in enumerate(ids):
            places.setdefault(self._store.place(name), []).append(place)
        links = self._store.links
        begun = [links[shard].begin(method, *arguments(some)) for shard, some in places.items()]
        return [answer() for answer in begun]

    def _records(self, keys: IntArray) -> dict[int, tuple[Id, Metadata]]:
        records: dict[int, tuple[Id, Metadata]] = self._of_keys("records", keys)
        if len(records) < len(keys):
            raise MovedError
        return records

    def _of_keys(self, method: str, keys: IntArray) -> dict[int, Any]:
        """Return what the shards of keys tell of them."""
        shards = keys // NUMBERS_OF_SHARD
        links = self._store.links
        begun = [
            links[shard].begin(method, keys[shards == shard])
            for shard in np.unique(shards).tolist()
        ]
        found: dict[int, Any] = {}
        for answer in begun:
            found |= answer()
        return found


class ShardedWriting:
    """Changes shards; what one shard is told is all done or not at all.

    Everything is checked before any shard is told. Then a shard may still fail, or the process end:
    what the others have done stays.
    """

    def __init__(self, store: ShardedStore, reading: ShardedReading) -> None:
        self._store, self._reading = store, reading
        # Held while ids are chosen, checked and written: of two threads, neither takes the other's.
        self._writing = threading.Lock()

    def insert(
        self,
        vectors: Vectors,
        ids: Id | Ids | Iterable[Id] | None,
        metadata: Rows | None,
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        """Add items; `replace` puts them in place of others."""
        self._check_writable()
        named: list[Id] = []
        for block in blocks_of(vectors, ids, metadata, where):
            settings, first = self._store.settings, len(named)
            rows, plain, texts = checked_block(block, settings, where, first, replace=replace)
            loaded = [json.loads(text) for text in texts]
            with self._writing:
                names = self._fresh(len(rows), where) if plain is None else plain
                if not replace and plain is not None:
                    self._check_new(plain, where)
                self._insert(block.vectors, names, loaded, where, replace)
            named += names
        return named

    def _insert(
        self, vectors: Any, names: list[Id], rows: list[Metadata], where: str, replace: bool
    ) -> None:
        def arguments(places: list[int]) -> list[Any]:
            ids, metadata = [names[at] for at in places], [rows[at] for at in places]
            return [vectors[places], ids, metadata, where, replace]

        with self._outdating():
            self._reading.at_home("insert", names, arguments)

    def delete(self, ids: Id | Ids, where: str) -> int:
        """Delete items; return how many."""
        self._check_writable()
        plain = checked_ids([ids] if is_one_id(ids) else ids, where)
        with self._writing:
            self._reading.known(plain, where)
            with self._outdating():
                deleted = self._reading.at_home(
                    "delete", plain, lambda places: [[plain[place] for place in places]]
                )
        return sum(deleted)

    def seal(self, progress: bool | None, *, merge: bool = True) -> int:
        """Make a segment of all vectors that wait, in each shard; return how many they hold."""
        return self._everywhere("seal", merge)

    def compact(self, progress: bool | None) -> int:
        """Make one segment of each shard, without what was deleted; return how many they hold."""
        return self._everywhere("compact")

    def _everywhere(self, method: str, *args: Any) -> int:
        self._check_writable()
        with self._outdating():
            return sum(self._store.everywhere(method, *args))

    def settle(self) -> None:
        """Seal what is due before everything is compared with everything."""
        if not self._store.read_only:
            with self._outdating():
                self._store.everywhere("settle")

    def end(self, close: Callable[[], None], *, solve: bool) -> None:
        """Close; each shard lets sealing come to its end."""
        close()

    @contextmanager
    def _outdating(self) -> Iterator[None]:
        """Have the state read anew after a change, whatever a search in another thread has read."""
        try:
            yield
        finally:
            self._store.outdated()

    def _check_writable(self) -> None:
        self._reading.state()
        if self._store.read_only:
            raise StorageError(30, f"{self._store.folder} was opened with read_only=True")
        if self._store.missing:
            self._store.refresh()
        for number in self._store.missing:
            link = self._store.links[number]
            link.state(None, frozenset())()  # raises why it does not answer

    def _check_new(self, ids: list[Id], where: str) -> None:
        existing = self._reading.keys(ids)
        for name in ids:
            if name in existing:
                expected = "ids that are new; upsert replaces items"
                raise checks.bad_value("ids", where, expected, repr(name))

    def _fresh(self, n_rows: int, where: str) -> list[Id]:
        """Return integers above every integer id of all shards."""
        issued: list[tuple[int, int]] = self._store.everywhere("issued")
        first = max(sum(n for n, _ in issued), 1 + max(largest for _, largest in issued))
        check_fresh(first, n_rows, where)
        return list(range(first, first + n_rows))
