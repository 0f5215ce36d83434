"""One reader for files of any size: rows come in blocks, with their ids and metadata."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

from memvec import checks
from memvec.errors import FileFormatError
from memvec.files._hdf5 import hdf5_blocks, hdf5_rows
from memvec.files._jsonl import jsonl_blocks
from memvec.files._npy import read_npy
from memvec.files._npz import npz_blocks, npz_rows
from memvec.files._parquet import parquet_blocks, parquet_rows
from memvec.files._paths import refuse_special
from memvec.files._records import WHERE, Blocks, Fields, VectorArray, VectorBlock
from memvec.files._vecs import VECS_DTYPES, read_vecs

_JSONL_SUFFIXES = (".jsonl", ".ndjson")
_HDF5_SUFFIXES = (".hdf5", ".h5")
_PLAIN_SUFFIXES = (".npy", *VECS_DTYPES)
BLOCK_SUFFIXES = (*_PLAIN_SUFFIXES, ".npz", *_HDF5_SUFFIXES, ".parquet", *_JSONL_SUFFIXES)
# All rows of such a file can be one block, which is not read before it is used.
MAPPED_SUFFIXES = (*_PLAIN_SUFFIXES, *_HDF5_SUFFIXES)


def read_blocks(
    source: str | os.PathLike[str] | IO[bytes],
    *,
    field: str | None = None,
    ids: str | None = None,
    metadata: Sequence[str] | None = None,
    block_rows: int = 1000,
    first_row: int = 0,
) -> Blocks:
    """Yield the rows of a file in blocks; the whole file need not fit into memory.

    Parameters
    ----------
    source : str, path or binary file
        A file with the suffix of its format: ``.npy``, ``.fvecs``, ``.bvecs``, ``.ivecs``,
        ``.npz``, ``.hdf5`` or ``.h5``, ``.parquet``, ``.jsonl`` or ``.ndjson``; or an open file of
        JSON Lines.
    field : str, optional
        The name of the vectors: an array of ``.npz`` (by default ``vectors`` or the only one), a
        dataset of HDF5 (``train``), a column of Parquet (the only one of lists), or a key of JSON
        Lines (``vector``).
    ids : str, optional
        The name of the ids; by default ``id`` or ``ids``, if there is one. In JSON Lines, all rows
        have ids, or none.
    metadata : sequence of str, optional
        The names of the metadata; ``"*"`` means all other fields. By default ``metadata``, if there
        is one: objects, or their JSON. Values that are null or NaN are left out; dates become text.
        Lines of JSON may differ in their fields; a name that no row of the first block has is
        refused.
    block_rows : int, default 1000
        Rows per block; the last block may have fewer, and so may blocks of Parquet.
    first_row : int, default 0
        Begin with this row. The rows before it are not read if the format can skip them: ``.npy``,
        ``.fvecs`` and the like, and row groups of Parquet.

    Yields
    ------
    VectorBlock

    Raises
    ------
    FileFormatError
        If the file is truncated, malformed or not of the format of its suffix.
    MissingExtraError
        If h5py or pyarrow is needed and not installed.

    Examples
    --------
    >>> import io
    >>> lines = io.BytesIO(b'{"id": "a", "vector": [1, 0], "metadata": {"year": 2020}}')
    >>> [(block.ids, block.vectors.tolist(), block.metadata) for block in read_blocks(lines)]
    [(['a'], [[1.0, 0.0]], [{'year': 2020}])]
    """
    first = checks.integer(first_row, "first_row", WHERE, minimum=0)
    asked = Fields(field, ids, _checked_metadata(metadata), first=first)
    n_rows = checks.integer(block_rows, "block_rows", WHERE)
    return _from(first, _blocks_from(source, asked, n_rows))


def _blocks_from(source: str | os.PathLike[str] | IO[bytes], asked: Fields, n_rows: int) -> Blocks:
    """Return the blocks of a file or of open lines; readers that cannot skip rows give them."""
    if not isinstance(source, str | os.PathLike) and isinstance(source, Iterable):
        return jsonl_blocks(source, getattr(source, "name", "The input"), asked, n_rows)
    return blocks_of(_checked_source(source), asked, n_rows)


def _from(first: int, blocks: Blocks) -> Blocks:
    """Leave out the rows before one."""
    if first == 0:
        return blocks
    late = (block for block in blocks if block.first_row + len(block) > first)
    return (block.part(max(0, first - block.first_row)) for block in late)


def blocks_of(path: Path, asked: Fields, block_rows: int) -> Blocks:
    """Return the blocks of a file by the reader of its suffix."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return npz_blocks(path, asked, block_rows)
    if suffix in _HDF5_SUFFIXES:
        return hdf5_blocks(path, asked, block_rows)
    if suffix == ".parquet":
        return parquet_blocks(path, asked, block_rows)
    if suffix in _JSONL_SUFFIXES:
        return _file_of_lines(path, asked, block_rows)
    return _plain_blocks(path, asked, block_rows)


