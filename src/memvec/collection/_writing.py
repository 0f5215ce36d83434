"""Changes to a collection: items added and deleted, segments made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec import checks
from memvec.collection._ids import Id, Ids, Rows, checked_ids, checked_metadata, is_one_id
from memvec.collection._items import fresh_ids, insert_items, keys_of, mark_deleted
from memvec.collection._memory import give_back_memory
from memvec.collection._reading import Reading
from memvec.collection._sealer import Sealer
from memvec.collection._sealing import due_to_merge, rewrite
from memvec.collection._settings import Settings
from memvec.collection._store import Store
from memvec.errors import MemvecError
from memvec.files import VectorBlock
from memvec.kernels import StoredRows
from memvec.storage import disk
from memvec.types import ArrayLike, Float32Array, FloatArray, IntArray

Vectors: TypeAlias = ArrayLike | Iterator[ArrayLike | VectorBlock]

# A seal leaves fewer empty pages than this in the catalog: what is added next fills them.
_EMPTY_PAGES = 1024


class Writing:
    """Changes a collection; one transaction is one acknowledged operation."""

    def __init__(
        self, store: Store, reading: Reading, solve_ahead: Callable[[], None], *, background: bool
    ) -> None:
        self._store, self._reading = store, reading
        self._solve_ahead, self._is_solved = solve_ahead, True
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
        self._store.check_writable()
        named: list[Id] = []
        for block in blocks_of(vectors, ids, metadata, where):
            self._store.check_writable()  # what gives the blocks may have closed the collection
            settings, first = self._store.settings, len(named)
            rows, plain, texts = checked_block(block, settings, where, first, replace=replace)
            stored = StoredRows.of(rows, settings.dtype)
            # Where warnings are errors: now, and not when everything is written.
            self._sealer.complain()
            named += self._write_items(stored, plain, texts, where, replace=replace)
            self._sealer.look()
        return named

    def _write_items(
        self,
        rows: StoredRows,
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
        """Make a segment of all waiting vectors; return how many it holds."""
        store = self._store
        store.check_writable()
        with self._sealing, disk.refusals(store.folder), store.syncing():
            store.refresh()
            n_rows = 0
            if len(store.state.waiting.keys):
                n_rows = rewrite(store, [], waiting=True, progress=progress)
            while merge and (due := due_to_merge(store)):
                rewrite(store, due, waiting=False, progress=progress)
            self._tidy_up(_EMPTY_PAGES)
            return n_rows

    def compact(self, progress: bool | None) -> int:
        """Merge everything into one segment, without deleted items; return how many it holds."""
        store = self._store
        store.check_writable()
        with self._sealing, disk.refusals(store.folder), store.syncing():
            store.refresh()
            n_rows = rewrite(store, store.state.segments, waiting=True, progress=progress)
            self._tidy_up(1)
            return n_rows

    def _tidy_up(self, least_pages: int) -> None:
        """Give back the room that vectors took before they were in a segment."""
        self._is_solved = self._store.scratch
        with suppress(MemvecError, OSError):  # a full disk: the next time gives it back
            self._store.catalog.give_back_pages(least_pages)

    def settle(self) -> None:
        """Seal what is due before everything is compared with everything."""
        if not self._store.read_only:
            self._sealer.settle()

    def end(self, close: Callable[[], None], *, solve: bool) -> None:
        """Let sealing come to its end, and close; first `solve` for those who open it next."""
        self._is_solved = self._is_solved or not solve

        def last() -> None:
            try:
                # Not after each seal: the next one changes the evidence.
                if not (self._is_solved or self._store.catalog.is_inherited):
                    self._is_solved = True
                    # Then they solve themselves. RuntimeError: the interpreter is shutting down.
                    with suppress(MemvecError, OSError, RuntimeError):
                        self._solve_ahead()
                    give_back_memory()
            finally:
                close()

        self._sealer.end(last)


class Block(NamedTuple):
    """What one transaction writes, not checked yet."""

    vectors: FloatArray
    ids: object
    metadata: object


def checked_block(
    block: Block, settings: Settings, where: str, first_row: int, *, replace: bool
) -> tuple[Float32Array, list[Id] | None, list[str]]:
    """Return unit rows, ids and metadata as text; errors count rows from `first_row`."""
    rows = checks.unit_rows(
        block.vectors,
        "vectors",
        where,
        dim=settings.dim,
        first_row=first_row,
        copy=False,
        scale=settings.metric == "cosine",
    )
    texts = checked_metadata(block.metadata, len(rows), where, first_row=first_row)
    plain = None
    if block.ids is not None or replace:
        plain = checked_ids(block.ids, where, n_rows=len(rows))
    return rows, plain, texts


def blocks_of(vectors: Vectors, ids: object, metadata: object, where: str) -> Iterator[Block]:
    """Yield the blocks of an iterator, with their share of ids and metadata; or the one array."""
    if isinstance(vectors, Iterator):
        yield from _shared_out(vectors, ids, metadata, where)
        return
    array = checks.numbers(vectors, "vectors", where)
    if array.ndim == 1 and len(array):
        array = array[np.newaxis]
        ids = [ids] if is_one_id(ids) else ids
        metadata = [metadata] if isinstance(metadata, Mapping) else metadata
    yield Block(array, ids, metadata)


def _shared_out(
    blocks: Iterator[Any], ids: object, metadata: object, where: str
) -> Iterator[Block]:
    """Yield blocks; ids and metadata, where given, are those of all blocks together."""
    names, texts = _one_by_one(ids, "ids", where), _one_by_one(metadata, "metadata", where)
    n_rows = 0
    for block in blocks:
        own = block if isinstance(block, VectorBlock) else VectorBlock(n_rows, block)
        rows = np.atleast_2d(checks.numbers(own.vectors, "vectors", where))
        n_rows += len(rows)
        yield Block(
            rows,
            own.ids if names is None else list(islice(names, len(rows))),
            own.metadata if texts is None else list(islice(texts, len(rows))),
        )
    for name, given in (("ids", names), ("metadata", texts)):
        if given is not None and next(given, given) is not given:
            raise checks.bad_value(name, where, f"{n_rows}, one per vector", "more")


def _one_by_one(given: object, name: str, where: str) -> Iterator[Any] | None:
    """Return what comes with all blocks together, to be taken block by block."""
    if given is None:
        return None
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        expected = "an iterable, one per vector of all blocks"
        raise checks.bad_type(name, where, expected, type(given).__name__)
    return iter(given)
