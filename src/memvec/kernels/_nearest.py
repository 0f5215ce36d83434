"""The arg-max that follows a block of products while it is still in cache."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import as_bits, room
from memvec.kernels._compile import fast_kernel, inline_kernel, inner_kernel
from memvec.kernels._products import ROWS, UNITS, products

_SIGN = np.int32(31)
_MAGNITUDE = np.int32(0x7FFFFFFF)
_LOWEST = np.int32(-0x80000000)


@inline_kernel
def sortable(bits):
    """Return an integer that orders like the float32 whose bits are given; its own inverse.

    LLVM turns the maximum of integers into vector instructions, and that of floats not (it would
    have to know that no NaN can occur): 0.08 against 0.52 ns a value.
    """
    return bits ^ ((bits >> _SIGN) & _MAGNITUDE)


@inner_kernel
def highest_score(scores):
    """Return the highest of a row of scores, sortable.

    Parameters
    ----------
    scores : IN int32 (n_scores,)
        Bits of float32.
    """
    first = _LOWEST
    for j in range(scores.shape[0]):
        first = max(first, sortable(scores[j]))
    return first


@fast_kernel
def _top_two(scores):
    """Return the two highest of a row of scores; they are equal where the highest repeats.

    Two plain passes, because LLVM vectorises each of them and not one that tracks both.
    """
    first = highest_score(scores)
    second, copies = _LOWEST, 0
    for j in range(scores.shape[0]):
        value = sortable(scores[j])
        copies += value == first
        second = max(second, _LOWEST if value == first else value)
    return first, first if copies > 1 else second


@fast_kernel
def _keep_best(scores, units, rows, best, second, labels):
    """Merge a block of scores into each vector's best unit, best and second-best score."""
    for i in range(rows.shape[0]):
        row = rows[i]
        old_best, old_second = sortable(best[row]), sortable(second[row])
        first, runner_up = _top_two(scores[i, : units.shape[0]])
        if first > old_best:
            second[row] = sortable(max(old_best, old_second, runner_up))
            best[row] = sortable(first)
            for j in range(units.shape[0]):
                if scores[i, j] == best[row]:
                    labels[row] = units[j]
                    break
        else:
            second[row] = sortable(max(old_second, first))


@fast_kernel
def try_units(vectors, rows, candidates, units, best, second, labels):
    """Let some vectors try some units, and keep the best of those and of what they had.

    Parameters
    ----------
    vectors : IN float32 (n_rows, dim)
    rows : IN int64 (n_rows,)
        The numbers of the vectors.
    candidates : IN float32 (n_units, dim)
        What represents the units.
    units : IN int64 (n_units,)
        Their numbers.
    best, second : INOUT int32 (n_vectors,)
        Bits of the highest and second-highest float32 score of each vector.
    labels : INOUT int64 (n_vectors,)
        The unit with the highest score; on equal scores the earlier one stays.
    """
    scores, every = room((ROWS, UNITS), np.float32), room(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        every[i] = i
    for start in range(0, rows.shape[0], ROWS):
        some = rows[start : start + ROWS]
        for first in range(0, units.shape[0], UNITS):
            here = every[start : start + ROWS]
            products(vectors, here, candidates[first : first + UNITS], scores)
            tried = units[first : first + UNITS]
            _keep_best(as_bits(scores), tried, some, best, second, labels)
