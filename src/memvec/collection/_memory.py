"""Memory that was used, and is of no more use."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

# Builds of fewer bytes of vectors leave little behind.
_LARGE = 1 << 23


def give_back_memory(n_bytes: int = _LARGE) -> None:
    """Let the system have what a build of so many bytes of vectors has freed.

    The allocator of Linux keeps it for the thread that has freed it, which may never build again:
    170 MB after 100,000 vectors of 384 dimensions were sealed.
    """
    if sys.platform == "linux" and n_bytes >= _LARGE:
        with suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
