"""Files in memory without a descriptor each.

Python's own mapping keeps a duplicate of the descriptor as long as it lives, unless told otherwise
from version 3.13 on. A process may have 1,024 of them, and a saved index has two dozen files.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from memvec.storage import _disk

_Bytes: TypeAlias = npt.NDArray[np.uint8]


def map_file(path: Path) -> _Bytes:
    """Return the bytes of a file, mapped copy-on-write; they outlive its name. No link is followed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "abc").write_bytes(b"abc")
    ...     map_file(Path(folder, "abc")).tobytes()
    b'abc'
    """
    with _disk.open_file(path) as file:
        return map_open_file(file)


def map_open_file(file: BinaryIO) -> _Bytes:
    """Return the bytes of an open file, mapped; the file may be closed."""
    size = os.fstat(file.fileno()).st_size
    if size == 0:  # a mapping cannot be empty
        return np.empty(0, dtype=np.uint8)
    if sys.platform == "win32":  # where there are more handles than anyone needs
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        return np.frombuffer(mapped, dtype=np.uint8)
    return _mapped(file.fileno(), size, file.name)


def _mapped(descriptor: int, size: int, name: str) -> _Bytes:
    """Map a file by the system's own call; the memory goes with the last array that shows it."""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_ssize_t,
    ]
    system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    address = system.mmap(None, size, rights, mmap.MAP_PRIVATE, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, system.munmap, address, size).atexit = False
    return np.frombuffer(memoryview(memory), dtype=np.uint8)


__all__ = ["map_file", "map_open_file"]
