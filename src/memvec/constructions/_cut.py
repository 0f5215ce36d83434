"""Least squares where members depend on each other: small eigenvalues are cut."""

from __future__ import annotations

import numpy as np

from memvec.kernels import EIGENVALUE_CUT
from memvec.types import Float64Array


def least_squares(rows: Float64Array, ridge: float) -> Float64Array:
    """Return X(XᵀX + ridge I)⁺1 for the members X of units of one size, by the smaller system.

    Parameters
    ----------
    rows : ndarray of shape (n_units, unit_size, dim)
        The members, one per row.
    ridge : float
        Added to the eigenvalues that are left.

    Returns
    -------
    ndarray of shape (n_units, dim)
    """
    few = rows.shape[1] <= rows.shape[2]
    system = rows if few else rows.swapaxes(1, 2)
    right = np.ones(rows.shape[:2]) if few else rows.sum(axis=1)
    values, basis = np.linalg.eigh(system @ system.swapaxes(1, 2))
    kept = values > EIGENVALUE_CUT * values[:, -1:]
    parts = (right[:, np.newaxis] @ basis)[:, 0]
    parts = np.divide(parts, values + ridge, where=kept, out=np.zeros_like(parts))
    weights = basis @ parts[:, :, np.newaxis]
    return np.asarray((weights.swapaxes(1, 2) @ rows)[:, 0] if few else weights[:, :, 0])
