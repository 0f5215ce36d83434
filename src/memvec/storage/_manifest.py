"""The manifest: what a folder holds, and proof that the manifest itself is whole."""

from __future__ import annotations

import json
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from memvec import checks
from memvec.errors import (
    CorruptIndexError,
    UnknownVersionError,
    damaged,
)
from memvec.storage import _disk
from memvec.storage._mapping import OpenedFile
from memvec.storage._npy import npy_size, parse_dtype

FORMAT = "memvec-index"
VERSION = 1
MANIFEST = "manifest.json"

# A damaged or foreign file of this name must not fill the memory; settings take a few kilobytes.
MAX_MANIFEST_BYTES = 1 << 24

_MOST_SHOWN = 10**200
_BLOCK_BYTES = 1 << 20

ARRAY_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
GENERATION_NAME = re.compile(r"g[0-9]{6,18}")
_CRC = re.compile(r"[0-9a-f]{8}")
_NO_CRC = "0" * 8


class FileSum(NamedTuple):
    """Size and CRC-32 of a file, as they were written or found."""

    size: int
    crc32: str

    @classmethod
    def of(cls, file: BinaryIO) -> FileSum:
        """Read an open file to its end."""
        size = crc = 0
        while block := file.read(_BLOCK_BYTES):
            size += len(block)
            crc = zlib.crc32(block, crc)
        return cls(size, crc_text(crc))

    def check_size(self, path: Path, found: int) -> None:
        """Raise where a file is not of the size that was saved."""
        if found != self.size:
            raise damaged(path, f"its size is {found} bytes, saved were {self.size}")

    def check(self, path: Path, found: FileSum) -> None:
        """Raise where a file is not what was saved."""
        if found != self:
            raise damaged(path, f"its checksum (CRC-32) is {found.crc32}, saved was {self.crc32}")


@dataclass(frozen=True)
class StoredArray:
    """What the manifest says of one array."""

    file: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    saved: FileSum


@dataclass(frozen=True)
class Manifest:
    """The arrays of one generation and the settings that go with them."""

    generation: str
    arrays: dict[str, StoredArray]
    meta: dict[str, Any]


def checked_path(path: object, where: str) -> Path:
    """Return `path` as a Path."""
    checked = checks.path(path, "path", where)
    if "\0" in str(checked):
        raise checks.bad_value("path", where, "a path without NUL characters", repr(str(checked)))
    return checked


def crc_text(crc: int) -> str:
    """Return a CRC-32 as it is written: eight hexadecimal digits.

    CRC-32 because the enemy is chance, not forgery: it sees every single flipped bit and every
    burst up to 32 bits, lets other damage pass once in 4·10⁹, and takes a fifth of the time of
    BLAKE2b (3.2 against 0.66 GB/s measured on one core), which each save pays for every byte.
    """
    return f"{crc:08x}"


def manifest_bytes(manifest: Manifest) -> bytes:
    """Return the content of the file.

    Its own checksum, taken with zeros in its place, covers every byte of it.
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        "crc32": _NO_CRC,
        "generation": manifest.generation,
        "arrays": {name: _fields(array) for name, array in manifest.arrays.items()},
        "meta": manifest.meta,
    }
    blank = json.dumps(document, indent=1, allow_nan=False).encode("ascii") + b"\n"
    return blank.replace(_NO_CRC.encode(), crc_text(zlib.crc32(blank)).encode(), 1)


def _fields(array: StoredArray) -> dict[str, Any]:
    return {
        "file": array.file,
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bytes": array.saved.size,
        "crc32": array.saved.crc32,
    }


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder after checking all of it."""
    return open_manifest(folder)[0]


def open_manifest(folder: Path) -> tuple[Manifest, OpenedFile]:
    """Return the manifest of a folder after checking all of it, and its file."""
    path = folder / MANIFEST
    opened = _opened(path)
    return _checked_manifest(path, opened.content.tobytes()), opened


