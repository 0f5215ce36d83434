"""A second unit for every vector, by which queries find it that its own unit sees badly."""

from __future__ import annotations

import math

import numpy as np

from memvec import checks
from memvec.assignment._near_groups import Centroids, NearGroups
from memvec.assignment._split import sampled_assignment
from memvec.constructions import memory_vectors
from memvec.kernels import UnitRows, checked_unit_rows, run_blocks, second_of_units
from memvec.types import Float32Array, Int32Array, IntArray

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
# Groups are √(3M) of M units: with more, a vector would try fewer units. None has more than so many
# units: the time would grow faster than the vectors.
_GROUPS, _MOST_OF_A_GROUP = 3.0, 110
# Of the units tried, those nearest to a vector from which its second is chosen.
_NEAR_UNITS = 16
_BLOCK_ROWS = 2048


def second_units(
    members: UnitRows,
    offsets: IntArray,
    *,
    near: Int32Array | None = None,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
) -> IntArray:
    """Choose a second unit for every member.

    It is a unit near the member whose residual is small and points in a different direction than
    the residual with the first unit (SOAR, Sun et al. 2023, arXiv:2404.00774).

    Parameters
    ----------
    members : ndarray of shape (n_vectors, dim)
        Unit rows, unit after unit.
    offsets : ndarray of shape (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    near : ndarray of shape (n_vectors, n_near), optional
        Units near each member, from which its second one is chosen, int32; −1 for none. By default,
        they are searched for.
    seed, threads
        As in :func:`kmeans_assignment`.

    Returns
    -------
    ndarray of shape (n_vectors,)
        The number of a unit; a member's own unit if no other is near enough.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    >>> second_units(rows, np.array([0, 2, 4]))
    array([0, 1, 1, 0])
    """
    rows = checked_unit_rows(members, "members", "second_units")
    n_units = len(offsets) - 1
    homes = np.repeat(np.arange(n_units), np.diff(offsets))
    units = _centroids(rows, offsets, np.arange(len(rows)), threads)
    # Members that cancel have no centroid; one of them stands for all.
    cancelled = ~units.any(axis=1)
    units[cancelled] = rows[offsets[:-1][cancelled]]
    if near is None:
        near = _near_units(rows, units, checks.generator(seed, "second_units"), threads)
    seconds = np.empty(len(rows), dtype=np.int64)
    settings = np.float32(_PULL), np.float32(_LEAST_SHARE)

    def choose(start: int, stop: int) -> None:
        some = slice(start, stop)
        second_of_units(rows[some], near[some], units, homes[some], *settings, seconds[some])

    run_blocks(choose, len(rows), _BLOCK_ROWS, threads=threads)
    return seconds


def _near_units(
    rows: UnitRows, units: Float32Array, rng: np.random.Generator, threads: int | None
) -> Int32Array:
    """Return the units nearest to each row, of those in the groups that it is nearest to."""
    n_units = len(units)
    n_groups = max(math.ceil(math.sqrt(_GROUPS * n_units)), -(-n_units // _MOST_OF_A_GROUP))
    groups = sampled_assignment(
        units,
        -(-n_units // n_groups),
        construction="sum",
        normalised=True,
        seed=rng,
        threads=threads,
        progress=False,
    )
    centroids = Centroids.in_one_group(_centroids(units, groups.offsets, groups.order, threads))
    nearby = NearGroups.of(rows, centroids, _NEAR_GROUPS, threads)
    found, _ = nearby.best_units(units[groups.order], groups.offsets, min(_NEAR_UNITS, n_units))
    return np.where(found < 0, np.int32(-1), groups.order.astype(np.int32)[found])


def _centroids(
    rows: UnitRows, offsets: IntArray, order: IntArray, threads: int | None
) -> Float32Array:
    return memory_vectors(
        rows, offsets, order=order, construction="sum", normalised=True, threads=threads
    )
