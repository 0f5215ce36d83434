"""The .npy form of an array: header, content in blocks, type.

Layout: numpy.lib.format, version 1.0 (https://numpy.org/neps/nep-0001-npy-format.html). The header
is composed here rather than by NumPy, whose padding has changed between versions: the type and the
shape then fix every byte of it, and a reader compares bytes where it would otherwise parse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Booleans, numbers and strings of a fixed length. Objects would need pickle.
_TYPE = re.compile(r"[<>|][biufcSU][0-9]{1,9}")
_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64
# Arrays are written and checksummed this much at a time, whatever their memory order.
_BLOCK_BYTES = 1 << 20


def storable(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this type can be stored."""
    return _TYPE.fullmatch(dtype.str) is not None and np.dtype(dtype.str) == dtype


def parse_dtype(text: str) -> np.dtype[Any]:
    """Return the type that `text` names; ValueError where it is not one that can be stored."""
    if _TYPE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a type of stored arrays")
    try:
        dtype = np.dtype(text)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if dtype.str != text:
        raise ValueError(f"{text!r} is not a type of stored arrays")
    return dtype


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what stands before the content of an array in C order.

    Examples
    --------
    >>> npy_header(np.dtype("<f4"), (2, 3))[10:].split(b"}")[0]
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), "
    """
    text = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    content = text.encode("ascii") + b"\n"
    padding = -(len(_MAGIC) + 2 + len(content)) % _ALIGNMENT
    length = (len(content) + padding).to_bytes(2, "little")
    return _MAGIC + length + content[:-1] + b" " * padding + b"\n"


def npy_blocks(array: AnyArray) -> Iterator[bytes]:
    """Yield the content of the .npy file of `array`, header first, in blocks."""
    yield npy_header(array.dtype, array.shape)
    chunks = np.nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        buffersize=max(_BLOCK_BYTES // max(array.itemsize, 1), 1),
        order="C",
    )
    for chunk in chunks:
        block = np.asarray(chunk).tobytes()
        if block:
            yield block


def npy_size(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the size in bytes of the file, in whole numbers of any length: nothing overflows."""
    return len(npy_header(dtype, shape)) + math.prod(shape) * dtype.itemsize
