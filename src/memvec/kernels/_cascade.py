"""The search path by codes: units → members → exact scores, for a block of queries."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import popcount, prefetch
from memvec.kernels._codes import WORD, disagreement, disagreements, quantise_query
from memvec.kernels._compile import fast_kernel
from memvec.kernels._rotation import rotate
from memvec.kernels._search import keep_match, sort_hits

# Codes of units lie in blocks of this many, word by word inside each.
BLOCK = 512
# What a search counts, for each query.
UNITS_VISITED, MEMBERS_TESTED, CODES_TESTED, EXACT_PRODUCTS = 0, 1, 2, 3
N_COUNTS = 4
# The stages whose slack is set: units, first words of members, whole codes of members.
UNIT_STAGE, PREFIX_STAGE, CODE_STAGE = 0, 1, 2
N_STAGES = 3

_ONE = np.uint64(1)
# Codes that are counted before any is collected. It is passed as a value: a constant trip count
# would be unrolled and then not vectorised.
_STRIDE = 64
# How far ahead memory is asked for: units whose members follow, and members whose codes do.
_UNITS_AHEAD = 3
_CODES_AHEAD = 8


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
def _collect_units(totals, scales, first, base, factor, stride, selected, count):
    """Append the units of a block with 2p ≤ base − factor · scale; return how many there are."""
    for start in range(0, totals.shape[0], stride):
        some, limits = totals[start : start + stride], scales[start : start + stride]
        passed = np.int32(0)
        for j in range(some.shape[0]):
            passed += np.int32(np.float32(2 * some[j]) <= base - factor * limits[j])
        if passed > 0:
            for j in range(some.shape[0]):
                if np.float32(2 * some[j]) <= base - factor * limits[j]:
                    selected[count] = first + start + j
                    count += 1
    return count


@fast_kernel
def _collect_members(totals, first, limit, stride, candidates, count):
    """Append the members of a unit with 2p ≤ limit; return how many there are."""
    for start in range(0, totals.shape[0], stride):
        some = totals[start : start + stride]
        passed = np.int32(0)
        for j in range(some.shape[0]):
            passed += np.int32(np.float32(2 * some[j]) <= limit)
        if passed > 0:
            for j in range(some.shape[0]):
                if np.float32(2 * some[j]) <= limit:
                    candidates[count] = first + start + j
                    count += 1
    return count


@fast_kernel
def _scan_members(words, n_prefix, signs, low, high, totals):
    """Fill the prefix disagreements of one unit's members, stored word by word."""
    n = totals.shape[0]
    for w in range(n_prefix):
        run = words[w * n : w * n + n]
        sign, once, twice = signs[w], low[w], high[w]
        if w == 0:
            for j in range(n):
                differ = run[j] ^ sign
                totals[j] = np.int32(popcount(differ & once) + (popcount(differ & twice) << _ONE))
        else:
            for j in range(n):
                differ = run[j] ^ sign
                totals[j] += np.int32(popcount(differ & once) + (popcount(differ & twice) << _ONE))


@fast_kernel
def select_units_by_codes(
    unit_blocks, unit_scales, n_tested, factor, slack, signs, low, high, sums, squares, selected, n
):
    """Collect for each query the units that pass; all queries meet a block while it is in cache.

    Parameters
    ----------
    unit_blocks : IN uint64 (n_blocks, n_unit_words, BLOCK)
    unit_scales : IN float32 (n_blocks * BLOCK,)
    n_tested : IN int
        Units there are; the rest of the last block is padding.
    factor : IN float32
        Similarity times the gain of the query's code.
    slack : IN float32
    signs, low, high, sums, squares : IN, of `quantise_queries`
    selected : OUT int32 (n_queries, ≥ n_tested)
    n : OUT int64 (n_queries,)
    """
    totals = np.empty(BLOCK, dtype=np.int32)
    last = unit_blocks.shape[1] - 1
    n[:] = 0
    for block in range(unit_blocks.shape[0]):
        first = block * BLOCK
        size = min(BLOCK, n_tested - first)
        scales = unit_scales[first : first + size]
        for q in range(signs.shape[0]):
            disagreements(unit_blocks[block], last + 1, signs[q], low[q], high[q], totals)
            base = sums[q, last] + slack * np.sqrt(squares[q, last])
            n[q] = _collect_units(
                totals[:size], scales, first, base, factor, _STRIDE, selected[q], n[q]
            )


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
        words, here = prefix[start * n_prefix : stop * n_prefix], totals[: stop - start]
        _scan_members(words, n_prefix, signs, low, high, here)
        count = _collect_members(here, start, limit, _STRIDE, candidates, count)
    return count, n_members


