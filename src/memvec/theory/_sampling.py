"""Random unit vectors: on the whole sphere and on a spherical cap."""

from __future__ import annotations

import numpy as np

from memvec import checks
from memvec.theory._cap import cap_mass
from memvec.theory._score import ScoreLaw
from memvec.types import Float64Array


def sample_sphere(count: int, dim: int, generator: np.random.Generator) -> Float64Array:
    """Draw vectors uniformly from the unit sphere.

    Returns
    -------
    ndarray of shape (count, dim)

    Examples
    --------
    >>> sample_sphere(3, 5, np.random.default_rng(0)).shape
    (3, 5)
    """
    checks.integer(count, "count", "sample_sphere", minimum=0)
    checks.integer(dim, "dim", "sample_sphere")
    rows = generator.standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def sample_cap(
    count: int, dim: int, cap_cosine: float, generator: np.random.Generator
) -> Float64Array:
    """Draw vectors uniformly from the cap of unit vectors whose first coordinate exceeds η.

    Returns
    -------
    ndarray of shape (count, dim)
        The axis u of the cap is the first basis vector.

    Examples
    --------
    >>> rows = sample_cap(1000, 20, 0.6, np.random.default_rng(0))
    >>> bool(rows[:, 0].min() > 0.6)
    True
    """
    checks.integer(count, "count", "sample_cap", minimum=0)
    checks.integer(dim, "dim", "sample_cap", minimum=2)
    eta = checks.real(cap_cosine, "cap_cosine", "sample_cap", low=-1.0, high=1.0, high_open=True)
    cosines = _cap_cosines(count, dim, eta, generator)
    across = sample_sphere(count, dim - 1, generator)
    across *= np.sqrt((1 - cosines) * (1 + cosines))[:, np.newaxis]
    return np.column_stack([cosines, across])


def _cap_cosines(count: int, dim: int, eta: float, generator: np.random.Generator) -> Float64Array:
    if eta * np.sqrt(dim) < 1:
        # The cap's mass is far from underflow: invert the tail.
        mass = cap_mass(eta, dim)
        return np.maximum(ScoreLaw(1.0, dim).isf(mass * (1 - generator.random(count))), eta)
    # 1 − S² = (1−η²) V^(2/(d−1)), kept with probability η/S: its density is q^((d−3)/2)(1−q)^(−½).
    squared_sine = (1 - eta) * (1 + eta)
    kept: list[Float64Array] = []
    missing = count
    while missing > 0:
        powers = (1 - generator.random(2 * missing + 8)) ** (2 / (dim - 1))
        cosines = np.sqrt(eta**2 + squared_sine * (1 - powers))
        good = cosines[generator.random(cosines.size) * cosines < eta][:missing]
        kept.append(good)
        missing -= good.size
    return np.concatenate(kept) if kept else np.empty(0)
