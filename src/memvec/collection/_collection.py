"""The collection: what users hold."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import numpy as np

from memvec import checks
from memvec.collection._ids import Id, Ids, checked_ids, checked_metadata
from memvec.collection._items import fresh_ids, insert_items, keys_of, mark_deleted
from memvec.collection._joining import Joins
from memvec.collection._sealer import Sealer
from memvec.collection._sealing import due_to_merge, rewrite
from memvec.collection._searching import Online
from memvec.collection._settings import checked_settings
from memvec.collection._store import Store
from memvec.errors import InvalidTypeError
from memvec.index import Guarantee, IndexConfig
from memvec.storage import disk
from memvec.types import ArrayLike, Float32Array, IntArray


class Collection(Joins):
    """Vectors with ids and metadata, on disk; made by :func:`memvec.open`.

    Everything that a call has added or deleted is on the disk when it returns, and found or not
    found by the next search. One writer at a time, any number of readers.

    Examples
    --------
    >>> import tempfile, memvec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with memvec.open(folder + "/animals.mv", dim=3) as animals:
    ...         animals.add([[1, 0, 0], [0, 1, 0]], ids=["cat", "dog"])
    ...         animals.search([0.8, 0.6, 0], k=2).ids
    ...         animals.delete(["cat"])
    ...         animals.search([0.8, 0.6, 0], k=2).ids
    ['cat', 'dog']
    array([['cat', 'dog']], dtype=object)
    1
    array([['dog', None]], dtype=object)
    """

    def __init__(
        self, store: Store, *, verify: bool = True, online: Online = "scan", background: bool = True
    ) -> None:
        super().__init__(store, verify=verify, online=online)
        # Held while segments are made, by one thread at a time; items may be added meanwhile.
        self._sealing = threading.Lock()
        self._sealer = Sealer(
            lambda: self.seal(progress=False),
            lambda: len(store.state.waiting.keys),
            store.settings.seal_at,
            background=background,
            name=store.folder.name,
        )

    def add(
        self,
        vectors: ArrayLike,
        ids: Ids | None = None,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Id]:
        """Add new items, all or none of them.

        Parameters
        ----------
        vectors : array_like of shape (n_vectors, dim)
            Rows are scaled to norm 1. Zero, NaN and infinite rows are refused.
        ids : sequence of int or str, optional
            New ones, each once; integers above all others by default.
        metadata : sequence of mappings or None, optional
            One a vector, of what JSON holds.

        Returns
        -------
        list of int or str
            The ids.
        """
        return self._insert(vectors, ids, metadata, "Collection.add", replace=False)

    def upsert(
        self,
        vectors: ArrayLike,
        ids: Ids,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Id]:
        """Add items, in place of those that have the same ids; all or none of them.

        Parameters
        ----------
        vectors, metadata
            As in :meth:`add`. The metadata is replaced, too.
        ids : sequence of int or str
            New ones or such that exist, each once.
        """
        return self._insert(vectors, ids, metadata, "Collection.upsert", replace=True)

    def _insert(
        self,
        vectors: ArrayLike,
        ids: Ids | None,
        metadata: Sequence[Mapping[str, Any] | None] | None,
        where: str,
        *,
        replace: bool,
    ) -> list[Id]:
        self._store.check_writable()
        rows = checks.unit_rows(vectors, "vectors", where, dim=self.dim, copy=False)
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

    def delete(self, ids: Ids) -> int:
        """Delete items, all or none of them.

        Parameters
        ----------
        ids : sequence of int or str
            Ids that exist.

        Returns
        -------
        int
            How many.
        """
        where = "Collection.delete"
        store, catalog = self._store, self._store.catalog
        store.check_writable()
        plain = checked_ids(ids, where)
        with catalog.lock:
            store.refresh()
            keys = list(self._keys(plain, where).values())
            if keys:
                catalog.transact(lambda: mark_deleted(catalog, keys))
                store.publish(store.state.without(np.array(keys, dtype=np.int64)))
        return len(keys)

    def seal(self, *, progress: bool | None = None) -> int:
        """Make a segment of all vectors that wait; return how many it holds.

        Parameters
        ----------
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        self._store.check_writable()
        with self._sealing, disk.refusals(self._store.folder):
            return self._seal(progress)

    def compact(self, *, progress: bool | None = None) -> int:
        """Make one segment of everything, without what was deleted; return how many it holds.

        Vectors are assigned to units anew. Readers keep the state they have.

        Parameters
        ----------
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        store = self._store
        store.check_writable()
        with self._sealing, disk.refusals(store.folder):
            store.refresh()
            n_rows = rewrite(store, store.state.segments, waiting=True, progress=progress)
            with suppress(OSError):  # a full disk: the next compaction gives them back
                store.catalog.give_back_pages()
            return n_rows

    def _seal(self, progress: bool | None) -> int:
        store = self._store
        store.refresh()
        n_rows = 0
        if len(store.state.waiting.keys):
            n_rows = rewrite(store, [], waiting=True, progress=progress)
        while due := due_to_merge(store):
            rewrite(store, due, waiting=False, progress=progress)
        return n_rows

    def close(self) -> None:
        """Let the next writer in, after what is being sealed; nothing is lost without it.

        Where sealing takes longer than a second, a line on the terminal tells so, or the logger
        "memvec" at the level INFO. Afterwards no file is mapped or open any more, and every
        method raises InvalidValueError, as files of Python raise ValueError; results stay.
        """
        self._sealer.end(super().close)


def open_collection(
    path: str | os.PathLike[str],
    *,
    dim: int | None = None,
    similarity: float | None = None,
    miss_rate: float | None = None,
    guarantee: Guarantee | None = None,
    confidence: float | None = None,
    similarities: Sequence[float] | None = None,
    config: IndexConfig | None = None,
    seal_at: int | None = None,
    read_only: bool = False,
    verify: bool = True,
    online: Online = "scan",
    background: bool = True,
) -> Collection:
    """Open a collection, or create one.

    Parameters
    ----------
    path : str or path
        A folder: of a collection, or new or empty.
    dim : int, optional
        Dimension of the vectors; needed to create a collection.
    similarity : float, optional
        α₀ in (0, 1], the cosine that it is designed for; 0.7 for a new one.
    miss_rate : float, optional
        ε in (0, 1), the share of matches that searches may miss; 0.01 for a new one.
    guarantee : {"expected", "model", "high_probability", "exact"}, optional
        What searches promise that name no level, as far as the evidence supports it; "expected"
        for a new one.
    confidence : float, optional
        1 − δ in (0, 1), for "high_probability"; 0.95 for a new one.
    similarities : sequence of float, optional
        Those that "high_probability" may be asked for, all promised at once; `similarity` for a
        new one. Each makes the promise a little dearer.
    config : IndexConfig, optional
        How segments are built.
    seal_at : int, optional
        So many waiting vectors become a segment by themselves, 10,000 in a new collection; 0
        leaves it to :meth:`Collection.seal`.
    read_only : bool, default False
        Open it to be read: any number of readers may, beside one writer. They see the state that
        was committed when they opened or called :meth:`Collection.refresh`.
    verify : bool, default True
        Compare the checksums of a segment with its files when it is first searched.
    online : {"scan", "units"}
        How waiting vectors are searched: one by one, or as the paper does with a stream, by
        memory vectors of random units that are updated with each vector, at the level of the
        model.
    background : bool, default True
        Seal in a thread of its own while vectors are added, or else within the call that makes
        it due.

    Raises
    ------
    IndexNotFoundError
        If there is no collection, and no `dim` to create one with.
    LockedError
        If someone else has it open to write.
    CorruptIndexError, UnknownVersionError
        If it is damaged, something else, or of a format version that is not known here.
    InvalidValueError
        If it was created with other settings than those given.
    StorageError
        If the disk is full or refuses.

    Examples
    --------
    >>> import tempfile, memvec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with memvec.open(folder + "/two.mv", dim=2) as collection:
    ...         collection.add([[1.0, 0.0], [0.0, 1.0]], metadata=[{"year": 2020}, None])
    ...     with memvec.open(folder + "/two.mv", read_only=True) as collection:
    ...         collection.get([0])[0].metadata
    [0, 1]
    {'year': 2020}
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidTypeError(checks.message("path", "memvec.open", "a path", repr(path)))
    checks.choice(online, "online", "memvec.open", get_args(Online))
    given = checked_settings(
        {
            "dim": dim,
            "similarity": similarity,
            "miss_rate": miss_rate,
            "guarantee": guarantee,
            "confidence": confidence,
            "similarities": similarities,
            "config": config,
            "seal_at": seal_at,
        }
    )
    store = Store(Path(path), given, read_only=read_only)
    return Collection(store, verify=verify, online=online, background=background)


__all__ = ["Collection", "open_collection"]
