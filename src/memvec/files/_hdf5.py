"""HDF5 files in the layout of ann-benchmarks (https://github.com/erikbern/ann-benchmarks)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, MemvecError, MissingExtraError
from memvec.files._paths import refuse_special
from memvec.files._records import Blocks, Fields, VectorArray, block_of, choose_fields
from memvec.kernels import blocks

# The dataset of vectors in the layout of ann-benchmarks.
_VECTORS = "train"
# Links within a file that lead to one another, at most; a circle has no end.
_MOST_LINKS = 16


@dataclass(frozen=True, eq=False, repr=False)
class AnnBenchmark:
    """A data set of ann-benchmarks.

    Attributes
    ----------
    train : ndarray of shape (n_vectors, dim)
        The vectors to search.
    test : ndarray of shape (n_queries, dim)
        The queries.
    neighbors : ndarray of shape (n_queries, k)
        The rows of `train` nearest to each query, nearest first.
    distances : ndarray of shape (n_queries, k)
        Their distances.
    metric : str
        The distance that the file names, such as "angular"; empty if it names none.
    """

    train: VectorArray
    test: VectorArray
    neighbors: VectorArray
    distances: VectorArray
    metric: str

    def __repr__(self) -> str:
        return (
            f"AnnBenchmark(train={self.train.shape}, test={self.test.shape}, "
            f"k={self.neighbors.shape[1]}, metric={self.metric!r})"
        )


def read_ann_benchmark(path: str | os.PathLike[str]) -> AnnBenchmark:
    """Return all four arrays of an HDF5 file in the layout of ann-benchmarks.

    Parameters
    ----------
    path : str or path
        The file.

    Raises
    ------
    FileFormatError
        If the file is truncated or malformed, lacks an array, or the arrays do not fit together.
    MissingExtraError
        If h5py is not installed.
    """
    file = checks.path(path, "path", "read_ann_benchmark", "a path to an HDF5 file")
    train, test = _whole(file, "train"), _whole(file, "test")
    neighbors, distances = _whole(file, "neighbors"), _whole(file, "distances")
    _check_fit(file, train, test, neighbors, distances)
    return AnnBenchmark(train, test, neighbors, distances, _metric(file))


def _whole(path: Path, name: str) -> VectorArray:
    [block] = hdf5_blocks(path, Fields(name, vectors_only=True), sys.maxsize)
    return block.vectors


def hdf5_blocks(path: Path, asked: Fields, block_rows: int) -> Blocks:
    """Yield the rows of a dataset, and of those that hold ids and metadata.

    They are memory-mapped where the dataset is stored in one piece.
    """
    with _opened(path) as file:
        name = _VECTORS if asked.vectors is None else asked.vectors
        dataset = _dataset(file, path, name)
        chosen = choose_fields([*_columns(file, path, len(dataset))], name, asked, path)
        vectors = _mapped(dataset, path, name)
        for start, stop in blocks(min(len(dataset), asked.rows), block_rows):
            rows = slice(start, stop)
            columns = {other: _column(file, path, other, rows) for other in chosen.names}
            yield block_of(start, vectors[rows], columns, chosen, path)


def hdf5_rows(path: Path, name: str | None) -> int:
    """Return how many rows a dataset has."""
    with _opened(path) as file:
        return len(_dataset(file, path, _VECTORS if name is None else name))


def _columns(file: Any, path: Path, n_rows: int) -> Iterator[str]:
    """Yield the names of datasets with one value a row."""
    import h5py

    for name in file:
        try:
            found = _own(file, path, name)
        except FileFormatError:
            yield name  # in another file: refused if it is asked for
            continue
        if isinstance(found, h5py.Dataset) and found.shape == (n_rows,):
            yield name


def _column(file: Any, path: Path, name: str, rows: slice) -> list[Any]:
    import h5py

    dataset = _own(file, path, name)
    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    values: list[Any] = (dataset.asstr() if is_text else dataset)[rows].tolist()
    return values


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("Reading HDF5 files", "h5py", "files") from None
    refuse_special(path)
    # Opened here first, so that a missing file or a folder gets the builtin error and not h5py's.
    with path.open("rb"):
        pass
    try:
        with h5py.File(path, "r") as file:
            yield file
    except MemvecError:
        raise
    except (LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        # Whichever of them h5py makes of a signature, a heap or a text that is damaged.
        raise FileFormatError(f"{path} is not a readable HDF5 file: {error}.") from None


def _dataset(file: Any, path: Path, name: str) -> Any:
    import h5py

    found = _own(file, path, name)
    if not isinstance(found, h5py.Dataset):
        held = ", ".join(sorted(file)) or "nothing"
        raise FileFormatError(f"{path} has no dataset '{name}'; it holds {held}.")
    if len(found.shape or ()) != 2 or found.dtype.kind not in "fiu":
        raise FileFormatError(
            f"{path} holds a dataset '{name}' of shape {found.shape} and dtype {found.dtype}; "
            "it should be two-dimensional and of real numbers."
        )
    if found.size == 0:
        raise FileFormatError(f"{path} holds an empty dataset '{name}' of shape {found.shape}.")
    return found


def _own(group: Any, path: Path, name: str, links: int = _MOST_LINKS) -> Any:
    """Return what has a name in the file itself, or None; what leads to other files is refused."""
    import h5py

    here = group.file["/"] if name.startswith("/") else group
    for part in name.split("/"):
        if part in ("", "."):
            continue
        link = here.get(part, getlink=True) if isinstance(here, h5py.Group) else None
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise FileFormatError(
                f"{path} holds '{part}' as a link to another file, {link.filename!r}; "
                "no file is read but the one named."
            )
        if isinstance(link, h5py.SoftLink):
            here = _own(here, path, link.path, links - 1) if links else None
        else:
            here = here.get(part)
    if isinstance(here, h5py.Dataset):
        _check_bytes(here, path, name, links)
    return here


def _check_bytes(dataset: Any, path: Path, name: str, links: int) -> None:
    """Refuse a dataset whose values are in other files."""
    sources = dataset.virtual_sources() if dataset.is_virtual else []
    # A name with a percent sign stands for many, as many as there are.
    away = any(one.file_name != "." or "%" in one.dset_name for one in sources)
    if away or dataset.external is not None:
        raise FileFormatError(
            f"{path} holds no bytes of '{name}': they are in another file; "
            "no file is read but the one named."
        )
    for source in sources:
        if not links or _own(dataset.file, path, source.dset_name, links - 1) is None:
            raise FileFormatError(f"{path} holds no bytes of '{name}'.")


def _mapped(dataset: Any, path: Path, name: str) -> Any:
    """Return the dataset's bytes in its file; the dataset itself if they are not in one piece."""
    is_whole = dataset.chunks is None and not dataset.is_virtual
    offset = dataset.id.get_offset() if is_whole else None
    if offset is None:
        return dataset
    if offset + dataset.nbytes > path.stat().st_size:
        raise FileFormatError(f"{path} is truncated: it ends within '{name}'.")
    return np.memmap(path, dataset.dtype, mode="r", offset=offset, shape=dataset.shape)


def _check_fit(
    path: Path,
    train: VectorArray,
    test: VectorArray,
    neighbors: VectorArray,
    distances: VectorArray,
) -> None:
    fits = (
        train.shape[1] == test.shape[1]
        and len(neighbors) == len(test)
        and neighbors.shape == distances.shape
    )
    if not fits:
        raise FileFormatError(
            f"{path} holds arrays that do not fit together: train {train.shape}, "
            f"test {test.shape}, neighbors {neighbors.shape}, distances {distances.shape}."
        )


def _metric(path: Path) -> str:
    with _opened(path) as file:
        value = file.attrs.get("distance", "")
    return value.decode() if isinstance(value, bytes) else str(value)
