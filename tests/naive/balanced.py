"""Twins of balanced codes and of what a GPU does with them."""

import numpy as np


def mixed_rows(rows, flips, length):
    """Rows with zeros up to a length; each round flips signs and mixes eight runs, in float32."""
    values = np.zeros((len(rows), length), dtype=np.float32)
    values[:, : np.shape(rows)[1]] = rows
    for signs in np.asarray(flips, dtype=np.float32):
        a, b, c, d, e, f, g, h = np.split(values * signs, 8, axis=1)
        pairs = [a + b, a - b, c + d, c - d], [e + f, e - f, g + h, g - h]
        low, high = ([s + u, t + v, s - u, t - v] for s, t, u, v in pairs)
        sums = [x + y for x, y in zip(low, high, strict=True)]
        differences = [x - y for x, y in zip(low, high, strict=True)]
        values = np.stack([*sums, *differences], axis=2).reshape(len(rows), length)
    return values


def packed_bits(bits, n_words):
    """The words of 32 bits that hold bools, the first in the lowest bit."""
    words = [0] * n_words
    for i, bit in enumerate(bits):
        words[i // 32] |= int(bit) << (i % 32)
    return np.array(words, dtype=np.uint32)


def common_bits(code, other):
    """How many bits are set in both of two codes of words."""
    return sum((int(a) & int(b)).bit_count() for a, b in zip(code, other, strict=True))


def joined(rows, columns, thresholds, stops=None, row_range=None):
    """The pairs (row, column) that have as many bits in common as the threshold of the column."""
    begin, end = row_range or (0, len(rows))
    return {
        (i, j)
        for i in range(begin, end)
        for j in range(len(columns))
        if (stops is None or i < stops[j])
        if common_bits(rows[i], columns[j]) >= thresholds[j]
    }


def passing_members(rows, candidates, begins, ends, codes, limits, once, first=None, slots=None):
    """The pairs of a row and a member of a unit that is a candidate for it.

    `first` are a number of words of 32 bits, and in how many of their bits codes may differ.
    """
    return {
        (i, m)
        for i, unit in candidates
        for m in (slots[slot] if slots is not None else slot for slot in _run(begins, ends, unit))
        if m > i or not once
        if different_bits(rows[i], codes[m]) <= limits[m]
        if first is None or different_bits(rows[i][: first[0]], codes[m][: first[0]]) <= first[1]
    }


def _run(begins, ends, unit):
    return range(begins[unit], ends[unit])


def different_bits(code, other):
    """In how many bits two codes of words differ."""
    return sum((int(a) ^ int(b)).bit_count() for a, b in zip(code, other, strict=True))


def least_pivot(gram):
    """The least square of a pivot of the Cholesky decomposition; 0 where there is none."""
    try:
        return float(np.linalg.cholesky(gram).diagonal().min() ** 2)
    except np.linalg.LinAlgError:
        return 0.0
