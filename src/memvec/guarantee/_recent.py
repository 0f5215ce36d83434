"""Recent queries, each once: told apart by their bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

import numpy as np

from memvec.types import Float32Array

# Queries that are remembered, in two generations of so many, by eight bytes each.
_REMEMBERED = 1 << 15
# Queries that are kept whole: so many, and not more than so many bytes.
_KEPT, _KEPT_BYTES = 2000, 32 << 20


_THREE_NUMBERS = Struct("<QQQ")


class Draw(NamedTuple):
    """What is drawn for a query, from its bytes: the same at every search.

    Attributes
    ----------
    digest : int
        Tells it from others, 64 bits.
    uniform : float
        In [0, 1).
    seed : int
        For what else is drawn, 64 bits.
    """

    digest: int
    uniform: float
    seed: int

    @classmethod
    def of(cls, row: Float32Array, seed: int) -> Draw:
        """Return the draw of a query."""
        salt = (seed % 2**64).to_bytes(8, "little")
        mixed = blake2b(row.tobytes(), digest_size=24, salt=salt).digest()
        digest, uniform, further = _THREE_NUMBERS.unpack(mixed)
        return cls(digest, (uniform >> 11) / 2**53, further)

    def place(self, n: int) -> int:
        """Return a place among n; those of `places` are others."""
        return (self.seed >> 32) * n >> 32

    def places(self, n: int, count: int) -> list[int]:
        """Return `count` places among n, drawn with replacement."""
        state, places = self.seed, []
        for _ in range(count):
            # The steps of Knuth's MMIX generator; its high bits are good.
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            places.append((state >> 32) * n >> 32)
        return places


class RecentQueries:
    """The last distinct queries, and which came before; both are bounded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Float32Array] = OrderedDict()
        self._seen: set[int] = set()
        self._before: set[int] = set()
        self._lock = threading.Lock()

    def add(self, queries: Sequence[tuple[int, Float32Array]]) -> list[bool]:
        """Keep queries, each by its digest and a row of its own.

        Returns which of them are new, as far as is remembered.
        """
        with self._lock:
            return [self._add(digest, row) for digest, row in queries]

    def _add(self, digest: int, row: Float32Array) -> bool:
        if digest in self._seen or digest in self._before:
            return False
        self._remember(digest)
        self._kept[digest] = row
        if len(self._kept) > min(_KEPT, max(1, _KEPT_BYTES // row.nbytes)):
            self._kept.popitem(last=False)
        return True

    def remember(self, digests: list[int]) -> None:
        """Count queries as known, without keeping them."""
        with self._lock:
            for digest in digests:
                self._remember(digest)

    def _remember(self, digest: int) -> None:
        if len(self._seen) >= _REMEMBERED:
            self._seen, self._before = set(), self._seen
        self._seen.add(digest)

    def __len__(self) -> int:
        return len(self._kept)

    def rows(self, dim: int) -> Float32Array:
        """Return the queries kept, the oldest first, shape (n_queries, dim)."""
        with self._lock:
            kept = list(self._kept.values())
        return np.array(kept, dtype=np.float32).reshape(len(kept), dim)
