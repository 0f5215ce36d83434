"""Which codes pass: those of runs, word by word, and those of members, one by one."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, prefetch
from memvec.kernels._codes import disagreement, disagreements
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._lines import highest, reach, shifted, whole_half
from memvec.kernels._passing import STRIDE, WHOLE, collect_members, collect_units
from memvec.kernels._scores import ask_for_row

# Codes of units lie in blocks of this many, word by word inside each.
BLOCK = 512

# How far ahead memory is asked for: runs of codes, and members whose codes follow.
_RUNS_AHEAD = 3
_CODES_AHEAD = 8


@fast_kernel
def pass_runs(
    runs,
    offsets,
    words,
    n_words,
    stride,
    scales,
    shifts,
    run_scales,
    bases,
    factors,
    weight,
    limit,
    planes,
    totals,
    limits,
    found,
    count,
):
    """Append the codes of some runs that pass to `found`; return how many there are, and all.

    One function for the codes of groups, of units and of members: it is most of the search, and
    three would take three times as long to compile.

    Parameters
    ----------
    runs : IN int32 (n_runs,)
        A run is a block of codes, the units of a group, or the members of a unit.
    offsets : IN int64
        Run r holds the codes from ``offsets[r]`` on.
    words : IN uint64
        Word by word inside each run.
    n_words, stride : IN int
        Words of a code, and the codes that a run has room for; 0 where there is room for its own.
    scales : IN float32, by code, or (0,)
        Codes pass by lines of thresholds, or where there are no scales, up to `limit`.
    shifts : IN float32, by code, or by run where there are no scales, or (0,)
        What is added to the lines, by the `weight` of the query.
    run_scales : IN float32 (n_runs,) or (0,)
        One scale for each run: then its limit is that of the lines, and not `limit`.
    bases, factors : IN float32 (n_lines,)
        Of `stage_lines`.
    weight : IN float32
    limit : IN int32
    planes : IN uint64 (3, n_words)
    totals, limits : int32 (≥ the longest run + WHOLE,), float32 (STRIDE,)
        Room to work in.
    found : OUT int32
    count : IN int
        How many are there already.
    """
    runs, offsets, words = borrowed(runs), borrowed(offsets), borrowed(words)
    scales, bases, factors = borrowed(scales), borrowed(bases), borrowed(factors)
    shifts, run_scales = borrowed(shifts), borrowed(run_scales)
    planes, totals = borrowed(planes), borrowed(totals)
    limits, found = borrowed(limits), borrowed(found)
    n_codes = 0
    for i in range(runs.shape[0]):
        # Blocks follow each other: the processor fetches them by itself.
        if stride == 0 and i + _RUNS_AHEAD < runs.shape[0]:
            ahead = runs[i + _RUNS_AHEAD]
            for position in range(offsets[ahead] * n_words, offsets[ahead + 1] * n_words, 8):
                prefetch(words, position)
        start, stop = offsets[runs[i]], offsets[runs[i] + 1]
        size = stop - start
        n_codes += size
        # Whole registers are filled: a run of 120 takes less time as 128 than with a rest of 24
        # done one by one. What is read beyond it are words of neighbours, whose sums mean nothing.
        step = stride if stride > 0 else size
        run = words[start * n_words :]
        filled, room = -(-size // WHOLE) * WHOLE, run.shape[0] - (n_words - 1) * step
        filled = filled if filled < room else room
        disagreements(run, step, n_words, planes, totals[:filled])
        if scales.shape[0] == 0:
            if run_scales.shape[0] > 0:
                most = highest(bases, factors, run_scales[runs[i]])
                limit = whole_half(shifted(most, weight, shifts[runs[i]]))
            count = collect_members(totals[:filled], size, start, limit, STRIDE, found, count)
        else:
            moved = shifts[start:stop] if shifts.shape[0] > 0 else shifts
            count = collect_units(
                totals[:size],
                scales[start:stop],
                moved,
                weight,
                start,
                bases,
                factors,
                STRIDE,
                limits,
                found,
                count,
            )
    return count, n_codes


@fast_kernel
def rows_of_slots(
    candidates,
    run_rows,
    homes,
    selected,
    is_selected,
    codes,
    n_prefix,
    planes,
    run_scales,
    run_shifts,
    bases,
    factors,
    weight,
):
    """Put the rows of slots in their place, each once; return how many are left.

    A guest whose home is selected, too, has passed there by the same test, unless each unit has a
    limit of its own. `is_selected` is False for every unit before and after.
    """
    run_scales, run_shifts = borrowed(run_scales), borrowed(run_shifts)
    bases, factors = borrowed(bases), borrowed(factors)
    codes, planes = borrowed(codes), borrowed(planes)
    signs, low, high = planes[0], planes[1], planes[2]
    candidates, run_rows, homes = borrowed(candidates), borrowed(run_rows), borrowed(homes)
    selected, is_selected = borrowed(selected), borrowed(is_selected)
    for unit in selected:
        is_selected[unit] = True
    count = 0
    for slot in candidates:
        row = run_rows[slot]
        if row < 0:
            row = ~row
            home = homes[row]
            if is_selected[home]:
                if run_scales.shape[0] == 0:
                    continue
                most = highest(bases, factors, run_scales[home])
                limit = shifted(most, weight, run_shifts[home])
                if disagreement(codes[row, :n_prefix], signs, low, high) <= whole_half(limit):
                    continue
        candidates[count] = row
        count += 1
    for unit in selected:
        is_selected[unit] = False
    return count


@inner_kernel
def tests_whole_codes(n_prefix, n_words, has_fine):
    """Tell whether whole codes are tested: first words that are all of them tell as much."""
    return n_prefix < n_words or not has_fine


@fast_kernel
def members_by_codes(
    candidates, codes, scales, shifts, bases, factors, weight, planes, vectors, reaches
):
    """Keep the candidates whose whole code passes, in place; return how many are kept.

    `reaches` has room for how far each of those kept reaches, or none.

    Codes are asked for ahead of their test, and vectors of those kept ahead of their exact score,
    unless `vectors` is without rows because fine codes come first: both lie scattered, and a read
    from memory takes longer than a test.
    """
    candidates, codes, scales = borrowed(candidates), borrowed(codes), borrowed(scales)
    bases, factors, vectors = borrowed(bases), borrowed(factors), borrowed(vectors)
    planes, shifts, reaches = borrowed(planes), borrowed(shifts), borrowed(reaches)
    signs, low, high = planes[0], planes[1], planes[2]
    n_words, count = codes.shape[1], 0
    for i in range(candidates.shape[0]):
        if i + _CODES_AHEAD < candidates.shape[0]:
            ahead = np.int64(candidates[i + _CODES_AHEAD]) * n_words
            prefetch(codes, ahead)
            prefetch(codes, ahead + n_words - 1)
        row = np.int64(candidates[i])
        p = disagreement(codes[row], signs, low, high)
        limit = highest(bases, factors, scales[row])
        if shifts.shape[0] > 0:
            limit = shifted(limit, weight, shifts[row])
        if np.float32(2 * p) <= limit:
            if reaches.shape[0] > 0:
                shift = shifts[row] if shifts.shape[0] > 0 else np.float32(0.0)
                reaches[count] = reach(shifted(bases[0], weight, shift), p, scales[row])
            candidates[count] = candidates[i]
            count += 1
            ask_for_row(vectors, row)
    return count
