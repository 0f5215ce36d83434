"""The units whose codes are nearest to those of vectors, found by a look at all units."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, popcount, room
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._passing import append_ones

# Words of a code that are compared: 256 bits.
SCANNED_WORDS = 4
# Codes of which the nearest is found before any is looked at by itself, and those of one word of
# comparisons. Both are passed as values, as `STRIDE` of `_passing` is.
RUN, LOOK = 256, 64
_FAR = np.int32(64 * SCANNED_WORDS + 1)


@inner_kernel
def _apart(a, b, c, d, w0, w1, w2, w3):
    """Return the bits in which two codes differ."""
    return popcount(w0 ^ a) + popcount(w1 ^ b) + popcount(w2 ^ c) + popcount(w3 ^ d)


@inner_kernel
def _least_apart(a, b, c, d, w0, w1, w2, w3):
    """Return the distance of the nearest of some codes: nothing else is kept of most of them."""
    least = np.uint64(_FAR)
    for j in range(w0.shape[0]):
        apart = _apart(a, b, c, d, w0[j], w1[j], w2[j], w3[j])
        least = apart if apart < least else least
    return least


@inner_kernel
def _nearer(a, b, c, d, w0, w1, w2, w3, limit):
    """Return a word of bits: which of at most 64 codes are nearer than a limit."""
    passed = np.uint64(0)
    for j in range(w0.shape[0]):
        apart = _apart(a, b, c, d, w0[j], w1[j], w2[j], w3[j])
        passed |= np.uint64(apart < limit) << np.uint64(j)
    return passed


@fast_kernel
def scan_codes(codes, blocks, n_units, run, look, found, distances):
    """Find for each vector the units of the nearest codes. Vectors meet a block while it is cached.

    Parameters
    ----------
    codes : IN uint64 (n_rows, SCANNED_WORDS)
    blocks : IN uint64 (n_blocks, SCANNED_WORDS, BLOCK)
        Codes of the units, word by word in blocks.
    n_units, run, look : IN int
        How many units there are, `RUN` and `LOOK`.
    found : OUT int32 (n_rows, n_best)
        The nearest units, nearest first, equal ones in rising order; −1 where there are fewer.
    distances : OUT int32 (n_rows, n_best)
        The bits in which the codes differ.
    """
    codes, blocks = borrowed(codes), borrowed(blocks)
    found, distances = borrowed(found), borrowed(distances)
    passing, last, size = room(look, np.int32), found.shape[1] - 1, blocks.shape[2]
    found[:] = np.int32(-1)
    distances[:] = _FAR
    for block in range(blocks.shape[0]):
        first, here = block * size, blocks[block]
        w0, w1, w2, w3 = here[0], here[1], here[2], here[3]
        n_here = min(size, n_units - first)
        for i in range(codes.shape[0]):
            a, b, c, d = codes[i, 0], codes[i, 1], codes[i, 2], codes[i, 3]
            for start in range(0, n_here, run):
                stop = min(start + run, n_here)
                of_run = w0[start:stop], w1[start:stop], w2[start:stop], w3[start:stop]
                if np.int64(_least_apart(a, b, c, d, *of_run)) >= distances[i, last]:
                    continue
                for begin in range(start, stop, look):
                    end, limit = min(begin + look, stop), np.uint64(distances[i, last])
                    some = w0[begin:end], w1[begin:end], w2[begin:end], w3[begin:end]
                    passed = _nearer(a, b, c, d, *some, limit)
                    for place in range(append_ones(passed, begin, passing, 0)):
                        j = passing[place]
                        apart = np.int64(_apart(a, b, c, d, w0[j], w1[j], w2[j], w3[j]))
                        _insert(apart, first + j, distances[i], found[i])


@inner_kernel
def _insert(apart, unit, distances, found):
    """Put a unit among the nearest; it comes after those that are as near."""
    place = distances.shape[0] - 1
    if apart >= distances[place]:
        return
    while place > 0 and apart < distances[place - 1]:
        distances[place], found[place] = distances[place - 1], found[place - 1]
        place -= 1
    distances[place], found[place] = apart, unit
