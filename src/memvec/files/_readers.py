"""Readers of vector files, one function for all formats.

Nothing is ever unpickled. What can be memory-mapped is: rows are then read from the disk when used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, InvalidValueError
from memvec.files._hdf5 import read_hdf5
from memvec.files._npy_headers import read_npy_header
from memvec.files._parquet import read_parquet
from memvec.files._paths import checked_path, refuse_special
from memvec.files._vecs import VECS_DTYPES, read_vecs

VectorArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_HDF5_SUFFIXES = (".hdf5", ".h5")
_SUFFIXES = (".npy", *VECS_DTYPES, *_HDF5_SUFFIXES, ".parquet")


def read_vectors(
    path: str | os.PathLike[str], *, rows: int | None = None, field: str | None = None
) -> VectorArray:
    """Return the vectors of a file, one per row, in the type they are stored in.

    Parameters
    ----------
    path : str or path
        A file whose suffix says what it is: ``.npy``, ``.fvecs``, ``.bvecs``, ``.ivecs``, ``.hdf5``
        or ``.h5`` (in the layout of ann-benchmarks), ``.parquet``.
    rows : int, optional
        Read the first `rows` rows only; all of them by default or where there are fewer.
    field : str, optional
        The dataset of an HDF5 file (``"train"`` by default) or the column of a Parquet file (by
        default the only column of lists).

    Returns
    -------
    ndarray of shape (n_rows, dim)
        Memory-mapped and read-only for ``.npy``, ``.fvecs``, ``.bvecs``, ``.ivecs`` and for HDF5
        datasets stored in one piece; in memory otherwise.

    Raises
    ------
    FileFormatError
        If the file is truncated, malformed or not of the format its suffix says.
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
    file, limit = _checked(path, rows)
    suffix = file.suffix.lower()
    if suffix in _HDF5_SUFFIXES:
        return read_hdf5(file, "train" if field is None else field, limit)
    if suffix == ".parquet":
        return read_parquet(file, field, limit)
    if field is not None:
        expected = "None for a file that holds one array"
        raise InvalidValueError(checks.message("field", "read_vectors", expected, repr(field)))
    return _read_npy(file, limit) if suffix == ".npy" else read_vecs(file, limit)


def _checked(path: object, rows: int | None) -> tuple[Path, int | None]:
    expected = "a path to a file ending in " + ", ".join(_SUFFIXES)
    file = checked_path(path, expected, "read_vectors")
    if file.suffix.lower() not in _SUFFIXES:
        raise InvalidValueError(checks.message("path", "read_vectors", expected, repr(str(path))))
    refuse_special(file)
    return file, None if rows is None else checks.integer(rows, "rows", "read_vectors")


def _read_npy(path: Path, rows: int | None) -> VectorArray:
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
