"""Changes to a collection: items added and deleted, segments made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from memvec import checks
from memvec.collection._ids import Id, Ids, checked_ids, checked_metadata
from memvec.collection._items import fresh_ids, insert_items, keys_of, mark_deleted
from memvec.collection._reading import Reading
from memvec.collection._sealer import Sealer
from memvec.collection._sealing import due_to_merge, rewrite
from memvec.collection._store import Store
from memvec.storage import disk
from memvec.types import ArrayLike, Float32Array, IntArray


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
        vectors: ArrayLike,
        ids: Ids | None,
        metadata: Sequence[Mapping[str, Any] | None] | None,
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        """Add items, all or none of them; `replace` puts them in place of others."""
        self._store.check_writable()
        rows = checks.unit_rows(vectors, "vectors", where, dim=self._store.settings.dim, copy=False)
        texts = checked_metadata(metadata, len(rows), where)
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

    def delete(self, ids: Ids, where: str) -> int:
        """Delete items, all or none of them; return how many."""
        store, catalog = self._store, self._store.catalog
        store.check_writable()
        plain = checked_ids(ids, where)
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
