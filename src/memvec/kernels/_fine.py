"""Fine codes: two to eight bits an entry of a rotated vector, and the queries that meet them.

Entry i of a rotated row x′ becomes a level uᵢ of 0 to L − 1, which stands for vᵢ = 2uᵢ − (L − 1).
As q′ = (qᵀx)x′ + something orthogonal to x′, vᵀq′/vᵀx′ estimates qᵀx. This is the estimate of
extended RaBitQ (Gao, Gou, Xu, Yang, Long and Wong, "Practical and Asymptotically Optimal
Quantization of High-Dimensional Vectors in Euclidean Space for Approximate Nearest Neighbor
Search", SIGMOD 2025). Of the lengths of x′ that it tries before rounding, four are tried here.
"""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import (
    as_bits,
    borrowed,
    half_level_product,
    level_product,
    prefetch,
    room,
)
from memvec.kernels._codes import LANES, MAGNITUDE
from memvec.kernels._compile import fast_kernel, inner_exact_kernel, inner_kernel, kernel
from memvec.kernels._rotation import rotate
from memvec.kernels._scores import ask_for_rows

# Rows may be made longer or shorter by these factors before they are rounded; the best is kept.
_LENGTHS = (1.0, 0.9, 1.1, 1.2)
# Members whose codes are asked for ahead of their test.
_AHEAD = 16
# Bytes that are asked for at once.
_LINE = 64
# A query's entries are whole numbers of at most this magnitude; sums of products stay below 2³⁰.
_LARGEST_ENTRY, _LARGEST_SUM = 127, 2**30
# Estimates so many standard deviations below the similarity that is asked for fail, whatever the
# thresholds: the noise of a code exceeds that once in a thousand million. Calibration counts a
# match with more noise as missed.
MOST_DEVIATIONS = np.float32(6.0)


