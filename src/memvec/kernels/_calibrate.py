"""What the stages of the search by codes see of given pairs, and of all units."""

from __future__ import annotations

import numpy as np

from memvec.kernels._cascade import (
    BLOCK,
    CODE_STAGE,
    GROUP_STAGE,
    PREFIX_STAGE,
    UNIT_STAGE,
    quantise_queries,
)
from memvec.kernels._codes import WORD, disagreement
from memvec.kernels._compile import fast_kernel


@fast_kernel
def _stage_of_pair(words, scale, gain, signs, low, high, total, energy):
    """Return what a stage sees of a code: (Σv − 2p)/√Σv² and gain·scale/√Σv²."""
    spread = np.sqrt(energy)
    p = disagreement(words, signs, low, high)
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
    n_queries, n_words = queries.shape[0], codes.shape[1]
    has_groups = group_offsets.shape[0] > 1
    signs = np.empty((n_queries, n_words), dtype=np.uint64)
    low, high = np.empty_like(signs), np.empty_like(signs)
    sums = np.empty((n_queries, n_words), dtype=np.float32)
    squares = np.empty_like(sums)
    quantise_queries(queries, flips, steps, top, signs, low, high, sums, squares)
    n_top_words = top_blocks.shape[1]
    n_unit_words = unit_runs.shape[0] // max(1, n_tested)
    scores[:, :PREFIX_STAGE] = np.inf
    slopes[:, :PREFIX_STAGE] = 0.0
    for pair in range(query_of.shape[0]):
        q, row, unit = query_of[pair], row_of[pair], unit_of[pair]
        if unit < n_tested:
            code = group_of[pair] if has_groups else unit
            stage = GROUP_STAGE if has_groups else UNIT_STAGE
            scores[pair, stage], slopes[pair, stage] = _stage_of_pair(
                top_blocks[code // BLOCK, :, code % BLOCK].copy(),
                top_scales[code],
                gain,
                signs[q],
                low[q],
                high[q],
                sums[q, n_top_words - 1],
                squares[q, n_top_words - 1],
            )
        if unit < n_tested and has_groups:
            start, stop = group_offsets[code], group_offsets[code + 1]
            run = unit_runs[start * n_unit_words : stop * n_unit_words]
            scores[pair, UNIT_STAGE], slopes[pair, UNIT_STAGE] = _stage_of_pair(
                run[unit - start :: stop - start].copy(),
                unit_scales[unit],
                gain,
                signs[q],
                low[q],
                high[q],
                sums[q, n_unit_words - 1],
                squares[q, n_unit_words - 1],
            )
        scores[pair, PREFIX_STAGE], slopes[pair, PREFIX_STAGE] = _stage_of_pair(
            codes[row, :n_prefix],
            prefix_scale,
            gain,
            signs[q],
            low[q],
            high[q],
            sums[q, n_prefix - 1],
            squares[q, n_prefix - 1],
        )
        scores[pair, CODE_STAGE], slopes[pair, CODE_STAGE] = _stage_of_pair(
            codes[row],
            code_scales[row],
            gain,
            signs[q],
            low[q],
            high[q],
            sums[q, n_words - 1],
            squares[q, n_words - 1],
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
    n_words, n_compared = flips.shape[1] // WORD, words.shape[1]
    signs = np.empty((1, n_words), dtype=np.uint64)
    low, high = np.empty_like(signs), np.empty_like(signs)
    sums = np.empty((1, n_words), dtype=np.float32)
    squares = np.empty_like(sums)
    quantise_queries(query.reshape(1, -1), flips, steps, top, signs, low, high, sums, squares)
    for code in range(words.shape[0]):
        p = disagreement(words[code], signs[0], low[0], high[0])
        product = sums[0, n_compared - 1] - np.float32(2 * p)
        # Members that cancel leave a memory vector without a scale: every score is 0 on it.
        estimates[code] = product / (gain * scales[code]) if scales[code] > 0 else np.float32(0.0)
