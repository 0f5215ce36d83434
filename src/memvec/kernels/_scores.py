"""Inner products: the canonical one, which decides, and the fast one, which sorts out."""

from __future__ import annotations

import numpy as np

from memvec.checks import SURELY_UNIT
from memvec.kernels._bits import (
    has_scales,
    lane_products,
    no_product,
    plus_product,
    prefetch,
    room,
    widened,
)
from memvec.kernels._compile import fast_kernel, inner_exact_kernel, inner_kernel, kernel

# Bytes that are asked for at once, and how often of a row: the machine goes on by itself.
_LINE, _LINES = 64, 4


@inner_kernel
def ask_for_row(vectors, row):
    """Ask for the beginning of a stored row, ahead of its score; for nothing where there are none.

    Rows in cache took 10 ns longer where all of their lines were asked for, and others as long.
    """
    dim, step = np.int64(vectors.shape[1]), _LINE // vectors.itemsize
    if vectors.shape[0] > 0:
        for position in range(row * dim, row * dim + min(dim, _LINES * step), step):
            prefetch(vectors, position)


@inner_kernel
def ask_for_rows(vectors, rows):
    """Do so for some rows."""
    if vectors.shape[0] > 0:
        for row in rows:
            ask_for_row(vectors, np.int64(row))


@kernel
def canonical_score(left, right):
    """Return the float64 inner product of two stored rows, in the order of `lane_products`.

    The result is the same on every machine, whatever the thread, the batch or the layout.
    """
    return lane_products(left, right, (0,))[0]


@kernel
def widened_rows(rows):
    """Return stored rows as float64, which holds their entries exactly."""
    wide = room(rows.shape, np.float64)
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            wide[i, j] = widened(rows[i, j])
    return wide


@fast_kernel
def are_unit_rows(rows):
    """Tell whether all rows surely have norm 1, in whatever order their squares are summed.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
    """
    for i in range(rows.shape[0]):
        square = 0.0
        for j in range(rows.shape[1]):
            square += np.float64(rows[i, j]) * np.float64(rows[i, j])
        if not abs(square - 1.0) <= SURELY_UNIT:  # nor NaN
            return False
    return True


@kernel
def row_scale(row):
    """Return 1/‖row‖ of a stored row, and 1 for float32: its norm is 1.

    A row of zeros, which nobody stores, scores 0 with all others.
    """
    if not has_scales(row):
        return 1.0
    square = canonical_score(row, row)
    return 1.0 / np.sqrt(square) if square > 0.0 else 0.0


@inner_exact_kernel
def pair_scale(scale, rows, scales, row):
    """Return what the inner product of a row with another is multiplied by: s · s′.

    It is the same from either side. Of float32 rows it is 1, and there are no scales.
    """
    return scale * scales[row] if has_scales(rows) else 1.0


@inner_exact_kernel
def scaled(product, factor):
    """Return the canonical score (x·y) · (s · s′) of two rows, by their product and `pair_scale`.

    Not a fast kernel: the factors of a product may be reordered there, too.
    """
    return product * factor


@fast_kernel
def score_pairs(left, left_scales, right, right_scales, left_rows, right_rows, scores):
    """Fill the canonical scores of given pairs of stored rows.

    Parameters
    ----------
    left, right : IN float32, uint16 or int8 (n_rows, dim)
    left_scales, right_scales : IN float64 (n_rows,), or (0,) for float32
    left_rows, right_rows : IN int64 (n_pairs,)
    scores : OUT float64 (n_pairs,)
    """
    for i in range(left_rows.shape[0]):
        x, y = left_rows[i], right_rows[i]
        scale = left_scales[x] if has_scales(left) else 1.0
        factor = pair_scale(scale, right, right_scales, y)
        scores[i] = scaled(canonical_score(left[x], right[y]), factor)


@inner_kernel
def float32_slack(dim):
    """Return how far from the limit float32 decides: more than `dot` of unit rows is off.

    Whatever the order of the sum, the error is at most dim·u/(1 − dim·u), u = 2⁻²⁴ (Higham,
    Accuracy and Stability of Numerical Algorithms, section 3.1). Two more u are for rounding the
    limit, a tenth for rows that are a little longer than 1.
    """
    error = 1.1 * (dim + 2) * 2.0**-24
    return error if error > 1e-5 else 1e-5


@inner_kernel
def dot(left, right):
    """Return the inner product of two rows, in whatever order is fastest.

    Of float32 and of halves it is float32, and of int8 int32: exact, up to 2¹⁶ entries.
    """
    total = no_product(left)
    for j in range(left.shape[0]):
        total = plus_product(total, left[j], right[j])
    return total
