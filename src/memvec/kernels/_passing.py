"""Which codes of a run pass: compared all at once, collected by words of bits."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import popcount
from memvec.kernels._compile import inner_exact_kernel

# Codes that are compared at a time, one bit each. It is passed as a value: a constant trip count
# would be unrolled and then not vectorised.
STRIDE = 64
_ONE = np.uint64(1)


@inner_exact_kernel
def append_ones(bits, first, found, count):
    """Append the places of the ones of a word, counted from `first`; return how many there are.

    A word of comparisons is one vector instruction for each sixteen; branches on each of them took
    ten times as long.
    """
    while bits != 0:
        found[count] = first + np.int64(popcount((bits & (~bits + _ONE)) - _ONE))
        count += 1
        bits &= bits - _ONE
    return count


@inner_exact_kernel
def collect_units(
    totals, scales, shifts, weight, first, bases, factors, stride, limits, selected, count
):
    """Append the units of a block that pass; return how many there are.

    A unit passes where 2p ≤ base − factor · scale + weight · shift for some line of thresholds;
    without shifts, the last term is 0. `limits` is room for the most of it over the lines.
    """
    for start in range(0, totals.shape[0], stride):
        some, sizes = totals[start : start + stride], scales[start : start + stride]
        for j in range(some.shape[0]):
            limits[j] = bases[0] - factors[0] * sizes[j]
        for line in range(1, bases.shape[0]):
            base, factor = bases[line], factors[line]
            for j in range(some.shape[0]):
                limit = base - factor * sizes[j]
                limits[j] = limit if limit > limits[j] else limits[j]
        if shifts.shape[0] > 0:
            moved = shifts[start : start + stride]
            for j in range(some.shape[0]):
                limits[j] += weight * moved[j]
        passed = np.uint64(0)
        for j in range(some.shape[0]):
            passed |= np.uint64(np.float32(2 * some[j]) <= limits[j]) << np.uint64(j)
        count = append_ones(passed, first + start, selected, count)
    return count