@fast_kernel
def search_codes(
    queries,
    similarity,
    slack,
    flips,
    steps,
    top,
    gain,
    unit_blocks,
    unit_scales,
    n_tested,
    offsets,
    largest_unit,
    prefix,
    prefix_scale,
    codes,
    code_scales,
    vectors,
    keys,
    bounds,
    ids,
    scores,
    counts,
):
    """Search a block of queries by codes; return the number of hits, more than fit if too many.

    A stage passes a code of disagreement p where 2p ≤ Σv + slack·√Σv² − gain·α·scale: where its
    estimate is at most `slack` standard deviations of the code's noise below that of a match of
    similarity α.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    similarity : IN float64
    slack : IN float32 (N_STAGES,)
        Infinity passes everything.
    flips, steps, top : IN
        Of `rotate` and `quantise_query`.
    gain : IN float32
        What Σ sᵢvᵢ of an inner product 1 is, for a code of scale 1.
    unit_blocks : IN uint64 (n_blocks, n_unit_words, BLOCK)
    unit_scales : IN float32 (n_blocks * BLOCK,)
    n_tested : IN int
        Units from this one on are visited without a test.
    offsets : IN int64 (n_units + 1,)
    largest_unit : IN int
    prefix : IN uint64 (n_vectors * n_prefix,)
        The first words of the members' codes, word by word inside each unit.
    prefix_scale : IN float32
        One scale for all of them: whole numbers are compared then.
    codes : IN uint64 (n_vectors, n_words)
    code_scales : IN float32 (n_vectors,)
    vectors : IN float32 (n_vectors, dim)
    keys : IN int64 (n_vectors,)
    bounds : OUT int64 (n_queries + 1,)
    ids : OUT int64 (capacity,)
    scores : OUT float64 (capacity,)
    counts : OUT int64 (n_queries, N_COUNTS)
    """
    n_queries, n_vectors, n_words = queries.shape[0], codes.shape[0], codes.shape[1]
    n_units, n_prefix = offsets.shape[0] - 1, prefix.shape[0] // n_vectors
    signs = np.empty((n_queries, n_words), dtype=np.uint64)
    low, high = np.empty_like(signs), np.empty_like(signs)
    sums = np.empty((n_queries, n_words), dtype=np.float32)
    squares = np.empty_like(sums)
    quantise_queries(queries, flips, steps, top, signs, low, high, sums, squares)

    factor = gain * np.float32(similarity)
    selected = np.empty((n_queries, n_units), dtype=np.int32)
    n_selected = np.empty(n_queries, dtype=np.int64)
    select_units_by_codes(
        unit_blocks,
        unit_scales,
        n_tested,
        factor,
        slack[UNIT_STAGE],
        signs,
        low,
        high,
        sums,
        squares,
        selected,
        n_selected,
    )

    totals = np.empty(largest_unit, dtype=np.int32)
    candidates = np.empty(n_vectors, dtype=np.int32)
    flat_codes = codes.reshape(-1)
    count = 0
    for q in range(n_queries):
        bounds[q] = count
        for unit in range(n_tested, n_units):
            selected[q, n_selected[q]] = unit
            n_selected[q] += 1
        w = n_prefix - 1
        limit = sums[q, w] + slack[PREFIX_STAGE] * np.sqrt(squares[q, w]) - factor * prefix_scale
        chosen = selected[q, : n_selected[q]]
        n_candidates, n_members = _members_of_units(
            chosen, offsets, prefix, n_prefix, limit, signs[q], low[q], high[q], totals, candidates
        )
        base = sums[q, n_words - 1] + slack[CODE_STAGE] * np.sqrt(squares[q, n_words - 1])
        n_exact = 0
        for i in range(n_candidates):
            if i + _CODES_AHEAD < n_candidates:
                ahead = candidates[i + _CODES_AHEAD] * n_words
                prefetch(flat_codes, ahead)
                prefetch(flat_codes, ahead + n_words - 1)
            row = candidates[i]
            p = disagreement(codes[row], signs[q], low[q], high[q])
            if np.float32(2 * p) <= base - factor * code_scales[row]:
                n_exact += 1
                count = keep_match(
                    queries[q], vectors, row, keys[row], similarity, ids, scores, count
                )
        if count <= ids.shape[0]:
            sort_hits(ids, scores, bounds[q], count)
        counts[q, UNITS_VISITED] = chosen.shape[0]
        counts[q, MEMBERS_TESTED] = n_members
        counts[q, CODES_TESTED] = n_candidates
        counts[q, EXACT_PRODUCTS] = n_exact
    bounds[n_queries] = count
    return count


