"""Least squares where members depend on each other: small eigenvalues are cut."""

from __future__ import annotations

import numpy as np

from memvec.kernels import EIGENVALUE_CUT
from memvec.types import Float64Array


def kept_eigenvectors(gram: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the eigenvalues of a symmetric matrix that are above the cut, and their vectors."""
    values, basis = np.linalg.eigh(gram)
    kept = values > EIGENVALUE_CUT * values[-1]
    return values[kept], basis[:, kept]


def least_squares(rows: Float64Array, ridge: float) -> Float64Array:
    """Return X(XᵀX + ridge I)⁺1 for the members X, one a row, by the smaller of two systems."""
    few = len(rows) <= rows.shape[1]
    system = rows if few else rows.T
    values, basis = kept_eigenvectors(system @ system.T)
    right = np.ones(len(rows)) if few else rows.sum(axis=0)
    weights = basis @ ((right @ basis) / (values + ridge))
    return np.asarray(weights @ rows if few else weights)
