"""The photographs of a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from memvec import checks
from memvec.images._photo import SUFFIXES


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and why."""

    path: str
    reason: str


def find_photos(folder: str | Path) -> list[str]:
    """Return the absolute paths of all files below a folder that are named like photographs.

    Sorted; hidden files and folders are left out, and links to folders are not followed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.JPG", "a.png", "notes.txt", ".hidden.jpg"):
    ...         _ = Path(folder, name).write_bytes(b"")
    ...     [Path(path).name for path in find_photos(folder)]
    ['a.png', 'b.JPG']
    """
    where = "find_photos"
    root = Path(os.path.abspath(checks.path(folder, "folder", where)))
    if not root.is_dir():
        raise checks.bad_value("folder", where, "an existing folder", root)
    found = []
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.join(parent, name) for name in files if _is_photo_name(name)]
    return sorted(found)


def _is_photo_name(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES
