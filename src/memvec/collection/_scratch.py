"""Vectors of a segment to be, in a file instead of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from memvec import checks
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.kernels import StoredRows, blocks
from memvec.storage import disk
from memvec.types import IntArray

_ROWS_AT_ONCE = 4096


@contextmanager
def scratch_rows(
    path: Path, state: State, keys: IntArray, settings: Settings
) -> Iterator[StoredRows]:
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
    settings : Settings
        How the vectors are stored.
    """
    dim, dtype = settings.dim, settings.dtype
    try:
        with path.open("xb") as file:
            for start, stop in blocks(len(keys), _ROWS_AT_ONCE):
                rows = state.vectors(keys[start:stop], dim)
                if dtype != "float32":  # what nobody stores cannot be stored again
                    rows = checks.unit_rows(rows, "vectors", "Collection.seal", copy=False)
                disk.write(file, StoredRows.of(rows, dtype).data.tobytes())
        mapped = np.memmap(path, dtype=dtype, mode="r+", shape=(len(keys), dim))
        # A plain array, as the compiled loops know them.
        yield StoredRows.read(mapped.view(np.ndarray))
    finally:
        with suppress(OSError):  # in use (Windows): the next writer removes it
            disk.remove_file(path)
