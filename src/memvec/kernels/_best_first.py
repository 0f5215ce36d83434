"""The k nearest in one visit: units best first, by thresholds that tighten as it goes.

A code *reaches* a similarity where it passes at it, by the slack of its stage. What lies below the
k-th best score so far is not among the k nearest, so that nothing whose code reaches less needs a
visit. The k-th best so far is never above the k-th nearest: whatever passes at the similarity of
the k-th nearest, for which the slack was solved, passes here.
"""

from __future__ import annotations

import numpy as np

from memvec.kernels._best_rows import LOWEST, floor_of, keep_nearest, score_rows
from memvec.kernels._bits import room
from memvec.kernels._cascade import (
    CODE_STAGE,
    FINE_STAGE,
    GROUP_STAGE,
    PREFIX_STAGE,
    UNIT_STAGE,
    quantised_queries,
)
from memvec.kernels._code_tests import CodeTests
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._fine import fine_queries, members_by_fine_codes
from memvec.kernels._lines import ANY_SIMILARITY, whole_half
from memvec.kernels._packed import unpacked
from memvec.kernels._passing import STRIDE
from memvec.kernels._reached import collect_reached, in_order, reach_runs
from memvec.kernels._rotation import framed_queries
from memvec.kernels._runs import (
    BLOCK,
    members_by_codes,
    new_rows,
    pass_runs,
    room_for_seen,
    tests_whole_codes,
)
from memvec.kernels._scores import row_scale, widened_rows
from memvec.kernels._search import keep_allowed

# Members of the units that are visited first, and how many more for each of the k; every following
# visit has four times as many, up to the most.
_FIRST_MEMBERS, _FIRST_PER_K, _GROWTH, _MOST_MEMBERS = 64, 2, 4, 4096
# Groups whose units are tested first; twice as many follow each time.
_FIRST_GROUPS = 4


@fast_kernel
def _visit_units(
    units, reaches, asked, stored, allowed, slack, heap, spare, ids, scores, count, spent
):
    """Visit units, best first, some at a time; return the number of hits.

    Parameters
    ----------
    units, reaches : IN int32, float32 (n,)
        In order.
    asked : IN tuple
        The query, as each stage sees it.
    stored : IN tuple
        The members, as each stage sees them.
    allowed : IN
        Of `nearest_codes`.
    slack : IN float32 (N_STAGES,)
    heap : INOUT
        Of `score_rows`.
    spare : tuple
        Arrays to work in; all of `seen` is 0 where the query comes first.
    ids, scores, count
        Of `keep_matches`.
    spent : INOUT int64 (N_COUNTS,)
    """
    query, scale, planes, sums, squares, moved, weight, entries, fine_offset, fine_step = asked
    run_offsets, run_rows, prefix, n_prefix, prefix_scale = stored[0]
    codes, code_scales, code_shifts, run_scales, run_shifts = stored[1]
    fine_codes, fine_scales, noise = stored[2]
    vectors, scales, keys = stored[3]
    chunk, candidates, ordered, candidate_reaches, ordered_reaches, totals, limits, seen = spare
    n_words, has_fine = codes.shape[1], fine_codes.shape[0] > 0
    bases, factors = room(1, np.float32), room(1, np.float32)
    base = sums[n_prefix - 1] + slack[PREFIX_STAGE] * np.sqrt(squares[n_prefix - 1])
    code_base = sums[n_words - 1] + slack[CODE_STAGE] * np.sqrt(squares[n_words - 1])
    margin, tests_whole = slack[FINE_STAGE] * noise, tests_whole_codes(n_prefix, n_words, has_fine)
    most = _MOST_MEMBERS
    if not heap[0] > LOWEST:
        most = _FIRST_MEMBERS + _FIRST_PER_K * heap.shape[0]
    place = 0
    while place < units.shape[0]:
        floor = np.float32(floor_of(heap))
        factor, n_chunk, n_slots = (floor - moved) * weight, 0, 0
        while place < units.shape[0] and n_slots < most:
            if reaches[place] >= factor:
                unit = units[place]
                chunk[n_chunk] = unit
                n_chunk += 1
                n_slots += run_offsets[unit + 1] - run_offsets[unit]
            place += 1
        most = min(_GROWTH * most, _MOST_MEMBERS)
        bases[0], factors[0] = base, factor
        n, n_members = pass_runs(
            chunk[:n_chunk],
            run_offsets,
            prefix,
            n_prefix,
            0,
            limits[:0],
            run_shifts,
            run_scales,
            bases,
            factors,
            weight,
            whole_half(base - factor * prefix_scale),
            planes,
            totals,
            limits,
            candidates,
            0,
        )
        n = new_rows(candidates[:n], run_rows, seen)
        if allowed.shape[0] > 0:
            n = keep_allowed(candidates[:n], keys, allowed)
        spent[1] += n_chunk
        spent[2] += n_members
        spent[3] += n
        frame = moved, weight
        if tests_whole:
            bases[0] = code_base
            n = members_by_codes(
                candidates[:n],
                codes,
                code_scales,
                code_shifts,
                bases,
                factors,
                weight,
                planes,
                vectors[:0],
                candidate_reaches,
            )
        if has_fine:
            frame = margin, fine_step
            n = members_by_fine_codes(
                candidates[:n],
                fine_codes,
                fine_scales,
                entries,
                fine_offset,
                (floor - margin) * fine_step,
                vectors[:0],
                candidate_reaches,
            )
        in_order(candidates[:n], candidate_reaches[:n], ordered, ordered_reaches)
        count, n_scored = score_rows(
            query,
            scale,
            ordered[:n],
            ordered_reaches[:n],
            frame,
            vectors,
            scales,
            keys,
            heap,
            ids,
            scores,
            count,
        )
        spent[4] += n_scored
    return count


