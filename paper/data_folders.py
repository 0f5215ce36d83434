"""Folders that hold data sets, and what was read from them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class DataFolders:
    """Folders that may hold data sets, the first that has a file wins.

    Attributes
    ----------
    folders : tuple of path
        Where to look.
    asked : dict of str to str
        Every name that was looked for, with its signature at that time.

    Examples
    --------
    >>> data = DataFolders()
    >>> data.find("holidays") is None
    True
    >>> data.asked
    {'holidays': ''}
    """

    folders: tuple[Path, ...] = ()
    asked: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def find(self, name: str) -> Path | None:
        """Return the path of a file or folder by its name inside the folders."""
        self.asked[name] = self.signature(name)
        return self._path(name)

    def signature(self, name: str) -> str:
        """Return what changes when a file, or any file of a folder, does: sizes and times.

        Where there is nothing of that name it is empty.
        """
        path = self._path(name)
        if path is None:
            return ""
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        lines = [
            f"{file.relative_to(path).as_posix()} {known.st_size} {known.st_mtime_ns}"
            for file in files
            if file.is_file() and (known := file.stat())
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def key(self) -> str:
        """Return the names that were looked for and found, the data sets that were used."""
        return ",".join(name for name, signature in self.asked.items() if signature)

    def unasked(self) -> DataFolders:
        """Return the same folders, of which nothing has been looked for yet."""
        return DataFolders(self.folders)

    def _path(self, name: str) -> Path | None:
        return next((found for folder in self.folders if (found := folder / name).exists()), None)


__all__ = ["DataFolders"]
