"""From vectors to units: members in unit order, with the memory vectors over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from memvec.assignment import (
    Assignment,
    batch_assignment,
    random_assignment,
    sampled_assignment,
    two_step_assignment,
)
from memvec.codes import Projection
from memvec.constructions import memory_vectors
from memvec.index._config import KMEANS_RULES, IndexConfig
from memvec.kernels import run_blocks
from memvec.theory import MatchLaw
from memvec.types import Float32Array, Float64Array, IntArray

_MEASURE_BLOCK = 4096
# More units than this are made in two steps, in clusters of so many vectors: at once, k-means would
# take most of the build.
_MOST_AT_ONCE = 1500
_CLUSTER_SIZE = 333


@dataclass(frozen=True, eq=False)
class Units:
    """Members in unit order; every stage of a search reads runs of rows.

    Attributes
    ----------
    vectors : ndarray of shape (n_vectors, dim)
        The members, unit after unit, float32 unit rows.
    keys : ndarray of shape (n_vectors,)
        The row of the caller's array that each member came from.
    offsets : ndarray of shape (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    projection : Projection or None
        What vectors and queries go through before they are tested.
    unit_vectors : ndarray of shape (n_tested, tested_dim)
        The memory vectors, of projected members. Units beyond them, the reserve, are visited
        without a test.
    means, variances : ndarray of shape (n_tested,)
        Mean and variance of the members' scores on their memory vector.
    group_offsets : ndarray of shape (n_groups + 1,)
        Group g holds the units from ``group_offsets[g]`` on; ``[0]`` where there are no groups.
    group_vectors : ndarray of shape (n_groups, tested_dim)
        The centroids of the groups, scaled so that members score 1 on average.
    """

    vectors: Float32Array
    keys: IntArray
    offsets: IntArray
    projection: Projection | None
    unit_vectors: Float32Array
    means: Float64Array
    variances: Float64Array
    group_offsets: IntArray
    group_vectors: Float32Array

    @cached_property
    def largest_run(self) -> int:
        """Members of the largest unit, or units of the largest group if they are more."""
        in_groups = np.diff(self.group_offsets).max(initial=0)
        return int(max(np.diff(self.offsets).max(), in_groups))

    @property
    def n_groups(self) -> int:
        """Groups of units; none in an index of one level."""
        return len(self.group_vectors)

    @property
    def n_tested(self) -> int:
        """Units with a memory vector."""
        return len(self.unit_vectors)

    @property
    def squared_norms(self) -> Float64Array:
        """‖m‖² of the memory vectors."""
        rows = self.unit_vectors
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

    def law(self, dim: float) -> MatchLaw:
        """Return what matches score on the units, for data of an effective dimension."""
        return MatchLaw.of_units(self.means, self.variances, self.squared_norms, dim)

    def as_tested(self, queries: Float32Array) -> Float32Array:
        """Return queries as the tests see them.

        One at a time: a product of matrices adds up in another order than one of a row, and no
        answer may depend on the company of a query.
        """
        if self.projection is None:
            return queries
        projected = [self.projection.apply(query[np.newaxis], threads=1) for query in queries]
        return np.concatenate(
            [np.empty((0, self.projection.out_dim), dtype=np.float32), *projected]
        )

    def unit_of(self, rows: IntArray) -> IntArray:
        """Return the unit of each row."""
        return np.searchsorted(self.offsets, rows, side="right") - 1


def build_units(
    rows: Float32Array,
    reserve: IntArray,
    projection: Projection | None,
    tested: Float32Array,
    config: IndexConfig,
    progress: bool | None,
) -> tuple[Units, Float32Array]:
    """Assign all rows but the reserve to units, and build the memory vectors.

    Parameters
    ----------
    rows : ndarray of shape (n_vectors, dim)
        Unit rows.
    reserve : ndarray of int
        Rows that become the last unit, which is never tested.
    projection : Projection or None
        What made `tested` of `rows`.
    tested : ndarray of shape (n_vectors, tested_dim)
        The rows as the tests see them; `rows` itself where there is no projection.

    Returns
    -------
    units : Units
    tested : ndarray of shape (n_vectors, tested_dim)
        In the order of the units.
    """
    inside = np.setdiff1d(np.arange(len(rows)), reserve, assume_unique=True)
    assignment = _assign(tested, inside, config, progress)
    keys = np.concatenate([inside[assignment.order], reserve])
    vectors = rows[keys]
    tested = vectors if projection is None else tested[keys]
    members, offsets = tested[: len(inside)], assignment.offsets
    unit_vectors = memory_vectors(
        members,
        offsets,
        construction="pinv" if config.construction == "auto" else config.construction,
        ridge=config.ridge,
        normalised=config.normalised,
        progress=progress,
    )
    means, variances = _member_scores(members, offsets, unit_vectors)
    groups = np.array([0]) if assignment.group_offsets is None else assignment.group_offsets
    group_vectors = np.empty((0, tested.shape[1]), dtype=np.float32)
    if len(groups) > 1:
        group_vectors = memory_vectors(members, offsets[groups], construction="ridge", ridge=np.inf)
    if len(reserve):
        offsets = np.append(offsets, len(rows))
    units = Units(
        vectors, keys, offsets, projection, unit_vectors, means, variances, groups, group_vectors
    )
    return units, tested


def _assign(
    tested: Float32Array, inside: IntArray, config: IndexConfig, progress: bool | None
) -> Assignment:
    """Share the rows that are inside out over units."""
    size = int(config.unit_size)
    if config.assignment == "random":
        return random_assignment(len(inside), size, seed=config.seed)
    rows = tested if len(inside) == len(tested) else tested[inside]
    rule = KMEANS_RULES[config.kmeans_rule]
    many = config.batch_size is None and len(rows) > _MOST_AT_ONCE * size
    if config.levels == 2 or many:
        cluster_size = int(config.group_size) if config.levels == 2 else max(_CLUSTER_SIZE, size)
        found = two_step_assignment(
            rows,
            size,
            n_clusters=-(-len(rows) // cluster_size),
            construction=rule.construction,
            normalised=rule.normalised,
            iterations=config.iterations,
            seed=config.seed,
            progress=progress,
        )
        return found if config.levels == 2 else replace(found, group_offsets=None)
    if config.batch_size is not None:
        return batch_assignment(
            rows,
            size,
            config.batch_size,
            construction=rule.construction,
            normalised=rule.normalised,
            iterations=config.iterations,
            seed=config.seed,
            progress=progress,
        )
    return sampled_assignment(
        rows,
        size,
        construction=rule.construction,
        normalised=rule.normalised,
        iterations=config.iterations,
        seed=config.seed,
        progress=progress,
    )


def _member_scores(
    vectors: Float32Array, offsets: IntArray, unit_vectors: Float32Array
) -> tuple[Float64Array, Float64Array]:
    """Return mean and variance of the members' scores on their own memory vector."""
    sizes = np.diff(offsets)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = np.empty(len(labels))

    def measure(start: int, stop: int) -> None:
        own = unit_vectors[labels[start:stop]]
        scores[start:stop] = np.einsum("ij,ij->i", vectors[start:stop], own)

    run_blocks(measure, len(labels), _MEASURE_BLOCK)
    means = np.bincount(labels, scores, len(sizes)) / sizes
    squares = np.bincount(labels, (scores - means[labels]) ** 2, len(sizes)) / sizes
    return means, squares


__all__ = ["Units", "build_units"]
