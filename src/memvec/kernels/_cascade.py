"""The search path by codes: groups → units → members → exact scores, for a block of queries."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, prefetch
from memvec.kernels._codes import WORD, disagreement, disagreements, quantise_query
from memvec.kernels._compile import fast_kernel
from memvec.kernels._lines import highest, stage_lines, whole_half
from memvec.kernels._passing import STRIDE, WHOLE, collect_members, collect_units, scan_run
from memvec.kernels._rotation import rotate
from memvec.kernels._search import fill_counts, keep_allowed, keep_match, sort_hits

# Codes of units lie in blocks of this many, word by word inside each.
BLOCK = 512
# The stages whose slack is set: groups, units, first words of members, whole codes of members.
# An index of one level has no groups, and gives that stage no slack.
GROUP_STAGE, UNIT_STAGE, PREFIX_STAGE, CODE_STAGE = 0, 1, 2, 3
N_STAGES = 4

# How far ahead memory is asked for: units whose members follow, and members whose codes do.
_UNITS_AHEAD = 3
_CODES_AHEAD = 8
_FLOATS_A_LINE = 16


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
    squares = np.empty_like(sums)
    for q in range(n_queries):
        signs, low, high = planes[q, 0], planes[q, 1], planes[q, 2]
        rotate(queries[q], flips, scratch, rotated)
        quantise_query(rotated, steps, top, signs, low, high, sums[q], squares[q])
    return planes, sums, squares


@fast_kernel
def _units_of_block(
    words, n_words, scales, first, bases, factors, planes, totals, limits, selected, count
):
    """Append the units of a block that pass; return how many there are."""
    words, scales, selected = borrowed(words), borrowed(scales), borrowed(selected)
    bases, factors, planes = borrowed(bases), borrowed(factors), borrowed(planes)
    totals, limits = borrowed(totals), borrowed(limits)
    size = scales.shape[0]
    disagreements(words, BLOCK, n_words, planes[0], planes[1], planes[2], totals[:BLOCK])
    return collect_units(
        totals[:size], scales, first, bases, factors, STRIDE, limits, selected, count
    )


@fast_kernel
def _select_from_blocks(
    top_blocks, top_scales, n_tested, stage, test, planes, sums, squares, totals, limits, selected
):
    """Collect for each query the codes that pass, and return how many.

    All queries meet a block while it is in cache.

    Parameters
    ----------
    top_blocks : IN uint64 (n_blocks, n_top_words, BLOCK)
    top_scales : IN float32 (n_blocks * BLOCK,)
    n_tested : IN int
        Codes there are; the rest of the last block is padding.
    stage, test : IN
        Of `stage_lines`.
    planes, sums, squares : IN, of `quantised_queries`
    totals, limits : int32 (≥ BLOCK,), float32 (STRIDE,)
        Room to work in.
    selected : OUT int32 (n_queries, ≥ n_tested)
    """
    n_queries, n_words, n_lines = planes.shape[0], top_blocks.shape[1], test[1].shape[0]
    bases = np.empty((n_queries, n_lines), dtype=np.float32)
    factors, used = np.empty_like(bases), np.empty(n_queries, dtype=np.int64)
    for q in range(n_queries):
        used[q] = stage_lines(stage, n_words, sums[q], squares[q], test, bases[q], factors[q])
    n = np.zeros(n_queries, dtype=np.int64)
    for block in range(top_blocks.shape[0]):
        first = block * BLOCK
        size = min(BLOCK, n_tested - first)
        for q in range(n_queries):
            n[q] = _units_of_block(
                top_blocks[block].reshape(-1),
                n_words,
                top_scales[first : first + size],
                first,
                bases[q, : used[q]],
                factors[q, : used[q]],
                planes[q],
                totals,
                limits,
                selected[q],
                n[q],
            )
    return n


@fast_kernel
def _units_of_groups(
    groups, group_offsets, words, n_words, scales, bases, factors, planes, totals, limits, selected
):
    """Collect the units of some groups that pass; return them counted, and all."""
    groups, group_offsets, words = borrowed(groups), borrowed(group_offsets), borrowed(words)
    scales, bases, factors = borrowed(scales), borrowed(bases), borrowed(factors)
    planes, totals = borrowed(planes), borrowed(totals)
    selected, limits = borrowed(selected), borrowed(limits)
    count = n_units = 0
    for i in range(groups.shape[0]):
        if i + _UNITS_AHEAD < groups.shape[0]:
            ahead = groups[i + _UNITS_AHEAD]
            first, last = group_offsets[ahead] * n_words, group_offsets[ahead + 1] * n_words
            for position in range(first, last, 8):
                prefetch(words, position)
        start, stop = group_offsets[groups[i]], group_offsets[groups[i] + 1]
        n_units += stop - start
        size = stop - start
        scan_run(words, start, size, n_words, planes, totals)
        run_scales = scales[start:stop]
        count = collect_units(
            totals[:size], run_scales, start, bases, factors, STRIDE, limits, selected, count
        )
    return count, n_units


@fast_kernel
def _members_of_units(chosen, offsets, prefix, n_prefix, limit, planes, totals, candidates):
    """Collect the members of some units whose first words pass; return them counted, and all."""
    chosen, offsets, prefix = borrowed(chosen), borrowed(offsets), borrowed(prefix)
    planes, totals, candidates = borrowed(planes), borrowed(totals), borrowed(candidates)
    count = n_members = 0
    for i in range(chosen.shape[0]):
        if i + _UNITS_AHEAD < chosen.shape[0]:
            ahead = chosen[i + _UNITS_AHEAD]
            for position in range(offsets[ahead] * n_prefix, offsets[ahead + 1] * n_prefix, 8):
                prefetch(prefix, position)
        start, stop = offsets[chosen[i]], offsets[chosen[i] + 1]
        n_members += stop - start
        size = stop - start
        filled = scan_run(prefix, start, size, n_prefix, planes, totals)
        count = collect_members(totals[:filled], size, start, limit, STRIDE, candidates, count)
    return count, n_members


@fast_kernel
def _rows_of_slots(candidates, run_rows, homes, selected, is_selected):
    """Put the rows of slots in their place, each once; return how many are left.

    A guest whose home is selected, too, has passed there by the same test. `is_selected` is False
    for every unit before and after.
    """
    candidates, run_rows, homes = borrowed(candidates), borrowed(run_rows), borrowed(homes)
    selected, is_selected = borrowed(selected), borrowed(is_selected)
    for unit in selected:
        is_selected[unit] = True
    count = 0
    for slot in candidates:
        row = run_rows[slot]
        if row < 0:
            row = ~row
            if is_selected[homes[row]]:
                continue
        candidates[count] = row
        count += 1
    for unit in selected:
        is_selected[unit] = False
    return count


@fast_kernel
def _members_by_codes(candidates, codes, n_words, scales, bases, factors, planes, vectors, dim):
    """Keep the candidates whose whole code passes, in place; return how many are kept.

    Codes are asked for ahead of their test, and vectors of those kept ahead of their exact score:
    both lie scattered, and a read from memory takes longer than a test.
    """
    candidates, codes, scales = borrowed(candidates), borrowed(codes), borrowed(scales)
    bases, factors, vectors = borrowed(bases), borrowed(factors), borrowed(vectors)
    planes = borrowed(planes)
    signs, low, high = planes[0], planes[1], planes[2]
    count = 0
    for i in range(candidates.shape[0]):
        if i + _CODES_AHEAD < candidates.shape[0]:
            ahead = np.int64(candidates[i + _CODES_AHEAD]) * n_words
            prefetch(codes, ahead)
            prefetch(codes, ahead + n_words - 1)
        row = np.int64(candidates[i])
        p = disagreement(codes[row * n_words : (row + 1) * n_words], signs, low, high)
        if np.float32(2 * p) <= highest(bases, factors, scales[row]):
            candidates[count] = candidates[i]
            count += 1
            for position in range(row * dim, (row + 1) * dim, _FLOATS_A_LINE):
                prefetch(vectors, position)
    return count


@fast_kernel
def _matches(query, candidates, vectors, keys, similarity, ids, scores, count):
    """Append the candidates that match to the hits; return how many there are."""
    query, candidates = borrowed(query), borrowed(candidates)
    vectors, keys = borrowed(vectors), borrowed(keys)
    ids, scores = borrowed(ids), borrowed(scores)
    for row in candidates:
        count = keep_match(query, vectors, row, keys[row], similarity, ids, scores, count)
    return count


@fast_kernel
def search_codes(
    queries,
    tested,
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
    vectors,
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

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    tested : IN float32 (n_queries, tested_dim)
        The queries as the stages see them: projected, or as they are.
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
    scale_ranges : IN float32 (N_STAGES, 2)
        The least and the largest scale of each stage's codes. First words of members have one scale
        for all: whole numbers are compared then.
    codes : IN uint64 (n_vectors, n_words)
    code_scales : IN float32 (n_vectors,)
    vectors : IN float32 (n_vectors, dim)
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
    n_groups = group_offsets.shape[0] - 1
    n_top = n_groups if n_groups > 0 else n_tested
    planes, sums, squares = quantised_queries(tested, flips, steps, top)
    test = slack, tested_at, gain, scale_ranges

    bases, factors = np.empty_like(tested_at), np.empty_like(tested_at)
    in_top = np.empty((n_queries, max(n_top, n_units)), dtype=np.int32)
    totals = np.empty(max(largest_run + WHOLE, BLOCK), dtype=np.int32)
    limits = np.empty(STRIDE, dtype=np.float32)
    n_in_top = _select_from_blocks(
        top_blocks,
        top_scales,
        n_top,
        GROUP_STAGE if n_groups > 0 else UNIT_STAGE,
        test,
        planes,
        sums,
        squares,
        totals,
        limits,
        in_top,
    )

    selected = np.empty(n_units, dtype=np.int32)
    candidates = np.empty(n_slots, dtype=np.int32)
    is_selected = np.zeros(n_units if run_rows.shape[0] > 0 else 0, dtype=np.bool_)
    flat_codes, flat_vectors = codes.reshape(-1), vectors.reshape(-1)
    count = 0
    for q in range(n_queries):
        bounds[q] = count
        n_selected, n_tests = n_in_top[q], n_top
        if n_groups > 0:
            n_unit_words = unit_runs.shape[0] // n_tested
            n_lines = stage_lines(
                UNIT_STAGE, n_unit_words, sums[q], squares[q], test, bases, factors
            )
            n_selected, n_in_groups = _units_of_groups(
                in_top[q, : n_in_top[q]],
                group_offsets,
                unit_runs,
                n_unit_words,
                unit_scales,
                bases[:n_lines],
                factors[:n_lines],
                planes[q],
                totals,
                limits,
                selected,
            )
            n_tests += n_in_groups
        else:
            selected[:n_selected] = in_top[q, :n_selected]
        for unit in range(n_tested, n_units):
            selected[n_selected] = unit
            n_selected += 1

        n_lines = stage_lines(PREFIX_STAGE, n_prefix, sums[q], squares[q], test, bases, factors)
        limit = highest(bases[:n_lines], factors[:n_lines], scale_ranges[PREFIX_STAGE, 0])
        n_candidates, n_members = _members_of_units(
            selected[:n_selected],
            run_offsets,
            prefix,
            n_prefix,
            whole_half(limit),
            planes[q],
            totals,
            candidates,
        )
        if run_rows.shape[0] > 0:
            n_candidates = _rows_of_slots(
                candidates[:n_candidates], run_rows, homes, selected[:n_selected], is_selected
            )
        if allowed.shape[0] > 0:
            n_candidates = keep_allowed(candidates[:n_candidates], keys, allowed)
        n_lines = stage_lines(CODE_STAGE, n_words, sums[q], squares[q], test, bases, factors)
        n_exact = _members_by_codes(
            candidates[:n_candidates],
            flat_codes,
            n_words,
            code_scales,
            bases[:n_lines],
            factors[:n_lines],
            planes[q],
            flat_vectors,
            vectors.shape[1],
        )
        count = _matches(
            queries[q], candidates[:n_exact], vectors, keys, similarity, ids, scores, count
        )
        sort_hits(ids, scores, bounds[q], count)
        fill_counts(counts[q], n_tests, n_selected, n_members, n_candidates, n_exact)
    bounds[n_queries] = count
    return count
