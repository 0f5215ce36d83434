"""Sizes and checksums of files, and the one of the catalog while nobody writes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import NamedTuple

from memvec.collection._catalog import CATALOG
from memvec.errors import CorruptIndexError
from memvec.storage import disk

CHECKSUM = "catalog.crc"
_BLOCK_BYTES = 1 << 20
# A damaged file of this name must not fill the memory.
_LARGEST_CHECKSUM_FILE = 1 << 10


class FileSum(NamedTuple):
    """What is known of a file."""

    size: int
    crc32: str


def sum_of(path: Path) -> FileSum:
    """Read a file and return its size and CRC-32."""
    size = crc = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            size += len(block)
            crc = zlib.crc32(block, crc)
    return FileSum(size, crc_text(crc))


def crc_text(crc: int) -> str:
    """Return a CRC-32 as it is written: eight hexadecimal digits."""
    return f"{crc:08x}"


def check_size(path: Path, saved: FileSum) -> None:
    """Raise where a file is missing or of another size."""
    # Asked first, since opening a pipe of this name would wait for ever.
    if not path.is_file():
        raise CorruptIndexError(f"{path} is missing: a file of {saved.size} bytes was saved.")
    found = path.stat().st_size
    if found != saved.size:
        raise CorruptIndexError(
            f"{path} is damaged: its size is {found} bytes, saved were {saved.size}."
        )


def check_sum(path: Path, saved: FileSum) -> None:
    """Raise where a file is not what was saved."""
    check_size(path, saved)
    found = sum_of(path)
    if found != saved:
        raise CorruptIndexError(
            f"{path} is damaged: its checksum (CRC-32) is {found.crc32}, saved was {saved.crc32}."
        )


def note_catalog(folder: Path) -> None:
    """Write down the checksum of the catalog, which nobody changes from now on."""
    unfinished = folder / f"{CHECKSUM}.tmp"
    with unfinished.open("wb") as file:
        disk.write(file, json.dumps(sum_of(folder / CATALOG)._asdict()).encode())
        disk.sync(file)
    disk.replace(unfinished, folder / CHECKSUM)
    disk.sync_folder(folder)


def forget_catalog(folder: Path) -> None:
    """Remove the checksum of the catalog before it is changed."""
    if (folder / CHECKSUM).exists():
        disk.remove_file(folder / CHECKSUM)
        disk.sync_folder(folder)


def check_catalog(folder: Path) -> None:
    """Raise where the catalog is not what the last writer left.

    After a crash there is no checksum: the catalog is then what SQLite restores from its log.
    """
    noted = _noted(folder)
    if noted is None:
        return
    try:
        check_sum(folder / CATALOG, _parsed(folder, noted))
    except CorruptIndexError:
        if _noted(folder) != noted:  # a writer came meanwhile, and it has looked
            return
        raise


def _noted(folder: Path) -> bytes | None:
    try:
        with (folder / CHECKSUM).open("rb") as file:
            return file.read(_LARGEST_CHECKSUM_FILE)
    except FileNotFoundError:
        return None


def _parsed(folder: Path, noted: bytes) -> FileSum:
    try:
        match json.loads(noted):
            case {"size": int(size), "crc32": str(crc32)}:
                return FileSum(size, crc32)
    except ValueError:
        pass
    raise CorruptIndexError(f"{folder / CHECKSUM} is damaged: it holds {noted!r}.")


__all__ = [
    "CHECKSUM",
    "FileSum",
    "check_catalog",
    "check_size",
    "check_sum",
    "crc_text",
    "forget_catalog",
    "note_catalog",
    "sum_of",
]
