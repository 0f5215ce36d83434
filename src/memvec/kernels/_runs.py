"""Which codes pass: those of runs, word by word, and those of members, one by one."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, fill_disagreements, passing, prefetch, room
from memvec.kernels._codes import WORD, disagreement
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._lines import highest, reach, shifted, whole_half
from memvec.kernels._passing import STRIDE, append_ones, collect_units
from memvec.kernels._scores import ask_for_rows
from memvec.types import WordArray

# Codes of units lie in blocks of this many, word by word inside each.
BLOCK = 512

# How far ahead memory is asked for: runs of codes, and members whose codes follow.
_RUNS_AHEAD = 3
_CODES_AHEAD = 16
# Words of a cache line.
_LINE = 8
# Codes of so many words stay in the second cache, and of so many in the third.
_IN_SECOND, _IN_THIRD = 1 << 17, 1 << 22
# Codes of a run that are asked for from the third cache; the machine goes on by itself.
_FIRST_CODES = 64
_ONE = np.uint64(1)


@inner_kernel
def codes_to_ask(n_words):
    """Return how many codes of each run are asked for ahead of its test, of codes in so many words.

    To ask takes time, too: as long as to wait for the second cache.
    """
    if n_words <= _IN_SECOND:
        return 0
    return _FIRST_CODES if n_words <= _IN_THIRD else n_words


def in_blocks(words: WordArray) -> WordArray:
    """Return codes in blocks, word by word inside each, the last one padded."""
    n_codes, n_words = words.shape
    n_blocks = -(-n_codes // BLOCK)
    padded = np.zeros((n_blocks * BLOCK, n_words), dtype=np.uint64)
    padded[:n_codes] = words
    return np.ascontiguousarray(padded.reshape(n_blocks, BLOCK, n_words).transpose(0, 2, 1))


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
    totals, limits : int32 (≥ the longest run,), float32 (STRIDE,)
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
    # Blocks follow each other: the processor fetches them by itself.
    n_asked = codes_to_ask(words.shape[0]) if stride == 0 else 0
    for i in range(runs.shape[0]):
        if n_asked > 0 and i + _RUNS_AHEAD < runs.shape[0]:
            ahead = runs[i + _RUNS_AHEAD]
            first, last = offsets[ahead] * n_words, offsets[ahead + 1] * n_words
            for position in range(first, min(first + n_asked * n_words, last), _LINE):
                prefetch(words, position)
        start, stop = offsets[runs[i]], offsets[runs[i] + 1]
        size = stop - start
        n_codes += size
        run, step = words[start * n_words :], stride if stride > 0 else size
        if scales.shape[0] == 0:
            if run_scales.shape[0] > 0:
                most = highest(bases, factors, run_scales[runs[i]])
                limit = whole_half(shifted(most, weight, shifts[runs[i]]))
            for first in range(0, size, STRIDE):
                some = min(size - first, STRIDE)
                passed = passing(run[first:], step, n_words, planes, limit, some)
                count = append_ones(passed, start + first, found, count)
        else:
            fill_disagreements(run, step, n_words, planes, totals[:size])
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
def room_for_seen(n_rows, run_rows):
    """Return a bit for each row, none of them set; nothing where every row has one slot."""
    seen = room(n_rows // WORD + 1 if run_rows.shape[0] > 0 else 0, np.uint64)
    seen[:] = 0
    return seen


@fast_kernel
def new_rows(candidates, run_rows, seen):
    """Put the rows of slots in their place, each once a query; return how many are left.

    Rows are marked in `seen`. Slots are rows where `run_rows` is empty.
    """
    candidates, run_rows, seen = borrowed(candidates), borrowed(run_rows), borrowed(seen)
    if run_rows.shape[0] == 0:
        return candidates.shape[0]
    count = 0
    for slot in candidates:
        row = np.int64(run_rows[slot])
        row ^= row >> 63  # of a guest, −1 − row
        word, bit = row >> 6, _ONE << np.uint64(row & 63)
        # No branch: whether a row comes for the second time is a guess.
        candidates[count] = row
        count += int(seen[word] & bit == 0)
        seen[word] |= bit
    return count


@fast_kernel
def forget_rows(rows, seen):
    """Unmark rows."""
    rows, seen = borrowed(rows), borrowed(seen)
    if seen.shape[0] > 0:
        for row in rows:
            seen[row >> 6] = 0


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
            ahead = np.int64(candidates[i + _CODES_AHEAD])
            last = (ahead + 1) * n_words - 1
            for position in range(ahead * n_words, last, _LINE):
                prefetch(codes, position)
            prefetch(codes, last)
            prefetch(scales, ahead)
            if shifts.shape[0] > 0:
                prefetch(shifts, ahead)
        row = np.int64(candidates[i])
        p = disagreement(codes[row], signs, low, high)
        limit, shift = highest(bases, factors, scales[row]), np.float32(0.0)
        if shifts.shape[0] > 0:
            shift = shifts[row]
            limit = shifted(limit, weight, shift)
        if reaches.shape[0] > 0:
            reaches[count] = reach(shifted(bases[0], weight, shift), p, scales[row])
        # No branch: which code passes is a guess.
        candidates[count] = row
        count += int(np.float32(2 * p) <= limit)
    ask_for_rows(vectors, candidates[:count])
    return count
