"""Lines of thresholds: how much a code may disagree with a query and pass."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import room
from memvec.kernels._compile import inner_exact_kernel, kernel

# Beyond every disagreement: at most 3 a bit.
_LARGE = 2.0**30
# Codes of less scale, those of units whose members cancel, are not told apart by similarities.
_LEAST_SCALE = np.float32(1e-20)
#: What they reach: more than any similarity.
ANY_SIMILARITY = np.float32(1e30)


@inner_exact_kernel
def _covers(base, factor, other_base, other_factor, scale_range):
    """Tell whether a line passes all that another one passes, at both ends of the scales.

    Rounding may call it so for lines that differ by 1e-4; calibration gives all of them more slack.
    """
    ahead, steeper = base - other_base, factor - other_factor
    return ahead >= steeper * scale_range[0] and ahead >= steeper * scale_range[1]


@inner_exact_kernel
def lines_for_query(total, energy, slack, tested_at, gain, scale_range, bases, factors):
    """Fill the lines of thresholds of a stage for one query; return how many there are.

    A code of a scale passes by a line where 2p ≤ base − factor · scale: bases are Σv + slack·√Σv².
    A line that lets no code pass which another one stops, at any scale that there is, is left out:
    of ten lines, one to three are left.

    Parameters
    ----------
    total, energy : IN float32
        Σv and Σv² of the query.
    slack, tested_at : IN float32 (n_lines,)
    gain : IN float32
    scale_range : IN float32 (2,)
        The least and the largest scale of the stage's codes.
    bases, factors : OUT float32 (n_lines,)
    """
    spread, count = np.sqrt(energy), 0
    for line in range(slack.shape[0]):
        base, factor = total + slack[line] * spread, gain * tested_at[line]
        needed, kept = True, 0
        for earlier in range(count):
            needed &= not _covers(bases[earlier], factors[earlier], base, factor, scale_range)
        if not needed:
            continue
        for earlier in range(count):
            if not _covers(base, factor, bases[earlier], factors[earlier], scale_range):
                bases[kept], factors[kept] = bases[earlier], factors[earlier]
                kept += 1
        bases[kept], factors[kept] = base, factor
        count = kept + 1
    return count


@kernel
def framed_lines(tested_at, frames, n_queries, gain):
    """Return the similarities that each query is tested at, and its weight of shifts.

    Where vectors are centred, qᵀx ≥ α is (q−μ)ᵀ(x−μ)/‖q−μ‖ ≥ (α − (qᵀμ − μᵀμ) − xᵀμ)/‖q−μ‖. What
    is known of the query moves α; what is known of a code, its shift, moves the limit by a weight.

    Parameters
    ----------
    tested_at : IN float32 (n_lines,)
    frames : IN float32 (n_queries, 2) or (0, 2)
        Of `centre_queries`; none where vectors are not centred.
    n_queries : IN int
    gain : IN float32

    Returns
    -------
    at : float32 (n_queries, n_lines)
    weights : float32 (n_queries,)
    """
    at = room((n_queries, tested_at.shape[0]), np.float32)
    weights = room(n_queries, np.float32)
    for q in range(n_queries):
        moved, stretch = np.float32(0.0), np.float32(1.0)
        if frames.shape[0] > 0:
            moved, stretch = frames[q, 0], frames[q, 1]
        weights[q] = gain * stretch
        for line in range(tested_at.shape[0]):
            at[q, line] = (tested_at[line] - moved) * stretch
    return at, weights


@kernel
def stage_lines(stage, n_words, sums, squares, test, bases, factors):
    """Fill the lines of thresholds of a stage for one query; return how many there are.

    Parameters
    ----------
    stage, n_words : IN int
        The stage, and how many words of a query it compares.
    sums, squares : IN float32 (≥ n_words,)
        Of `quantise_query`.
    test : IN tuple
        The arguments slack, tested_at, gain and scale_ranges of `search_codes`.
    bases, factors : OUT float32 (n_lines,)
    """
    slack, tested_at, gain, ranges = test
    total, energy = sums[n_words - 1], squares[n_words - 1]
    return lines_for_query(
        total, energy, slack[stage], tested_at, gain, ranges[stage], bases, factors
    )


@inner_exact_kernel
def highest(bases, factors, scale):
    """Return the most that a code of a scale may disagree, over the lines of thresholds."""
    limit = bases[0] - factors[0] * scale
    for line in range(1, bases.shape[0]):
        other = bases[line] - factors[line] * scale
        limit = other if other > limit else limit
    return limit


@inner_exact_kernel
def shifted(limit, weight, shift):
    """Return a limit moved by what is known of a code; see `framed_lines`."""
    return limit + weight * shift


@inner_exact_kernel
def whole_half(value):
    """Return ⌊value/2⌋ as an int32, however large: 2p ≤ value is p ≤ ⌊value/2⌋."""
    half = np.floor(np.float64(value) * 0.5)
    if half > _LARGE:
        return np.int32(_LARGE)
    return np.int32(half if half > -_LARGE else -_LARGE)


@inner_exact_kernel
def reach(limit, p, scale):
    """Return the highest factor of a line by which a code of disagreement p passes.

    It passes where 2p ≤ limit − factor · scale.
    """
    return (limit - np.float32(2 * p)) / scale if scale > _LEAST_SCALE else ANY_SIMILARITY
