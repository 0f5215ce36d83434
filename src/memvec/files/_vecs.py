"""The files of the TexMex benchmarks: .fvecs, .bvecs and .ivecs.

Each row is its dimension, a little-endian int32, followed by that many entries: float32, uint8 or
int32 (http://corpus-texmex.irisa.fr).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from memvec.errors import FileFormatError
from memvec.files._records import VectorArray

VECS_DTYPES = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}

# Headers are compared this many rows at a time, so that checking a large file takes little memory.
_CHECK_ROWS = 1 << 16
# NumPy has no types larger than this.
_MOST_ROW_BYTES = (1 << 31) - 8


def read_vecs(path: Path, rows: int) -> VectorArray:
    """Return a memory-mapped view of the entries, after checking the header of every row used."""
    size = path.stat().st_size
    entry = np.dtype(VECS_DTYPES[path.suffix.lower()])
    dim = _first_dim(path, size, entry.itemsize)
    row = np.dtype([("dim", "<i4"), ("entries", entry, (dim,))])
    if size % row.itemsize != 0:
        raise FileFormatError(
            f"{path} is truncated or malformed: its size of {size} bytes is not a multiple of the "
            f"{row.itemsize} bytes that a row of dimension {dim} takes."
        )
    table = np.memmap(path, dtype=row, mode="r")[:rows]
    _check_headers(path, table["dim"], dim)
    return table["entries"]


def _first_dim(path: Path, size: int, itemsize: int) -> int:
    if size < 4:
        raise FileFormatError(f"{path} holds no vectors: its size is {size} bytes.")
    with path.open("rb") as file:
        dim = int.from_bytes(file.read(4), "little", signed=True)
    if not (1 <= dim < size and dim * itemsize < _MOST_ROW_BYTES):
        raise FileFormatError(
            f"{path} is malformed: its first row says dimension {dim} in a file of {size} bytes."
        )
    return dim


def _check_headers(path: Path, dims: np.ndarray[Any, Any], dim: int) -> None:
    for start in range(0, len(dims), _CHECK_ROWS):
        wrong = dims[start : start + _CHECK_ROWS] != dim
        if wrong.any():
            row = start + int(np.argmax(wrong))
            raise FileFormatError(
                f"{path} is malformed: row {row} says dimension {dims[row]}, the first row {dim}."
            )
