"""What the stages of the search by codes see of given pairs, and of all units."""

from __future__ import annotations

import numpy as np

from memvec.kernels._cascade import (
    BLOCK,
    CODE_STAGE,
    GROUP_STAGE,
    PREFIX_STAGE,
    UNIT_STAGE,
    quantised_queries,
)
from memvec.kernels._codes import disagreement
from memvec.kernels._compile import fast_kernel


@fast_kernel
def _stage_of_pair(words, scale, gain, planes, sums, squares):
    """Return what a stage sees of a code: (Σv − 2p)/√Σv² and gain·scale/√Σv²."""
    last = words.shape[0] - 1
    total, spread = sums[last], np.sqrt(squares[last])
    p = disagreement(words, planes[0], planes[1], planes[2])
    return (total - np.float32(2 * p)) / spread, gain * scale / spread


@fast_kernel
def calibrate_codes(
    queries,
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
    scores,
    slopes,
):
    """Fill what each stage sees of given pairs: the slack a pair needs at α is α·slope − score.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    query_of, row_of, unit_of, group_of : IN int64 (n_pairs,)
        The query, the member's row, its unit and its group.
    flips … code_scales : IN
        Of `search_codes`.
    scores, slopes : OUT float32 (n_pairs, N_STAGES)
        A stage that does not test a pair has score ∞ and slope 0.
    """
    has_groups = group_offsets.shape[0] > 1
    planes, sums, squares = quantised_queries(queries, flips, steps, top)
    n_unit_words = unit_runs.shape[0] // max(1, n_tested)
    scores[:, :PREFIX_STAGE] = np.inf
    slopes[:, :PREFIX_STAGE] = 0.0
    for pair in range(query_of.shape[0]):
        q, row, unit = query_of[pair], row_of[pair], unit_of[pair]
        query = planes[q], sums[q], squares[q]
        if unit < n_tested:
            code = group_of[pair] if has_groups else unit
            stage = GROUP_STAGE if has_groups else UNIT_STAGE
            words = top_blocks[code // BLOCK, :, code % BLOCK].copy()
            scores[pair, stage], slopes[pair, stage] = _stage_of_pair(
                words, top_scales[code], gain, *query
            )
        if unit < n_tested and has_groups:
            start, stop = group_offsets[code], group_offsets[code + 1]
            run = unit_runs[start * n_unit_words : stop * n_unit_words]
            words = run[unit - start :: stop - start].copy()
            scores[pair, UNIT_STAGE], slopes[pair, UNIT_STAGE] = _stage_of_pair(
                words, unit_scales[unit], gain, *query
            )
        scores[pair, PREFIX_STAGE], slopes[pair, PREFIX_STAGE] = _stage_of_pair(
            codes[row, :n_prefix], prefix_scale, gain, *query
        )
        scores[pair, CODE_STAGE], slopes[pair, CODE_STAGE] = _stage_of_pair(
            codes[row], code_scales[row], gain, *query
        )


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
