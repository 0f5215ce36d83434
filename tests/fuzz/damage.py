"""What disks, accidents and attackers do to a file or a folder, drawn at random."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

Rng = np.random.Generator


def entries(folder: Path) -> list[tuple[str, bytes]]:
    """Return every name below a folder with its content, kind and time of change."""
    found = []
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found.append(
            (
                str(path.relative_to(folder)),
                b"%x %x " % (state.st_mode, state.st_mtime_ns) + content,
            )
        )
    return found


def files_below(folder: Path) -> list[Path]:
    """Return all files of a folder, in order."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def flip(path: Path, rng: Rng) -> None:
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def overwrite(path: Path, rng: Rng) -> None:
    """Overwrite some bytes in a row by random ones, or by zeros."""
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content)))
    length = min(int(rng.integers(1, 4096)), len(content) - start)
    content[start : start + length] = rng.bytes(length) if rng.random() < 0.5 else bytes(length)
    path.write_bytes(content)


def truncate(path: Path, rng: Rng) -> None:
    """Cut the file off."""
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def extend(path: Path, rng: Rng) -> None:
    """Append random bytes."""
    with path.open("ab") as file:
        file.write(rng.bytes(int(rng.integers(1, 1000))))


def remove(path: Path, rng: Rng) -> None:
    """Remove the file."""
    path.unlink()


def swap(one: Path, other: Path) -> None:
    """Exchange the contents of two files."""
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)


def link_away(path: Path, target: Path) -> None:
    """Put a link in place of a file or a folder, and what was there where the link leads."""
    path.rename(target)
    path.symlink_to(target)


def pipe(path: Path, rng: Rng) -> None:
    """Put a named pipe in place of a file: whoever opens it plainly waits for ever."""
    path.unlink()
    os.mkfifo(path)


def folder(path: Path, rng: Rng) -> None:
    """Put a folder in place of a file."""
    path.unlink()
    path.mkdir()


ACCIDENTS: dict[str, Callable[[Path, Rng], None]] = {
    "flipped bit": flip,
    "overwritten bytes": overwrite,
    "file truncated": truncate,
    "file extended": extend,
    "file removed": remove,
    "named pipe in place of a file": pipe,
    "folder in place of a file": folder,
}
