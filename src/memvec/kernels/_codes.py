"""Sign codes: one bit an entry, packed in words of 64, and the queries that meet them."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import as_bits, popcount, room
from memvec.kernels._compile import inner_exact_kernel, inner_kernel, kernel

WORD = 64
_ONE = np.uint64(1)
# Partial sums of magnitudes. Sixteen float32 fill the widest vector register.
LANES = 16
_LEAST_MAGNITUDE = np.float32(1e-30)
# Signed integers that order like floats, moved to begin with 0.
_FIRST_RANK = np.int64(1 << 31)
_SIGN, MAGNITUDE = np.int32(31), np.int32(0x7FFFFFFF)


@inner_exact_kernel
def _add_magnitudes(values, lanes):
    """Add |x| to partial sums: entry j to that of j mod 16, in increasing j; return their sum.

    The partial sums are added from the first to the last: the order of all sums is fixed, and still
    fills vector registers. The number of values is a multiple of 16.
    """
    for i in range(0, values.shape[0], LANES):
        some = values[i : i + LANES]
        for lane in range(LANES):
            lanes[lane] += abs(some[lane])
    total = np.float32(0.0)
    for lane in range(LANES):
        total += lanes[lane]
    return total


@kernel
def balance(values, n_bits):
    """Replace the first values by their mean magnitude, with a sign that half of them share.

    The larger half becomes positive, and of equal values those that come first; the values beyond
    `n_bits` become 0. The median is found bit by bit of integers that order like the values.

    Parameters
    ----------
    values : INOUT float32 (≥ n_bits,)
    n_bits : IN int
        Even.
    """
    some = values[:n_bits]
    lanes = room(LANES, np.float32)
    lanes[:] = np.float32(0.0)
    whole = n_bits - n_bits % LANES
    total = _add_magnitudes(some[:whole], lanes)
    for i in range(whole, n_bits):
        total += abs(some[i])
    # A zero vector has a code, too.
    size = max(total / np.float32(n_bits), _LEAST_MAGNITUDE)
    ranks, bits = room(n_bits, np.int64), as_bits(some)
    for i in range(n_bits):
        some[i] += np.float32(0.0)  # −0 is 0
        ranks[i] = _FIRST_RANK + (bits[i] ^ ((bits[i] >> _SIGN) & MAGNITUDE))
    half, middle = n_bits // 2, np.int64(0)
    for bit in range(31, -1, -1):
        tried, above = middle | (np.int64(1) << bit), 0
        for i in range(n_bits):
            above += ranks[i] >= tried
        middle = tried if above >= half else middle
    ties = half
    for i in range(n_bits):
        ties -= ranks[i] > middle
    for i in range(n_bits):
        is_set = ranks[i] > middle
        if ranks[i] == middle and ties > 0:
            is_set = True
            ties -= 1
        some[i] = size if is_set else -size
    values[n_bits:] = np.float32(0.0)


@kernel
def balance_rows(rows, n_bits):
    """Balance every row; the arguments are those of `balance`, with one row a vector."""
    for row in range(rows.shape[0]):
        balance(rows[row], n_bits)


@kernel
def encode_rows(rotated, prefix_words, codes, prefix_sums, full_sums):
    """Fill codes and the sums of magnitudes that scale their estimates.

    Parameters
    ----------
    rotated : IN float32 (n_vectors, n_words * 64)
    prefix_words : IN int
    codes : OUT uint64 (n_vectors, n_words)
        One bit an entry: 1 where it is positive.
    prefix_sums, full_sums : OUT float32 (n_vectors,)
        Σ|x′ᵢ| over the first words, and over all.
    """
    lanes = room(LANES, np.float32)
    for row in range(rotated.shape[0]):
        values = rotated[row]
        for w in range(codes.shape[1]):
            word = np.uint64(0)
            for bit in range(WORD):
                word |= np.uint64(values[w * WORD + bit] > 0) << np.uint64(bit)
            codes[row, w] = word
        lanes[:] = np.float32(0.0)
        prefix_sums[row] = _add_magnitudes(values[: prefix_words * WORD], lanes)
        full_sums[row] = _add_magnitudes(values[prefix_words * WORD :], lanes)


@kernel
def quantise_query(rotated, steps, top, signs, low, high, sums, squares):
    """Split a rotated query into a sign plane and two magnitude planes.

    Entry i becomes sᵢ·vᵢ with vᵢ = round(|qᵢ|·steps), at most `top` ≤ 3. The inner product with a
    code is then Σv − 2p, p the sum of v over the bits that disagree: two popcounts a word,
    where planes of plain binary numbers take one more for each bit.

    Parameters
    ----------
    rotated : IN float32 (n_words * 64,)
    steps : IN float32
        Levels a unit of magnitude; a huge number makes every magnitude `top` (a binary query).
    top : IN int
        −L for the balanced code of the first L entries: every magnitude is 1, and `rotated` is
        overwritten.
    signs, low, high : OUT uint64 (n_words,)
        Sign bits, and the two bits of v.
    sums, squares : OUT float32 (n_words,)
        Σv and Σv² over the words so far, the latter at least 1.
    """
    total, energy = np.int64(0), np.int64(0)
    if top < 0:
        balance(rotated, -top)
        top = 1
    highest = np.float32(top) + np.float32(0.25)
    for w in range(signs.shape[0]):
        sign = first = second = np.uint64(0)
        for bit in range(WORD):
            value = rotated[w * WORD + bit]
            level = abs(value) * steps + np.float32(0.5)
            level = highest if highest < level else level
            v = np.int64(level)
            at = np.uint64(bit)
            sign |= np.uint64(value > 0) << at
            first |= np.uint64(v & 1) << at
            second |= np.uint64(v >> 1) << at
            total += v
            energy += v * v
        signs[w], low[w], high[w] = sign, first, second
        # A query without a level so far has no noise either; 1 keeps what divides by it finite.
        sums[w], squares[w] = total, max(energy, 1)


@inner_kernel
def disagreement(words, signs, low, high):
    """Return p = Σ v over the bits in which a code and a query disagree.

    Parameters
    ----------
    words, signs, low, high : IN uint64 (n_words,)
    """
    once, twice = np.uint64(0), np.uint64(0)
    for w in range(words.shape[0]):
        differ = words[w] ^ signs[w]
        once += popcount(differ & low[w])
        twice += popcount(differ & high[w])
    return np.int64(once + (twice << _ONE))