@inner_exact_kernel
def _level(value, n_levels):
    """Return ⌊value⌋ + L/2, within 0 to L − 1."""
    level = np.floor(value) + np.float32(n_levels // 2)
    level = level if level > 0 else np.float32(0.0)
    return level if level < n_levels - 1 else np.float32(n_levels - 1)


@inner_exact_kernel
def _product_and_cosine(values, factor, n_levels, lanes):
    """Return vᵀx′, and the cosine of v and x′ up to what all v share, for one length of a row.

    Sums follow the order of `encode_rows`: sixteen partial ones, added from the first to the last.

    Parameters
    ----------
    values : IN float32 (padded_dim,)
        A multiple of sixteen.
    factor : IN float32
    n_levels : IN int
    lanes : float64 (2, LANES)
        Room for partial sums.
    """
    lanes[:] = 0.0
    products, energies = lanes[0], lanes[1]
    for start in range(0, values.shape[0], LANES):
        some = values[start : start + LANES]
        for lane in range(LANES):
            v = np.float64(2 * _level(some[lane] * factor, n_levels) - (n_levels - 1))
            products[lane] += v * np.float64(some[lane])
            energies[lane] += v * v
    product, energy = 0.0, 0.0
    for lane in range(LANES):
        product += products[lane]
        energy += energies[lane]
    return product, product / np.sqrt(energy)


@kernel
def encode_fine(rotated, steps, n_levels, codes, scales):
    """Fill fine codes of rotated rows, and what a match 1 scores on each.

    Parameters
    ----------
    rotated : IN float32 (n_vectors, padded_dim)
    steps : IN float32
        Levels a unit of an entry.
    n_levels : IN int
        L. Up to sixteen levels take half a byte: entry j is in the low half of byte j, entry
        j + padded_dim/2 in the high one. More levels take a byte an entry.
    codes : OUT uint8 (n_vectors, padded_dim / 2 or padded_dim)
    scales : OUT float32 (n_vectors,)
        vᵀx′.
    """
    n_bytes, half = codes.shape[1], rotated.shape[1] // 2
    lanes = room((2, LANES), np.float64)
    for row in range(rotated.shape[0]):
        values, code = rotated[row], codes[row]
        best, best_cosine = np.float32(steps), -1.0
        for length in _LENGTHS:
            factor = np.float32(steps * length)
            product, cosine = _product_and_cosine(values, factor, n_levels, lanes)
            if cosine > best_cosine:
                best, best_cosine, scales[row] = factor, cosine, product
        for j in range(n_bytes):
            code[j] = np.uint8(_level(values[j] * best, n_levels))
        if n_bytes == half:
            for j in range(half):
                code[j] |= np.uint8(_level(values[half + j] * best, n_levels)) << np.uint8(4)


@kernel
def fine_queries(queries, flips, n_levels):
    """Rotate queries and round them to whole numbers.

    Returns
    -------
    entries : int16 (n_queries, padded_dim)
    offsets : int32 (n_queries,)
        (L − 1)·Σ entries: vᵀq′ is 2uᵀq′ less this.
    steps : float32 (n_queries,)
        What an inner product of 1 with a row of scale 1 is, in entries.
    """
    n_queries, padded = queries.shape[0], flips.shape[1]
    rotated, scratch = room(padded, np.float32), room(padded, np.float32)
    largest, entries = room(1, np.float32), room((n_queries, padded), np.int16)
    offsets = room(n_queries, np.int32)
    steps = room(n_queries, np.float32)
    top = np.float32(min(_LARGEST_ENTRY, _LARGEST_SUM // (2 * n_levels * padded)))
    for q in range(n_queries):
        rotate(queries[q], flips, scratch, rotated)
        # Magnitudes order like their bits; of whole numbers, registers find the largest.
        largest[0], bits = np.float32(1e-30), as_bits(rotated)
        most = as_bits(largest)[0]
        for j in range(padded):
            most = max(most, bits[j] & MAGNITUDE)
        as_bits(largest)[0] = most
        steps[q] = top / largest[0]
        total = np.int32(0)
        for j in range(padded):
            entry = np.int32(np.floor(rotated[j] * steps[q] + np.float32(0.5)))
            entries[q, j] = entry
            total += entry
        offsets[q] = total * np.int32(n_levels - 1)
    return entries, offsets, steps


@inner_kernel
def fine_product(codes, row, entries, offset):
    """Return vᵀq′ of a row's code and a query of `fine_queries`, an int32."""
    place = row * codes.shape[1]
    if codes.shape[1] == entries.shape[0]:
        total = level_product(codes, place, entries)
    else:
        total = half_level_product(codes, place, entries)
    return np.int32(2 * total - offset)


@inner_exact_kernel
def fine_limit(slack, tested_at, noise, step, similarity):
    """Return the lowest estimate that passes by any line of thresholds, in entries of a query.

    Lines may test far below the similarity that is asked for, as tests of units need it. The noise
    of a fine code takes no match down there, so that what is lower fails.
    """
    limit = tested_at[0] - slack[0] * noise
    for line in range(1, slack.shape[0]):
        other = tested_at[line] - slack[line] * noise
        limit = other if other < limit else limit
    least = np.float32(similarity) - MOST_DEVIATIONS * noise
    if limit > -np.inf and limit < least:
        limit = least
    return limit * step


@fast_kernel
def members_by_fine_codes(candidates, codes, scales, entries, offset, limit, vectors, reaches):
    """Keep the candidates whose fine code passes, in place; return how many are kept.

    Parameters
    ----------
    candidates : IN OUT int32 (n_candidates,)
    codes, scales : IN
        Of `encode_fine`.
    entries, offset : IN
        Of `fine_queries`.
    limit : IN float32
        A code passes where vᵀq′ ≥ limit · scale.
    vectors : IN (n_vectors, dim)
        Those of members that pass are asked for ahead of their exact score; without rows, none.
    reaches : OUT float32, as long as the candidates, or (0,)
        The highest limit that each of those kept passes.
    """
    candidates, codes, scales = borrowed(candidates), borrowed(codes), borrowed(scales)
    entries, vectors, reaches = borrowed(entries), borrowed(vectors), borrowed(reaches)
    n_bytes, count = codes.shape[1], 0
    for i in range(candidates.shape[0]):
        if i + _AHEAD < candidates.shape[0]:
            ahead = np.int64(candidates[i + _AHEAD])
            for position in range(ahead * n_bytes, (ahead + 1) * n_bytes, _LINE):
                prefetch(codes, position)
            prefetch(scales, ahead)
        row = np.int64(candidates[i])
        product = np.float32(fine_product(codes, row, entries, offset))
        if reaches.shape[0] > 0:
            reaches[count] = product / scales[row]
        # No branch: which code passes is a guess.
        candidates[count] = row
        count += int(product >= limit * scales[row])
    ask_for_rows(vectors, candidates[:count])
    return count
