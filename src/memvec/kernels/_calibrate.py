"""What the stages of the search by codes see of given pairs, and of all units."""

from __future__ import annotations

import numpy as np

from memvec.kernels._cascade import (
    BLOCK,
    GROUP_STAGE,
    N_STAGES,
    PREFIX_STAGE,
    quantised_queries,
)
from memvec.kernels._codes import disagreement
from memvec.kernels._compile import fast_kernel


@fast_kernel
def calibrate_codes(
    queries,
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
    scores,
    slopes,
):
    """Fill what each stage sees of given pairs: the slack a pair needs at α is α·slope − score.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
        As the stages see them.
    frames : IN float32 (n_queries, 2) or (0, 2)
        Of `centre_queries`, where vectors are centred.
    query_of, row_of, unit_of, group_of : IN int64 (n_pairs,)
        The query, the member's row, its unit and its group.
    flips … shifts : IN
        Of `search_codes`.
    scores, slopes : OUT float32 (n_pairs, N_STAGES)
        A stage that does not test a pair has score ∞ and slope 0.
    """
    n_unit_words = unit_runs.shape[0] // n_tested if n_tested > 0 else 0
    has_groups, n_words = group_offsets.shape[0] > 1, codes.shape[1]
    planes, sums, squares = quantised_queries(queries, flips, steps, top)
    words = np.empty(planes.shape[2], dtype=np.uint64)
    top_shifts, unit_shifts, run_scales, run_shifts, code_shifts = shifts
    centred = frames.shape[0] > 0
    for pair in range(query_of.shape[0]):
        q, row, unit, group = query_of[pair], row_of[pair], unit_of[pair], group_of[pair]
        for stage in range(N_STAGES):
            scores[pair, stage], slopes[pair, stage] = np.inf, 0.0
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
