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
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

_Bytes: TypeAlias = npt.NDArray[np.uint8]


class OpenedFile(NamedTuple):
    """A file as it was opened.

    Attributes
    ----------
    content : ndarray of shape (size,)
        Its bytes; they outlive its name.
    inode : tuple of int
        What tells it from every other file, whatever its name.
    """

    content: _Bytes
    inode: tuple[int, int]

    @classmethod
    def of(cls, file: BinaryIO, content: _Bytes) -> OpenedFile:
        """Return an open file, which may be closed, with its content."""
        status = os.fstat(file.fileno())
        return cls(content, (status.st_dev, status.st_ino))


def map_file(file: BinaryIO) -> _Bytes:
    """Return the bytes of an open file, mapped copy-on-write; the file may be closed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     _ = file.write(b"abc"), file.flush()
    ...     map_file(file).tobytes()
    b'abc'
    """
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


def forget_pages(content: _Bytes) -> None:
    """Give up the pages of a mapped file that were read; they are read again when asked for.

    What this process has changed in the mapping is lost.

    Parameters
    ----------
    content : ndarray of shape (size,)
        What `map_file` returned; anything that is not mapped is left alone.
    """
    address, size = content.ctypes.data, len(content)
    # A mapping begins with a page, and nothing else does: Python's objects have a header.
    if sys.platform == "linux" and size and address % mmap.PAGESIZE == 0:
        dropped = mmap.MADV_DONTNEED
        ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), dropped)


def forget_array(array: npt.NDArray[Any]) -> None:
    """Give up the pages of the mapped file that an array shows; other arrays are left alone."""
    shown: Any = array
    while isinstance(shown.base, np.ndarray):
        shown = shown.base
    if isinstance(shown.base, memoryview) and isinstance(shown.base.obj, ctypes.Array):
        forget_pages(shown)
