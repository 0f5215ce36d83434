"""A second unit for every vector, by which queries find it that its own unit sees badly."""

from __future__ import annotations

import math

import numpy as np

from memvec import checks
from memvec.assignment._near_groups import NearGroups
from memvec.assignment._split import sampled_assignment
from memvec.constructions import memory_vectors
from memvec.types import Float32Array, IntArray

# λ of the choice: what a residual along that of the first unit costs. On 113,659 embeddings 0.5 to
# 3 left about as many members to visit, and 0, the second-nearest unit, up to 1.6 times as many.
_PULL = 1.5
# A vector that scores less on its second unit, as a share of its score on the first, is not found
# by it. Nine in ten embeddings score more; of vectors in well-separated clusters few do, and the
# others would crowd into the few units that lie between.
_LEAST_SHARE = 0.65
# The groups of units that a vector is nearest to, whose units it tries. On 113,659 embeddings ten
# of 110 groups held nearly all of what a look at 4,060 units finds.
_NEAR_GROUPS = 10
# Groups are √(3M) of M units: with more, a vector would try fewer units.
_GROUPS = 3.0


def second_units(
    members: Float32Array,
    offsets: IntArray,
    *,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
) -> IntArray:
    """Choose a second unit for every member.

    Of the units near a member, it is one whose centroid leaves a small residual that points another
    way than the one its own unit leaves (SOAR, Sun et al. 2023, arXiv:2404.00774).

    Parameters
    ----------
    members : ndarray of shape (n_vectors, dim)
        Unit rows, unit after unit.
    offsets : ndarray of shape (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    seed, threads
        As in :func:`kmeans_assignment`.

    Returns
    -------
    ndarray of shape (n_vectors,)
        The number of a unit; a member's own where no other is near enough.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    >>> second_units(rows, np.array([0, 2, 4]))
    array([0, 1, 1, 0])
    """
    rows = checks.unit_rows(members, "members", "second_units", copy=False)
    n_units = len(offsets) - 1
    homes = np.repeat(np.arange(n_units), np.diff(offsets))
    units = _centroids(rows, offsets, np.arange(len(rows)), threads)
    # Members that cancel have no centroid; one of them stands for all.
    cancelled = ~units.any(axis=1)
    units[cancelled] = rows[offsets[:-1][cancelled]]
    n_groups = math.ceil(math.sqrt(_GROUPS * n_units))
    groups = sampled_assignment(
        units,
        -(-n_units // n_groups),
        construction="sum",
        normalised=True,
        seed=seed,
        threads=threads,
        progress=False,
    )
    place = np.empty(n_units, dtype=np.int64)
    place[groups.order] = np.arange(n_units)
    centroids = _centroids(units, groups.offsets, groups.order, threads)
    nearby = NearGroups.of(rows, centroids, _NEAR_GROUPS, threads)
    found = nearby.second_units(
        units[groups.order], groups.offsets, place[homes], _PULL, _LEAST_SHARE
    )
    return np.asarray(groups.order[found])


def _centroids(
    rows: Float32Array, offsets: IntArray, order: IntArray, threads: int | None
) -> Float32Array:
    return memory_vectors(
        rows, offsets, order=order, construction="sum", normalised=True, threads=threads
    )
