"""What the stages of the search by codes see of given pairs, and of all units."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import room
from memvec.kernels._cascade import (
    CODE_STAGE,
    FINE_STAGE,
    GROUP_STAGE,
    PREFIX_STAGE,
    quantised_queries,
)
from memvec.kernels._codes import disagreement
from memvec.kernels._compile import fast_kernel
from memvec.kernels._fine import fine_product, fine_queries
from memvec.kernels._runs import BLOCK, tests_whole_codes


@fast_kernel
def calibrate_codes(
    tested,
    frames,
    query_of,
    row_of,
    unit_of,
    group_of,
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
    n_prefix,
    prefix_scale,
    codes,
    code_scales,
    shifts,
    has_fine,
    scores,
    slopes,
):
    """Fill what each stage sees of given pairs: the slack a pair needs at α is α·slope − score.

    Fine codes see nothing here (`see_fine`): most indexes have none, and compile nothing for them.

    Parameters
    ----------
    tested : IN float32 (n_queries, tested_dim)
        The queries as the stages see them.
    frames : IN float32 (n_queries, 2) or (0, 2)
        Of `centre_queries`, where vectors are centred.
    query_of, row_of, unit_of, group_of : IN int64 (n_pairs,)
        The query, the member's row, its unit and its group.
    flips … shifts : IN
        Of `search_codes`.
    has_fine : IN bool
    scores, slopes : OUT float32 (n_pairs, N_STAGES)
        A stage that does not test a pair has score ∞ and slope 0.
    """
    n_unit_words = unit_runs.shape[0] // n_tested if n_tested > 0 else 0
    has_groups, n_words = group_offsets.shape[0] > 1, codes.shape[1]
    planes, sums, squares = quantised_queries(tested, flips, steps, top)
    whole = tests_whole_codes(n_prefix, n_words, has_fine)
    words = room(planes.shape[2], np.uint64)
    top_shifts, unit_shifts, run_scales, run_shifts, code_shifts = shifts
    centred = frames.shape[0] > 0
    for pair in range(query_of.shape[0]):
        q, row, unit, group = query_of[pair], row_of[pair], unit_of[pair], group_of[pair]
        for stage in range(FINE_STAGE):
            scores[pair, stage], slopes[pair, stage] = np.inf, 0.0
            if stage == CODE_STAGE and not whole:
                continue
            n, scale, shift = n_words, code_scales[row], np.float32(0.0)
            if stage < PREFIX_STAGE:
                in_blocks = (stage == GROUP_STAGE) == has_groups
                if unit >= n_tested or (stage == GROUP_STAGE and not has_groups):
                    continue
                if in_blocks:
                    code = group if has_groups else unit
                    n, scale = top_blocks.shape[1], top_scales[code]
                    shift = top_shifts[code] if centred else shift
                    for w in range(n):
                        words[w] = top_blocks[code // BLOCK, w, code % BLOCK]
                else:
                    start = group_offsets[group]
                    size = group_offsets[group + 1] - start
                    n, scale = n_unit_words, unit_scales[unit]
                    shift = unit_shifts[unit] if centred else shift
                    for w in range(n):
                        words[w] = unit_runs[start * n + w * size + unit - start]
            else:
                shift = code_shifts[row] if centred else shift
                if stage == PREFIX_STAGE:
                    n, scale = n_prefix, prefix_scale
                    if centred:
                        scale, shift = run_scales[unit], run_shifts[unit]
                for w in range(n):
                    words[w] = codes[row, w]
            p = disagreement(words[:n], planes[q, 0], planes[q, 1], planes[q, 2])
            spread = np.sqrt(squares[q, n - 1])
            product, weight = sums[q, n - 1] - np.float32(2 * p), gain
            if centred:
                weight = gain * frames[q, 1]
                product += weight * (shift + frames[q, 0] * scale)
            scores[pair, stage] = product / spread
            slopes[pair, stage] = weight * scale / spread
        scores[pair, FINE_STAGE], slopes[pair, FINE_STAGE] = np.inf, 0.0


@fast_kernel
def see_fine(queries, query_of, row_of, flips, codes, scales, noise, n_levels, scores, slopes):
    """Fill what fine codes see of given pairs.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    query_of, row_of : IN int64 (n_pairs,)
    flips … n_levels : IN
        The tuple `fine` of `search_codes`.
    scores, slopes : OUT float32 (n_pairs, N_STAGES)
        Those of the last stage are filled.
    """
    entries, offsets, steps = fine_queries(queries, flips, n_levels)
    for pair in range(query_of.shape[0]):
        q, row = query_of[pair], row_of[pair]
        product = fine_product(codes, row, entries[q], offsets[q])
        scores[pair, FINE_STAGE] = np.float32(product) / (steps[q] * scales[row] * noise)
        slopes[pair, FINE_STAGE] = np.float32(1.0) / noise


@fast_kernel
def estimate_scores(query, flips, steps, top, gain, words, scales, estimates):
    """Fill the estimated score of every code, in shares of what a match 1 would score.

    Parameters
    ----------
    query : IN float32 (dim,)
    flips, steps, top, gain : IN
        Of `search_codes`.
    words : IN uint64 (n_codes, n_words)
    scales : IN float32 (n_codes,)
    estimates : OUT float32 (n_codes,)
    """
    planes, sums, _ = quantised_queries(query.reshape(1, -1), flips, steps, top)
    for code in range(words.shape[0]):
        p = disagreement(words[code], planes[0, 0], planes[0, 1], planes[0, 2])
        product = sums[0, words.shape[1] - 1] - np.float32(2 * p)
        # Members that cancel leave a memory vector without a scale: every score is 0 on it.
        estimates[code] = product / (gain * scales[code]) if scales[code] > 0 else np.float32(0.0)
