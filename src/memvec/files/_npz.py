"""Arrays in an .npz archive, read from it block by block."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, InvalidValueError
from memvec.files._npy import NpyHeader, read_npy_header
from memvec.files._records import Blocks, Fields, VectorArray, block_of, choose_fields
from memvec.kernels import blocks

_SUFFIX = ".npy"
_VECTOR_NAMES = ("vectors", "vector")


class _Member:
    """An array of the archive, of which the next rows can be read."""

    def __init__(self, archive: zipfile.ZipFile, name: str, path: Path) -> None:
        self._file, self._name, self._path = archive.open(name + _SUFFIX), name, path
        header = read_npy_header(self._file, path, ".npz")
        self.shape, fortran, self.dtype = header
        if self._file.tell() + header.size > archive.getinfo(name + _SUFFIX).file_size:
            raise self._truncated()
        if self.dtype.hasobject:
            raise FileFormatError(f"{path} holds Python objects as '{name}', which are not read.")
        if fortran and len(self.shape) > 1:
            raise FileFormatError(
                f"{path} holds '{name}' in Fortran's order, column after column; "
                "save it with np.ascontiguousarray."
            )

    def __len__(self) -> int:
        return int(self.shape[0]) if self.shape else 0

    def take(self, n_rows: int) -> VectorArray:
        """Return the next rows."""
        shape = (n_rows, *self.shape[1:])
        size = NpyHeader(shape, False, self.dtype).size
        content = self._file.read(size)
        if len(content) < size:
            raise self._truncated()
        return np.frombuffer(content, dtype=self.dtype).reshape(shape)

    def _truncated(self) -> FileFormatError:
        return FileFormatError(f"{self._path} is truncated: '{self._name}' ends too early.")

    def close(self) -> None:
        """End reading."""
        self._file.close()


def npz_blocks(path: Path, asked: Fields, block_rows: int) -> Blocks:
    """Yield the rows of the arrays of an archive."""
    with _opened(path) as archive:
        yield from _blocks(archive, path, asked, block_rows)


def npz_rows(path: Path, asked: Fields) -> int:
    """Return how many rows the array of vectors has."""
    with _opened(path) as archive:
        name = _vectors_name(_held(archive), asked, path)
        with closing(_Member(archive, name, path)) as member:
            return len(member)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
        if isinstance(error, FileFormatError | InvalidValueError):
            raise
        raise FileFormatError(f"{path} is not a readable .npz file: {error}.") from None


def _blocks(archive: zipfile.ZipFile, path: Path, asked: Fields, block_rows: int) -> Blocks:
    held = _held(archive)
    with ExitStack() as stack:

        def member(name: str) -> _Member:
            return stack.enter_context(closing(_Member(archive, name, path)))

        name = _vectors_name(held, asked, path)
        vectors = member(name)
        if len(vectors.shape) != 2 or vectors.dtype.kind not in "fiu" or 0 in vectors.shape:
            raise FileFormatError(
                f"{path} holds an array '{name}' of shape {vectors.shape} and dtype "
                f"{vectors.dtype}; vectors are two-dimensional and of real numbers."
            )
        chosen = choose_fields(held, name, asked, path)
        others = {other: member(other) for other in chosen.names}
        for other, found in others.items():
            if len(found) != len(vectors):
                raise FileFormatError(
                    f"{path} holds {len(vectors)} vectors and {len(found)} rows of '{other}'."
                )
        for start, stop in blocks(min(len(vectors), asked.rows), block_rows):
            rows = vectors.take(stop - start)
            columns = {other: _plain(found.take(stop - start)) for other, found in others.items()}
            yield block_of(start, rows, columns, chosen, path)


def _held(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]


def _vectors_name(held: list[str], asked: Fields, path: Path) -> str:
    names = ", ".join(held) or "nothing"
    if asked.vectors is not None:
        if asked.vectors not in held:
            expected = f"an array of {path}, which holds {names}"
            raise checks.bad_value("field", asked.where, expected, repr(asked.vectors))
        return asked.vectors
    usual = [name for name in _VECTOR_NAMES if name in held] or held
    if len(held) == 1 or usual is not held:
        return usual[0]
    raise FileFormatError(
        f"{path} has no array 'vectors', so 'field' must name one; it holds {names}."
    )


def _plain(values: VectorArray) -> list[Any]:
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind == "M":
        texts = np.datetime_as_string(values).astype(object)
        texts[np.isnat(values)] = None
        values = texts
    return values.tolist()  # type: ignore[no-any-return]
