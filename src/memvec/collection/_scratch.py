"""Vectors of a segment to be, in a file instead of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from memvec.collection._state import State
from memvec.kernels import blocks
from memvec.storage import disk
from memvec.types import Float32Array, IntArray

_ROWS_AT_ONCE = 4096


@contextmanager
def scratch_rows(path: Path, state: State, keys: IntArray, dim: int) -> Iterator[Float32Array]:
    """Write the vectors of items, at least one, to a file that lasts as long as the block runs.

    They are mapped into memory: the system may drop them from it and read them again. After a
    crash the file is an orphan among the segments, which the next writer removes.

    Parameters
    ----------
    path : Path
        Where the file is made, among the segments.
    state : State
        Holds the items.
    keys : ndarray of shape (n_rows,)
        Of the items.
    dim : int
        Dimension of the vectors.
    """
    try:
        with path.open("xb") as file:
            for start, stop in blocks(len(keys), _ROWS_AT_ONCE):
                disk.write(file, state.vectors(keys[start:stop], dim).tobytes())
        mapped = np.memmap(path, dtype=np.float32, mode="r+", shape=(len(keys), dim))
        # A plain array, as the compiled loops know them.
        yield mapped.view(np.ndarray)
    finally:
        with suppress(OSError):  # in use (Windows): the next writer removes it
            disk.remove_file(path)
