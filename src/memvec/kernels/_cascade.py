"""The search path by codes: groups → units → members → exact scores, for a block of queries."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import room
from memvec.kernels._code_tests import CodeTests
from memvec.kernels._codes import WORD, quantise_query
from memvec.kernels._compile import fast_kernel
from memvec.kernels._fine import fine_limit, fine_queries, members_by_fine_codes
from memvec.kernels._lines import framed_lines, highest, stage_lines, whole_half
from memvec.kernels._packed import unpacked
from memvec.kernels._passing import STRIDE
from memvec.kernels._rotation import framed_queries, rotate
from memvec.kernels._runs import (
    BLOCK,
    forget_rows,
    members_by_codes,
    new_rows,
    pass_runs,
    room_for_seen,
    tests_whole_codes,
)
from memvec.kernels._scores import are_unit_rows, row_scale, widened_rows
from memvec.kernels._search import keep_allowed, keep_matches, sort_hits

# The stages whose slack is set: groups, units, first words of members, whole codes of members, fine
# codes of members. An index of one level has no groups, and gives that stage no slack.
GROUP_STAGE, UNIT_STAGE, PREFIX_STAGE, CODE_STAGE, FINE_STAGE = 0, 1, 2, 3, 4
N_STAGES = 5
# Those of folders that were written before there were fine codes.
STAGES_BEFORE_FINE = 4


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
    rotated, scratch = room(padded, np.float32), room(padded, np.float32)
    planes = room((n_queries, 3, padded // WORD), np.uint64)
    sums = room((n_queries, padded // WORD), np.float32)
    squares = room((n_queries, padded // WORD), np.float32)
    for q in range(n_queries):
        signs, low, high = planes[q, 0], planes[q, 1], planes[q, 2]
        rotate(queries[q], flips, scratch, rotated)
        quantise_query(rotated, steps, top, signs, low, high, sums[q], squares[q])
    return planes, sums, squares


@fast_kernel
def search_codes(
    queries,
    plain,
    tested,
    similarity,
    tested_at,
    slack,
    tests,
    vectors,
    allowed,
    unchecked,
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
        The queries as the stages see them, before they are centred: projected, or as unit rows.
    similarity : IN float64
        What exact scores are compared with.
    tested_at : IN float32 (n_lines,)
        The similarities that the stages test at.
    slack : IN float32 (N_STAGES, n_lines)
        Infinity passes everything.
    tests : IN int
        The address of `CodeTests`.
    vectors : IN
        Of `collect_matches`.
    allowed : IN bool (n_keys,) or (0,)
        Of `is_allowed`. It is tested between the first words of members and their whole codes: a
        look at it takes less time than a whole code.
    unchecked : IN bool
        Whether rows may have another norm than 1. If one has, nothing is searched: −1 is returned.
    bounds : OUT int64 (n_queries + 1,)
    ids : OUT int64 (capacity,)
    scores : OUT float64 (capacity,)
    counts : OUT int64 (n_queries, N_COUNTS)
    """
    (
        mean,
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
        largest_run,
        prefix,
        scale_ranges,
        codes,
        code_scales,
        top_shifts,
        unit_shifts,
        run_scales,
        run_shifts,
        code_shifts,
        fine_flips,
        fine_codes,
        fine_scales,
        noise,
        n_levels,
        scales,
        keys,
    ) = unpacked(tests, CodeTests)
    if unchecked and not are_unit_rows(plain):
        return -1
    n_queries, n_words = queries.shape[0], codes.shape[1]
    n_units, n_slots = run_offsets.shape[0] - 1, run_offsets[-1]
    n_prefix = prefix.shape[0] // n_slots
    n_groups, n_blocks, n_top_words = (
        group_offsets.shape[0] - 1,
        top_blocks.shape[0],
        top_blocks.shape[1],
    )
    n_top, top_stage = (n_groups, GROUP_STAGE) if n_groups > 0 else (n_tested, UNIT_STAGE)
    centred, frames = framed_queries(tested, mean)
    planes, sums, squares = quantised_queries(centred, flips, steps, top)
    exact_queries = widened_rows(queries)
    at, weights = framed_lines(tested_at, frames, n_queries, gain)
    has_fine = fine_codes.shape[0] > 0
    entries, fine_offsets, fine_steps = fine_queries(
        plain if has_fine else plain[:0], fine_flips, n_levels
    )

    lines = room((n_queries + 1, 2, tested_at.shape[0]), np.float32)
    bases, factors = lines[n_queries, 0], lines[n_queries, 1]
    limits = room(STRIDE, np.float32)
    totals = room(max(largest_run, BLOCK), np.int32)
    in_top = room((n_queries, n_top + n_units), np.int32)
    selected, candidates = room(n_units, np.int32), room(n_slots, np.int32)
    seen = room_for_seen(codes.shape[0], run_rows)
    anything, no_reaches = np.int32(0), limits[:0]

    # All queries meet a block while it is in cache. One query takes all blocks in one call.
    together = n_blocks if n_queries == 1 else 1
    of_top = room((3, n_queries + n_blocks + 1), np.int64)
    n_in_top, n_lines_of, block_offsets = of_top[0], of_top[1], of_top[2]
    for q in range(n_queries):
        n_in_top[q] = 0
        test = slack, at[q], gain, scale_ranges
        n_lines_of[q] = stage_lines(
            top_stage, n_top_words, sums[q], squares[q], test, lines[q, 0], lines[q, 1]
        )
    for block in range(n_blocks):
        block_offsets[block], selected[block] = block * BLOCK, block
    block_offsets[n_blocks] = n_top
    flat_blocks = top_blocks.reshape(-1)
    for block in range(0, n_blocks, max(together, 1)):
        for q in range(n_queries):
            n_in_top[q], _ = pass_runs(
                selected[block : block + together],
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
            n_selected, n_in_groups = pass_runs(
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
        n_candidates, n_members = pass_runs(
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
        n_candidates = new_rows(candidates[:n_candidates], run_rows, seen)
        forget_rows(candidates[:n_candidates], seen)
        if allowed.shape[0] > 0:
            n_candidates = keep_allowed(candidates[:n_candidates], keys, allowed)
        n_exact = n_candidates
        if tests_whole_codes(n_prefix, n_words, has_fine):
            n_lines = stage_lines(CODE_STAGE, n_words, sums[q], squares[q], test, bases, factors)
            n_exact = members_by_codes(
                candidates[:n_candidates],
                codes,
                code_scales,
                code_shifts,
                bases[:n_lines],
                factors[:n_lines],
                weights[q],
                planes[q],
                vectors[: 0 if has_fine else vectors.shape[0]],
                no_reaches,
            )
        if has_fine:
            limit = fine_limit(slack[FINE_STAGE], tested_at, noise, fine_steps[q], similarity)
            n_exact = members_by_fine_codes(
                candidates[:n_exact],
                fine_codes,
                fine_scales,
                entries[q],
                fine_offsets[q],
                limit,
                vectors,
                no_reaches,
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
