"""Every change made on the disk, one function a step: tests make each of them fail.

No link inside a folder of memvec's is ever followed, to read or to write: it would lead to files of
somebody else. The path that a user names may go through links; what memvec puts below it may not.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from memvec.errors import CorruptIndexError, MemvecError, StorageError

if sys.platform != "win32":
    import fcntl

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
# Opening fails on a link, and does not wait for the other end of a pipe. Windows has neither.
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)


# Whether this thread waits for the disk; files that are removed when a process ends need not last.
_SYNCED = ContextVar("_SYNCED", default=True)


@contextmanager
def unsynced() -> Iterator[None]:
    """Leave it to the system when what this thread writes in the block is put on the disk.

    For scratch files alone: after a loss of power they may hold anything.
    """
    before = _SYNCED.set(False)
    try:
        yield
    finally:
        _SYNCED.reset(before)


def kind(path: Path) -> str | None:
    """Return what is at a path, in words; a link is a link. None where there is nothing."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _KINDS.get(stat.S_IFMT(mode), "a device")


def is_file(path: Path) -> bool:
    """Tell whether there is a file, and no link to one."""
    return kind(path) == "a file"


def is_folder(path: Path) -> bool:
    """Tell whether there is a folder, and no link to one."""
    return kind(path) == "a folder"


def check_folder(path: Path) -> None:
    """Raise CorruptIndexError where something else than a folder is at a path of ours."""
    found = kind(path)
    if found not in (None, "a folder"):
        raise CorruptIndexError(f"{path} is {found}, not a folder.")


def check_file(path: Path) -> None:
    """Raise CorruptIndexError where something else than a file is at a path of ours."""
    found = kind(path)
    if found not in (None, "a file"):
        raise CorruptIndexError(f"{path} is {found}, not a file.")


def open_file(path: Path) -> BinaryIO:
    """Open a file of ours to read it; CorruptIndexError where it is a link or a pipe.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "abc").write_bytes(b"abc")
    ...     with open_file(Path(folder, "abc")) as file:
    ...         file.read()
    b'abc'
    """
    check_file(path)
    file = open(path, "rb", opener=_open_plain)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # exchanged since it was looked at
        file.close()
        raise CorruptIndexError(f"{path} is not a file.")
    return file


def create_file(path: Path) -> BinaryIO:
    """Create a file to write to; FileExistsError where there is anything, a link for example."""
    return open(path, "xb", opener=_open_plain)


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | _PLAIN, 0o666)


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turn what the system refuses into a StorageError that names a file, or else `path`."""
    try:
        yield
    except MemvecError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        name = path if error.filename is None else error.filename
        raise StorageError(error.errno or errno.EIO, reason, str(name)) from error


def make_folder(path: Path) -> None:
    """Create a folder that does not exist yet."""
    path.mkdir()


def write(file: BinaryIO, data: bytes) -> None:
    """Append `data` to an open file."""
    file.write(data)


def sync(file: BinaryIO) -> None:
    """Wait until an open file is on the disk."""
    file.flush()
    if _SYNCED.get():
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if sys.platform == "win32" or not _SYNCED.get():  # Windows cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY | _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(source: Path, target: Path) -> None:
    """Rename a file over another: readers see the one or the other."""
    os.replace(source, target)


def remove_file(path: Path) -> None:
    """Remove a file."""
    path.unlink()


def remove_folder(path: Path) -> None:
    """Remove a folder, which must be empty."""
    path.rmdir()


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one writer at a time into `folder`; the others wait, or get a BlockingIOError.

    The lock is the system's and ends with the process, so no crash can leave it behind. Where there
    is none (Windows, some network file systems) the block runs without.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | _FOLDER)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass
        yield
    finally:
        # Said aloud, since a process forked meanwhile would keep the descriptor open.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
