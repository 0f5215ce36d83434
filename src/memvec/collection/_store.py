"""The folder of a collection: created, opened, refreshed, closed."""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from memvec.collection._catalog import Catalog
from memvec.collection._checksums import check_catalog, forget_catalog, note_catalog
from memvec.collection._folder import OWN_NAMES, check_names, remove_orphans
from memvec.collection._lock import WriterLock
from memvec.collection._segment import SEGMENTS
from memvec.collection._settings import Settings, created, settle
from memvec.collection._state import State, check_items, load_state
from memvec.errors import CorruptIndexError, IndexNotFoundError, MemvecError, StorageError
from memvec.storage import CATALOG, Kind, check_kind, disk


class Store:
    """A catalog and the state read from it.

    Attributes
    ----------
    folder : Path
        Where everything is.
    settings : Settings
        What the collection was created with.
    catalog : Catalog
        The connection.
    state : State
        What searches see.
    scratch : bool
        Whether the folder is removed when it was used: then nothing waits for the disk, and nothing
        is kept for those who open it next.
    device : str
        Where segments are searched.
    """

    folder: Path
    settings: Settings
    catalog: Catalog
    state: State

    def __init__(
        self,
        folder: Path,
        given: dict[str, Any],
        *,
        read_only: bool,
        scratch: bool = False,
        device: str = "cpu",
    ) -> None:
        self.folder, self.scratch, self.device = folder, scratch, device
        with disk.refusals(folder):
            self._lock = None if read_only else _locked(folder, given)
            try:
                self.catalog = self._open_catalog(given)
            except BaseException:
                self._release()
                raise
            try:
                self._begin(given)
            except BaseException:
                self.catalog.close()
                self._release()
                raise

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
        return self._lock is None

    def _open_catalog(self, given: dict[str, Any]) -> Catalog:
        if self.read_only:
            _check_exists(self.folder)
        check_catalog(self.folder)
        if self.read_only:
            return Catalog.open_to_read(self.folder)
        if (self.folder / CATALOG).exists():
            catalog = Catalog.open_to_write(self.folder, scratch=self.scratch)
            try:
                if catalog.check_format():
                    return catalog
            except MemvecError:
                catalog.close()
                raise
            catalog.close()
        _create(self.folder, given, self.device)
        return Catalog.open_to_write(self.folder, scratch=self.scratch)

    def _begin(self, given: dict[str, Any]) -> None:
        if self.read_only and not self.catalog.check_format():
            raise _not_found(self.folder)
        self.settings = settle(self.catalog.settings(), given, self.device)
        if self.read_only:
            self.catalog.hold()
            self.state = self._load_held(self.catalog, None)
            check_items(self.catalog, self.state)
            return
        with self.catalog.snapshot():
            self.state = self._load(self.catalog, None)
        check_items(self.catalog, self.state)
        # Nothing is removed or written before the catalog was found to be whole.
        remove_orphans(self.folder, {part.rows.number for part in self.state.segments})
        forget_catalog(self.folder)
        self.refresh()

    def _load(self, catalog: Catalog, known: State | None) -> State:
        return load_state(catalog, self.folder, self.settings, self.device, known)

    def _load_held(self, catalog: Catalog, known: State | None) -> State:
        """Read the state that is held; if its files were removed meanwhile, a newer one."""
        while True:
            change = catalog.change()
            try:
                return self._load(catalog, known)
            except (CorruptIndexError, FileNotFoundError):
                catalog.release()
                catalog.hold()
                if catalog.change() == change:
                    raise

    def refresh(self) -> None:
        """Read the state that is committed now; where that fails, all stays as it was."""
        self.catalog.check_process()
        with self.catalog.lock, disk.refusals(self.folder):
            change = self.catalog.change()
            if self.read_only:
                self._hold_newer()
            elif change != self.state.change:
                self.state = self._load(self.catalog, self.state)
            self.catalog.ahead = False

    def current(self) -> State:
        """Return what is searched now: what was committed, even if an interrupt came after it."""
        if self.catalog.ahead:
            self.refresh()
        return self.state

    def _hold_newer(self) -> None:
        """Read the newer state by a connection of its own, and let go of the old one at last."""
        check_names(self.folder)
        newer = Catalog.open_to_read(self.folder)
        try:
            newer.hold()
            state = self.state
            if newer.change() != state.change:
                state = self._load_held(newer, state)
        except BaseException:
            newer.close()
            raise
        self.catalog.take(newer)
        self.state = state

    def number_from(self, first: int) -> None:
        """Give keys and segments numbers after one; what has lower ones keeps them."""
        numbers = self.catalog.numbers()
        if min(numbers.next_key, numbers.next_segment) < first:
            values = [max(numbers.next_key, first), max(numbers.next_segment, first + 1)]
            sql = "UPDATE state SET next_key = ?, next_segment = ?"
            with self.catalog.lock:
                self.catalog.transact(lambda: self.catalog.execute(sql, values))
                self.refresh()

    def publish(self, state: State) -> None:
        """Let searches see what was committed; the caller holds the catalog's lock."""
        self.state = replace(state, change=self.catalog.change())
        self.catalog.ahead = False

    def syncing(self) -> AbstractContextManager[None]:
        """Return the block to write files of segments in."""
        return disk.unsynced() if self.scratch else nullcontext()

    def check_writable(self) -> None:
        """Raise where the collection was closed, or opened to be read or by another process."""
        self.catalog.check_process()
        self.catalog.check_open()
        if self.read_only:
            raise StorageError(errno.EROFS, f"{self.folder} was opened with read_only=True")

    def close(self) -> None:
        """Let go of everything; the writer also notes the checksum of the catalog.

        What was mapped goes with the last search, or result, that looks at it.
        """
        self.state = State.empty(self.settings)
        if self.catalog.is_inherited:  # it is the parent's
            return
        quiet = False
        try:
            if not self.read_only:
                with suppress(MemvecError):
                    quiet = self.catalog.empty_log()
            self.catalog.close()
            if quiet and not self.scratch:
                with suppress(OSError, MemvecError):  # a full disk: it is only a checksum
                    note_catalog(self.folder)
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def _locked(folder: Path, given: dict[str, Any]) -> WriterLock:
    """Take the writer's lock; in a new folder, if a collection is to be created."""
    if folder.exists():
        _check_own(folder, given)
        return WriterLock(folder)
    if "dim" not in given:
        raise _not_found(folder)
    if not folder.parent.is_dir():
        raise IndexNotFoundError(
            f"A collection cannot be created at {folder}: its parent folder does not exist."
        )
    disk.make_folder(folder)
    disk.sync_folder(folder.parent)
    return WriterLock(folder)


