"""Files and folders that are what they seem: no links, pipes or devices.

A collection may have come from anywhere. What is a link inside of it could lead to a folder of
somebody else, and a pipe would keep its reader waiting for ever. The path that a user names may go
through links; nothing below it may.
"""

from __future__ import annotations

import os
from pathlib import Path

from memvec.errors import CorruptIndexError
from memvec.storage import disk


def file_status(path: Path) -> os.stat_result | None:
    """Return what the system says of a plain file, None where there is nothing; raise elsewhere."""
    return os.lstat(path) if _is(path, "a file") else None


def has_folder(path: Path) -> bool:
    """Tell whether there is a folder; raise where there is something else."""
    return _is(path, "a folder")


def check_tree(folder: Path) -> None:
    """Raise where a folder is missing, or where anything in it is not a plain file or folder."""
    if not has_folder(folder):
        raise CorruptIndexError(f"{folder} is missing, or not a folder.")
    for parent, folders, files in os.walk(folder):
        for name in files:
            file_status(Path(parent) / name)
        for name in folders:  # links to folders are listed among them
            has_folder(Path(parent) / name)


def remove_plain(path: Path) -> None:
    """Remove a file if there is one; raise where it is a link or something else."""
    if file_status(path) is not None:
        disk.remove_file(path)


def _is(path: Path, wanted: str) -> bool:
    """Tell whether there is what is wanted; raise where there is something else."""
    found = disk.kind(path)
    if found not in (None, wanted):
        raise CorruptIndexError(f"{path} is {found}, not {wanted}, as it must be in a collection.")
    return found is not None
