"""A segment: vectors that were sealed, as an immutable index on the disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from memvec.collection._checksums import FileSum, HeldFile, check_sum, sum_of
from memvec.collection._settings import Settings
from memvec.errors import CorruptIndexError, FileFormatError
from memvec.index import Index, IndexConfig
from memvec.storage import disk, open_folder, write_folder
from memvec.types import Float32Array, IntArray

SEGMENTS = "segments"
# Beside the index: which item each of its rows is.
_ITEMS = "items"


def segment_folder(folder: Path, number: int) -> Path:
    """Return where a segment of the collection in `folder` lies."""
    return folder / SEGMENTS / f"{number:06d}"


@dataclass(frozen=True, eq=False)
class Segment:
    """Sealed vectors; rows are numbered by rising key.

    Attributes
    ----------
    number : int
        Names the folder.
    folder : Path
        Where the files are.
    files : mapping of str to FileSum
        All files of the folder, as the catalog has them.
    index : Index
        Searches the rows.
    keys : ndarray of shape (n_rows,)
        The item of each row, rising.
    """

    number: int
    folder: Path
    files: Mapping[str, FileSum]
    index: Index
    keys: IntArray
    _stored: Float32Array
    _places: IntArray
    _held: tuple[HeldFile, ...]
    _checked: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def write(
        cls,
        folder: Path,
        vectors: Float32Array,
        keys: IntArray,
        settings: Settings,
        progress: bool | None,
    ) -> dict[str, FileSum]:
        """Build an index of unit rows and write it; return the checksums of its files."""
        index = Index.build(
            vectors,
            similarity=settings.similarity,
            miss_rate=settings.miss_rate,
            guarantee=settings.guarantee,
            confidence=settings.confidence,
            similarities=settings.listed,
            config=_fitting(settings.config, len(vectors)),
            progress=progress,
        )
        index.save(folder)
        arrays, _ = open_folder(folder)
        places = np.empty(len(keys), dtype=np.int64)
        places[arrays["keys"]] = np.arange(len(keys))
        write_folder(folder / _ITEMS, {"keys": keys, "places": places}, {})
        disk.sync_folder(folder)
        disk.sync_folder(folder.parent)
        return {name: sum_of(folder / name) for name in _files_in(folder)}

    @classmethod
    def open(cls, folder: Path, number: int, files: Mapping[str, FileSum]) -> Segment:
        """Map the files of a segment, after a look at their sizes."""
        held = tuple(HeldFile(folder / name, saved) for name, saved in files.items())
        try:
            index = Index.open(folder)
            stored, _ = open_folder(folder)
            items, _ = open_folder(folder / _ITEMS)
        except FileFormatError:
            for name, saved in files.items():  # which file it is says more than what it lacks
                check_sum(folder / name, saved)
            raise
        try:
            keys, places, vectors = items["keys"], items["places"], stored["vectors"]
            if not len(keys) == len(places) == len(vectors) == len(index):
                raise KeyError("as many keys as vectors")
        except KeyError as error:
            raise CorruptIndexError(f"{folder} is not a segment: it lacks {error}.") from None
        return cls(number, folder, files, index, keys, vectors, places, held)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files.values())

    @cached_property
    def reserve(self) -> IntArray:
        """The rows that are calibrated on, in that order."""
        return self.index.reserve

    def vectors(self, rows: IntArray) -> Float32Array:
        """Return the vectors of some rows."""
        return np.ascontiguousarray(self._stored[self._places[rows]])

    def check(self) -> None:
        """Compare every file with its checksum, even where it was compacted away since."""
        for file in self._held:
            file.check()
        self._checked.set()

    def check_once(self) -> None:
        """Compare checksums unless it was done already."""
        if not self._checked.is_set():
            self.check()


def _fitting(config: IndexConfig, n_rows: int) -> IndexConfig:
    """Return the configuration for a segment of few rows: a reserve leaves at least one."""
    if config.reserve == "auto":
        return config
    return replace(config, reserve=min(config.reserve, n_rows - 1))


def remove_segment(folder: Path) -> None:
    """Remove the folder of a segment; what is mapped stays readable to those who mapped it."""
    if not folder.is_dir() or folder.is_symlink():
        disk.remove_file(folder)
        return
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            disk.remove_file(Path(parent) / name)
        for name in folders:
            path = Path(parent) / name
            (disk.remove_file if path.is_symlink() else disk.remove_folder)(path)
    disk.remove_folder(folder)


def _files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder).as_posix()) for path in _walk(folder))


def _walk(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


__all__ = ["SEGMENTS", "Segment", "remove_segment", "segment_folder"]
