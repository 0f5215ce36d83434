"""Queues on a card that kernels append to, whose length is known afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.gpu._card import Card
from memvec.gpu._packages import cupy


class Queue:
    """Room for pairs that pass, and a count that goes on when the room is full.

    Parameters
    ----------
    card : Card
    capacity : int
        How many pairs there is room for.
    count : cupy.ndarray of shape (1,), uint64, optional
        Where they are counted.
    scored : bool
        Whether pairs have scores.
    room : tuple of cupy.ndarray, optional
        Where pairs and scores go, of shapes (capacity, 2) and (capacity,).
    """

    def __init__(
        self,
        card: Card,
        capacity: int,
        *,
        count: Any = None,
        scored: bool = False,
        room: tuple[Any, Any] | None = None,
    ) -> None:
        what = "A queue of what passes"
        self.card, size = card, max(capacity, 1)
        if room is None:
            entries = card.empty(what, (size, 2), np.int32)
            room = entries, card.empty(what, (size if scored else 0,), np.float64)
        self.entries, self.scores = room
        self.count = card.empty(what, (1,), np.uint64) if count is None else count
        self.clear()

    @property
    def capacity(self) -> int:
        """How many pairs there is room for."""
        return int(self.entries.shape[0])

    def clear(self) -> None:
        """Forget what was appended."""
        with cupy().cuda.Device(self.card.number):
            self.count.fill(0)

    def length(self) -> int:
        """Return how many pairs passed, beyond the room too; this waits for the card."""
        return int(self.count.get()[0])

    def read(self) -> Any:
        """Return the pairs, shape (n, 2), in no order; None where they had no room."""
        n = self.length()
        return self.entries[:n] if n <= self.capacity else None
