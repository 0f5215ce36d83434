"""Units in groups, and the groups that each vector is nearest to: where its best units are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from memvec.kernels import UnitRows, nearest_of_groups, run_blocks
from memvec.types import Float32Array, Int32Array, IntArray

# Rows that one thread compares at a time. Those of one cluster are near to the same ones: the more
# are compared together, the more rows meet the units of a group while they are in cache.
BLOCK_ROWS = 2048
# Groups of centroids whose centroids a vector tries, where centroids are in groups.
_NEAR_GROUPS = 16


@dataclass(frozen=True, eq=False)
class Centroids:
    """What represents each of some clusters, and groups of them where they are many.

    Attributes
    ----------
    vectors : ndarray of shape (n_clusters, dim)
        The centroids, float32, those of one group together.
    starts : ndarray of shape (n_groups + 1,)
        Group g holds the centroids from ``starts[g]`` on.
    groups : ndarray of shape (n_groups, dim) or None
        The centroids of the groups; None where all are in one.
    """

    vectors: Float32Array
    starts: IntArray
    groups: Float32Array | None = None

    @classmethod
    def in_one_group(cls, vectors: Float32Array) -> Centroids:
        """Return centroids that are so few that a vector tries all."""
        return cls(vectors, np.array([0, len(vectors)]))

    def nearest(self, rows: Float32Array, n_near: int) -> Int32Array:
        """Return the centroids nearest to each of some rows, nearest first."""
        near = np.zeros((len(rows), 1), dtype=np.int32)
        if self.groups is not None:
            groups = Centroids.in_one_group(self.groups)
            near = groups.nearest(rows, min(_NEAR_GROUPS, len(self.groups)))
        return _best_of(rows, near, self.starts, self.vectors, min(n_near, len(self.vectors)))[0]


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

    rows: UnitRows
    near: Int32Array
    threads: int | None

    @classmethod
    def of(
        cls, rows: UnitRows, centroids: Centroids, n_near: int, threads: int | None
    ) -> NearGroups:
        """Compare every vector with the centroids of the groups, and keep the nearest."""
        near = np.empty((len(rows), min(n_near, len(centroids.vectors))), dtype=np.int32)

        def search(start: int, stop: int) -> None:
            near[start:stop] = centroids.nearest(rows[start:stop], n_near)

        run_blocks(search, len(rows), BLOCK_ROWS, threads=threads)
        return cls(rows, near, threads)

    @property
    def nearest(self) -> Int32Array:
        """The nearest group of each vector."""
        return self.near[:, 0]

    @cached_property
    def order(self) -> IntArray:
        """The vectors, those of one nearest group after those of another."""
        return np.argsort(self.nearest, kind="stable")

    def without_deserted(self) -> NearGroups:
        """Leave out groups that are nearest to no vector, and number the others through."""
        used = np.zeros(int(self.near.max()) + 1, dtype=bool)
        used[self.nearest] = True
        if used.all():
            return self
        near = np.where(used[self.near], self.near, self.near[:, :1])
        return replace(self, near=(np.cumsum(used) - 1)[near].astype(np.int32))

    def nearest_few(self, n_near: int) -> NearGroups:
        """Leave each vector no more than so many groups, the nearest."""
        few = replace(self, near=np.ascontiguousarray(self.near[:, :n_near]))
        few.__dict__["order"] = self.order  # sorted once
        return few

    def best_units(
        self, units: Float32Array, starts: IntArray, n_best: int = 1
    ) -> tuple[Int32Array, Float32Array]:
        """Return the best units of each vector, best first, and its scores with them.

        Group g holds the units from ``starts[g]`` on. Where there are fewer, units are −1.
        """
        found = np.empty((len(self.rows), n_best), dtype=np.int32)
        scores = np.empty((len(self.rows), n_best), dtype=np.float32)

        def search(start: int, stop: int) -> None:
            some = self.order[start:stop]
            found[some], scores[some] = _best_of(
                self.rows[some], self.near[some], starts, units, n_best
            )

        run_blocks(search, len(self.rows), BLOCK_ROWS, threads=self.threads)
        return found, scores


def _best_of(
    rows: Float32Array, near: Int32Array, starts: IntArray, units: Float32Array, n_best: int
) -> tuple[Int32Array, Float32Array]:
    """Return the best units of each row among those of the groups it is near to."""
    found = np.empty((len(rows), n_best), dtype=np.int32)
    scores = np.empty((len(rows), n_best), dtype=np.float32)
    nearest_of_groups(rows, near, starts, units, found, scores)
    return found, scores