@fast_kernel
def _visit_groups(
    groups, reaches, asked, stored, of_units, allowed, slack, heap, spare, ids, scores, count, spent
):
    """Visit the units of groups, best first, some groups at a time; return the number of hits.

    Parameters
    ----------
    groups, reaches : IN int32, float32 (n,)
        In order.
    of_units : IN tuple
        The units, as their stage sees them, and room for what it finds.
    others
        Of `_visit_units`.
    """
    _, _, planes, sums, squares, moved, weight = asked[:7]
    offsets, words, scales, shifts, every, some_units, some_reaches = of_units
    chunk, totals = spare[0], spare[5]
    n_words = words.shape[0] // scales.shape[0]
    base = sums[n_words - 1] + slack[UNIT_STAGE] * np.sqrt(squares[n_words - 1])
    place, most = 0, _FIRST_GROUPS
    while place < groups.shape[0]:
        least = (np.float32(floor_of(heap)) - moved) * weight
        n_groups, n_units = 0, 0
        while place < groups.shape[0] and n_groups < most:
            if reaches[place] >= least:
                chunk[n_groups] = groups[place]
                n_groups += 1
            place += 1
        most *= 2
        some = chunk[:n_groups]
        spent[0] += reach_runs(
            some, offsets, words, n_words, 0, scales, shifts, base, weight, planes, totals, every
        )
        for group in some:
            start, stop = offsets[group], offsets[group + 1]
            own = every[start:stop]
            n_units = collect_reached(
                own, start, least, np.inf, STRIDE, some_units[0], some_reaches[0], n_units
            )
        units, units_reach = some_units[1, :n_units], some_reaches[1, :n_units]
        in_order(some_units[0, :n_units], some_reaches[0, :n_units], units, units_reach)
        count = _visit_units(
            units,
            units_reach,
            asked,
            stored,
            allowed,
            slack,
            heap,
            spare,
            ids,
            scores,
            count,
            spent,
        )
    return count


