"""The names in the folder of a collection, and which of them memvec may remove."""

from __future__ import annotations

import os
import re
from collections.abc import Collection as Names
from contextlib import suppress
from pathlib import Path

from memvec.collection._catalog import LARGEST_NUMBER, Catalog
from memvec.collection._checksums import CHECKSUM
from memvec.collection._lock import LOCK
from memvec.collection._plain import check_tree, file_status, has_folder, remove_plain
from memvec.collection._segment import SEGMENTS, remove_segment
from memvec.errors import CorruptIndexError, damaged
from memvec.storage import CATALOG

# Where a repair puts the files of segments that could not be kept.
LOST = "lost"
_LOGS = tuple(f"{CATALOG}{ending}" for ending in ("-wal", "-shm", "-journal"))
_FILES = (CATALOG, *_LOGS, CHECKSUM, f"{CHECKSUM}.tmp", LOCK)
# What creating a collection makes before its first commit; nothing else may be in the folder then.
OWN_NAMES = frozenset({CATALOG, *_LOGS, LOCK, SEGMENTS})
_SEGMENT = re.compile(r"([0-9]{6,16})(\.rows)?")
# How a journal ends that names a second file, which SQLite removes after a rollback.
_JOURNAL_OF_MANY = bytes.fromhex("d9d505f920a163d7")


def check_names(folder: Path) -> None:
    """Raise where a name that memvec uses stands for a link, a pipe or something else.

    Whatever has another name is somebody else's, and never looked at.
    """
    for name in _FILES:
        file_status(folder / name)
    has_folder(folder / LOST)
    has_folder(folder / SEGMENTS)
    _check_journal(folder / f"{CATALOG}-journal")


def check_all(folder: Path) -> None:
    """Raise as `check_names` does, also for what is in the folders of segments."""
    check_names(folder)
    for name in _segment_names(folder):
        path = folder / SEGMENTS / name
        file_status(path) if path.suffix else check_tree(path)


def _check_journal(path: Path) -> None:
    """Raise where a journal names another file: the catalog's never does."""
    found = file_status(path)
    if found is None or found.st_size < len(_JOURNAL_OF_MANY):
        return
    with path.open("rb") as file:
        file.seek(-len(_JOURNAL_OF_MANY), os.SEEK_END)
        if file.read() == _JOURNAL_OF_MANY:
            raise CorruptIndexError(f"{path} is not the journal of a collection.")


def _segment_names(folder: Path) -> list[str]:
    """Return the names among the segments that memvec makes, folders and unfinished vectors."""
    segments = folder / SEGMENTS
    if not has_folder(segments):
        raise CorruptIndexError(f"{segments} is missing, or not a folder.")
    return sorted(name for name in os.listdir(segments) if _SEGMENT.fullmatch(name))


def unused_number(catalog: Catalog, folder: Path) -> int:
    """Return a number for a segment, above every one that the catalog or a name on disk has.

    So nothing is ever written to what the catalog names, whatever it says is next.
    """
    largest = catalog.number("SELECT ifnull(max(segment), 0) FROM segments")
    used = [int(name.split(".")[0]) for name in _segment_names(folder)]
    number = max(catalog.numbers().next_segment, 1 + max([largest, *used]))
    if number > LARGEST_NUMBER:
        raise damaged(folder / SEGMENTS, f"it has no number above {number}")
    return number


def unnamed_segments(folder: Path, named: Names[int]) -> list[Path]:
    """Return the folders of segments that the catalog does not name."""
    names = [name for name in _segment_names(folder) if not name.endswith(".rows")]
    return [folder / SEGMENTS / name for name in names if int(name) not in named]


def remove_orphans(folder: Path, kept: Names[int]) -> None:
    """Remove what crashed writers left, or what could not be removed while it was in use.

    Parameters
    ----------
    folder : Path
        The collection, whose catalog was read and is whole.
    kept : collection of int
        The numbers of its segments.
    """
    for name in _segment_names(folder):
        path = folder / SEGMENTS / name
        with suppress(OSError, CorruptIndexError):  # in use, or not what it seems: it stays
            if path.suffix:
                remove_plain(path)
            elif int(name) not in kept:
                remove_segment(path)
    with suppress(OSError):
        remove_plain(folder / f"{CHECKSUM}.tmp")
