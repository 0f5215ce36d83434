"""Spherical k-means with the update rules of the paper's Table 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.assignment._nearest import NearestUnits
from memvec.assignment._result import Assignment
from memvec.assignment._seeding import SEEDING_ROUNDS, seed_units
from memvec.assignment._sizes import number_of_units
from memvec.constructions import Construction, memory_vectors
from memvec.kernels import UnitRows
from memvec.progress import Advance, progress_bar
from memvec.types import ArrayLike, Float32Array, IntArray

DEFAULT_ITERATIONS = 10
# Rounds end where they still move more than 1 % of the vectors and 85 % of those of the last one.
_FEW_MOVES = 0.01
_STEADY = 0.85


def kmeans_assignment(
    vectors: ArrayLike,
    unit_size: int,
    *,
    construction: Construction = "pinv",
    normalised: bool = False,
    iterations: int = DEFAULT_ITERATIONS,
    seed: int | np.random.Generator = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Assignment:
    """Pack similar vectors into the same unit by spherical k-means (paper, Section 4.3).

    Each round moves every vector to the unit on which it scores highest, then rebuilds the memory
    vectors of the units that changed. The four rules of the paper's Table 1 are
    ``construction="sum"`` or ``"pinv"``, ``normalised`` or not. A unit left empty takes the vector
    that its own unit represents worst.

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        Rows are scaled to norm 1.
    unit_size : int
        Mean number of vectors per unit, n; the number of units is M = ⌈N/n⌉.
    construction : {"pinv", "sum", "ridge"}
        The representative of a unit.
    normalised : bool, default False
        Scale representatives to norm 1 before vectors are compared with them.
    iterations : int
        Maximum number of rounds. k-means stops earlier if no vector moves; with pinv, also if as
        many vectors move as before, because pinv k-means need not converge.
    seed : int or numpy.random.Generator
        Seed, which fixes the result for any number of threads.
    threads : int, optional
        Threads for the compiled loops; matrix products follow the settings of NumPy's BLAS.
    progress : bool, optional
        Show a bar; None shows it on a terminal.

    Returns
    -------
    Assignment

    Examples
    --------
    >>> vectors = [[1.0, 0.1], [0.1, 1.0], [1.0, 0.0], [0.0, 1.0]]
    >>> kmeans_assignment(vectors, unit_size=2).sizes
    array([2, 2])
    """
    where = "kmeans_assignment"
    rows = checks.unit_rows(vectors, "vectors", where, copy=False)
    n_units = number_of_units(len(rows), unit_size, where)
    rounds = checks.integer(iterations, "iterations", where)
    rule = UpdateRule(construction, normalised, rounds, threads)
    rng = checks.generator(seed, where)
    with progress_bar("k-means", rule.n_steps(len(rows)), progress) as advance:
        return run_kmeans(rows, n_units, rule, rng, advance)


@dataclass(frozen=True)
class UpdateRule:
    """What represents a unit, and how many rounds are run: arguments of `kmeans_assignment`."""

    construction: Construction
    normalised: bool
    iterations: int
    threads: int | None

    def n_steps(self, n_vectors: int) -> int:
        """Return how far a bar goes."""
        return n_vectors * (self.iterations - 1 + SEEDING_ROUNDS)

    def representatives(self, rows: UnitRows, offsets: IntArray, order: IntArray) -> Float32Array:
        """Return the memory vectors of units; see `memory_vectors`."""
        return memory_vectors(
            rows,
            offsets,
            order=order,
            construction=self.construction,
            normalised=self.normalised,
            threads=self.threads,
        )


def run_kmeans(
    rows: UnitRows,
    n_units: int,
    rule: UpdateRule,
    rng: np.random.Generator,
    advance: Advance,
) -> Assignment:
    """Run k-means on unit rows."""
    nearest = NearestUnits(rows, rule.threads)
    seed_units(rows, n_units, rng, nearest, advance)
    fill_empty_units(nearest.labels, nearest.best, n_units)
    unit_vectors = np.empty((n_units, rows.shape[1]), dtype=np.float32)
    changed = np.arange(n_units)
    n_moved_before = len(rows)
    for round_number in range(1, rule.iterations):
        before = nearest.labels.copy()
        unit_vectors[changed] = _representatives(rows, Assignment(before, n_units), changed, rule)
        nearest.update(unit_vectors, changed, advance)
        fill_empty_units(nearest.labels, nearest.best, n_units)
        moved = before != nearest.labels
        n_moved = int(moved.sum())
        solves = rule.construction != "sum"
        circling = solves and _is_circling(n_moved, n_moved_before, len(rows))
        if n_moved == 0 or circling:
            return Assignment(nearest.labels, n_units, round_number + 1, converged=n_moved == 0)
        n_moved_before = n_moved
        changed = np.unique(np.concatenate([before[moved], nearest.labels[moved]]))
    return Assignment(nearest.labels, n_units, rule.iterations, converged=False)


def _is_circling(n_moved: int, n_moved_before: int, n_vectors: int) -> bool:
    """Tell that rounds move as many vectors as before: pinv does not descend, and may go round."""
    return n_moved > _FEW_MOVES * n_vectors and n_moved > _STEADY * n_moved_before


def _representatives(
    rows: UnitRows, assignment: Assignment, units: IntArray, rule: UpdateRule
) -> Float32Array:
    """Return the memory vectors of the given units."""
    sizes = assignment.sizes[units]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    starts = np.repeat(assignment.offsets[units] - offsets[:-1], sizes)
    members = assignment.order[starts + np.arange(offsets[-1])]
    return rule.representatives(rows, offsets, members)


def fill_empty_units(labels: IntArray, best: Float32Array, n_units: int) -> None:
    """Give every empty unit the vector that scores lowest in a unit which can spare it.

    Parameters
    ----------
    labels : ndarray of shape (n_vectors,)
        The unit of each vector; changed in place.
    best : ndarray of shape (n_vectors,)
        Its score with it.
    """
    sizes = np.bincount(labels, minlength=n_units)
    empty = np.flatnonzero(sizes == 0)
    if not len(empty):
        return
    worst_first = iter(np.argsort(best, kind="stable"))
    for unit in empty:
        row = next(row for row in worst_first if sizes[labels[row]] > 1)
        sizes[labels[row]] -= 1
        labels[row] = unit
