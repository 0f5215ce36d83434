"""Saving a folder as a whole: a new generation first, then the manifest that names it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.errors import MemvecError
from memvec.storage import _disk
from memvec.storage._manifest import (
    ARRAY_NAME,
    GENERATION_NAME,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    FileSum,
    Manifest,
    StoredArray,
    checked_path,
    crc_text,
    manifest_bytes,
    read_manifest,
)
from memvec.storage._npy import AnyArray, npy_blocks, npy_size, storable

_UNFINISHED_MANIFEST = f"{MANIFEST}.tmp"


def write_folder(
    path: str | os.PathLike[str],
    arrays: Mapping[str, AnyArray],
    meta: Mapping[str, Any],
    *,
    where: str = "write_folder",
    wait: bool = True,
) -> dict[str, FileSum]:
    """Save arrays and settings as a folder, in place of what it held.

    A crash at any moment leaves the old content or the new one, and so does an exception, which
    also removes what was half-written. What a crash left is removed by the next save. Saves to one
    folder at the same time wait for each other (not on Windows). Everything is on the disk when the
    call returns. Nothing outside the folder is touched: links inside it are refused.

    Parameters
    ----------
    path : str or path
        The folder: a new one in an existing folder, an empty one, or one saved before. The path may
        lead to it through links.
    arrays : mapping of str to ndarray
        Booleans, numbers or strings of a fixed length, of any shape and memory order; stored in C
        order. Names are lower-case letters, digits and underscores.
    meta : mapping of str to what JSON holds
        Settings; they come back equal.
    where : str, optional
        The callable that error messages name.
    wait : bool, default True
        Wait for others that save to the folder; False raises StorageError.

    Returns
    -------
    dict of str to FileSum
        Size and CRC-32 of every file written, by its path below the folder.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        If `path` is a file or a folder of something else, or an argument cannot be stored.
        Nothing is changed then.
    CorruptIndexError, UnknownVersionError
        If the folder's manifest is damaged or of an unknown version. Nothing is changed then.
    StorageError
        If the disk is full or refuses: the folder then holds what it held before, unless the fault
        came after the last step, when it holds the new content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     arrays = {"rows": np.eye(2, dtype=np.float32)}
    ...     sorted(write_folder(f"{parent}/saved", arrays, {"seed": 7}))
    ...     np.load(f"{parent}/saved/g000001/rows.npy").tolist()
    ['g000001/rows.npy', 'manifest.json']
    [[1.0, 0.0], [0.0, 1.0]]
    """
    folder = checked_path(path, where)
    arrays = _checked_arrays(arrays, where)
    meta = _checked_meta(meta, where)
    with _disk.refusals(folder):
        _check_place(folder, where)
        return _save_into(folder, arrays, meta, where, wait=wait)


def _save_into(
    folder: Path, arrays: dict[str, AnyArray], meta: dict[str, Any], where: str, *, wait: bool
) -> dict[str, FileSum]:
    created = not folder.exists()
    try:
        if created:
            _disk.make_folder(folder)
            _disk.sync_folder(folder.parent)
        with _disk.locked(folder, wait=wait):
            return _save(folder, arrays, meta, where)
    except BaseException:
        if created:
            with suppress(OSError):  # holds the new content, if the fault came after the commit
                _disk.remove_folder(folder)
        raise


def _checked_arrays(arrays: object, where: str) -> dict[str, AnyArray]:
    expected = "a mapping of names to arrays"
    if not isinstance(arrays, Mapping):
        raise checks.bad_type("arrays", where, expected, type(arrays).__name__)
    for name, array in arrays.items():
        if not (isinstance(name, str) and ARRAY_NAME.fullmatch(name)):
            names = "named by at most 64 of a-z, 0-9 and _, a letter first"
            raise checks.bad_value("arrays", where, names, repr(name))
        if not isinstance(array, np.ndarray):
            raise checks.bad_type("arrays", where, expected, f"{type(array).__name__} for {name!r}")
        if not storable(array.dtype):
            kinds = "of booleans, numbers or strings of a fixed length"
            raise checks.bad_type("arrays", where, kinds, f"dtype {array.dtype} for {name!r}")
    return dict(arrays)


def _checked_meta(meta: object, where: str) -> dict[str, Any]:
    expected = "a mapping that comes back equal from JSON"
    if not isinstance(meta, Mapping):
        raise checks.bad_type("meta", where, expected, type(meta).__name__)
    plain = dict(meta)
    try:
        text = json.dumps(plain, allow_nan=False)
        equal = json.loads(text) == plain
    except TypeError as error:
        raise checks.bad_type("meta", where, expected, error) from None
    except (ValueError, RecursionError) as error:
        raise checks.bad_value("meta", where, expected, error) from None
    if not equal:
        raise checks.bad_value("meta", where, expected, repr(plain))
    return plain


_EXPECTED_PLACE = "a new path in an existing folder, an empty folder or a saved index"


def _check_place(folder: Path, where: str) -> None:
    got = _problem_of_place(folder)
    if got is not None:
        raise checks.bad_value("path", where, _EXPECTED_PLACE, got)


def _problem_of_place(folder: Path) -> str | None:
    """Return why nothing can be saved to a folder, or None."""
    if not folder.exists():
        if folder.is_symlink():
            return f"{folder}, a link that leads nowhere,"
        return None if folder.parent.is_dir() else str(folder)
    if not folder.is_dir():
        return f"{folder}, a file,"
    # A name that no save makes, and no manifest: somebody else's folder.
    foreign = sorted(set(os.listdir(folder)) - set(_own_names(folder)))
    if foreign and _disk.kind(folder / MANIFEST) is None:
        return f"{folder}, which holds {foreign[0]!r} and no {MANIFEST},"
    for name in (MANIFEST, *_own_names(folder)):
        found = _disk.kind(folder / name)
        if found not in (None, "a folder" if GENERATION_NAME.fullmatch(name) else "a file"):
            return f"{folder}, in which {name!r} is {found},"
    return None


def _own_names(folder: Path) -> list[str]:
    """Return the names of what saves have made in `folder`, the manifest apart."""
    return [
        name
        for name in sorted(os.listdir(folder))
        if GENERATION_NAME.fullmatch(name) or name == _UNFINISHED_MANIFEST
    ]


def _save(
    folder: Path, arrays: dict[str, AnyArray], meta: dict[str, Any], where: str
) -> dict[str, FileSum]:
    generation = _next_generation(folder, where)
    with _undone_on_failure(folder, generation):
        stored = _write_generation(folder / generation, arrays)
        _disk.sync_folder(folder)
        of_manifest = _commit(folder, Manifest(generation, stored, meta), where)
    _sweep(folder, keep=generation)
    sums = {f"{generation}/{one.file}": one.saved for one in stored.values()}
    return {MANIFEST: of_manifest, **sums}


def _next_generation(folder: Path, where: str) -> str:
    """Return a name above every one used: a reader can then tell that there was a save."""
    used = [name for name in _own_names(folder) if name != _UNFINISHED_MANIFEST]
    if _disk.kind(folder / MANIFEST) is not None:
        used.append(read_manifest(folder).generation)
    last = max((int(name[1:]) for name in used), default=0)
    following = f"g{last + 1:06d}"
    if GENERATION_NAME.fullmatch(following) is None:
        got = f"{folder}, which holds 'g{last}', the last name that there is"
        raise checks.bad_value("path", where, _EXPECTED_PLACE, got)
    return following


@contextmanager
def _undone_on_failure(folder: Path, generation: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # An interrupt can come after the rename took effect: only the manifest on disk can tell.
        with suppress(OSError, MemvecError):
            if not _is_committed(folder, generation):
                _discard(folder, generation)
        raise


def _is_committed(folder: Path, generation: str) -> bool:
    if _disk.kind(folder / MANIFEST) is None:
        return False
    return read_manifest(folder).generation == generation


def _write_generation(folder: Path, arrays: dict[str, AnyArray]) -> dict[str, StoredArray]:
    _disk.make_folder(folder)
    stored = {name: _write_array(folder, name, array) for name, array in arrays.items()}
    _disk.sync_folder(folder)
    return stored


def _write_array(folder: Path, name: str, array: AnyArray) -> StoredArray:
    crc = 0
    file_name = f"{name}.npy"
    with _disk.create_file(folder / file_name) as file:
        for block in npy_blocks(array):
            crc = zlib.crc32(block, crc)
            _disk.write(file, block)
        _disk.sync(file)
    saved = FileSum(npy_size(array.dtype, array.shape), crc_text(crc))
    return StoredArray(file_name, array.dtype, array.shape, saved)


def _commit(folder: Path, manifest: Manifest, where: str) -> FileSum:
    content = manifest_bytes(manifest)
    if len(content) > MAX_MANIFEST_BYTES:
        limit = f"at most {MAX_MANIFEST_BYTES} bytes of JSON"
        raise checks.bad_value("meta", where, limit, f"{len(content)} bytes")
    unfinished = folder / _UNFINISHED_MANIFEST
    if _disk.is_file(unfinished):
        # Left by a crash. Written over, it would change any other file that it is a name of.
        _disk.remove_file(unfinished)
    with _disk.create_file(unfinished) as file:
        _disk.write(file, content)
        _disk.sync(file)
    _disk.replace(unfinished, folder / MANIFEST)
    _disk.sync_folder(folder)
    return FileSum(len(content), crc_text(zlib.crc32(content)))


def _sweep(folder: Path, keep: str) -> None:
    """Remove older generations and what crashed saves left; the new content is safe already."""
    for name in _own_names(folder):
        if name != keep:
            with suppress(OSError):  # in use (Windows) or refused: the next save tries again
                _discard_entry(folder / name)


def _discard(folder: Path, generation: str) -> None:
    for name in (_UNFINISHED_MANIFEST, generation):
        _discard_entry(folder / name)


def _discard_entry(path: Path) -> None:
    """Remove an unfinished manifest or a generation; what no save made stays, and so do links."""
    if _disk.is_file(path):
        _disk.remove_file(path)
    if not _disk.is_folder(path):
        return
    for file in sorted(path.glob("*.npy")):
        if ARRAY_NAME.fullmatch(file.stem) and _disk.is_file(file):
            _disk.remove_file(file)
    _disk.remove_folder(path)
