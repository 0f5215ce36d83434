"""The search path by codes: groups → units → members → exact scores, for a block of queries."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, prefetch
from memvec.kernels._codes import WORD, disagreement, disagreements, quantise_query
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._fine import fine_limit, fine_queries, members_by_fine_codes
from memvec.kernels._lines import framed_lines, highest, shifted, stage_lines, whole_half
from memvec.kernels._passing import STRIDE, WHOLE, collect_members, collect_units
from memvec.kernels._rotation import rotate
from memvec.kernels._scores import row_scale, widened_rows
from memvec.kernels._search import keep_allowed, keep_matches, sort_hits

# Codes of units lie in blocks of this many, word by word inside each.
BLOCK = 512
# The stages whose slack is set: groups, units, first words of members, whole codes of members, fine
# codes of members. An index of one level has no groups, and gives that stage no slack.
GROUP_STAGE, UNIT_STAGE, PREFIX_STAGE, CODE_STAGE, FINE_STAGE = 0, 1, 2, 3, 4
N_STAGES = 5
# Those of folders that were written before there were fine codes.
STAGES_BEFORE_FINE = 4

# How far ahead memory is asked for: runs of codes, and members whose codes follow.
_RUNS_AHEAD = 3
_CODES_AHEAD = 8
_LINE = 64


@fast_kernel
def quantised_queries(queries, flips, steps, top):
    """Rotate and quantise each query; return one row a query of what `quantise_query` fills.

    Returns
    -------
    planes : uint64 (n_queries, 3, n_words)
        Sign bits, and the two bits of the levels.
    sums, squares : float32 (n_queries, n_words)
    """
    n_queries, padded = queries.shape[0], flips.shape[1]
    rotated, scratch = np.empty(padded, dtype=np.float32), np.empty(padded, dtype=np.float32)
    planes = np.empty((n_queries, 3, padded // WORD), dtype=np.uint64)
    sums = np.empty((n_queries, padded // WORD), dtype=np.float32)
    squares = np.empty((n_queries, padded // WORD), dtype=np.float32)
    for q in range(n_queries):
        signs, low, high = planes[q, 0], planes[q, 1], planes[q, 2]
        rotate(queries[q], flips, scratch, rotated)
        quantise_query(rotated, steps, top, signs, low, high, sums[q], squares[q])
    return planes, sums, squares


@fast_kernel
def _pass_runs(
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
        if i + _RUNS_AHEAD < runs.shape[0]:
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
def _rows_of_slots(
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
def _members_by_codes(candidates, codes, scales, shifts, bases, factors, weight, planes, vectors):
    """Keep the candidates whose whole code passes, in place; return how many are kept.

    Codes are asked for ahead of their test, and vectors of those kept ahead of their exact score,
    unless `vectors` is without rows because fine codes come first: both lie scattered, and a read
    from memory takes longer than a test.
    """
    candidates, codes, scales = borrowed(candidates), borrowed(codes), borrowed(scales)
    bases, factors, vectors = borrowed(bases), borrowed(factors), borrowed(vectors)
    planes, shifts = borrowed(planes), borrowed(shifts)
    signs, low, high = planes[0], planes[1], planes[2]
    n_words, dim, count = codes.shape[1], vectors.shape[1] if vectors.shape[0] > 0 else 0, 0
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
            candidates[count] = candidates[i]
            count += 1
            for position in range(row * dim, (row + 1) * dim, _LINE // vectors.itemsize):
                prefetch(vectors, position)
    return count


@fast_kernel
def search_codes(
    queries,
    plain,
    tested,
    frames,
    similarity,
    tested_at,
    slack,
    flips,
    steps,
    top,
    gain,
    top_blocks,
    top_scales,
    group_offsets,
    unit_runs,
    unit_scales,
    n_tested,
    run_offsets,
    run_rows,
    homes,
    largest_run,
    prefix,
    scale_ranges,
    codes,
    code_scales,
    shifts,
    fine,
    vectors,
    scales,
    keys,
    allowed,
    bounds,
    ids,
    scores,
    counts,
):
    """Search a block of queries by codes; return the number of hits, more than fit if too many.

    A stage passes a code of disagreement p where 2p ≤ Σv + slack·√Σv² − gain·α·scale: where its
    estimate is at most `slack` standard deviations of the code's noise below that of a match of
    similarity α. There may be several lines of α and slack; a code passes a stage by any of them.
    Where vectors are centred, α is framed for each query and shifted for each code
    (`framed_lines`).

    Parameters
    ----------
    queries : IN (n_queries, dim)
        Stored like the vectors.
    plain : IN float32 (n_queries, dim)
        The same as unit rows.
    tested : IN float32 (n_queries, tested_dim)
        The queries as the stages see them: projected, or as unit rows.
    frames : IN float32 (n_queries, 2) or (0, 2)
        Of `centre_queries`, where vectors are centred.
    similarity : IN float64
        What exact scores are compared with.
    tested_at : IN float32 (n_lines,)
        The similarities that the stages test at.
    slack : IN float32 (N_STAGES, n_lines)
        Infinity passes everything.
    flips, steps, top : IN
        Of `rotate` and `quantise_query`.
    gain : IN float32
        What Σ sᵢvᵢ of an inner product 1 is, for a code of scale 1.
    top_blocks : IN uint64 (n_blocks, n_top_words, BLOCK)
    top_scales : IN float32 (n_blocks * BLOCK,)
        Codes of the groups, or of the units where there are no groups.
    group_offsets : IN int64 (n_groups + 1,)
        Group g holds the units from ``group_offsets[g]`` on; one entry where there are no groups.
    unit_runs : IN uint64 (n_tested * n_unit_words,)
        Codes of the units, word by word inside each group; empty without groups.
    unit_scales : IN float32 (n_tested,)
    n_tested : IN int
        Units from this one on are visited without a test.
    run_offsets : IN int64 (n_units + 1,)
        Unit u holds the slots from ``run_offsets[u]`` on: its members, and guests from other units.
    run_rows : IN int32 (n_slots,) or (0,)
        The row of each slot, and −1 − row for a guest; slots are rows where it is empty.
    homes : IN int32 (n_vectors,) or (0,)
        The unit that each row is a member of.
    largest_run : IN int
        Of the slots of a unit, and of the units of a group.
    prefix : IN uint64 (n_slots * n_prefix,)
        The first words of the members' codes, word by word inside each unit.
    scale_ranges : IN float32 (STAGES_BEFORE_FINE, 2)
        The least and the largest scale of each stage's codes. First words of members have one scale
        for all: whole numbers are compared then.
    codes : IN uint64 (n_vectors, n_words)
    code_scales : IN float32 (n_vectors,)
    shifts : IN five float32 arrays, each by what it is of, or (0,)
        Shifts of `top_blocks` and of units; scales and shifts of the first words, one for each
        unit; shifts of whole codes. All are empty where vectors are not centred.
    fine : IN tuple
        Of fine codes: flips of the rotation, codes and scales of `encode_fine` (no rows where there
        are none), the standard deviation of an estimate, and the number of levels.
    vectors, scales : IN
        Of `collect_matches`.
    keys : IN int64 (n_vectors,)
    allowed : IN bool (n_keys,) or (0,)
        Of `is_allowed`. It is tested between the first words of members and their whole codes: a
        look at it takes less time than a whole code.
    bounds : OUT int64 (n_queries + 1,)
    ids : OUT int64 (capacity,)
    scores : OUT float64 (capacity,)
    counts : OUT int64 (n_queries, N_COUNTS)
    """
    n_queries, n_words = queries.shape[0], codes.shape[1]
    n_units, n_slots = run_offsets.shape[0] - 1, run_offsets[-1]
    n_prefix = prefix.shape[0] // n_slots
    n_groups, n_blocks, n_top_words = (
        group_offsets.shape[0] - 1,
        top_blocks.shape[0],
        top_blocks.shape[1],
    )
    n_top, top_stage = (n_groups, GROUP_STAGE) if n_groups > 0 else (n_tested, UNIT_STAGE)
    planes, sums, squares = quantised_queries(tested, flips, steps, top)
    exact_queries = widened_rows(queries)
    at, weights = framed_lines(tested_at, frames, n_queries, gain)
    top_shifts, unit_shifts, run_scales, run_shifts, code_shifts = shifts
    fine_flips, fine_codes, fine_scales, noise, n_levels = fine
    has_fine = fine_codes.shape[0] > 0
    entries, fine_offsets, fine_steps = fine_queries(
        plain if has_fine else plain[:0], fine_flips, n_levels
    )

    lines = np.empty((n_queries + 1, 2, tested_at.shape[0]), dtype=np.float32)
    bases, factors = lines[n_queries, 0], lines[n_queries, 1]
    limits = np.empty(STRIDE, dtype=np.float32)
    totals = np.empty(largest_run + WHOLE + BLOCK, dtype=np.int32)
    in_top = np.empty((n_queries, n_top + n_units), dtype=np.int32)
    selected, candidates = np.empty(n_units, dtype=np.int32), np.empty(n_slots, dtype=np.int32)
    is_selected = np.empty(n_units if run_rows.shape[0] > 0 else 0, dtype=np.bool_)
    is_selected[:] = False
    anything = np.int32(0)

    # All queries meet a block while it is in cache.
    of_top = np.empty((3, n_queries + n_blocks + 1), dtype=np.int64)
    n_in_top, n_lines_of, block_offsets = of_top[0], of_top[1], of_top[2]
    for q in range(n_queries):
        n_in_top[q] = 0
        test = slack, at[q], gain, scale_ranges
        n_lines_of[q] = stage_lines(
            top_stage, n_top_words, sums[q], squares[q], test, lines[q, 0], lines[q, 1]
        )
    for block in range(n_blocks):
        block_offsets[block] = block * BLOCK
    block_offsets[n_blocks] = n_top
    flat_blocks = top_blocks.reshape(-1)
    for block in range(n_blocks):
        selected[0] = block
        for q in range(n_queries):
            n_in_top[q], _ = _pass_runs(
                selected[:1],
                block_offsets,
                flat_blocks,
                n_top_words,
                BLOCK,
                top_scales,
                top_shifts,
                run_scales,
                lines[q, 0, : n_lines_of[q]],
                lines[q, 1, : n_lines_of[q]],
                weights[q],
                anything,
                planes[q],
                totals,
                limits,
                in_top[q],
                n_in_top[q],
            )

    count = 0
    for q in range(n_queries):
        bounds[q] = count
        n_selected, n_tests = n_in_top[q], n_top
        test = slack, at[q], gain, scale_ranges
        if n_groups > 0:
            n_unit_words = unit_runs.shape[0] // n_tested
            n_lines = stage_lines(
                UNIT_STAGE, n_unit_words, sums[q], squares[q], test, bases, factors
            )
            n_selected, n_in_groups = _pass_runs(
                in_top[q, : n_in_top[q]],
                group_offsets,
                unit_runs,
                n_unit_words,
                0,
                unit_scales,
                unit_shifts,
                run_scales,
                bases[:n_lines],
                factors[:n_lines],
                weights[q],
                anything,
                planes[q],
                totals,
                limits,
                selected,
                0,
            )
            n_tests += n_in_groups
        else:
            for i in range(n_selected):
                selected[i] = in_top[q, i]
        for unit in range(n_tested, n_units):
            selected[n_selected] = unit
            n_selected += 1

        n_lines = stage_lines(PREFIX_STAGE, n_prefix, sums[q], squares[q], test, bases, factors)
        scale = scale_ranges[PREFIX_STAGE, 0]
        limit = whole_half(highest(bases[:n_lines], factors[:n_lines], scale))
        n_candidates, n_members = _pass_runs(
            selected[:n_selected],
            run_offsets,
            prefix,
            n_prefix,
            0,
            unit_scales[:0],
            run_shifts,
            run_scales,
            bases[:n_lines],
            factors[:n_lines],
            weights[q],
            limit,
            planes[q],
            totals,
            limits,
            candidates,
            0,
        )
        if run_rows.shape[0] > 0:
            n_candidates = _rows_of_slots(
                candidates[:n_candidates],
                run_rows,
                homes,
                selected[:n_selected],
                is_selected,
                codes,
                n_prefix,
                planes[q],
                run_scales,
                run_shifts,
                bases[:n_lines],
                factors[:n_lines],
                weights[q],
            )
        if allowed.shape[0] > 0:
            n_candidates = keep_allowed(candidates[:n_candidates], keys, allowed)
        n_exact = n_candidates
        if tests_whole_codes(n_prefix, n_words, has_fine):
            n_lines = stage_lines(CODE_STAGE, n_words, sums[q], squares[q], test, bases, factors)
            n_exact = _members_by_codes(
                candidates[:n_candidates],
                codes,
                code_scales,
                code_shifts,
                bases[:n_lines],
                factors[:n_lines],
                weights[q],
                planes[q],
                vectors[: 0 if has_fine else vectors.shape[0]],
            )
        if has_fine:
            limit = fine_limit(slack[FINE_STAGE], tested_at, noise, fine_steps[q])
            n_exact = members_by_fine_codes(
                candidates[:n_exact],
                fine_codes,
                fine_scales,
                entries[q],
                fine_offsets[q],
                limit,
                vectors,
            )
        count = keep_matches(
            exact_queries[q],
            row_scale(queries[q]),
            candidates[:n_exact],
            vectors,
            scales,
            keys,
            similarity,
            ids,
            scores,
            count,
        )
        sort_hits(ids, scores, bounds[q], count)
        counts[q, 0], counts[q, 1], counts[q, 2] = n_tests, n_selected, n_members
        counts[q, 3], counts[q, 4] = n_candidates, n_exact
    bounds[n_queries] = count
    return count
