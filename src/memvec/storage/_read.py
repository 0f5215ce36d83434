"""Opening a folder: arrays are mapped, not read."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from memvec.errors import CorruptIndexError, IndexNotFoundError, damaged
from memvec.storage import _disk
from memvec.storage._manifest import (
    MANIFEST,
    FileSum,
    Manifest,
    StoredArray,
    checked_path,
    open_manifest,
)
from memvec.storage._mapping import OpenedFile, map_file
from memvec.storage._npy import AnyArray, npy_header


@dataclass(frozen=True, eq=False)
class MappedFolder:
    """What a folder held when it was opened.

    Attributes
    ----------
    arrays, meta : dict
        As `open_folder` returns them.
    files : dict of str to OpenedFile
        The files, by their path below the folder; arrays are views of their content.
    """

    arrays: dict[str, AnyArray]
    meta: dict[str, Any]
    files: dict[str, OpenedFile]


def open_folder(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    unsummed: Collection[str] | None = None,
) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Open what `write_folder` saved, without reading the arrays.

    The manifest is checked whole, and of each file its size, type and shape. Opened arrays stay
    valid when the folder is saved to again: they show what it held when it was opened. The path may
    lead through links; a link inside the folder is refused.

    Parameters
    ----------
    path : str or path
        The folder.
    verify : bool, default False
        Also read every file and compare its checksum.
    unsummed : collection of str, optional
        Arrays that are too large to be read at every opening, or are checked otherwise. Where it is
        given, the checksums of all others are compared even without `verify`.

    Returns
    -------
    arrays : dict of str to ndarray
        Memory-mapped, copy-on-write: a change stays in this process; empty ones are in memory.
    meta : dict
        The settings saved with them.

    Raises
    ------
    IndexNotFoundError
        If there is nothing at `path`.
    CorruptIndexError
        If it is not a saved index, or a file is missing, truncated, extended or altered; the
        message gives the file and both sizes or checksums.
    UnknownVersionError
        If it was saved in a format version that is not known here.
    StorageError
        If the system does not let it be read.

    Examples
    --------
    >>> import tempfile
    >>> from memvec.storage import write_folder
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     _ = write_folder(f"{parent}/saved", {"offsets": np.array([0, 2, 5])}, {"dim": 8})
    ...     arrays, meta = open_folder(f"{parent}/saved", verify=True)
    ...     arrays["offsets"].tolist(), meta
    ([0, 2, 5], {'dim': 8})
    """
    mapped = map_folder(path, verify=verify, unsummed=unsummed)
    return mapped.arrays, mapped.meta


def map_folder(
    path: str | os.PathLike[str],
    *,
    verify: bool = False,
    unsummed: Collection[str] | None = None,
) -> MappedFolder:
    """Open a folder as `open_folder` does, each file once, and return the files, too."""
    folder = checked_path(path, "open_folder")
    with _disk.refusals(folder):
        _check_exists(folder)
        return _map_latest(folder, verify, unsummed)


def _map_latest(folder: Path, verify: bool, unsummed: Collection[str] | None) -> MappedFolder:
    manifest, file = open_manifest(folder)
    while True:
        try:
            return _map_generation(folder, manifest, file, verify, unsummed)
        except CorruptIndexError:
            # A save that ended meanwhile has removed the files named here: the newer ones count.
            latest, file = open_manifest(folder)
            if latest.generation == manifest.generation:
                raise
            manifest = latest


def _check_exists(folder: Path) -> None:
    if not folder.exists():
        raise IndexNotFoundError(f"There is no saved index at {folder}. Index.save makes one.")
    if not folder.is_dir():
        raise CorruptIndexError(f"{folder} is not a saved index: it is not a folder.")


def _map_generation(
    folder: Path,
    manifest: Manifest,
    file: OpenedFile,
    verify: bool,
    unsummed: Collection[str] | None,
) -> MappedFolder:
    inside = folder / manifest.generation
    _disk.check_folder(inside)
    arrays, files = {}, {MANIFEST: file}
    for name, array in manifest.arrays.items():
        summed = verify or (unsummed is not None and name not in unsummed)
        opened, arrays[name] = open_array(inside / array.file, array, summed)
        files[f"{manifest.generation}/{array.file}"] = opened
    return MappedFolder(arrays, manifest.meta, files)


def open_array(path: Path, array: StoredArray, verify: bool) -> tuple[OpenedFile, AnyArray]:
    """Open the file of an array after checking it; `verify` compares its checksum, too."""
    try:
        # Opened once: what is checked is what is mapped.
        with _disk.open_file(path) as file:
            opened = _checked_file(file, path, array, verify)
        return opened, _shown(opened, array)
    except FileNotFoundError:
        raise CorruptIndexError(
            f"{path} is missing: a file of {array.saved.size} bytes was saved."
        ) from None
    except (OverflowError, ValueError) as error:
        if isinstance(error, CorruptIndexError):
            raise
        raise CorruptIndexError(f"{path} cannot be an array: {error}.") from None


def _checked_file(file: BinaryIO, path: Path, array: StoredArray, verify: bool) -> OpenedFile:
    array.saved.check_size(path, os.fstat(file.fileno()).st_size)
    if verify:
        array.saved.check(path, FileSum.of(file))
    _check_header(file, path, npy_header(array.dtype, array.shape))
    # Copy-on-write: nothing reaches the file, and yet compiled code takes the arrays for ordinary
    # ones. It is compiled a second time, for seconds, for arrays that are marked read-only.
    return OpenedFile.of(file, map_file(file))


def _check_header(file: BinaryIO, path: Path, header: bytes) -> None:
    file.seek(0)
    found = file.read(len(header))
    if found != header:
        raise damaged(path, f"it begins with {found!r}, saved was {header!r}")


def _shown(opened: OpenedFile, array: StoredArray) -> AnyArray:
    """Return the array that a file holds, as a view of its content."""
    n_bytes = math.prod(array.shape) * array.dtype.itemsize
    if n_bytes == 0:
        return np.empty(array.shape, array.dtype)
    held = opened.content[array.saved.size - n_bytes : array.saved.size]
    return held.view(array.dtype).reshape(array.shape)