@fast_kernel
def calibrate_codes(
    queries,
    query_of,
    row_of,
    unit_of,
    flips,
    steps,
    top,
    gain,
    unit_blocks,
    unit_scales,
    n_tested,
    n_prefix,
    prefix_scale,
    codes,
    code_scales,
    scores,
    slopes,
):
    """Fill what each stage sees of given pairs: the slack a pair needs at α is α·slope − score.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    query_of, row_of, unit_of : IN int64 (n_pairs,)
        The query, the member's row and its unit.
    flips … code_scales : IN
        Of `search_codes`.
    scores, slopes : OUT float32 (n_pairs, N_STAGES)
        (Σv − 2p)/√Σv² and gain·scale/√Σv²; a unit that is not tested has score ∞ and slope 0.
    """
    n_queries, n_words, n_unit_words = queries.shape[0], codes.shape[1], unit_blocks.shape[1]
    signs = np.empty((n_queries, n_words), dtype=np.uint64)
    low, high = np.empty_like(signs), np.empty_like(signs)
    sums = np.empty((n_queries, n_words), dtype=np.float32)
    squares = np.empty_like(sums)
    quantise_queries(queries, flips, steps, top, signs, low, high, sums, squares)
    stage_words = (n_unit_words, n_prefix, n_words)
    for pair in range(query_of.shape[0]):
        q, row, unit = query_of[pair], row_of[pair], unit_of[pair]
        for stage in range(N_STAGES):
            if stage == UNIT_STAGE and unit >= n_tested:
                scores[pair, stage], slopes[pair, stage] = np.inf, 0.0
                continue
            n = stage_words[stage]
            if stage == UNIT_STAGE:
                words = unit_blocks[unit // BLOCK, :, unit % BLOCK].copy()
                scale = unit_scales[unit]
            else:
                words = codes[row, :n].copy()
                scale = code_scales[row] if stage == CODE_STAGE else prefix_scale
            p = disagreement(words, signs[q], low[q], high[q])
            spread = np.sqrt(squares[q, n - 1])
            scores[pair, stage] = (sums[q, n - 1] - np.float32(2 * p)) / spread
            slopes[pair, stage] = gain * scale / spread


@fast_kernel
def estimate_units(query, flips, steps, top, gain, unit_blocks, unit_scales, n_units, estimates):
    """Fill the estimated score of every unit, in shares of what a match 1 would score.

    Parameters
    ----------
    query : IN float32 (dim,)
    flips … unit_scales : IN
        Of `search_codes`.
    estimates : OUT float32 (n_units,)
    """
    n_words = flips.shape[1] // WORD
    signs = np.empty((1, n_words), dtype=np.uint64)
    low, high = np.empty_like(signs), np.empty_like(signs)
    sums = np.empty((1, n_words), dtype=np.float32)
    squares = np.empty_like(sums)
    quantise_queries(query.reshape(1, -1), flips, steps, top, signs, low, high, sums, squares)
    totals = np.empty(BLOCK, dtype=np.int32)
    n_unit_words = unit_blocks.shape[1]
    for block in range(unit_blocks.shape[0]):
        disagreements(unit_blocks[block], n_unit_words, signs[0], low[0], high[0], totals)
        for j in range(min(BLOCK, n_units - block * BLOCK)):
            unit = block * BLOCK + j
            dot = sums[0, n_unit_words - 1] - np.float32(2 * totals[j])
            estimates[unit] = dot / (gain * unit_scales[unit])
