"""The k nearest in one visit: units best first, by thresholds that tighten as it goes.

A code *reaches* a similarity where it passes at it, by the slack of its stage. What lies below the
k-th best score so far is not among the k nearest, so that nothing whose code reaches less needs a
visit. The k-th best so far is never above the k-th nearest: whatever passes at the similarity of
the k-th nearest, for which the slack was solved, passes here.
"""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, lane_products, prefetch, room
from memvec.kernels._cascade import (
    CODE_STAGE,
    FINE_STAGE,
    GROUP_STAGE,
    PREFIX_STAGE,
    UNIT_STAGE,
    quantised_queries,
)
from memvec.kernels._code_tests import CodeTests
from memvec.kernels._codes import disagreements
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._fine import fine_queries, members_by_fine_codes
from memvec.kernels._lines import ANY_SIMILARITY, reach, shifted, whole_half
from memvec.kernels._packed import unpacked
from memvec.kernels._passing import STRIDE, WHOLE, append_ones
from memvec.kernels._rotation import framed_queries
from memvec.kernels._runs import BLOCK, members_by_codes, pass_runs, tests_whole_codes
from memvec.kernels._scores import ask_for_row, pair_scale, row_scale, scaled, widened_rows
from memvec.kernels._search import MATCH_SLACK, keep_allowed, sort_hits

# Places are put in order by so many bins.
_BINS = 128
# Members of the units that are visited first, and how many more for each of the k; every following
# visit has four times as many, up to the most.
_FIRST_MEMBERS, _FIRST_PER_K, _GROWTH, _MOST_MEMBERS = 64, 2, 4, 4096
# Groups whose units are tested first; twice as many follow each time.
_FIRST_GROUPS = 4
# Rows that are scored at a time.
_TOGETHER = 4
_ONE = np.uint64(1)
# Below every cosine.
LOWEST = -2.0


