"""All vectors of a file as one array, for all formats.

Nothing is ever unpickled. What can be memory-mapped is: rows are then read from the disk when used.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from memvec import checks
from memvec.files._blocks import MAPPED_SUFFIXES, blocks_of, known_path, rows_of
from memvec.files._records import Blocks, Fields, VectorArray

_WHERE = "read_vectors"
# Read at a time, where the rows of a file end in an array in memory.
_BATCH_ROWS = 8192


def read_vectors(
    path: str | os.PathLike[str], *, rows: int | None = None, field: str | None = None
) -> VectorArray:
    """Return the vectors of a file, one per row, in the type they are stored in.

    Parameters
    ----------
    path : str or path
        A file with the suffix of its format: ``.npy``, ``.fvecs``, ``.bvecs``, ``.ivecs``,
        ``.npz``, ``.hdf5`` or ``.h5``, ``.parquet``, ``.jsonl`` or ``.ndjson``.
    rows : int, optional
        Read only the first `rows` rows; all rows by default, or if there are fewer.
    field : str, optional
        The name of the vectors, as in `read_blocks`.

    Returns
    -------
    ndarray of shape (n_rows, dim)
        Memory-mapped and read-only for ``.npy``, ``.fvecs``, ``.bvecs``, ``.ivecs`` and for HDF5
        datasets stored contiguously; in memory otherwise.

    Raises
    ------
    FileFormatError
        If the file is truncated, malformed or not of the format of its suffix.
    MissingExtraError
        If h5py or pyarrow is needed and not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/three.npy", np.eye(3, dtype=np.float32))
    ...     read_vectors(f"{folder}/three.npy", rows=2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    file = known_path(path, "path", _WHERE, "a path to a file ending in ")
    limit = sys.maxsize if rows is None else checks.integer(rows, "rows", _WHERE)
    asked = Fields(field, rows=limit, vectors_only=True, where=_WHERE)
    if file.suffix.lower() in MAPPED_SUFFIXES:
        [whole] = blocks_of(file, asked, sys.maxsize)
        return whole.vectors
    blocks = blocks_of(file, asked, _BATCH_ROWS)
    first = next(blocks).vectors
    n_rows = limit if len(first) == limit else min(rows_of(file, asked), limit)
    return _gathered(blocks, first, n_rows)


def _gathered(blocks: Blocks, first: VectorArray, n_rows: int) -> VectorArray:
    """Return the rows of all blocks in one array, which is the only one of that size."""
    gathered = np.empty((n_rows, first.shape[1]), dtype=first.dtype)
    gathered[: len(first)] = first
    for block in blocks:
        # Lines of JSON are of a wider type where a narrow one would lose digits.
        gathered = gathered.astype(np.result_type(gathered, block.vectors), copy=False)
        gathered[block.first_row : block.first_row + len(block)] = block.vectors
    return gathered
