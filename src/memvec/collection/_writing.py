"""Changes to a collection: items added and deleted, segments made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from memvec import checks
from memvec.collection._ids import Id, Ids, Rows, checked_ids, checked_metadata, is_one_id
from memvec.collection._items import fresh_ids, insert_items, keys_of, mark_deleted
from memvec.collection._reading import Reading
from memvec.collection._sealer import Sealer
from memvec.collection._sealing import due_to_merge, rewrite
from memvec.collection._store import Store
from memvec.files import VectorBlock
from memvec.storage import disk
from memvec.types import ArrayLike, Float32Array, FloatArray, IntArray

Vectors: TypeAlias = ArrayLike | Iterator[ArrayLike | VectorBlock]


class Writing:
    """Changes a collection; one transaction is one acknowledged operation."""

    def __init__(self, store: Store, reading: Reading, *, background: bool) -> None:
        self._store, self._reading = store, reading
        # Held while segments are made, by one thread at a time; items may be added meanwhile.
        self._sealing = threading.Lock()
        self._sealer = Sealer(
            lambda: self.seal(progress=False),
            lambda: len(store.state.waiting.keys),
            store.settings.seal_at,
            background=background,
            name=store.folder.name,
        )

    def insert(
        self,
        vectors: Vectors,
        ids: Id | Ids | Iterable[Id] | None,
        metadata: Rows | None,
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        """Add items, all or none of them; `replace` puts them in place of others.

        Of an iterator, each block is a transaction of its own.
        """
        if isinstance(vectors, Iterator):
            return self._insert_blocks(vectors, ids, metadata, where, replace=replace)
        return self._insert_block(vectors, ids, metadata, where, 0, replace=replace)

    def _insert_blocks(
        self,
        blocks: Iterator[Any],
        ids: object,
        metadata: object,
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        """Add items block by block; ids and metadata, where given, are those of all blocks."""
        self._store.check_writable()
        names = _one_by_one(ids, "ids", where)
        texts = _one_by_one(metadata, "metadata", where)
        named: list[Id] = []
        for block in blocks:
            rows, own_ids, own_texts = _parts_of(block, where)
            some_ids = own_ids if names is None else list(islice(names, len(rows)))
            some_texts = own_texts if texts is None else list(islice(texts, len(rows)))
            named += self._insert_block(
                rows, some_ids, some_texts, where, len(named), replace=replace
            )
        for name, given in (("ids", names), ("metadata", texts)):
            if given is not None and next(given, given) is not given:
                raise checks.bad_value(name, where, f"{len(named)}, one a vector", "more")
        return named

    def _insert_block(
        self,
        vectors: ArrayLike,
        ids: object,
        metadata: object,
        where: str,
        first_row: int,
        *,
        replace: bool,
    ) -> list[Id]:
        """Add items in one transaction; errors count rows from `first_row`."""
        self._store.check_writable()
        array = checks.numbers(vectors, "vectors", where)
        if array.ndim == 1 and len(array):
            array = array[np.newaxis]
            ids = [ids] if is_one_id(ids) else ids
            metadata = [metadata] if isinstance(metadata, Mapping) else metadata
        dim = self._store.settings.dim
        rows = checks.unit_rows(array, "vectors", where, dim=dim, first_row=first_row, copy=False)
        texts = checked_metadata(metadata, len(rows), where, first_row=first_row)
        plain = None
        if ids is not None or replace:
            plain = checked_ids(ids, where, n_rows=len(rows))
        # Where warnings are errors: now, and not when everything is written.
        self._sealer.complain()
        named = self._write_items(rows, plain, texts, where, replace=replace)
        self._sealer.look()
        return named

    def _write_items(
        self,
        rows: Float32Array,
        ids: list[Id] | None,
        texts: list[str],
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        store, catalog = self._store, self._store.catalog
        with catalog.lock:
            store.refresh()  # reads nothing, unless an interrupt came between a commit and memory
            after = store.state.last_key

            def work() -> tuple[list[Id], list[int], IntArray]:
                named = fresh_ids(catalog, len(rows), where) if ids is None else ids
                old = list(keys_of(catalog, named).values()) if replace else []
                mark_deleted(catalog, old)
                return named, old, insert_items(catalog, rows, named, texts, after, where)

            named, old, keys = catalog.transact(work)
            left = store.state.without(np.array(old, dtype=np.int64))
            store.publish(left.with_waiting(rows, keys))
        return named

    def delete(self, ids: Id | Ids, where: str) -> int:
        """Delete items, all or none of them; return how many."""
        store, catalog = self._store, self._store.catalog
        store.check_writable()
        plain = checked_ids([ids] if is_one_id(ids) else ids, where)
        with catalog.lock:
            store.refresh()
            keys = list(self._reading.keys(plain, where).values())
            if keys:
                catalog.transact(lambda: mark_deleted(catalog, keys))
                store.publish(store.state.without(np.array(keys, dtype=np.int64)))
        return len(keys)

    def seal(self, progress: bool | None, *, merge: bool = True) -> int:
        """Make a segment of all vectors that wait; return how many it holds."""
        store = self._store
        store.check_writable()
        with self._sealing, disk.refusals(store.folder):
            store.refresh()
            n_rows = 0
            if len(store.state.waiting.keys):
                n_rows = rewrite(store, [], waiting=True, progress=progress)
            while merge and (due := due_to_merge(store)):
                rewrite(store, due, waiting=False, progress=progress)
            return n_rows

    def compact(self, progress: bool | None) -> int:
        """Make one segment of everything, without what was deleted; return how many it holds."""
        store = self._store
        store.check_writable()
        with self._sealing, disk.refusals(store.folder):
            store.refresh()
            n_rows = rewrite(store, store.state.segments, waiting=True, progress=progress)
            with suppress(OSError):  # a full disk: the next compaction gives them back
                store.catalog.give_back_pages()
            return n_rows

    def settle(self) -> None:
        """Seal what is due before everything is compared with everything."""
        if not self._store.read_only:
            self._sealer.settle()

    def end(self, close: Callable[[], None]) -> None:
        """Let sealing come to its end, and then close."""
        self._sealer.end(close)


def _one_by_one(given: object, name: str, where: str) -> Iterator[Any] | None:
    """Return what comes with all blocks together, to be taken block by block."""
    if given is None:
        return None
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        expected = "an iterable, one a vector of all blocks"
        raise checks.bad_type(name, where, expected, type(given).__name__)
    return iter(given)


def _parts_of(block: Any, where: str) -> tuple[FloatArray, object, object]:
    """Return vectors, ids and metadata of a block, as an array or as files are read."""
    ids = metadata = None
    if isinstance(block, VectorBlock):
        block, ids, metadata = block.vectors, block.ids, block.metadata
    array = checks.numbers(block, "vectors", where)
    return array[np.newaxis] if array.ndim == 1 else array, ids, metadata
