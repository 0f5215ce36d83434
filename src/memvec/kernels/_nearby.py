"""Units near a vector, without a look at all of them: those of the groups it is nearest to."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import as_bits, room
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._nearest import highest_score, sortable
from memvec.kernels._products import ROWS, UNITS, products
from memvec.kernels._scores import dot

# A vector that lies on its unit has no residual; this much is taken for one.
_LEAST_RESIDUAL = np.float32(1e-6)


@fast_kernel
def _by_group(near, n_groups):
    """Return which rows are near to each group, group by group, and where those of each begin."""
    n_rows, n_near = near.shape
    starts, ends = room(n_groups + 1, np.int64), room(n_groups, np.int64)
    starts[:] = 0
    for i in range(n_rows):
        for place in range(n_near):
            starts[near[i, place] + 1] += 1
    for group in range(n_groups):
        ends[group] = starts[group]
        starts[group + 1] += starts[group]
    listed = room(n_rows * n_near, np.int64)
    for i in range(n_rows):
        for place in range(n_near):
            group = near[i, place]
            # A row may name a group twice.
            if ends[group] == starts[group] or listed[ends[group] - 1] != i:
                listed[ends[group]] = i
                ends[group] += 1
    return listed, starts, ends


@inner_kernel
def _keep_highest(scores, first, found, kept):
    """Put the highest of a run of scores among those kept, in falling order; earlier ones stay."""
    last = kept.shape[0] - 1
    if highest_score(scores) <= kept[last]:
        return
    for j in range(scores.shape[0]):
        value = sortable(scores[j])
        if value > kept[last]:
            place = last
            while place > 0 and value > kept[place - 1]:
                kept[place], found[place] = kept[place - 1], found[place - 1]
                place -= 1
            kept[place], found[place] = value, first + j


@fast_kernel
def nearest_of_groups(rows, near, starts, units, found, scores):
    """Find for each vector the best units of the groups it is near to.

    Vectors that are near to one group meet its units together.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
    near : IN int32 (n_rows, n_near)
    starts : IN int64 (n_groups + 1,)
        Group g holds the units from ``starts[g]`` on.
    units : IN float32 (n_units, dim)
    found : OUT int32 (n_rows, n_best)
        The best units, best first, equal ones in rising order; −1 where there are fewer.
    scores : OUT float32 (n_rows, n_best)
        The scores with them; −∞ where there are fewer.
    """
    listed, first_of, end_of = _by_group(near, starts.shape[0] - 1)
    product = room((ROWS, UNITS), np.float32)
    bits, kept = as_bits(product), as_bits(scores)
    found[:] = np.int32(-1)
    scores[:] = np.float32(-np.inf)
    for i in range(kept.shape[0]):
        for place in range(kept.shape[1]):
            kept[i, place] = sortable(kept[i, place])
    for group in range(starts.shape[0] - 1):
        for start in range(first_of[group], end_of[group], ROWS):
            some = listed[start : min(start + ROWS, end_of[group])]
            for first in range(starts[group], starts[group + 1], UNITS):
                last = min(first + UNITS, starts[group + 1])
                products(rows, some, units[first:last], product)
                for i in range(some.shape[0]):
                    row = some[i]
                    _keep_highest(bits[i, : last - first], first, found[row], kept[row])
    for i in range(kept.shape[0]):
        for place in range(kept.shape[1]):
            kept[i, place] = sortable(kept[i, place])


@inner_kernel
def _named(near, listed, is_listed):
    """List the units that some rows name, each once; return how many there are."""
    count = 0
    for i in range(near.shape[0]):
        for place in range(near.shape[1]):
            unit = near[i, place]
            if unit >= 0 and not is_listed[unit]:
                is_listed[unit] = True
                listed[count] = unit
                count += 1
    for place in range(count):
        is_listed[listed[place]] = False
    return count


@fast_kernel
def nearest_of_shared(rows, near, units, found, scores):
    """Find for each vector the best of the units that any of the vectors beside it names.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
        Those that lie beside each other belong together: 64 at a time share what they name.
    near : IN int32 (n_rows, n_near)
        The units that each names; −1 for none.
    units : IN float32 (n_units, dim)
    found, scores
        Of `nearest_of_groups`; of equal units the one named first comes first.
    """
    n_rows, n_near = near.shape
    product, gathered = room((ROWS, UNITS), np.float32), room((UNITS, units.shape[1]), np.float32)
    bits, kept = as_bits(product), as_bits(scores)
    every, listed = room(n_rows, np.int64), room(ROWS * n_near, np.int64)
    is_listed = room(units.shape[0], np.bool_)
    is_listed[:] = False
    found[:] = np.int32(-1)
    scores[:] = np.float32(-np.inf)
    for i in range(n_rows):
        every[i] = i
        for place in range(kept.shape[1]):
            kept[i, place] = sortable(kept[i, place])
    for start in range(0, n_rows, ROWS):
        some = every[start : start + ROWS]
        count = _named(near[start : start + ROWS], listed, is_listed)
        for first in range(0, count, UNITS):
            last = min(first + UNITS, count)
            for j in range(first, last):
                gathered[j - first] = units[listed[j]]
            products(rows, some, gathered[: last - first], product)
            for i in range(some.shape[0]):
                row = some[i]
                _keep_highest(bits[i, : last - first], first, found[row], kept[row])
        for i in range(some.shape[0]):
            row = some[i]
            for place in range(kept.shape[1]):
                kept[row, place] = sortable(kept[row, place])
                if found[row, place] >= 0:  # its place in the list
                    found[row, place] = listed[found[row, place]]


@fast_kernel
def best_of_named(rows, near, units, found, scores):
    """Find for each vector the best of the units that it names itself.

    Parameters
    ----------
    rows, near, units, found, scores
        Of `nearest_of_shared`; a vector may name a unit twice.
    """
    last = found.shape[1] - 1
    found[:] = np.int32(-1)
    scores[:] = np.float32(-np.inf)
    for i in range(rows.shape[0]):
        for named in range(near.shape[1]):
            unit, is_kept = near[i, named], False
            if unit < 0:
                continue
            score = dot(rows[i], units[unit])
            if score <= scores[i, last]:
                continue
            for place in range(last + 1):
                is_kept |= found[i, place] == unit
            if is_kept:
                continue
            place = last
            while place > 0 and score > scores[i, place - 1]:
                scores[i, place], found[i, place] = scores[i, place - 1], found[i, place - 1]
                place -= 1
            scores[i, place], found[i, place] = score, unit


@fast_kernel
def second_of_units(rows, near, units, homes, pull, least_share, seconds):
    """Find for each vector a second unit, among those near to it.

    With r and r′ what two units leave of a vector, the second is that of least
    ‖r′‖² + λ(r′ᵀr)²/‖r‖² (SOAR, Sun et al. 2023): it is near, and a query that the first one sees
    badly, because it lies off along r, is seen well by it.

    Parameters
    ----------
    rows : IN float32 (n_rows, dim)
        Unit rows.
    near : IN int32 (n_rows, n_near)
        Units, the nearest first; −1 for none.
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
        for place in range(near.shape[1]):
            unit = near[i, place]
            if unit < 0 or unit == home:
                continue
            score = dot(rows[i], units[unit])
            left = one - score * score
            if left >= least or score <= lowest:
                continue
            # r′ᵀr, as x, the home h and the unit u tell: 1 − (xᵀh)² − xᵀu(xᵀu − xᵀh·hᵀu).
            along = residual - score * (score - own * dot(units[unit], units[home]))
            loss = left + pull * along * along / residual
            if loss < least:
                least, seconds[i] = loss, unit
