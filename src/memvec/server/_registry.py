"""The collections of a server: opened when they are first asked for, one writer each."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memvec.collection import Collection, open_collection
from memvec.errors import LockedError, MemvecError
from memvec.server._failures import ApiError, told
from memvec.server._settings import ServerSettings
from memvec.storage import CATALOG

# No dot at the beginning, and no separator: a name is a folder of the root and nothing else.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
# What is committed by another writer is seen after so many seconds.
_REFRESH_SECONDS = 0.25
# A collection that is deleted waits so long for those who read it.
_DRAIN_SECONDS = 10.0
_REMOVED = ".removed-"


class _Entry:
    """An open collection, and how many use it."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.users = 0
        self.retired = False
        self.used = self.refreshed = time.monotonic()


class Registry:
    """Hands out the collections of a folder.

    Parameters
    ----------
    settings : ServerSettings
        Where they are, and whether they may be changed.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._root, self._read_only = settings.folder, settings.read_only
        self._most = settings.limits.collections
        self._entries: dict[str, _Entry] = {}
        self._going: set[str] = set()
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._sweep()

    def names(self) -> list[str]:
        """Return the names of all collections, sorted."""
        found = [path.name for path in self._root.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(name for name in found if self._is_there(name))

    @contextmanager
    def lease(
        self, name: str, *, write: bool = False, change: bool = False
    ) -> Iterator[Collection]:
        """Yield a collection, which stays open while the block runs.

        Parameters
        ----------
        name : str
            Its name.
        write : bool
            Whether it is to be changed, which is refused where somebody else writes it.
        change : bool
            Whether something is to be changed that only this server keeps.
        """
        if (write or change) and self._read_only:
            raise ApiError(403, "read_only", "This server refuses changes.")
        with self._root_untold():
            entry = self._taken(name, write)
            try:
                self._refresh(entry)
                yield entry.collection
            finally:
                self._given_back(entry)

    def create(self, name: str, given: dict[str, Any]) -> None:
        """Make a collection; the settings are those of :func:`memvec.open`."""
        if self._read_only:
            raise ApiError(403, "read_only", "This server refuses changes.")
        path = self._path(name)
        with self._changed:
            self._refuse_if_closed()
            if name in self._going or path.exists() or path.is_symlink():
                raise ApiError(409, "exists", f"A collection or file is named {name!r} already.")
            self._make_room()
            with self._root_untold():
                self._entries[name] = _Entry(open_collection(path, **given))

    def remove(self, name: str) -> None:
        """Delete a collection, after those who read it."""
        with self.lease(name, write=True):
            pass
        with self._changed:
            entry = self._entries.get(name)
            if entry is None or name in self._going:
                raise _missing(name)
            self._going.add(name)
        try:
            self._drain(entry)
            with self._changed:
                self._entries.pop(name, None)
            entry.collection.close()
            gone = self._root / f"{_REMOVED}{name}-{secrets.token_hex(4)}"
            self._path(name).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        finally:
            with self._changed:
                self._going.discard(name)

    def is_writable(self, name: str) -> bool:
        """Tell whether this server may change a collection."""
        with self.lease(name) as collection:
            return not collection.read_only

    def opened(self) -> dict[str, Collection]:
        """Return the collections that are open, to be looked at."""
        with self._changed:
            return {name: entry.collection for name, entry in self._entries.items()}

    def close(self) -> None:
        """Refuse what comes, wait for what runs, and close everything."""
        with self._changed:
            self._closed = True
            entries, self._entries = dict(self._entries), {}
        for entry in entries.values():
            with suppress(ApiError):
                self._drain(entry)
            entry.collection.close()

    @contextmanager
    def _root_untold(self) -> Iterator[None]:
        """Let errors name the files of a collection, and not where the server keeps them."""
        try:
            yield
        except MemvecError as error:
            failed, root = told(error), f"{self._root}{os.sep}"
            if root not in failed.message:
                raise
            text = failed.message.replace(root, "")
            raise ApiError(failed.status, failed.code, text) from error

    def _taken(self, name: str, write: bool) -> _Entry:
        path = self._path(name)
        with self._changed:
            self._refuse_if_closed()
            if name in self._going:
                text = f"The collection {name!r} is being deleted."
                raise ApiError(503, "in_use", text, retry_after=10)
            entry = self._entries.get(name)
            if entry is None or (write and entry.collection.read_only):
                entry = self._opened(name, path, write)
            entry.users += 1
            entry.used = time.monotonic()
            return entry

    def _opened(self, name: str, path: Path, write: bool) -> _Entry:
        """Open a collection, to write it if nobody else does, in place of one that only reads."""
        if not self._is_there(name):
            raise _missing(name)
        try:
            made = open_collection(path, read_only=self._read_only)
        except LockedError:
            if write:
                raise ApiError(
                    409,
                    "locked",
                    f"The collection {name!r} is open for writing in another process; this server "
                    "only reads it.",
                ) from None
            made = open_collection(path, read_only=True)
        before = self._entries.get(name)
        if before is not None:
            self._retire(before)
        self._make_room()
        self._entries[name] = _Entry(made)
        return self._entries[name]

    def _make_room(self) -> None:
        """Close what was used longest ago, where too many are open."""
        idle = [name for name, entry in self._entries.items() if not entry.users]
        if len(self._entries) < self._most:
            return
        if not idle:
            text = f"{self._most} collections are in use."
            raise ApiError(503, "too_many_collections", text, retry_after=5)
        oldest = min(idle, key=lambda name: self._entries[name].used)
        self._entries.pop(oldest).collection.close()

    def _retire(self, entry: _Entry) -> None:
        entry.retired = True
        if not entry.users:
            entry.collection.close()

    def _given_back(self, entry: _Entry) -> None:
        with self._changed:
            entry.users -= 1
            if entry.retired and not entry.users:
                entry.collection.close()
            self._changed.notify_all()

    def _refresh(self, entry: _Entry) -> None:
        """See what another writer has committed."""
        now = time.monotonic()
        if entry.collection.read_only and now - entry.refreshed > _REFRESH_SECONDS:
            entry.refreshed = now
            entry.collection.refresh()

    def _drain(self, entry: _Entry) -> None:
        """Wait until nobody uses a collection."""
        with self._changed:
            if not self._changed.wait_for(lambda: not entry.users, _DRAIN_SECONDS):
                text = "The collection is being read; nothing was deleted."
                raise ApiError(503, "in_use", text, retry_after=10)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ApiError(503, "stopping", "The server is stopping.", retry_after=5)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ApiError(
                422,
                "invalid_value",
                "The name of a collection must be 1 to 100 letters, digits, dots, dashes and "
                f"underscores, and begin with none of the dots and dashes. Got {name[:200]!r} "
                "instead.",
            )
        return self._root / name

    def _is_there(self, name: str) -> bool:
        """Tell whether a name is a folder with a catalog; links are none."""
        path = self._root / name
        try:
            kinds = path.lstat().st_mode, (path / CATALOG).lstat().st_mode
        except (OSError, ValueError):
            return False
        return stat.S_ISDIR(kinds[0]) and stat.S_ISREG(kinds[1])

    def _sweep(self) -> None:
        """Remove what a server that died was deleting."""
        if not self._read_only:
            for path in self._root.glob(f"{_REMOVED}*"):
                if not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)


def _missing(name: str) -> ApiError:
    return ApiError(404, "not_found", f"There is no collection {name[:100]!r}.")
