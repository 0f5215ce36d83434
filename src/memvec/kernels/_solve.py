"""The small symmetric systems behind memory vectors, one per unit."""

from __future__ import annotations

import numpy as np

from memvec.kernels._compile import fast_kernel, kernel

# Eigenvalues of a Gram matrix below this share of the largest count as zero, in batch and online.
EIGENVALUE_CUT = 1e-6


@fast_kernel
def gram(rows, products):
    """Fill the symmetric matrix of inner products G = R Rᵀ of float64 rows.

    Parameters
    ----------
    rows : IN float64 (n, dim)
    products : OUT float64 (n, n)
    """
    n, dim = rows.shape
    for i in range(n):
        left = rows[i]
        j = 0
        while j + 3 <= i:  # four at a time share the loads of the left row
            r0, r1, r2, r3 = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            s0 = s1 = s2 = s3 = 0.0
            for k in range(dim):
                value = left[k]
                s0 += value * r0[k]
                s1 += value * r1[k]
                s2 += value * r2[k]
                s3 += value * r3[k]
            products[i, j], products[i, j + 1] = s0, s1
            products[i, j + 2], products[i, j + 3] = s2, s3
            products[j, i], products[j + 1, i] = s0, s1
            products[j + 2, i], products[j + 3, i] = s2, s3
            j += 4
        for rest in range(j, i + 1):
            right = rows[rest]
            s0 = 0.0
            for k in range(dim):
                s0 += left[k] * right[k]
            products[i, rest] = s0
            products[rest, i] = s0


@kernel
def _cholesky(matrix, lower):
    """Fill `lower` with L, matrix = L Lᵀ; False when a pivot is not positive."""
    n = matrix.shape[0]
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                lower[i, i] = np.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]
    return True


@kernel
def _trace_of_inverse(lower, inverse):
    """Return tr((L Lᵀ)⁻¹) = ‖L⁻¹‖², with L⁻¹ built row by row in `inverse`."""
    n = lower.shape[0]
    total = 0.0
    for i in range(n):
        for j in range(i + 1):
            value = 1.0 if i == j else 0.0
            for k in range(j, i):
                value -= lower[i, k] * inverse[k, j]
            value /= lower[i, i]
            inverse[i, j] = value
            total += value * value
    return total


@kernel
def _substitute(lower, right, solution):
    """Solve L Lᵀ solution = right by two substitutions."""
    n = lower.shape[0]
    for i in range(n):
        value = right[i]
        for k in range(i):
            value -= lower[i, k] * solution[k]
        solution[i] = value / lower[i, i]
    for i in range(n - 1, -1, -1):
        value = solution[i]
        for k in range(i + 1, n):
            value -= lower[k, i] * solution[k]
        solution[i] = value / lower[i, i]


@kernel
def solve_regular(matrix, ridge, right, lower, inverse, solution):
    """Solve (G + ridge I) solution = right for a symmetric G; False where eigenvalues must decide.

    Eigenvalues of G below 1e-6 of the largest are to be dropped. tr(G) bounds the largest from
    above and 1/tr(G⁻¹) the smallest from below, so most systems are seen to need no cut, and a
    Cholesky factorisation is enough. NaN or infinity in, NaN out.

    Parameters
    ----------
    matrix : IN float64 (n, n)
        Changed where `ridge` is positive.
    ridge : IN float64
    right : IN float64 (n,)
    lower, inverse : scratch float64 (n, n)
    solution : OUT float64 (n,)
    """
    n = matrix.shape[0]
    trace = 0.0
    for i in range(n):
        trace += matrix[i, i]
    if not np.isfinite(trace):
        solution[:] = np.nan
        return True
    if not _cholesky(matrix, lower):
        return False
    if not trace * _trace_of_inverse(lower, inverse) * EIGENVALUE_CUT < 1.0:
        return False
    if ridge > 0.0:
        for i in range(n):
            matrix[i, i] += ridge
        _cholesky(matrix, lower)
    _substitute(lower, right, solution)
    return True
