"""A random rotation in O(d log d), for any dimension that is a multiple of eight.

Sums are added in the order in which they are written, and products are rounded before they are
added to: codes do not depend on the machine.
"""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import mix_registers, room
from memvec.kernels._compile import kernel

RADIX = 8
# A unit row in float32 is known to 1e-7; what is left of it after centring has no direction below.
_VANISHED = 1e-6


@kernel
def _mix(values, mixed):
    """Apply an eight-point Walsh-Hadamard transform across eight runs, and interleave the results.

    Entries i of the eight runs of `values` become the entries 8i … 8i + 7 of `mixed`. They are read
    from contiguous memory, which a textbook transform does only in its last steps.
    """
    n = values.shape[0] // RADIX
    a, b, c, d = values[:n], values[n : 2 * n], values[2 * n : 3 * n], values[3 * n : 4 * n]
    e, f = values[4 * n : 5 * n], values[5 * n : 6 * n]
    g, h = values[6 * n : 7 * n], values[7 * n : 8 * n]
    for i in range(mix_registers(values, mixed), n):
        s0, s1, s2, s3 = a[i] + b[i], a[i] - b[i], c[i] + d[i], c[i] - d[i]
        s4, s5, s6, s7 = e[i] + f[i], e[i] - f[i], g[i] + h[i], g[i] - h[i]
        t0, t1, t2, t3 = s0 + s2, s1 + s3, s0 - s2, s1 - s3
        t4, t5, t6, t7 = s4 + s6, s5 + s7, s4 - s6, s5 - s7
        out = mixed[RADIX * i : RADIX * i + RADIX]
        out[0], out[1], out[2], out[3] = t0 + t4, t1 + t5, t2 + t6, t3 + t7
        out[4], out[5], out[6], out[7] = t0 - t4, t1 - t5, t2 - t6, t3 - t7


@kernel
def rotate(vector, flips, scratch, rotated):
    """Fill `rotated` with an orthogonal transform of the vector, padded with zeros.

    Each round flips signs and mixes eight runs; r rounds mix each entry with 8^r others.

    Parameters
    ----------
    vector : IN float32 (dim,)
    flips : IN float32 (n_rounds, padded_dim)
        ±1/√8, padded_dim a multiple of 8.
    scratch : float32 (padded_dim,)
    rotated : OUT float32 (padded_dim,), padded_dim ≥ dim
    """
    dim = vector.shape[0]
    # Entry by entry: for a slice, numba compiles the texts of errors, too, which takes seconds.
    for i in range(dim):
        rotated[i] = vector[i]
    rotated[dim:] = np.float32(0.0)
    for turn in range(flips.shape[0]):
        signs = flips[turn]
        for i in range(rotated.shape[0]):
            scratch[i] = rotated[i] * signs[i]
        _mix(scratch, rotated)


@kernel
def centre_queries(queries, mean, tested, frames):
    """Fill (q − μ)/‖q − μ‖ of every query, and its frame: qᵀμ − μᵀμ and 1/‖q − μ‖.

    The inner product of a query with a vector is (q − μ)ᵀ(x − μ) + (qᵀμ − μᵀμ) + xᵀμ. A query that
    is μ has no direction; it gets that of the first axis.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    mean : IN float32 (dim,)
    tested : OUT float32 (n_queries, dim)
    frames : OUT float32 (n_queries, 2)
    """
    for q in range(queries.shape[0]):
        moved = squared = 0.0
        for i in range(mean.shape[0]):
            left = np.float64(queries[q, i]) - np.float64(mean[i])
            moved += left * np.float64(mean[i])
            squared += left * left
        norm = np.sqrt(squared)
        vanishes = norm <= _VANISHED
        norm = _VANISHED if vanishes else norm
        for i in range(mean.shape[0]):
            left = np.float64(queries[q, i]) - np.float64(mean[i])
            tested[q, i] = left / norm if not vanishes else np.float64(i == 0)
        frames[q, 0], frames[q, 1] = moved, 1.0 / norm


@kernel
def framed_queries(queries, mean):
    """Return what `centre_queries` fills: nothing to frame where `mean` is empty."""
    if mean.shape[0] == 0:
        return queries, room((0, 2), np.float32)
    tested = room(queries.shape, np.float32)
    frames = room((queries.shape[0], 2), np.float32)
    centre_queries(queries, mean, tested, frames)
    return tested, frames


@kernel
def rotate_rows(vectors, flips, rotated):
    """Rotate every row; the arguments are those of `rotate`, with one row a vector."""
    scratch = room(rotated.shape[1], np.float32)
    for row in range(vectors.shape[0]):
        rotate(vectors[row], flips, scratch, rotated[row])
