"""Files of one array, .npy, whose headers anybody may have written."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from memvec.errors import FileFormatError
from memvec.files._records import VectorArray


class NpyHeader(NamedTuple):
    """Shape, order and type of an array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The bytes of the content, in whole numbers of any length: nothing overflows."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path, rows: int) -> VectorArray:
    """Return the first rows of a file, memory-mapped."""
    # Unlike np.load this knows no pickles and no archives, only the one format.
    with path.open("rb") as file:
        header = read_npy_header(file, path, ".npy")
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
    shape, fortran, dtype = header
    if dtype.hasobject:
        raise FileFormatError(f"{path} is not a readable .npy file: it holds Python objects.")
    if offset + header.size > size:
        raise FileFormatError(
            f"{path} is not a readable .npy file: its size is {size} bytes, an array of shape "
            f"{shape} and dtype {dtype} needs {offset + header.size}."
        )
    if len(shape) != 2 or dtype.kind not in "fiu":
        raise FileFormatError(
            f"{path} holds an array of shape {shape} and dtype {dtype}; "
            "vectors are two-dimensional and of real numbers."
        )
    if 0 in shape:
        raise FileFormatError(f"{path} holds no vectors: its shape is {shape}.")
    order: Literal["C", "F"] = "F" if fortran else "C"
    array = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)
    return array[:rows]


def read_npy_header(file: IO[bytes], path: Path, kind: str) -> NpyHeader:
    """Read the header of a file of a kind (``.npy`` or ``.npz``); FileFormatError if it is none."""
    try:
        header = NpyHeader(*_read(file))
    except Exception as error:
        # NumPy evaluates what it finds, and any error can come of it: tokens, types, recursion.
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise FileFormatError(f"{path} is not a readable {kind} file: {reason}.") from None
    if not all(type(length) is int and length >= 0 for length in header.shape):
        raise FileFormatError(f"{path} is not a readable {kind} file: its shape is {header.shape}.")
    return header


def _read(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version not in ((2, 0), (3, 0)):
        raise ValueError(f"its format version is {version}")
    # Names of fields are the only difference of version 3, and vectors have none.
    return np.lib.format.read_array_header_2_0(file)
