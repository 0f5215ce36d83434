"""Sizes and checksums of files, and the one of the catalog while nobody writes."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

from memvec.collection._catalog import inode, plain_file
from memvec.collection._plain import file_status, remove_plain
from memvec.errors import CorruptIndexError, damaged
from memvec.storage import CATALOG, FileSum, OpenedFile, disk, forget_pages

CHECKSUM = "catalog.crc"
# A damaged file of this name must not fill the memory.
_LARGEST_CHECKSUM_FILE = 1 << 10

# Made once: json.dumps makes one for each call that has options.
_as_json = json.JSONEncoder(default=repr).encode


def sum_of(path: Path) -> FileSum:
    """Read a file and return its size and CRC-32."""
    try:
        with path.open("rb") as file:
            return FileSum.of(file)
    except OSError as error:
        if error.filename is None:  # a failure to read does not say of what
            error.filename = os.fspath(path)
        raise


def crc_text(crc: object) -> str:
    """Return a CRC-32 as it is written, eight hexadecimal digits; what is none, as it is."""
    return f"{crc:08x}" if isinstance(crc, int) else repr(crc)


def item_sum(key: int, name: object, metadata: object) -> int:
    """Return the CRC-32 of an item as the catalog has it; what is no id or text gives another."""
    return zlib.crc32(f"{key} {_as_json(name)} {metadata}".encode())


def check_size(path: Path, saved: FileSum) -> None:
    """Raise where a file is missing or of another size."""
    found = file_status(path)
    if found is None:
        raise CorruptIndexError(f"{path} is missing: a file of {saved.size} bytes was saved.")
    saved.check_size(path, found.st_size)


def check_sum(path: Path, saved: FileSum) -> None:
    """Raise where a file is not what was saved."""
    check_size(path, saved)
    saved.check(path, sum_of(path))


class HeldFile:
    """A file whose checksum can be compared even after it was removed.

    It is mapped and not held open: descriptors are few (1,024 a process is common).

    Parameters
    ----------
    path : Path
        Where it is.
    saved : FileSum
        What was saved.
    opened : OpenedFile
        What was opened there; it is of the size that was saved, or this raises.
    """

    def __init__(self, path: Path, saved: FileSum, opened: OpenedFile) -> None:
        saved.check_size(path, len(opened.content))
        self._path, self._saved, self._opened = path, saved, opened

    def forget_pages(self) -> None:
        """Give up what was read of the file, if it is mapped."""
        if self._path.suffix == ".npy":
            forget_pages(self._opened.content)

    def check(self) -> None:
        """Raise where the file is not what was saved."""
        self._saved.check(self._path, self._sum())

    def _sum(self) -> FileSum:
        try:
            if inode(self._path) == self._opened.inode:
                # Before it is read: what was appended may be of any length. And it is read as a
                # file: to look at mapped bytes that were cut off would end the process.
                self._saved.check_size(self._path, self._path.stat().st_size)
                return sum_of(self._path)
        except FileNotFoundError:
            pass
        content = self._opened.content
        return FileSum(len(content), crc_text(zlib.crc32(content.data)))


def note_catalog(folder: Path) -> None:
    """Write down the checksum of the catalog, which nobody changes from now on.

    It is not written where this process has the catalog open elsewhere: see `plain_file`.
    """
    with plain_file(folder / CATALOG) as allowed:
        if not allowed:
            return
        found = sum_of(folder / CATALOG)
    unfinished = folder / f"{CHECKSUM}.tmp"
    # Anew, since a file of this name may have another one elsewhere, too.
    remove_plain(unfinished)
    with unfinished.open("xb") as file:
        disk.write(file, json.dumps(found._asdict()).encode())
        disk.sync(file)
    disk.replace(unfinished, folder / CHECKSUM)
    disk.sync_folder(folder)


def forget_catalog(folder: Path) -> None:
    """Remove the checksum of the catalog before it is changed."""
    if file_status(folder / CHECKSUM) is not None:
        disk.remove_file(folder / CHECKSUM)
        disk.sync_folder(folder)


def check_catalog(folder: Path) -> None:
    """Raise where the catalog is not what the last writer left.

    After a crash there is no checksum: the catalog is then what SQLite restores from its log.
    A catalog that this process has open already was looked at then.
    """
    noted = _noted(folder)
    if noted is None:
        return
    try:
        saved = _parsed(folder, noted)
        with plain_file(folder / CATALOG) as allowed:
            if allowed:
                _check_catalog_sum(folder, saved)
    except CorruptIndexError:
        if _noted(folder) != noted:  # a writer came meanwhile, and it has looked
            return
        raise


def _check_catalog_sum(folder: Path, saved: FileSum) -> None:
    try:
        check_sum(folder / CATALOG, saved)
    except CorruptIndexError as error:
        # Either of the two may be the damaged one.
        raise CorruptIndexError(f"{error} That is what {CHECKSUM} says.") from None


def _noted(folder: Path) -> bytes | None:
    file_status(folder / CHECKSUM)  # opening a pipe of this name would wait for ever
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
    raise damaged(folder / CHECKSUM, f"it holds {noted!r}")
