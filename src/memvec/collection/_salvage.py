"""What a damaged segment can be rebuilt from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memvec.collection._checksums import check_sum
from memvec.collection._segment import segment_folder
from memvec.errors import CorruptIndexError
from memvec.kernels import StoredRows
from memvec.storage import FileSum
from memvec.types import IntArray, RowType

_VECTORS = r"g\d+/vectors\.npy"
_ROWS_OF_PLACES = r"g\d+/keys\.npy"
_KEYS = r"items/g\d+/keys\.npy"
_PLACES = r"items/g\d+/places\.npy"


@dataclass(frozen=True)
class Originals:
    """The vectors of segments, and which item each of them is.

    Codes and memory vectors follow from the vectors. Where a row lies in the file of vectors is
    known twice. The keys of one segment are those of the catalog that nothing else holds.

    Attributes
    ----------
    folder : Path
        The collection.
    files : mapping
        The size and checksum of each file of each segment.
    sealed : ndarray
        Keys of all items that do not wait.
    """

    folder: Path
    files: dict[int, dict[str, FileSum]]
    sealed: IntArray

    def of(self, number: int, dtype: RowType) -> tuple[StoredRows, IntArray] | None:
        """Return the vectors and keys of a segment by row, if they can be had.

        Where the system refuses to read a file, this raises: that is no proof of damage.
        """
        vectors = self._whole(number, _VECTORS)
        places, keys = self._places(number), self._keys(number)
        if vectors is None or places is None or keys is None:
            return None
        if vectors.dtype != dtype or vectors.ndim != 2:
            return None
        if not len(vectors) == len(places) == len(keys) or not _fit(places, keys):
            return None
        return StoredRows.read(vectors[places]), keys

    def _places(self, number: int) -> IntArray | None:
        places = self._whole(number, _PLACES)
        rows = self._whole(number, _ROWS_OF_PLACES) if places is None else None
        return np.argsort(rows) if rows is not None else places

    def _keys(self, number: int) -> IntArray | None:
        keys = self._whole(number, _KEYS)
        if keys is not None:
            return keys
        others = [self._whole(other, _KEYS) for other in self.files if other != number]
        held = [some for some in others if some is not None]
        if len(held) < len(others):  # whose the rest is, nothing says
            return None
        return np.setdiff1d(self.sealed, np.concatenate([np.empty(0, np.int64), *held]))

    def _whole(self, number: int, pattern: str) -> npt.NDArray[Any] | None:
        """Return an array of a segment, if its file is what was saved."""
        where, files = segment_folder(self.folder, number), self.files[number]
        names = [name for name in files if re.fullmatch(pattern, name)]
        try:
            for name in names:
                check_sum(where / name, files[name])
                array: npt.NDArray[Any] = np.load(where / name, allow_pickle=False)
                return array
        except (CorruptIndexError, FileNotFoundError):
            pass
        return None


def _fit(places: IntArray, keys: IntArray) -> bool:
    """Return whether arrays of one length are the places of vectors, and rising keys."""
    kinds = [array.dtype.str[1:] + str(array.ndim) for array in (places, keys)]
    if kinds != ["i81", "i81"] or (keys[1:] <= keys[:-1]).any():
        return False
    return bool((np.sort(places) == np.arange(len(places))).all())
