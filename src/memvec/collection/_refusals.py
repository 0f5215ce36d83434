"""What SQLite refuses, as errors of memvec."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memvec.errors import (
    InvalidValueError,
    LockedError,
    MemvecError,
    StorageError,
    damaged,
)

_REFUSALS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_PERM: errno.EACCES,
    # More than SQLite holds in one value, 10⁹ bytes: too much was given, nothing is damaged.
    sqlite3.SQLITE_TOOBIG: errno.EFBIG,
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise memvec's errors in place of those of SQLite, which is the cause of each."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise InvalidValueError(f"The collection in {path.parent} was closed.") from None
    except sqlite3.DatabaseError as error:
        raise _typed(path, error) from error
    except UnicodeDecodeError as error:  # in what SQLite says of a damaged file
        raise damaged(path, str(error)) from None


def _typed(path: Path, error: sqlite3.DatabaseError) -> MemvecError:
    # The low byte is the kind of error, the rest its cause.
    kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if kind in _REFUSALS:
        return StorageError(_REFUSALS[kind], f"{path}: {error}")
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LockedError(errno.EAGAIN, f"{path} is busy: {error}")
    return damaged(path, str(error))
