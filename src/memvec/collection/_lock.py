"""One writer at a time."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from memvec.collection._plain import file_status
from memvec.errors import LockedError, StorageError, damaged

LOCK = "writer.lock"


def check_lock(folder: Path) -> None:
    """Raise where the file of the lock holds something, which would keep every writer out."""
    path = folder / LOCK
    found = file_status(path)
    if found is not None and found.st_size:
        raise damaged(path, "it must be empty")


class WriterLock:
    """A lock on a collection, held until `release` or until the process ends, however it ends.

    It is SQLite's exclusive lock on an empty file: the same on every system, and it also tells
    apart two writers in one process.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        check_lock(folder)
        try:
            self._connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = OFF")  # nothing is ever written
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if hasattr(self, "_connection"):
                self._connection.close()
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise StorageError(errno.EACCES, f"{path}: {error}") from error
            raise LockedError(
                errno.EAGAIN,
                f"{folder} is open for writing elsewhere; open it with read_only=True, or wait",
            ) from None

    def release(self) -> None:
        """Let the next writer in."""
        self._connection.close()
