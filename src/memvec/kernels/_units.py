"""Memory vectors of many units at once."""

from __future__ import annotations

import numpy as np

from memvec.kernels._compile import fast_kernel
from memvec.kernels._solve import gram, solve_gram

# Kernels tell constructions apart by number.
SUM, PINV, RIDGE = 0, 1, 2
CONSTRUCTION_CODES = {"sum": SUM, "pinv": PINV, "ridge": RIDGE}


@fast_kernel
def _sum_rows(vectors, members, weights, total):
    """Fill total = Σ weights[i] · vectors[members[i]]."""
    total[:] = 0.0
    for i in range(members.shape[0]):
        row, weight = vectors[members[i]], weights[i]
        for k in range(row.shape[0]):
            total[k] += weight * row[k]


@fast_kernel
def _mean_score(vectors, members, vector):
    """Return the mean inner product of a unit's members with a vector."""
    total = 0.0
    for i in range(members.shape[0]):
        row = vectors[members[i]]
        for k in range(row.shape[0]):
            total += row[k] * vector[k]
    return total / members.shape[0]


@fast_kernel
def _solve_few(vectors, members, ridge, total):
    """Fill total = X (XᵀX + ridge I)⁺ 1 through the n × n Gram matrix, for n ≤ d."""
    n, dim = members.shape[0], vectors.shape[1]
    rows = np.empty((n, dim))
    for i in range(n):
        source = vectors[members[i]]
        for k in range(dim):
            rows[i, k] = source[k]
    products = np.empty((n, n))
    gram(rows, products)
    weights = np.empty(n)
    scratch = np.empty((2, n, n))
    solve_gram(products, ridge, np.ones(n), scratch[0], scratch[1], weights)
    total[:] = 0.0
    for i in range(n):
        for k in range(dim):
            total[k] += weights[i] * rows[i, k]


@fast_kernel
def _solve_many(vectors, members, ridge, total):
    """Fill total = (XXᵀ + ridge I)⁺ X 1 through the d × d matrix, the same vector for n > d."""
    dim = vectors.shape[1]
    right = np.empty(dim)
    _sum_rows(vectors, members, np.ones(members.shape[0]), right)
    products = np.zeros((dim, dim))
    for i in range(members.shape[0]):
        row = vectors[members[i]]
        for k in range(dim):
            value = np.float64(row[k])
            for j in range(dim):
                products[k, j] += value * row[j]
    scratch = np.empty((2, dim, dim))
    solve_gram(products, ridge, right, scratch[0], scratch[1], total)


@fast_kernel
def build_units(
    vectors, order, offsets, first, last, construction, ridge, normalised, unit_vectors
):
    """Fill the memory vectors of the units `first` ≤ u < `last`.

    Parameters
    ----------
    vectors : IN float32 (n_vectors, dim)
    order : IN int64 (n_vectors,)
        Unit u holds ``vectors[order[offsets[u]:offsets[u + 1]]]``. An empty unit gets zeros.
    offsets : IN int64 (n_units + 1,)
    construction : IN int
        SUM: Σx. PINV: X(XᵀX)⁺1. RIDGE: X(XᵀX + ridge I)⁻¹1, rescaled so that members score 1 on
        average; an infinite ridge is the sum, rescaled.
    normalised : IN bool
        Scale each memory vector to norm 1.
    unit_vectors : OUT float32 (n_units, dim)
    """
    dim = vectors.shape[1]
    total = np.empty(dim)
    for unit in range(first, last):
        members = order[offsets[unit] : offsets[unit + 1]]
        if construction == SUM or np.isinf(ridge) or members.shape[0] == 0:
            _sum_rows(vectors, members, np.ones(members.shape[0]), total)
        elif members.shape[0] <= dim:
            _solve_few(vectors, members, ridge, total)
        else:
            _solve_many(vectors, members, ridge, total)
        scale = 1.0
        if normalised:
            scale = np.sqrt((total * total).sum())
        elif construction == RIDGE and members.shape[0] > 0:
            scale = _mean_score(vectors, members, total)
        # Members that cancel leave no direction: their memory vector stays zero, up to rounding.
        if scale > 1e-12:
            total /= scale
        for k in range(dim):
            unit_vectors[unit, k] = total[k]
