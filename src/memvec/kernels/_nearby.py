"""Units near a vector, without a look at all of them: those of the groups it is nearest to."""

from __future__ import annotations

import numpy as np

from memvec.kernels._compile import fast_kernel
from memvec.kernels._scores import dot

# A vector that lies on its unit has no residual; this much is taken for one.
_LEAST_RESIDUAL = np.float32(1e-6)


@fast_kernel
def keep_nearest(scores, near):
    """Fill the columns of the highest scores of each row, falling; equal ones in rising order.

    Parameters
    ----------
    scores : IN float32 (n_rows, n_groups)
    near : OUT int32 (n_rows, n_near)
        At most as many as there are groups.
    """
    n_near = near.shape[1]
    kept = np.empty(n_near, dtype=np.float32)
    for i in range(scores.shape[0]):
        kept[:] = -np.inf
        near[i] = 0
        for j in range(scores.shape[1]):
            score = scores[i, j]
            if score > kept[n_near - 1]:
                place = n_near - 1
                while place > 0 and score > kept[place - 1]:
                    kept[place] = kept[place - 1]
                    near[i, place] = near[i, place - 1]
                    place -= 1
                kept[place] = score
                near[i, place] = j


@fast_kernel
def nearest_of_groups(rows, near, starts, units, labels, best):
    """Find for each vector the best unit of the groups it is near to.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
    near : IN int32 (n_rows, n_near)
    starts : IN int64 (n_groups + 1,)
        Group g holds the units from ``starts[g]`` on.
    units : IN float32 (n_units, dim)
    labels : OUT int64 (n_rows,)
    best : OUT float32 (n_rows,)
        The score with it.
    """
    for i in range(rows.shape[0]):
        best[i] = -np.inf
        for group in near[i]:
            for unit in range(starts[group], starts[group + 1]):
                score = dot(rows[i], units[unit])
                if score > best[i]:
                    best[i], labels[i] = score, unit


@fast_kernel
def second_of_groups(rows, near, starts, units, homes, pull, least_share, seconds):
    """Find for each vector a second unit, among those of the groups it is near to.

    With r and r′ what two units leave of a vector, the second is that of least
    ‖r′‖² + λ(r′ᵀr)²/‖r‖² (SOAR, Sun et al. 2023): it is near, and a query that the first one sees
    badly, because it lies off along r, is seen well by it.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
        Unit rows.
    near, starts : IN
        Of `nearest_of_groups`.
    units : IN float32 (n_units, dim)
        Of norm 1.
    homes : IN int64 (n_rows,)
        The unit of each vector.
    pull : IN float32
        λ.
    least_share : IN float32
        What a vector must score on its second unit, as a share of its score on the first.
    seconds : OUT int64 (n_rows,)
        The home where no other unit is near enough.
    """
    one = np.float32(1.0)
    for i in range(rows.shape[0]):
        home, least = homes[i], np.float32(np.inf)
        own = dot(rows[i], units[home])
        residual = one - own * own
        residual = residual if residual > _LEAST_RESIDUAL else _LEAST_RESIDUAL
        lowest = least_share * own
        lowest = lowest if lowest > np.float32(0.0) else np.float32(0.0)
        seconds[i] = home
        for group in near[i]:
            for unit in range(starts[group], starts[group + 1]):
                score = dot(rows[i], units[unit])
                left = one - score * score
                if unit == home or left >= least or score <= lowest:
                    continue
                # r′ᵀr, as x, the home h and the unit u tell: 1 − (xᵀh)² − xᵀu(xᵀu − xᵀh·hᵀu).
                along = residual - score * (score - own * dot(units[unit], units[home]))
                loss = left + pull * along * along / residual
                if loss < least:
                    least, seconds[i] = loss, unit
