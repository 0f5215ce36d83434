"""How unequal the units are, and the mean and variance of their sizes that follow."""

from __future__ import annotations

import numpy as np

from memvec import checks
from memvec.types import ArrayLike


def imbalance_factor(sizes: ArrayLike) -> float:
    """Return δ = M Σ pᵢ² with pᵢ = nᵢ/N: 1 for equal units, M when one holds everything.

    Parameters
    ----------
    sizes : array_like of shape (n_units,)
        The sizes nᵢ ≥ 0 of the units, empty ones included.

    Examples
    --------
    >>> imbalance_factor([10, 10, 10]), imbalance_factor([30, 0, 0])
    (1.0, 3.0)
    """
    counts = np.asarray(sizes, dtype=np.float64)
    where = "imbalance_factor"
    if counts.ndim != 1 or counts.size == 0:
        raise checks.bad_value("sizes", where, "one size per unit", f"shape {counts.shape}")
    if not (counts >= 0).all() or counts.sum() == 0:
        raise checks.bad_value("sizes", where, "numbers >= 0, not all zero", counts.tolist()[:8])
    return float(counts.size * np.sum((counts / counts.sum()) ** 2))


def unit_size_moments(n_vectors: int, n_units: int, imbalance: float) -> tuple[float, float]:
    """Return E[nᵢ] = N/M and V[nᵢ] = (δ−1)N²/M² over the units (paper, Section 4).

    The unit of a vector drawn at random is larger on average: δN/M.

    Examples
    --------
    >>> unit_size_moments(30, 3, imbalance=3.0)
    (10.0, 200.0)
    """
    where = "unit_size_moments"
    vectors = checks.integer(n_vectors, "n_vectors", where)
    units = checks.integer(n_units, "n_units", where)
    factor = checks.real(imbalance, "imbalance", where, low=1.0, high=float(units))
    mean = vectors / units
    return mean, (factor - 1) * mean**2
