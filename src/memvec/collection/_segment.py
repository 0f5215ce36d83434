"""A segment: vectors that were sealed, as an immutable index on the disk."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np

from memvec.collection._checksums import HeldFile, check_size, check_sum
from memvec.collection._plain import check_tree
from memvec.collection._priority import priorities, rows_to_hold_out
from memvec.collection._segment_arrays import check_arrays
from memvec.collection._settings import Settings
from memvec.errors import FileFormatError
from memvec.index import Index, map_index, save_index
from memvec.kernels import StoredRows
from memvec.search import Source, source_on
from memvec.storage import FileSum, disk, map_folder, write_folder
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

SEGMENTS = "segments"
# The files of a segment. A catalog that says others is damaged.
FILE_NAME = re.compile(r"(items/)?(manifest\.json|g[0-9]{6,18}/[a-z][a-z0-9_]{0,63}\.npy)")
_FOLDER_NAME = re.compile(r"items|g[0-9]{6,18}")
# Beside the index: which item each of its rows is.
_ITEMS = "items"
_File = TypeVar("_File")
# Rows in units whose priorities are remembered, the lowest ones: one of them is mostly alive.
_INSIDERS = 1000


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
    device : str
        Where it is searched.
    """

    number: int
    folder: Path
    files: Mapping[str, FileSum]
    index: Index
    keys: IntArray
    device: str
    _places: IntArray
    _held: tuple[HeldFile, ...]
    _checked: threading.Event = field(default_factory=threading.Event)
    _moving: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def write(
        cls,
        folder: Path,
        vectors: StoredRows,
        keys: IntArray,
        settings: Settings,
        progress: bool | None,
    ) -> dict[str, FileSum]:
        """Build an index of unit rows and write it; return the checksums of its files."""
        index = Index.build(
            vectors,
            dtype=settings.dtype,
            similarity=settings.similarity,
            miss_rate=settings.miss_rate,
            guarantee=settings.guarantee,
            confidence=settings.confidence,
            similarities=settings.listed,
            # One row is left to make a unit of.
            held_out=rows_to_hold_out(keys, settings.dim, settings.config)[: len(keys) - 1],
            config=settings.config,
            progress=progress,
        )
        of_index = save_index(index, folder)
        places = np.empty(len(keys), dtype=np.int64)
        places[index.units.cascade.keys] = np.arange(len(keys))
        of_items = write_folder(folder / _ITEMS, {"keys": keys, "places": places}, {})
        disk.sync_folder(folder)
        disk.sync_folder(folder.parent)
        return of_index | _below_items(of_items)

    @classmethod
    def open(
        cls, folder: Path, number: int, files: Mapping[str, FileSum], device: str = "cpu"
    ) -> Segment:
        """Map each file of a segment once, after a look at their sizes."""
        check_tree(folder)
        for name, saved in files.items():
            check_size(folder / name, saved)
        try:
            index, stored = map_index(folder)
            items = map_folder(folder / _ITEMS)
            opened = stored.files | _below_items(items.files)
            check_arrays(folder, files.keys(), opened.keys(), stored.arrays, items.arrays)
            held = tuple(HeldFile(folder / name, files[name], opened[name]) for name in files)
        except FileFormatError:
            for name, saved in files.items():  # which file it is says more than what it lacks
                check_sum(folder / name, saved)
            raise
        keys, places = items.arrays["keys"], items.arrays["places"]
        return cls(number, folder, files, index, keys, device, places, held)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def source(self) -> Source:
        """What searches the rows; units are copied to a device at the first search."""
        with self._moving:
            return self._moved

    @cached_property
    def _moved(self) -> Source:
        return source_on(self.device, self.index.units, "memvec.open")

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.size for file in self.files.values())

    @cached_property
    def strangers(self) -> IntArray:
        """The rows whose matches no unit has put beside them, by rising priority.

        They are the reserve, which is in no unit, and a row that would be in it, too, if it did not
        make a unit alone: all its matches are in the reserve.
        """
        reserve = self.index.reserve
        if len(reserve) < len(self) - 1:
            return reserve
        wanted = rows_to_hold_out(self.keys, self.index.dim, self.index.config)
        return np.concatenate([reserve, wanted[len(reserve) :]])

    @cached_property
    def stranger_priorities(self) -> Float64Array:
        """The priorities of the strangers."""
        return priorities(self.keys[self.strangers], self.index.config.seed)

    @cached_property
    def _insiders(self) -> tuple[IntArray, Float64Array]:
        """The rows of lowest priority that are no strangers, and their priorities, rising."""
        rows = np.setdiff1d(np.arange(len(self)), self.strangers)
        found = priorities(self.keys[rows], self.index.config.seed)
        lowest = np.argsort(found, kind="stable")[:_INSIDERS]
        return rows[lowest], found[lowest]

    def cutoff(self, alive: BoolArray) -> float:
        """Return the lowest priority of a living row that is no stranger; infinity without any."""
        rows, found = self._insiders
        living = alive[rows]
        if living.any():
            return float(found[np.argmax(living)])
        others = np.setdiff1d(np.flatnonzero(alive), self.strangers)
        if not len(others):
            return np.inf
        return float(priorities(self.keys[others], self.index.config.seed).min())

    def vectors(self, rows: IntArray) -> Float32Array:
        """Return the vectors of some rows, as unit rows."""
        stored = self.index.units.cascade.vectors
        return np.ascontiguousarray(stored[self._places[rows]])

    def check_sizes(self) -> None:
        """Raise where a file is gone or of another size: a look at what was cut off is fatal."""
        for name, saved in self.files.items():
            check_size(self.folder / name, saved)

    def forget_pages(self) -> None:
        """Give up what was read of the files: a look at all of them leaves them in memory."""
        for file in self._held:
            file.forget_pages()

    def check(self) -> None:
        """Compare every file with its checksum, even where it was compacted away since."""
        with disk.refusals(self.folder):
            for file in self._held:
                file.check()
        self._checked.set()

    def check_once(self) -> None:
        """Compare checksums unless it was done already."""
        if not self._checked.is_set():
            self.check()


def remove_segment(folder: Path) -> None:
    """Remove what memvec has made in the folder of a segment, and the folder where that is all.

    What is mapped stays readable to those who mapped it. Links, and what has other names, stay; so
    does the folder around them, which is an OSError.
    """
    if folder.is_symlink() or folder.parent.is_symlink() or not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(folder))
    for name in _files_in(folder):
        if FILE_NAME.fullmatch(name.removesuffix(".tmp")):
            disk.remove_file(folder / name)
    for parent, folders, _ in os.walk(folder, topdown=False):
        for name in folders:
            if _FOLDER_NAME.fullmatch(name):
                disk.remove_folder(Path(parent) / name)
    disk.remove_folder(folder)


def _below_items(files: Mapping[str, _File]) -> dict[str, _File]:
    """Return files of the folder of items by their names below that of the segment."""
    return {f"{_ITEMS}/{name}": file for name, file in files.items()}


def _files_in(folder: Path) -> list[str]:
    """Return the names of all plain files in a folder and those below it."""
    paths = [Path(parent) / name for parent, _, files in os.walk(folder) for name in files]
    plain = [path for path in paths if path.is_file() and not path.is_symlink()]
    return sorted(path.relative_to(folder).as_posix() for path in plain)
