"""From vectors to the arrays that a search reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.assignment import Assignment, batch_assignment, random_assignment
from memvec.constructions import memory_vectors
from memvec.index._config import KMEANS_RULES, IndexConfig
from memvec.kernels import run_blocks
from memvec.theory import MatchLaw
from memvec.types import Float32Array, Float64Array, IntArray

_MEASURE_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Units:
    """Members in unit order with the memory vectors over them; every stage reads runs of rows.

    Attributes
    ----------
    vectors : ndarray of shape (n_vectors, dim)
        The members, unit after unit, float32 unit rows.
    keys : ndarray of shape (n_vectors,)
        The row of the caller's array that each member came from.
    offsets : ndarray of shape (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    unit_vectors : ndarray of shape (n_units, dim)
        The memory vectors.
    law : MatchLaw
        What matches score on them.
    """

    vectors: Float32Array
    keys: IntArray
    offsets: IntArray
    unit_vectors: Float32Array
    law: MatchLaw


def assign_vectors(
    rows: Float32Array, unit_size: int, config: IndexConfig, progress: bool | None
) -> Assignment:
    """Share unit rows out over units as the configuration says."""
    if config.assignment == "random":
        return random_assignment(len(rows), unit_size, seed=config.seed)
    rule = KMEANS_RULES[config.kmeans_rule]
    return batch_assignment(
        rows,
        unit_size,
        len(rows) if config.batch_size is None else config.batch_size,
        construction=rule.construction,
        normalised=rule.normalised,
        iterations=config.iterations,
        seed=config.seed,
        progress=progress,
    )


def build_units(
    rows: Float32Array,
    assignment: Assignment,
    config: IndexConfig,
    effective_dim: float,
    progress: bool | None,
) -> Units:
    """Lay members out in unit order and build the memory vectors over them."""
    keys, offsets = assignment.order, assignment.offsets
    vectors = rows[keys]
    unit_vectors = memory_vectors(
        vectors,
        offsets,
        construction=config.construction,
        ridge=config.ridge,
        normalised=config.normalised,
        progress=progress,
    )
    means, variances = _member_scores(vectors, offsets, unit_vectors)
    squared_norms = np.einsum("ij,ij->i", unit_vectors, unit_vectors, dtype=np.float64)
    law = MatchLaw.of_units(means, variances, squared_norms, effective_dim)
    return Units(vectors, keys, offsets, unit_vectors, law)


def _member_scores(
    vectors: Float32Array, offsets: IntArray, unit_vectors: Float32Array
) -> tuple[Float64Array, Float64Array]:
    """Return mean and variance of the members' scores on their own memory vector."""
    sizes = np.diff(offsets)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    scores = np.empty(len(vectors))

    def measure(start: int, stop: int) -> None:
        own = unit_vectors[labels[start:stop]]
        scores[start:stop] = np.einsum("ij,ij->i", vectors[start:stop], own)

    run_blocks(measure, len(vectors), _MEASURE_BLOCK)
    means = np.bincount(labels, scores, len(sizes)) / sizes
    squares = np.bincount(labels, (scores - means[labels]) ** 2, len(sizes)) / sizes
    return means, squares


__all__ = ["Units", "assign_vectors", "build_units"]
