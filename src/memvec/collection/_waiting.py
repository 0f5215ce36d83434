"""Vectors that no segment holds yet."""

from __future__ import annotations

import numpy as np

from memvec.kernels import StoredRows
from memvec.types import Float32Array, IntArray, RowType

_SMALLEST_ROOM = 1024
# Room for so many times as many rows as need it. What is not used takes no memory; rows that move
# to a larger room take it twice, as long as the old ones are being sealed.
_SPARE_ROOM = 4


class Waiting:
    """Waiting vectors in memory, in the order they came; it never changes, it is followed by more.

    Several of them share one piece of memory, each seeing the rows that were there when it was
    made; so adding rows does not copy those before them.

    Attributes
    ----------
    keys : ndarray of shape (n_rows,)
        The item of each row, rising.
    rows : StoredRows of shape (n_rows, dim)
        The vectors.
    """

    def __init__(self, room: StoredRows, room_for_keys: IntArray, n_rows: int) -> None:
        self._room, self._room_for_keys = room, room_for_keys
        self.rows, self.keys = room.some(slice(n_rows)), room_for_keys[:n_rows]

    @classmethod
    def empty(cls, dim: int, dtype: RowType) -> Waiting:
        """Return one without rows."""
        return cls(StoredRows.read(np.empty((0, dim), dtype)), np.empty(0, np.int64), 0)

    def __len__(self) -> int:
        return len(self.keys)

    def vectors(self, rows: IntArray) -> Float32Array:
        """Return the vectors of some rows, as unit rows; of a run of rows, no copy."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and np.all(np.diff(rows) == 1):
            return self.rows[rows[0] : rows[-1] + 1]
        return self.rows[rows]

    def followed_by(self, rows: StoredRows, keys: IntArray) -> Waiting:
        """Return these rows and some more. The last of a line may be followed, the others not."""
        n_before, n_after = len(self), len(self) + len(rows)
        room, room_for_keys = self._room, self._room_for_keys
        if n_after > len(room):
            capacity = max(_SMALLEST_ROOM, _SPARE_ROOM * n_after)
            room = self.rows.room(capacity)
            room_for_keys = np.empty(capacity, np.int64)
            room.put(0, self.rows)
            room_for_keys[:n_before] = self.keys
        room.put(n_before, rows)
        room_for_keys[n_before:n_after] = keys
        return Waiting(room, room_for_keys, n_after)

    def after(self, key: int) -> Waiting:
        """Return a copy of the rows whose key is larger."""
        first = int(np.searchsorted(self.keys, key, side="right"))
        empty = Waiting.empty(self.rows.shape[1], self.rows.dtype)
        return empty.followed_by(self.rows.some(slice(first, None)), self.keys[first:])
