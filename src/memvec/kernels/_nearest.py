"""The arg-max that follows a block of a matrix product while it is still in cache."""

from __future__ import annotations

import numpy as np

from memvec.kernels._compile import fast_kernel, inline_kernel

_SIGN = np.int32(31)
_MAGNITUDE = np.int32(0x7FFFFFFF)
_LOWEST = np.int32(-0x80000000)


@inline_kernel
def _sortable(bits):
    """Return an integer that orders like the float32 whose bits are given.

    LLVM turns the maximum of integers into vector instructions, and that of floats not (it would
    have to know that no NaN can occur): 0.08 against 0.52 ns a value.
    """
    return bits ^ ((bits >> _SIGN) & _MAGNITUDE)


@fast_kernel
def _top_two(scores):
    """Return the two highest of a row of sortable scores; they are equal where the highest repeats.

    Two plain passes, because LLVM vectorises each of them and not one that tracks both.
    """
    first = _LOWEST
    for j in range(scores.shape[0]):
        first = max(first, _sortable(scores[j]))
    second, copies = _LOWEST, 0
    for j in range(scores.shape[0]):
        value = _sortable(scores[j])
        copies += value == first
        second = max(second, _LOWEST if value == first else value)
    return first, first if copies > 1 else second


@fast_kernel
def keep_best(products, units, rows, best, second, labels):
    """Merge a block of scores into each vector's best unit, best and second-best score.

    Parameters
    ----------
    products : IN int32 (n_rows, n_units)
        Bits of the float32 scores of a block of vectors with a block of units.
    units : IN int64 (n_units,)
        The numbers of the units.
    rows : IN int64 (n_rows,)
        The numbers of the vectors.
    best, second : INOUT int32 (n_vectors,)
        Bits of the highest and second-highest float32 score of each vector.
    labels : INOUT int64 (n_vectors,)
        The unit with the highest score; on equal scores the earlier one stays.
    """
    for i in range(products.shape[0]):
        row = rows[i]
        old_best, old_second = _sortable(best[row]), _sortable(second[row])
        first, runner_up = _top_two(products[i])
        if first > old_best:
            second[row] = _sortable(max(old_best, old_second, runner_up))  # its own inverse
            best[row] = _sortable(first)
            for j in range(products.shape[1]):
                if products[i, j] == best[row]:
                    labels[row] = units[j]
                    break
        else:
            second[row] = _sortable(max(old_second, first))
