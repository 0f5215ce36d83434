"""How far codes reach, and codes in the order of what they reach.

A code *reaches* a similarity where it passes at it, by the slack of its stage.
"""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, fill_disagreements
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._lines import ANY_SIMILARITY, reach, shifted
from memvec.kernels._passing import append_ones

# Places are put in order by so many bins.
_BINS = 128


@fast_kernel
def reach_runs(
    runs, offsets, words, n_words, stride, scales, shifts, base, weight, planes, totals, reaches
):
    """Fill how far the codes of some runs reach; return how many there are.

    Parameters
    ----------
    runs, offsets, words, n_words, stride, scales, shifts, weight, planes, totals
        Of `pass_runs`.
    base : IN float32
    reaches : OUT float32, by code
    """
    runs, offsets, words = borrowed(runs), borrowed(offsets), borrowed(words)
    scales, shifts, planes = borrowed(scales), borrowed(shifts), borrowed(planes)
    totals, reaches = borrowed(totals), borrowed(reaches)
    n_codes = 0
    for run in runs:
        start, stop = offsets[run], offsets[run + 1]
        size = stop - start
        n_codes += size
        some, sizes, own = totals[:size], scales[start:stop], reaches[start:stop]
        step = stride if stride > 0 else size
        fill_disagreements(words[start * n_words :], step, n_words, planes, some)
        if shifts.shape[0] == 0:
            for j in range(size):
                own[j] = reach(base, some[j], sizes[j])
        else:
            moved = shifts[start:stop]
            for j in range(size):
                own[j] = reach(shifted(base, weight, moved[j]), some[j], sizes[j])
    return n_codes


@fast_kernel
def collect_reached(reaches, first, low, high, stride, found, found_reaches, count):
    """Append the codes that reach from `low` up to less than `high`; return how many there are."""
    reaches, found, found_reaches = borrowed(reaches), borrowed(found), borrowed(found_reaches)
    for start in range(0, reaches.shape[0], stride):
        some = reaches[start : start + stride]
        passed = np.uint64(0)
        for j in range(some.shape[0]):
            passed |= np.uint64((some[j] >= low) & (some[j] < high)) << np.uint64(j)
        before = count
        count = append_ones(passed, first + start, found, count)
        for j in range(before, count):
            found_reaches[j] = reaches[found[j] - first]
    return count


@fast_kernel
def in_order(places, reaches, ordered, ordered_reaches):
    """Copy places and what they reach, the farthest first, up to the width of a bin.

    Parameters
    ----------
    places, reaches : IN int32, float32 (n,)
    ordered, ordered_reaches : OUT int32, float32 (≥ n,)
    """
    places, reaches = borrowed(places), borrowed(reaches)
    ordered, ordered_reaches = borrowed(ordered), borrowed(ordered_reaches)
    n, high, low = places.shape[0], -ANY_SIMILARITY, ANY_SIMILARITY
    for i in range(n):
        if reaches[i] < ANY_SIMILARITY:
            high = reaches[i] if reaches[i] > high else high
        low = reaches[i] if reaches[i] < low else low
    a_bin = np.float32(_BINS - 1) / (high - low) if high > low else np.float32(0.0)
    ends = np.zeros(_BINS + 1, dtype=np.int64)
    for i in range(n):
        ends[_bin(reaches[i], high, a_bin) + 1] += 1
    for i in range(_BINS):
        ends[i + 1] += ends[i]
    for i in range(n):
        own = _bin(reaches[i], high, a_bin)
        place = ends[own]
        ends[own] += 1
        ordered[place], ordered_reaches[place] = places[i], reaches[i]


@inner_kernel
def _bin(reached, high, a_bin):
    return np.int64((high - reached) * a_bin) if reached < high else 0