@fast_kernel
def _reach_runs(
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
        disagreements(words[start * n_words :], step, n_words, planes, some)
        if shifts.shape[0] == 0:
            for j in range(size):
                own[j] = reach(base, some[j], sizes[j])
        else:
            moved = shifts[start:stop]
            for j in range(size):
                own[j] = reach(shifted(base, weight, moved[j]), some[j], sizes[j])
    return n_codes


@fast_kernel
def _collect(reaches, first, low, high, stride, found, found_reaches, count):
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


@inner_kernel
def _replace_lowest(heap, score):
    """Replace the lowest of a heap, whose first it is."""
    place, size = 0, heap.shape[0]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= score:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = score


@inner_kernel
def _floor(heap):
    """Return the similarity that the k nearest reach at least, as far as is known."""
    return (heap[0] if heap[0] > LOWEST else LOWEST) - MATCH_SLACK


@fast_kernel
def _new_rows(candidates, run_rows, seen, codes):
    """Put the rows of slots in their place, each once a query; return how many are left.

    Their codes are asked for ahead of their test. Slots are rows where `run_rows` is empty.
    """
    candidates, run_rows = borrowed(candidates), borrowed(run_rows)
    seen, codes = borrowed(seen), borrowed(codes)
    count, width = 0, np.int64(codes.shape[1])
    for slot in candidates:
        row, known = slot, False
        if run_rows.shape[0] > 0:
            row = run_rows[slot]
            row = ~row if row < 0 else row
            word, bit = row >> 6, _ONE << np.uint64(row & 63)
            known = seen[word] & bit != 0
            seen[word] |= bit
        if not known:
            prefetch(codes, row * width)
            prefetch(codes, row * width + width - 1)
            candidates[count] = row
            count += 1
    return count


@fast_kernel
def _score_rows(
    query, scale, rows, reaches, frame, vectors, scales, keys, heap, ids, scores, count
):
    """Score rows in their order as long as they reach far enough; return hits and rows scored.

    Parameters
    ----------
    query, scale : IN
        Of `keep_matches`.
    rows, reaches : IN int32, float32 (n_rows,)
    frame : IN float32, float32
        A similarity is reached where reaches ≥ (similarity − moved) · stretch.
    vectors, scales, keys, ids, scores, count
        Of `keep_matches`.
    heap : INOUT float64 (k,)
        The k best scores, the lowest first.
    """
    query, rows, reaches = borrowed(query), borrowed(rows), borrowed(reaches)
    vectors, scales, keys = borrowed(vectors), borrowed(scales), borrowed(keys)
    heap, ids, scores = borrowed(heap), borrowed(ids), borrowed(scores)
    moved, stretch = frame
    dim, taken, i, n_scored = np.int64(vectors.shape[1]), np.zeros(_TOGETHER, np.int64), 0, 0
    while i < rows.shape[0]:
        n_taken, least = 0, np.float32((_floor(heap) - moved) * stretch)
        while i < rows.shape[0] and n_taken < _TOGETHER:
            if reaches[i] >= least:
                taken[n_taken] = rows[i]
                n_taken += 1
            i += 1
        if n_taken == 0:
            break
        for j in range(i, min(i + _TOGETHER, rows.shape[0])):
            if reaches[j] >= least:
                ask_for_row(vectors, np.int64(rows[j]))
        places = (taken[0] * dim, taken[1] * dim, taken[2] * dim, taken[3] * dim)
        found = lane_products(query, vectors, places)
        n_scored += n_taken
        for j in range(n_taken):
            score = scaled(found[j], pair_scale(scale, vectors, scales, taken[j]))
            if score >= _floor(heap):
                if score > heap[0]:
                    _replace_lowest(heap, score)
                if count < ids.shape[0]:
                    ids[count], scores[count] = keys[taken[j]], score
                count += 1
    return count, n_scored


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
        Of `_score_rows`.
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
        floor = np.float32(_floor(heap))
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
        if tests_whole:
            n = _new_rows(candidates[:n], run_rows, seen, codes)
        else:
            n = _new_rows(candidates[:n], run_rows, seen, fine_codes)
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
        count, n_scored = _score_rows(
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
def _keep_nearest(ids, scores, first, count, lowest):
    """Keep the hits from `first` on that are as near as the k-th; return how many there are.

    Hits beyond the capacity of `ids` are asked for again.
    """
    if count > ids.shape[0]:
        return count
    kept = first
    for i in range(first, count):
        if scores[i] >= lowest:
            ids[kept], scores[kept] = ids[i], scores[i]
            kept += 1
    sort_hits(ids, scores, first, kept)
    return kept


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
        least = (np.float32(_floor(heap)) - moved) * weight
        n_groups, n_units = 0, 0
        while place < groups.shape[0] and n_groups < most:
            if reaches[place] >= least:
                chunk[n_groups] = groups[place]
                n_groups += 1
            place += 1
        most *= 2
        some = chunk[:n_groups]
        spent[0] += _reach_runs(
            some, offsets, words, n_words, 0, scales, shifts, base, weight, planes, totals, every
        )
        for group in some:
            start, stop = offsets[group], offsets[group + 1]
            own = every[start:stop]
            n_units = _collect(
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
        _,
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
    limits, totals = room(STRIDE, np.float32), room(largest_run + WHOLE + BLOCK, np.int32)
    seen = np.zeros(vectors.shape[0] // 64 + 1 if run_rows.shape[0] > 0 else 0, np.uint64)
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
            _reach_runs(
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
            least = cut if cut > _floor(heap) else _floor(heap)
            low = (
                np.float32((np.float32(least) - moved) * weight)
                if cut > LOWEST
                else -ANY_SIMILARITY
            )
            n = _collect(every[q], 0, low, high, STRIDE, in_top[0], in_reaches[0], 0)
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
            if _floor(heap) >= least:
                break
        count = _visit_units(
            untested, always, asked, stored, allowed, slack, heap, spare, ids, scores, count, spent
        )
        count = _keep_nearest(ids, scores, bounds[q], count, _floor(heap))
    bounds[n_queries] = count
    return count


@inner_kernel
def _frame(frames, q, gain):
    """Return what of a similarity is known of the query, and what the rest of it weighs."""
    if frames.shape[0] == 0:
        return np.float32(0.0), gain
    return frames[q, 0], gain * frames[q, 1]
