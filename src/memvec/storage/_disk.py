"""Every change made on the disk, one function a step: tests make each of them fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl


def make_folder(path: Path) -> None:
    """Create a folder that does not exist yet."""
    path.mkdir()


def write(file: BinaryIO, data: bytes) -> None:
    """Append `data` to an open file."""
    file.write(data)


def sync(file: BinaryIO) -> None:
    """Wait until an open file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if sys.platform == "win32":  # which cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY)
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
def locked(folder: Path) -> Iterator[None]:
    """Let one writer at a time into `folder`; the others wait.

    The lock is the system's and ends with the process, so no crash can leave it behind. Where there
    is none (Windows, some network file systems) the block runs without.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Said aloud, since a process forked meanwhile would keep the descriptor open.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
