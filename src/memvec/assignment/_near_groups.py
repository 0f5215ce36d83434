"""Units in groups, and the groups that each vector is nearest to: where its best units are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memvec.kernels import (
    blocks,
    keep_nearest,
    nearest_of_groups,
    run_blocks,
    second_of_groups,
)
from memvec.types import Float32Array, Int32Array, IntArray

# Rows of the product with the centroids that are made at once, and that one thread scans.
_BLOCK_PRODUCT = 4096
_BLOCK_ROWS = 256


@dataclass(frozen=True, eq=False)
class NearGroups:
    """Which groups of units each vector is nearest to.

    Attributes
    ----------
    rows : ndarray of shape (n_vectors, dim)
        Unit rows.
    near : ndarray of shape (n_vectors, n_near)
        The nearest groups of each vector, nearest first, int32.
    threads : int or None
        Threads to use.
    """

    rows: Float32Array
    near: Int32Array
    threads: int | None

    @classmethod
    def of(
        cls, rows: Float32Array, centroids: Float32Array, n_near: int, threads: int | None
    ) -> NearGroups:
        """Compare every vector with the centroids of the groups, and keep the nearest."""
        near = np.empty((len(rows), min(n_near, len(centroids))), dtype=np.int32)
        for start, stop in blocks(len(rows), _BLOCK_PRODUCT):
            product, found = rows[start:stop] @ centroids.T, near[start:stop]

            def keep(
                first: int, last: int, product: Float32Array = product, found: Int32Array = found
            ) -> None:
                keep_nearest(product[first:last], found[first:last])

            run_blocks(keep, stop - start, _BLOCK_ROWS, threads=threads)
        return cls(rows, near, threads)

    @property
    def nearest(self) -> Int32Array:
        """The nearest group of each vector."""
        return self.near[:, 0]

    def without_deserted(self) -> NearGroups:
        """Leave out groups that are nearest to no vector, and number the others through."""
        used = np.zeros(int(self.near.max()) + 1, dtype=bool)
        used[self.nearest] = True
        if used.all():
            return self
        near = np.where(used[self.near], self.near, self.near[:, :1])
        return replace(self, near=(np.cumsum(used) - 1)[near].astype(np.int32))

    def best_units(self, units: Float32Array, starts: IntArray) -> tuple[IntArray, Float32Array]:
        """Return the best unit of each vector, and its score with it.

        Group g holds the units from ``starts[g]`` on.
        """
        labels = np.empty(len(self.rows), dtype=np.int64)
        best = np.empty(len(self.rows), dtype=np.float32)

        def search(start: int, stop: int) -> None:
            some, near = self.rows[start:stop], self.near[start:stop]
            nearest_of_groups(some, near, starts, units, labels[start:stop], best[start:stop])

        run_blocks(search, len(self.rows), _BLOCK_ROWS, threads=self.threads)
        return labels, best

    def second_units(
        self,
        units: Float32Array,
        starts: IntArray,
        homes: IntArray,
        pull: float,
        least_share: float,
    ) -> IntArray:
        """Return a second unit for each vector, as `second_of_groups` chooses it."""
        seconds = np.empty(len(self.rows), dtype=np.int64)

        def search(start: int, stop: int) -> None:
            second_of_groups(
                self.rows[start:stop],
                self.near[start:stop],
                starts,
                units,
                homes[start:stop],
                np.float32(pull),
                np.float32(least_share),
                seconds[start:stop],
            )

        run_blocks(search, len(self.rows), _BLOCK_ROWS, threads=self.threads)
        return seconds
