"""Arrays that lie one after the other in a value of the catalog, as ``np.save`` wrote them.

Those of a calibration are compressed. They are not read by ``np.load``: it takes a header that
somebody forged for Python, for an archive, or for an array larger than the memory.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np

_ARRAY = b"\x93NUMPY"
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '(<[if][48]|<i2|\|u1)', 'fortran_order': (False|True), "
    rb"'shape': \(([0-9]{1,12}),(?: ([0-9]{1,6}))?\), \} *\n",
    re.DOTALL,
)

# The fastest level: a calibration takes a third, at 120 MB per second, and others save little more.
_LEVEL = 1
# What a compressed value may hold, or so many times its size: a forged one could fill the memory.
_MOST_BYTES, _MOST_TIMES = 1 << 26, 100


def compressed(content: bytes) -> bytes:
    """Return a value that takes less room."""
    return zlib.compress(content, _LEVEL)


def uncompressed(blob: bytes) -> bytes:
    """Return the content of a value, which may have been written as it is.

    Raises
    ------
    ValueError
        Where it is damaged, or more than a value of its size may hold.
    """
    if blob.startswith(_ARRAY):
        return blob
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(blob, max(_MOST_BYTES, _MOST_TIMES * len(blob)))
    except zlib.error as error:
        raise ValueError(f"it is not compressed: {error}") from None
    if not stream.eof or stream.unused_data:
        raise ValueError("it does not end where its content does")
    return content


def unpacked_arrays(blob: bytes) -> list[np.ndarray[Any, Any]]:
    """Return all arrays of a value.

    Raises
    ------
    ValueError
        Where it is anything else than whole arrays of numbers, of one or two dimensions.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> np.save(stream, np.arange(3)); np.save(stream, np.ones((1, 2), dtype=np.float32))
    >>> unpacked_arrays(stream.getvalue())
    [array([0, 1, 2]), array([[1., 1.]], dtype=float32)]
    """
    arrays, start = [], 0
    while start < len(blob):
        header = _HEADER.match(blob, start)
        if header is None or int.from_bytes(header[1], "little") != len(header[0]) - 10:
            raise ValueError("it does not hold arrays of numbers")
        dtype = np.dtype(header[2].decode())
        shape = tuple(int(length) for length in header.groups()[3:] if length is not None)
        stop = header.end() + dtype.itemsize * int(np.prod(shape, dtype=object))
        if stop > len(blob):
            raise ValueError("it ends before its arrays do")
        flat = np.frombuffer(blob[header.end() : stop], dtype=dtype)
        order = "F" if header[3] == b"True" else "C"
        # A copy, since compiled loops would be compiled anew for arrays that may not be written.
        arrays.append(flat.reshape(shape, order=order).copy())  # type: ignore[call-overload]
        start = stop
    return arrays
