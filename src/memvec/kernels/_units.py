"""Memory vectors of many units at once, before they are scaled."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import room
from memvec.kernels._compile import fast_kernel
from memvec.kernels._solve import gram, solve_regular


@fast_kernel
def sum_units(vectors, order, offsets, first, sums):
    """Fill the sums Σx of the members of the units from `first` on; zeros for an empty unit.

    Parameters
    ----------
    vectors : IN float32 (n_vectors, dim)
    order : IN int64 (n_members,)
        Unit u holds ``vectors[order[offsets[u]:offsets[u + 1]]]``.
    offsets : IN int64 (n_units + 1,)
    first : IN int
    sums : OUT float64 (n_here, dim)
    """
    for u in range(sums.shape[0]):
        total = sums[u]
        total[:] = 0.0
        for i in range(offsets[first + u], offsets[first + u + 1]):
            row = vectors[order[i]]
            for k in range(row.shape[0]):
                total[k] += row[k]


@fast_kernel
def solve_units(vectors, order, offsets, first, ridge, sums, solved, regular):
    """Fill X(XᵀX + ridge I)⁻¹1 of the units from `first` on, X the matrix of a unit's members.

    The smaller of two systems is solved: that of the n members, or (XXᵀ + ridge I)m = X1 in the
    dimension.

    Parameters
    ----------
    vectors, order, offsets, first, sums : IN
        Of `sum_units`.
    ridge : IN float64
    solved : OUT float64 (n_here, dim)
    regular : OUT bool (n_here,)
        False where members depend on each other: eigenvalues have to be cut, and nothing is solved.
    """
    dim = sums.shape[1]
    for u in range(sums.shape[0]):
        start, total = offsets[first + u], solved[u]
        n = offsets[first + u + 1] - start
        few = n <= dim
        size, length = (n, dim) if few else (dim, n)
        rows = room((size, length), np.float64)
        for i in range(n):
            row = vectors[order[start + i]]
            for k in range(dim):
                if few:
                    rows[i, k] = row[k]
                else:
                    rows[k, i] = row[k]
        products, lower = room((size, size), np.float64), room((size, size), np.float64)
        inverse, weights = room((size, size), np.float64), room((2, size), np.float64)
        gram(rows, products)
        weights[1] = 1.0
        right = weights[1] if few else sums[u]
        regular[u] = solve_regular(products, ridge, right, lower, inverse, weights[0])
        total[:] = 0.0
        for i in range(size):
            if few:
                for k in range(dim):
                    total[k] += weights[0, i] * rows[i, k]
            else:
                total[i] = weights[0, i]