def count_rows(source: str | os.PathLike[str], *, field: str | None = None) -> int:
    """Return the number of rows of a file. Only JSON Lines files are read to their end.

    Parameters
    ----------
    source, field
        As in `read_blocks`.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/three.npy", np.eye(3))
    ...     count_rows(f"{folder}/three.npy")
    3
    """
    return rows_of(_checked_source(source), Fields(field))


def rows_of(path: Path, asked: Fields) -> int:
    """Return how many rows a file has, by the reader of its suffix."""
    suffix = path.suffix.lower()
    if suffix in _HDF5_SUFFIXES:
        return hdf5_rows(path, asked.vectors)
    if suffix == ".parquet":
        return parquet_rows(path)
    if suffix == ".npz":
        return npz_rows(path, asked)
    if suffix in _JSONL_SUFFIXES:
        with path.open("rb") as lines:
            return sum(1 for line in lines if line.strip())
    return len(_plain_vectors(path))


def _checked_source(source: object) -> Path:
    return known_path(source, "source", WHERE, "a file of JSON Lines, or a path ending in ")


def known_path(path: object, name: str, where: str, kind: str) -> Path:
    """Return the path of a file of a known format; `kind` is what the suffixes end."""
    expected = kind + ", ".join(BLOCK_SUFFIXES)
    file = checks.path(path, name, where, expected)
    if file.suffix.lower() not in BLOCK_SUFFIXES:
        raise checks.bad_value(name, where, expected, repr(str(path)))
    refuse_special(file)
    return file


def _checked_metadata(metadata: Sequence[str] | None) -> tuple[str, ...] | None:
    if metadata is None:
        return None
    if isinstance(metadata, str) or not all(isinstance(name, str) for name in metadata):
        raise checks.bad_type("metadata", WHERE, "a sequence of names", repr(metadata))
    return tuple(metadata)


def _file_of_lines(path: Path, asked: Fields, block_rows: int) -> Blocks:
    with path.open("rb") as lines:
        empty = True
        for block in jsonl_blocks(lines, path, asked, block_rows):
            empty = False
            yield block
    if empty:
        raise FileFormatError(f"{path} holds no vectors: it has no lines.")


def _plain_blocks(path: Path, asked: Fields, block_rows: int) -> Blocks:
    named = {"field": asked.vectors, "ids": asked.ids, "metadata": asked.metadata}
    for parameter, value in named.items():
        if value not in (None, ()):
            expected = "None for a file that holds one array"
            raise checks.bad_value(parameter, asked.where, expected, repr(value))
    vectors = _plain_vectors(path, asked.rows)
    for start in range(asked.first, len(vectors), block_rows):
        yield VectorBlock(start, vectors[start : start + block_rows])


def _plain_vectors(path: Path, rows: int = sys.maxsize) -> VectorArray:
    read = read_npy if path.suffix.lower() == ".npy" else read_vecs
    return read(path, rows)
