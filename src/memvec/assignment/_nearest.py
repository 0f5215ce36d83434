"""The assignment step: every vector finds the unit on which it scores highest."""

from __future__ import annotations

import numpy as np

from memvec.kernels import UnitRows, run_blocks, try_units
from memvec.progress import Advance
from memvec.types import Float32Array, IntArray

# Rows that one thread compares with all units at a time.
_BLOCK_ROWS = 512
# Where more units than this share changed, trying them first saves nothing.
_WORTH_PRUNING = 0.8


class NearestUnits:
    """The best unit of each vector, kept up to date as units change.

    Attributes
    ----------
    labels : ndarray of shape (n_vectors,)
        The best unit so far; -1 before any was seen.
    best : ndarray of shape (n_vectors,)
        The score with it, float32.
    """

    def __init__(self, vectors: UnitRows, threads: int | None = None) -> None:
        self._vectors = vectors
        self._threads = threads
        self.labels = np.full(len(vectors), -1, dtype=np.int64)
        self.best = np.full(len(vectors), -np.inf, dtype=np.float32)
        # No unit but the best scored higher when it was last tried.
        self._second = np.full(len(vectors), -np.inf, dtype=np.float32)

    def see(self, unit_vectors: Float32Array, units: IntArray, advance: Advance) -> None:
        """Let every vector try some more units, and keep the best."""
        self.try_units(None, unit_vectors, units)
        advance(len(self._vectors))

    def update(self, unit_vectors: Float32Array, changed: IntArray, advance: Advance) -> None:
        """Find the best of all units again, after some of them changed.

        All vectors try the units that changed. Those that did not change score as before, at most
        the second-best score: only a vector that now falls below it tries everything. In late
        rounds of k-means few units change and fewer vectors are in doubt, so that the round costs
        little; the result is that of trying everything.
        """
        doubtful: IntArray | None = None
        if len(changed) < _WORTH_PRUNING * len(unit_vectors):
            is_changed = np.zeros(len(unit_vectors), dtype=bool)
            is_changed[changed] = True
            self.best[is_changed[self.labels]] = -np.inf
            self.try_units(None, unit_vectors[changed], changed)
            doubtful = np.flatnonzero(self.best < self._second)
        these = slice(None) if doubtful is None else doubtful
        self.best[these] = self._second[these] = -np.inf
        self.try_units(doubtful, unit_vectors, np.arange(len(unit_vectors)))
        advance(len(self._vectors))

    def try_units(self, rows: IntArray | None, candidates: Float32Array, units: IntArray) -> None:
        """Let some vectors, or all, try some units; keep the best of those and of what they had."""
        best, second = self.best.view(np.int32), self._second.view(np.int32)

        def attempt(start: int, stop: int) -> None:
            if rows is None:
                some, block = np.arange(start, stop), self._vectors[start:stop]
            else:
                some, block = rows[start:stop], self._vectors[rows[start:stop]]
            try_units(block, some, candidates, units, best, second, self.labels)

        n_rows = len(self._vectors) if rows is None else len(rows)
        run_blocks(attempt, n_rows, _BLOCK_ROWS, threads=self._threads)