def _checked_manifest(path: Path, content: bytes) -> Manifest:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptIndexError(f"{path} is damaged or not a manifest: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CorruptIndexError(f"{path} does not say that its format is {FORMAT!r}.")
    _check_version(path, document.get("version"))
    _check_crc(path, content, document.get("crc32"))
    return _parse(path, document)


def _opened(path: Path) -> OpenedFile:
    try:
        with _disk.open_file(path) as file:
            content = file.read(MAX_MANIFEST_BYTES + 1)
            size = os.fstat(file.fileno()).st_size
            opened = OpenedFile.of(file, np.frombuffer(content, dtype=np.uint8))
    except FileNotFoundError:
        raise CorruptIndexError(
            f"{path.parent} is not a saved index: it holds no {MANIFEST}."
        ) from None
    if len(content) > MAX_MANIFEST_BYTES:
        raise CorruptIndexError(
            f"{path} is damaged or not a manifest: its size is {size} bytes, "
            f"that of a manifest at most {MAX_MANIFEST_BYTES}."
        )
    return opened


def _malformed(path: Path, reason: str) -> CorruptIndexError:
    return CorruptIndexError(f"{path} is malformed: {reason}.")


def _check_version(path: Path, version: object) -> None:
    if type(version) is not int:
        raise _malformed(path, f"its version is {shortened(version)}")
    if version != VERSION:
        raise UnknownVersionError(
            f"{path} is of format version {version}; this memvec reads version {VERSION}."
        )


def _check_crc(path: Path, content: bytes, claimed: object) -> None:
    if not (isinstance(claimed, str) and _CRC.fullmatch(claimed)):
        raise _malformed(path, f"its checksum is {shortened(claimed)}")
    found = crc_text(zlib.crc32(content.replace(claimed.encode(), _NO_CRC.encode(), 1)))
    if found != claimed:
        raise damaged(path, f"its checksum (CRC-32) is {found}, it says {claimed}")


def _parse(path: Path, document: dict[str, Any]) -> Manifest:
    match document:
        case {
            "generation": str(generation),
            "arrays": dict(arrays),
            "meta": dict(meta),
        } if GENERATION_NAME.fullmatch(generation):
            stored = {name: _parse_array(path, name, arrays[name]) for name in arrays}
            return Manifest(generation, stored, meta)
    raise _malformed(path, "'generation', 'arrays' or 'meta' is missing or not what it must be")


def _parse_array(path: Path, name: str, fields: object) -> StoredArray:
    match fields:
        case {
            "file": str(file),
            "dtype": str(dtype),
            "shape": list(shape),
            "bytes": int(size),
            "crc32": str(crc),
        } if _CRC.fullmatch(crc):
            # One name for the array and its file leaves no room for a path that leads elsewhere.
            if ARRAY_NAME.fullmatch(name) is None or file != f"{name}.npy":
                raise _malformed(path, f"array {shortened(name)} in file {shortened(file)}")
            form = _form(path, name, dtype, shape)
            return _checked(path, name, StoredArray(file, *form, FileSum(size, crc)))
    raise _malformed(path, f"array {shortened(name)} is described by {shortened(fields)}")


def _form(
    path: Path, name: str, dtype: str, shape: list[Any]
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if not all(type(length) is int and length >= 0 for length in shape):
        raise _malformed(path, f"array {name!r} has the shape {shortened(shape)}")
    try:
        return parse_dtype(dtype), tuple(shape)
    except ValueError as error:
        raise _malformed(path, f"array {name!r}: {error}") from None


def _checked(path: Path, name: str, array: StoredArray) -> StoredArray:
    """Return `array` if its size is what its type and shape take: no claim beyond its file."""
    try:
        needed = npy_size(array.dtype, array.shape)
    except OverflowError:
        raise _malformed(
            path,
            f"array {name!r} has {len(array.shape)} dimensions, "
            "more than the header of a file can name",
        ) from None
    if array.saved.size != needed:
        # Python writes numbers of some thousand digits at most.
        takes = f"{needed}" if needed < _MOST_SHOWN else "far more"
        raise _malformed(
            path,
            f"array {name!r} of type {array.dtype.str} and shape "
            f"{shortened(array.shape)} takes {takes} bytes, not {array.saved.size}",
        )
    return array
