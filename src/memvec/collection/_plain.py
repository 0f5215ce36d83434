"""Files and folders that are what they seem: no links, pipes or devices.

A collection may have come from anywhere. What is a link inside of it could lead to a folder of
somebody else, and a pipe would keep its reader waiting for ever. The path that a user names may go
through links; nothing below it may.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from memvec.errors import CorruptIndexError
from memvec.storage import disk


def file_status(path: Path) -> os.stat_result | None:
    """Return what the system says of a plain file, None where there is nothing; raise elsewhere."""
    found = _status(path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise CorruptIndexError(f"{path} is not a file, as it must be in a collection.")
    return found


def has_folder(path: Path) -> bool:
    """Tell whether there is a folder; raise where there is something else."""
    found = _status(path)
    if found is not None and not stat.S_ISDIR(found.st_mode):
        raise CorruptIndexError(f"{path} is not a folder, as it must be in a collection.")
    return found is not None


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


def _status(path: Path) -> os.stat_result | None:
    # A folder that may not be entered is no proof that nothing is there: that error is raised.
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(found.st_mode):
        raise CorruptIndexError(f"{path} is a link: memvec follows none inside a collection.")
    return found


__all__ = ["check_tree", "file_status", "has_folder", "remove_plain"]