def _check_own(folder: Path, given: dict[str, Any]) -> None:
    """Raise where a folder is something else, before anything is written to it."""
    if not folder.is_dir():
        raise CorruptIndexError(f"{folder} is not a collection: it is not a folder.")
    check_names(folder)
    if (folder / CATALOG).is_file():
        return
    check_kind(folder, Kind.COLLECTION)
    for foreign in sorted(set(os.listdir(folder)) - OWN_NAMES):
        raise CorruptIndexError(
            f"{folder} is not a collection: it holds {foreign!r} and no file {CATALOG}. To create "
            "one, name a new or empty folder."
        )
    if "dim" not in given:
        raise _not_found(folder)


def _check_exists(folder: Path) -> None:
    if not folder.exists():
        raise _not_found(folder)
    _check_own(folder, {})


def _create(folder: Path, given: dict[str, Any], device: str) -> None:
    """Make an empty collection; the last step is the commit in the catalog."""
    if "dim" not in given:
        raise _not_found(folder)
    segments = folder / SEGMENTS
    if not segments.is_dir():
        disk.make_folder(segments)
    Catalog.create(folder, created(given, device))
    disk.sync_folder(folder)


def _not_found(folder: Path) -> IndexNotFoundError:
    return IndexNotFoundError(
        f"There is no collection at {folder}. To create one, give 'dim', the vectors' dimension, "
        "and no read_only=True."
    )
