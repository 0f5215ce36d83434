"""Inner products: the canonical one, which decides, and the fast one, which sorts out."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import lane_products
from memvec.kernels._compile import fast_kernel, inner_kernel, kernel
from memvec.types import Float32Array, Float64Array, IntArray


@kernel
def canonical_score(left, right):
    """Return the float64 inner product of two float32 rows, summed in the order of `lane_products`.

    The result is the same on every machine, whatever the thread, the batch or the layout.
    """
    return lane_products(left, right, (0,))[0]


@fast_kernel
def _canonical_score_pairs(left, right, left_rows, right_rows, scores):
    for i in range(left_rows.shape[0]):
        scores[i] = canonical_score(left[left_rows[i]], right[right_rows[i]])


def canonical_score_pairs(
    left: Float32Array, right: Float32Array, left_rows: IntArray, right_rows: IntArray
) -> Float64Array:
    """Return the canonical scores of the pairs ``(left[left_rows[i]], right[right_rows[i]])``."""
    scores = np.empty(len(left_rows), dtype=np.float64)
    # The rows of np.nonzero lie two apart; for such arrays a kernel would be compiled once more.
    rows = np.ascontiguousarray(left_rows), np.ascontiguousarray(right_rows)
    _canonical_score_pairs(left, right, *rows, scores)
    return scores


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
    """Return the float32 inner product of two rows, in whatever order is fastest."""
    total = np.float32(0.0)
    for j in range(left.shape[0]):
        total += left[j] * right[j]
    return total
