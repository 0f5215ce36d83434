"""Queues on a card that kernels append to, whose length is known afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.gpu._card import Card
from memvec.gpu._packages import cupy


class Queue:
    """Room for what passes, and a count that goes on when the room is full.

    Parameters
    ----------
    card : Card
    capacity : int
        How many entries there is room for.
    width : int
        How many numbers an entry has: 2 for pairs.
    """

    def __init__(self, card: Card, capacity: int, width: int = 2) -> None:
        self.card, self.width = card, width
        self.entries = card.empty("A queue of what passes", (max(capacity, 1), width), np.int32)
        self.count = card.empty("A queue of what passes", (1,), np.uint64)
        self.clear()

    @property
    def capacity(self) -> int:
        """How many entries there is room for."""
        return int(self.entries.shape[0])

    def clear(self) -> None:
        """Forget what was appended."""
        with cupy().cuda.Device(self.card.number):
            self.count.fill(0)

    def length(self) -> int:
        """Return how many entries passed, beyond the room too; this waits for the card."""
        return int(self.count.get()[0])

    def read(self) -> Any:
        """Return the entries, shape (n, width), in no order; None where they had no room."""
        n = self.length()
        return self.entries[:n] if n <= self.capacity else None