@fast_kernel
def nearest_codes(
    queries,
    plain,
    tested,
    cuts,
    slack,
    tests,
    vectors,
    allowed,
    heaps,
    bounds,
    ids,
    scores,
    counts,
):
    """Find the k nearest of a block of queries; return the number of hits, more than fit if so.

    Parameters are those of `search_codes`, but for these.

    Parameters
    ----------
    cuts : IN float64 (n_cuts,)
        Similarities, falling. What reaches the first is put in order and visited; what reaches the
        next only where fewer than k were found above the first, and so on.
    slack : IN float32 (N_STAGES,)
    heaps : INOUT float64 (n_queries, k)
        The k best scores of each query, the lowest first: those known elsewhere, −∞ where there are
        fewer. Hits are those that are at least as near as the k-th of them.
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
    n_queries, n_units, n_groups = (
        queries.shape[0],
        run_offsets.shape[0] - 1,
        group_offsets.shape[0] - 1,
    )
    n_prefix, n_blocks, n_words = (
        prefix.shape[0] // run_offsets[-1],
        top_blocks.shape[0],
        top_blocks.shape[1],
    )
    n_top, top_stage = (n_groups, GROUP_STAGE) if n_groups > 0 else (n_tested, UNIT_STAGE)
    centred, frames = framed_queries(tested, mean)
    planes, sums, squares = quantised_queries(centred, flips, steps, top)
    exact_queries = widened_rows(queries)
    has_fine = fine_codes.shape[0] > 0
    entries, fine_offsets, fine_steps = fine_queries(
        plain if has_fine else plain[:0], fine_flips, n_levels
    )
    stored = (
        (run_offsets, run_rows, prefix, n_prefix, scale_ranges[PREFIX_STAGE, 0]),
        (codes, code_scales, code_shifts, run_scales, run_shifts),
        (fine_codes, fine_scales, noise),
        (vectors, scales, keys),
    )

    most = min(_MOST_MEMBERS + _FIRST_PER_K * heaps.shape[1], run_offsets[-1]) + largest_run
    limits, totals = room(STRIDE, np.float32), room(max(largest_run, BLOCK), np.int32)
    seen = room_for_seen(vectors.shape[0], run_rows)
    places, reached = room((2, most), np.int32), room((2, most), np.float32)
    chunk = room(n_units, np.int32)
    spare = chunk, places[0], places[1], reached[0], reached[1], totals, limits, seen
    in_top, in_reaches = room((2, n_top), np.int32), room((2, n_top), np.float32)
    n_in_groups = n_tested if n_groups > 0 else 0
    some_units = room((2, n_in_groups), np.int32)
    some_reaches, every_unit = (
        room((2, n_in_groups), np.float32),
        room(n_in_groups, np.float32),
    )
    of_units = (
        group_offsets,
        unit_runs,
        unit_scales,
        unit_shifts,
        every_unit,
        some_units,
        some_reaches,
    )
    untested = np.arange(n_tested, n_units).astype(np.int32)
    always = np.full(untested.shape[0], ANY_SIMILARITY)

    # All queries meet a block while it is in cache.
    every, a_block = room((n_queries, n_top), np.float32), room(1, np.int32)
    block_offsets = np.minimum(np.arange(n_blocks + 1) * BLOCK, n_top)
    flat_blocks = top_blocks.reshape(-1)
    for block in range(n_blocks):
        a_block[0] = block
        for q in range(n_queries):
            base = sums[q, n_words - 1] + slack[top_stage] * np.sqrt(squares[q, n_words - 1])
            _, weight = _frame(frames, q, gain)
            reach_runs(
                a_block,
                block_offsets,
                flat_blocks,
                n_words,
                BLOCK,
                top_scales,
                top_shifts,
                base,
                weight,
                planes[q],
                totals,
                every[q],
            )

    count = 0
    for q in range(n_queries):
        bounds[q], heap, spent = count, heaps[q], counts[q]
        moved, weight = _frame(frames, q, gain)
        seen[:] = 0
        spent[:] = 0
        spent[0] = n_top
        asked = (
            exact_queries[q],
            row_scale(queries[q]),
            planes[q],
            sums[q],
            squares[q],
            moved,
            weight,
            entries[q] if has_fine else entries.reshape(-1)[:0],
            fine_offsets[q] if has_fine else np.int32(0),
            fine_steps[q] if has_fine else np.float32(0.0),
        )
        high = np.float32(np.inf)
        for cut in cuts:
            least = cut if cut > floor_of(heap) else floor_of(heap)
            low = (
                np.float32((np.float32(least) - moved) * weight)
                if cut > LOWEST
                else -ANY_SIMILARITY
            )
            n = collect_reached(every[q], 0, low, high, STRIDE, in_top[0], in_reaches[0], 0)
            tops, reaches = in_top[1, :n], in_reaches[1, :n]
            in_order(in_top[0, :n], in_reaches[0, :n], tops, reaches)
            if n_groups > 0:
                count = _visit_groups(
                    tops,
                    reaches,
                    asked,
                    stored,
                    of_units,
                    allowed,
                    slack,
                    heap,
                    spare,
                    ids,
                    scores,
                    count,
                    spent,
                )
            else:
                count = _visit_units(
                    tops,
                    reaches,
                    asked,
                    stored,
                    allowed,
                    slack,
                    heap,
                    spare,
                    ids,
                    scores,
                    count,
                    spent,
                )
            high = low
            if floor_of(heap) >= least:
                break
        count = _visit_units(
            untested, always, asked, stored, allowed, slack, heap, spare, ids, scores, count, spent
        )
        count = keep_nearest(ids, scores, bounds[q], count, floor_of(heap))
    bounds[n_queries] = count
    return count


@inner_kernel
def _frame(frames, q, gain):
    """Return what of a similarity is known of the query, and what the rest of it weighs."""
    if frames.shape[0] == 0:
        return np.float32(0.0), gain
    return frames[q, 0], gain * frames[q, 1]
