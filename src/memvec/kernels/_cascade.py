"""The search path by codes: groups → units → members → exact scores, for a block of queries."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import prefetch
from memvec.kernels._codes import disagreement, disagreements, quantise_query
from memvec.kernels._compile import fast_kernel
from memvec.kernels._rotation import rotate
from memvec.kernels._search import keep_allowed, keep_match, sort_hits

# Codes of units lie in blocks of this many, word by word inside each.
BLOCK = 512
# What a search counts, for each query.
UNIT_TESTS, UNITS_VISITED, MEMBERS_TESTED, CODES_TESTED, EXACT_PRODUCTS = 0, 1, 2, 3, 4
N_COUNTS = 5
# The stages whose slack is set: groups, units, first words of members, whole codes of members.
# An index of one level has no groups, and gives that stage no slack.
GROUP_STAGE, UNIT_STAGE, PREFIX_STAGE, CODE_STAGE = 0, 1, 2, 3
N_STAGES = 4

_ONE = np.uint64(1)
# Beyond every disagreement: at most 3 a bit.
_LARGE = 2.0**30
# Codes that are counted before any is collected. It is passed as a value: a constant trip count
# would be unrolled and then not vectorised.
_STRIDE = 64
# Codes that a loop over registers takes at once: four of eight words.
_WHOLE = 32
# How far ahead memory is asked for: units whose members follow, and members whose codes do.
_UNITS_AHEAD = 3
_CODES_AHEAD = 8
_FLOATS_A_LINE = 16


@fast_kernel
def quantise_queries(queries, flips, steps, top, signs, low, high, sums, squares):
    """Rotate and quantise each query; the outputs have one row a query."""
    padded = flips.shape[1]
    rotated = np.empty(padded, dtype=np.float32)
    scratch = np.empty(padded, dtype=np.float32)
    for q in range(queries.shape[0]):
        rotate(queries[q], flips, scratch, rotated)
        quantise_query(rotated, steps, top, signs[q], low[q], high[q], sums[q], squares[q])


@fast_kernel
def _collect_units(totals, scales, first, bases, factors, stride, limits, selected, count):
    """Append the units of a block that pass; return how many there are.

    A unit passes where 2p ≤ base − factor · scale for some line of thresholds. `limits` is room for
    the most of it over the lines.
    """
    for start in range(0, totals.shape[0], stride):
        some, sizes = totals[start : start + stride], scales[start : start + stride]
        for j in range(some.shape[0]):
            limits[j] = bases[0] - factors[0] * sizes[j]
        for line in range(1, bases.shape[0]):
            base, factor = bases[line], factors[line]
            for j in range(some.shape[0]):
                limits[j] = max(limits[j], base - factor * sizes[j])
        passed = np.int32(0)
        for j in range(some.shape[0]):
            passed += np.int32(np.float32(2 * some[j]) <= limits[j])
        if passed > 0:
            for j in range(some.shape[0]):
                if np.float32(2 * some[j]) <= limits[j]:
                    selected[count] = first + start + j
                    count += 1
    return count


@fast_kernel
def _collect_members(totals, size, first, limit, stride, candidates, count):
    """Append the members of a unit with p ≤ limit, a whole number; return how many there are.

    Totals beyond `size` mean nothing; they are counted with the others for the sake of whole
    registers, and not collected.
    """
    for start in range(0, totals.shape[0], stride):
        some = totals[start : start + stride]
        passed = np.int32(0)
        for j in range(some.shape[0]):
            passed += np.int32(some[j] <= limit)
        if passed > 0:
            for j in range(min(some.shape[0], size - start)):
                if some[j] <= limit:
                    candidates[count] = first + start + j
                    count += 1
    return count


@fast_kernel
def _fill_bases(total, energy, slack, bases):
    """Fill Σv + slack·√Σv² for each line of thresholds."""
    spread = np.sqrt(energy)
    for line in range(bases.shape[0]):
        bases[line] = total + slack[line] * spread


@fast_kernel
def _highest(bases, factors, scale):
    """Return the most that a code of a scale may disagree, over the lines of thresholds."""
    limit = bases[0] - factors[0] * scale
    for line in range(1, bases.shape[0]):
        limit = max(limit, bases[line] - factors[line] * scale)
    return limit


@fast_kernel
def _whole_half(value):
    """Return ⌊value/2⌋ as an int32, however large: 2p ≤ value is p ≤ ⌊value/2⌋."""
    half = np.floor(np.float64(value) * 0.5)
    return np.int32(min(max(half, -_LARGE), _LARGE))


@fast_kernel
def _scan_run(words, start, size, n_words, signs, low, high, totals):
    """Fill the disagreements of one run of codes, a unit's or a group's; return how many.

    Whole registers are filled: a run of 120 takes less time as 128 than with a rest of 24 done one
    by one. What is read beyond the run are words of its neighbours, and their sums mean nothing.
    """
    first = start * n_words
    room = words.shape[0] - first - (n_words - 1) * size
    filled = min(-(-size // _WHOLE) * _WHOLE, room)
    disagreements(words[first:], size, n_words, signs, low, high, totals[:filled])
    return filled


@fast_kernel
def select_from_blocks(
    top_blocks, top_scales, n_tested, factors, slack, signs, low, high, sums, squares, selected, n
):
    """Collect for each query the codes that pass; all queries meet a block while it is in cache.

    Parameters
    ----------
    top_blocks : IN uint64 (n_blocks, n_top_words, BLOCK)
    top_scales : IN float32 (n_blocks * BLOCK,)
    n_tested : IN int
        Codes there are; the rest of the last block is padding.
    factors : IN float32 (n_lines,)
        Similarities times the gain of the query's code.
    slack : IN float32 (n_lines,)
    signs, low, high, sums, squares : IN, of `quantise_queries`
    selected : OUT int32 (n_queries, ≥ n_tested)
    n : OUT int64 (n_queries,)
    """
    totals = np.empty(BLOCK, dtype=np.int32)
    bases, limits = np.empty_like(slack), np.empty(_STRIDE, dtype=np.float32)
    last = top_blocks.shape[1] - 1
    n[:] = 0
    for block in range(top_blocks.shape[0]):
        first = block * BLOCK
        size = min(BLOCK, n_tested - first)
        scales = top_scales[first : first + size]
        words = top_blocks[block].reshape(-1)
        for q in range(signs.shape[0]):
            disagreements(words, BLOCK, last + 1, signs[q], low[q], high[q], totals)
            _fill_bases(sums[q, last], squares[q, last], slack, bases)
            n[q] = _collect_units(
                totals[:size], scales, first, bases, factors, _STRIDE, limits, selected[q], n[q]
            )


@fast_kernel
def _units_of_groups(
    groups,
    group_offsets,
    words,
    n_words,
    scales,
    bases,
    factors,
    signs,
    low,
    high,
    totals,
    selected,
):
    """Collect the units of some groups that pass; return them counted, and all."""
    limits = np.empty(_STRIDE, dtype=np.float32)
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
        _scan_run(words, start, size, n_words, signs, low, high, totals)
        count = _collect_units(
            totals[:size],
            scales[start:stop],
            start,
            bases,
            factors,
            _STRIDE,
            limits,
            selected,
            count,
        )
    return count, n_units


@fast_kernel
def _members_of_units(
    chosen, offsets, prefix, n_prefix, limit, signs, low, high, totals, candidates
):
    """Collect the members of some units whose first words pass; return them counted, and all."""
    count = n_members = 0
    for i in range(chosen.shape[0]):
        if i + _UNITS_AHEAD < chosen.shape[0]:
            ahead = chosen[i + _UNITS_AHEAD]
            for position in range(offsets[ahead] * n_prefix, offsets[ahead + 1] * n_prefix, 8):
                prefetch(prefix, position)
        start, stop = offsets[chosen[i]], offsets[chosen[i] + 1]
        n_members += stop - start
        size = stop - start
        filled = _scan_run(prefix, start, size, n_prefix, signs, low, high, totals)
        count = _collect_members(totals[:filled], size, start, limit, _STRIDE, candidates, count)
    return count, n_members


@fast_kernel
def _members_by_codes(
    candidates, codes, n_words, scales, bases, factors, signs, low, high, vectors, dim
):
    """Keep the candidates whose whole code passes, in place; return how many are kept.

    Codes are asked for ahead of their test, and vectors of those kept ahead of their exact score:
    both lie scattered, and a read from memory takes longer than a test.
    """
    count = 0
    for i in range(candidates.shape[0]):
        if i + _CODES_AHEAD < candidates.shape[0]:
            ahead = np.int64(candidates[i + _CODES_AHEAD]) * n_words
            prefetch(codes, ahead)
            prefetch(codes, ahead + n_words - 1)
        row = np.int64(candidates[i])
        p = disagreement(codes[row * n_words : (row + 1) * n_words], signs, low, high)
        if np.float32(2 * p) <= _highest(bases, factors, scales[row]):
            candidates[count] = candidates[i]
            count += 1
            for position in range(row * dim, (row + 1) * dim, _FLOATS_A_LINE):
                prefetch(vectors, position)
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
    offsets,
    largest_run,
    prefix,
    prefix_scale,
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
    offsets : IN int64 (n_units + 1,)
    largest_run : IN int
        Of the members of a unit, and of the units of a group.
    prefix : IN uint64 (n_vectors * n_prefix,)
        The first words of the members' codes, word by word inside each unit.
    prefix_scale : IN float32
        One scale for all of them: whole numbers are compared then.
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
    n_queries, n_vectors, n_words = queries.shape[0], codes.shape[0], codes.shape[1]
    n_units, n_prefix = offsets.shape[0] - 1, prefix.shape[0] // n_vectors
    n_groups = group_offsets.shape[0] - 1
    n_top = n_groups if n_groups > 0 else n_tested
    signs = np.empty((n_queries, n_words), dtype=np.uint64)
    low, high = np.empty_like(signs), np.empty_like(signs)
    sums = np.empty((n_queries, n_words), dtype=np.float32)
    squares = np.empty_like(sums)
    quantise_queries(tested, flips, steps, top, signs, low, high, sums, squares)

    factors, bases = gain * tested_at, np.empty_like(tested_at)
    in_top = np.empty((n_queries, max(n_top, n_units)), dtype=np.int32)
    n_in_top = np.empty(n_queries, dtype=np.int64)
    top_slack = slack[GROUP_STAGE] if n_groups > 0 else slack[UNIT_STAGE]
    select_from_blocks(
        top_blocks,
        top_scales,
        n_top,
        factors,
        top_slack,
        signs,
        low,
        high,
        sums,
        squares,
        in_top,
        n_in_top,
    )

    totals = np.empty(largest_run + _WHOLE, dtype=np.int32)
    selected = np.empty(n_units, dtype=np.int32)
    candidates = np.empty(n_vectors, dtype=np.int32)
    flat_codes, flat_vectors = codes.reshape(-1), vectors.reshape(-1)
    count = 0
    for q in range(n_queries):
        bounds[q] = count
        n_selected, n_tests = n_in_top[q], n_top
        if n_groups > 0:
            n_unit_words = unit_runs.shape[0] // n_tested
            w = n_unit_words - 1
            _fill_bases(sums[q, w], squares[q, w], slack[UNIT_STAGE], bases)
            n_selected, n_in_groups = _units_of_groups(
                in_top[q, : n_in_top[q]],
                group_offsets,
                unit_runs,
                n_unit_words,
                unit_scales,
                bases,
                factors,
                signs[q],
                low[q],
                high[q],
                totals,
                selected,
            )
            n_tests += n_in_groups
        else:
            selected[:n_selected] = in_top[q, :n_selected]
        for unit in range(n_tested, n_units):
            selected[n_selected] = unit
            n_selected += 1

        w = n_prefix - 1
        _fill_bases(sums[q, w], squares[q, w], slack[PREFIX_STAGE], bases)
        n_candidates, n_members = _members_of_units(
            selected[:n_selected],
            offsets,
            prefix,
            n_prefix,
            _whole_half(_highest(bases, factors, prefix_scale)),
            signs[q],
            low[q],
            high[q],
            totals,
            candidates,
        )
        if allowed.shape[0] > 0:
            n_candidates = keep_allowed(candidates[:n_candidates], keys, allowed)
        w = n_words - 1
        _fill_bases(sums[q, w], squares[q, w], slack[CODE_STAGE], bases)
        n_exact = _members_by_codes(
            candidates[:n_candidates],
            flat_codes,
            n_words,
            code_scales,
            bases,
            factors,
            signs[q],
            low[q],
            high[q],
            flat_vectors,
            vectors.shape[1],
        )
        for i in range(n_exact):
            row = candidates[i]
            count = keep_match(queries[q], vectors, row, keys[row], similarity, ids, scores, count)
        if count <= ids.shape[0]:
            sort_hits(ids, scores, bounds[q], count)
        counts[q, UNIT_TESTS] = n_tests
        counts[q, UNITS_VISITED] = n_selected
        counts[q, MEMBERS_TESTED] = n_members
        counts[q, CODES_TESTED] = n_candidates
        counts[q, EXACT_PRODUCTS] = n_exact
    bounds[n_queries] = count
    return count
