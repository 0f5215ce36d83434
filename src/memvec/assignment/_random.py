"""Random assignment: units of equal size, whatever the vectors are."""

from __future__ import annotations

import numpy as np

from memvec import checks
from memvec.assignment._result import Assignment
from memvec.assignment._sizes import number_of_units


def random_assignment(n_vectors: int, unit_size: int, *, seed: int = 0) -> Assignment:
    """Distribute vectors at random over units of `unit_size` (paper, Section 4.2).

    If `unit_size` does not divide the number of vectors, there is one more unit, and sizes differ
    by at most one.

    Parameters
    ----------
    n_vectors : int
        Number of vectors, N.
    unit_size : int
        Number of vectors per unit, n; the number of units is M = ⌈N/n⌉.
    seed : int or numpy.random.Generator
        Seed, which fixes the result.

    Examples
    --------
    >>> random_assignment(10, 4).sizes
    array([4, 3, 3])
    """
    n_vectors = checks.integer(n_vectors, "n_vectors", "random_assignment")
    n_units = number_of_units(n_vectors, unit_size, "random_assignment")
    rng = checks.generator(seed, "random_assignment")
    labels = np.empty(n_vectors, dtype=np.int64)
    labels[rng.permutation(n_vectors)] = np.arange(n_vectors) % n_units
    return Assignment(labels, n_units)
