"""Machine instructions that NumPy's operators do not reach.

These are their meanings in Python; `memvec.kernels._instructions` has what kernels run instead.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np


def popcount(word):
    """Return the number of ones in a uint64; LLVM turns loops of it into vector instructions."""
    return int(word).bit_count()


def prefetch(array, position):
    """Ask for the cache line of ``array.flat[position]``, ahead of its use."""


def room(shape, dtype):
    """Return an array to be filled, as ``np.empty`` does.

    For each `np.empty`, numba compiles a function of its own, which takes 40 ms.
    """
    return np.empty(shape, dtype)


def as_bits(array):
    """Return a contiguous array of float32 as the int32 with the same bits."""
    return array.view(np.int32)


def borrowed(array):
    """Return an array of the same memory whose references are not counted.

    A slice of an array counts a reference up and down, by two locked instructions: of a run of
    eight codes they take most of the time. The array itself must be an argument of the kernel, so
    that the caller keeps it; one that is made in a kernel would be freed after its last use.
    """
    return array


def lane_products(left, right, places):
    """Return the inner products of a row with rows of an array, summed in a fixed order.

    Entry j goes to partial sum j mod 8, in increasing j; the partial sums are then added from the
    first to the last. Products of float32 are exact in float64, so that it makes no difference
    whether a machine adds them in one step or in two.

    Parameters
    ----------
    left : IN float32, uint16, int8 or float64 (dim,)
        Float64 entries are to be float32 numbers.
    right : IN float32, uint16 or int8, of any shape
        Entries of uint16 are the bits of halves.
    places : IN tuple of int
        Where in ``right.flat`` the rows begin. Several rows take less time together: each addition
        waits for the one before it, and those of other rows fill the gaps.
    """
    totals = []  # not by `sum`, which makes up for what rounding loses from Python 3.12 on
    for place in places:
        row = right.reshape(-1)[place : place + len(left)]
        pairs = zip(left, row, strict=True)
        products = [float(widened(x)) * float(widened(y)) for x, y in pairs]
        totals.append(reduce(add, (reduce(add, products[lane::8], 0.0) for lane in range(8))))
    return tuple(totals)


def has_scales(rows):
    """Tell whether rows are stored in units of their own: halves, as uint16, and int8 are.

    It is known when a kernel is compiled: what follows for rows of float32 costs them nothing.
    """
    return rows.dtype != np.float32


def widened(entry):
    """Return an entry of a stored row as a number: that of a half, which uint16 holds, as float32.

    Numba knows no halves.
    """
    if isinstance(entry, np.uint16):
        return np.float32(entry.view(np.float16))
    return np.int32(entry) if isinstance(entry, np.int8) else entry


def no_product(row):
    """Return the inner product of no entries: float32, or int32 for int8."""
    return np.int32(0) if row.dtype == np.int8 else np.float32(0.0)


def plus_product(total, left, right):
    """Return an inner product with the product of two more entries, in the type of `total`."""
    return total + widened(left) * widened(right)


def level_product(codes, place, entries):
    """Return Σ uᵢqᵢ of a fine code of a byte an entry, and a query of whole numbers.

    Parameters
    ----------
    codes : IN uint8, of any shape
    place : IN int
        Where in ``codes.flat`` the code begins.
    entries : IN int16 (dim,)
        At most 127 in magnitude; dim is a multiple of 64.
    """
    code = codes.reshape(-1)[place : place + len(entries)]
    return sum(int(u) * int(q) for u, q in zip(code, entries, strict=True))


def half_level_product(codes, place, entries):
    """Return the same of a code of half a byte an entry: first all low halves, then all high."""
    code = codes.reshape(-1)[place : place + len(entries) // 2]
    levels = [int(byte) & 15 for byte in code] + [int(byte) >> 4 for byte in code]
    return sum(u * int(q) for u, q in zip(levels, entries, strict=True))


def fill_disagreements(run, stride, n_words, planes, totals):
    """Fill p = Σ v over the bits in which codes of a run and a query disagree.

    Parameters
    ----------
    run : IN uint64 (≥ (n_words - 1) * stride + n_codes,)
        Word w of code j at ``[w * stride + j]``: a vector register holds the same word of eight
        codes. Nothing beyond the codes is read.
    stride, n_words : IN int
    planes : IN uint64 (3, ≥ n_words)
        Of `quantise_query`: signs, and the two bits of the levels.
    totals : OUT int32 (n_codes,)
    """
    signs, low, high = (plane[:n_words] for plane in planes)
    for j in range(totals.shape[0]):
        differ = run[j :: stride or 1][:n_words] ^ signs
        totals[j] = sum(map(popcount, differ & low)) + 2 * sum(map(popcount, differ & high))


def passing(run, stride, n_words, planes, limit, size):
    """Return which of the first codes of a run disagree with a query by at most a limit, as bits.

    Parameters
    ----------
    run, stride, n_words, planes
        Of `fill_disagreements`.
    limit : IN int
    size : IN int
        How many codes, at most 64.
    """
    totals = np.empty(size, np.int32)
    fill_disagreements(run, stride, n_words, planes, totals)
    return np.uint64(sum(1 << j for j in range(size) if totals[j] <= limit))


def mix_registers(values, mixed):
    """Mix as many entries of each run as fill registers; return how many, from the first on.

    Whoever calls it mixes the others: what is done here saves time, and changes no result.

    Parameters
    ----------
    values : IN float32 (8 · n,)
    mixed : OUT float32 (8 · n,)
        Of `memvec.kernels._rotation`.
    """
    return 0
