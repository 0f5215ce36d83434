"""Rounds of k-means in which units are grouped anew, and vectors try those near to their own.

A vector is a noisy guide to where its neighbours are: those of one cluster are scattered over the
clusters around. The centroid of its unit is a better one, as it lies between vectors that belong
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memvec.assignment._kmeans import UpdateRule, fill_empty_units
from memvec.assignment._near_groups import BLOCK_ROWS, Centroids, NearGroups
from memvec.assignment._result import Assignment
from memvec.kernels import UnitRows, run_blocks
from memvec.progress import Advance
from memvec.types import Float32Array, Int32Array, IntArray

# Units of a group on average.
_UNITS_A_GROUP = 40
# The groups whose units a vector tries: those nearest to its own unit and those nearest to itself,
# of which more in the last round, as there are more groups. The latter find a unit for the few
# whose own is far from all like them. With the units of a million structured vectors as they were,
# 16 a query passed tests that lose 1 % of the matches, 6.9 once vectors tried 8 and 16 groups, 3.7
# with 12 and 40, and 3.2 once they tried all units.
_NEAR_HOME, _NEAR_ITSELF = 8, 16
_NEAR_BY_ROOT, _MOST_NEAR_ITSELF = 1.3, 50
_LEAST_NORM = 1e-20

FindCentroids = Callable[[UnitRows, int], Centroids]


@dataclass(frozen=True, eq=False)
class _Groups:
    """Units in groups.

    Attributes
    ----------
    centroids : Centroids
        Of the groups.
    near : ndarray of shape (n_units, n_near)
        The groups nearest to each unit, nearest first, int32.
    order : ndarray of shape (n_units,)
        The units, those of one group after those of another.
    starts : ndarray of shape (n_groups + 1,)
        Where each group begins in `order`.
    """

    centroids: Centroids
    near: Int32Array
    order: IntArray
    starts: IntArray

    @classmethod
    def of(cls, units: Float32Array, find: FindCentroids, threads: int | None) -> _Groups:
        """Group units by their directions."""
        norms = np.linalg.norm(units, axis=1, keepdims=True)
        directions = units / np.maximum(norms, np.float32(_LEAST_NORM))
        centroids = find(directions, -(-len(units) // _UNITS_A_GROUP))
        found = NearGroups.of(directions, centroids, _NEAR_HOME, threads)
        sizes = np.bincount(found.nearest, minlength=len(centroids.vectors))
        return cls(centroids, found.near, found.order, np.append(0, np.cumsum(sizes)))


def regroup_units(
    rows: UnitRows,
    found: Assignment,
    rule: UpdateRule,
    rounds: int,
    n_near: int,
    find: FindCentroids,
    advance: Advance,
) -> tuple[IntArray, Int32Array]:
    """Let every vector try the units of the groups that its unit and itself are nearest to.

    Parameters
    ----------
    rows : ndarray of shape (n_vectors, dim)
        Unit rows.
    found : Assignment
        The unit of each vector.
    rule : UpdateRule
        What represents a unit.
    rounds : int
        How many are run, at least one.
    n_near : int
        How many of the best units to return.
    find : callable
        Finds the centroids of so many clusters of rows.

    Returns
    -------
    labels : ndarray of shape (n_vectors,)
        The unit of each vector.
    near : ndarray of shape (n_vectors, n_near)
        The best units in the last round, best first; −1 where there are fewer.
    """
    labels, near = found.labels, np.empty((len(rows), 0), dtype=np.int32)
    for left in reversed(range(rounds)):
        state = Assignment(labels, found.n_units)
        units = rule.representatives(rows, state.offsets, state.order)
        groups = _Groups.of(units, find, rule.threads)
        units = units[groups.order]
        nearby = _nearby(rows, labels, groups, rule.threads, is_last=not left)
        near, scores = nearby.best_units(units, groups.starts, 1 if left else n_near)
        del nearby  # up to 58 numbers per vector
        near = np.where(near < 0, np.int32(-1), groups.order.astype(np.int32)[near])
        labels = near[:, 0].astype(np.int64)
        fill_empty_units(labels, scores[:, 0], found.n_units)
        advance(len(labels))
    return labels, near


def _nearby(
    rows: UnitRows, labels: IntArray, groups: _Groups, threads: int | None, *, is_last: bool
) -> NearGroups:
    """Return the groups whose units each vector tries."""
    n_near = _NEAR_ITSELF
    if is_last:
        by_root = round(_NEAR_BY_ROOT * math.sqrt(len(groups.centroids.vectors)))
        n_near = min(max(_NEAR_ITSELF, by_root), _MOST_NEAR_ITSELF)
    width = groups.near.shape[1]
    n_near = min(n_near, len(groups.centroids.vectors))
    near = np.empty((len(rows), width + n_near), dtype=np.int32)

    def fill(start: int, stop: int) -> None:
        near[start:stop, :width] = groups.near[labels[start:stop]]
        near[start:stop, width:] = groups.centroids.nearest(rows[start:stop], n_near)

    run_blocks(fill, len(rows), BLOCK_ROWS, threads=threads)
    return NearGroups(rows, near, threads)
