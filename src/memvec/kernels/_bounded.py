"""The search that misses nothing: a group, a unit or a member is left out only where it must be."""

from __future__ import annotations

import math

import numpy as np

from memvec.kernels._bits import room
from memvec.kernels._codes import WORD, disagreement, quantise_query
from memvec.kernels._compile import fast_kernel
from memvec.kernels._rotation import rotate
from memvec.kernels._scores import dot, row_scale
from memvec.kernels._search import is_allowed, keep_match, sort_hits

# Angles come from float32 sums; this is far more than their error, and loses next to nothing.
_ANGLE_SLACK = 1e-4
# A limit as low as this is passed by nearly every query: testing it costs more than it saves.
_TOO_LOW = 0.15


@fast_kernel
def _angle_of_levels(rotated, signs, low, high):
    """Return the angle between a rotated query and its levels with their signs."""
    product = energy = norm = 0.0
    for i in range(rotated.shape[0]):
        w, bit = i // WORD, np.uint64(i % WORD)
        level = np.float64((low[w] >> bit) & np.uint64(1)) + 2.0 * np.float64(
            (high[w] >> bit) & np.uint64(1)
        )
        value = np.float64(rotated[i])
        product += level * abs(value)
        energy += level * level
        norm += value * value
    cosine = product / math.sqrt(energy * norm + 1e-30)
    return math.acos(cosine if cosine < 1.0 else 1.0)


@fast_kernel
def search_bounded(
    queries,
    tested,
    similarity,
    angle,
    group_directions,
    group_limits,
    group_offsets,
    unit_directions,
    unit_limits,
    offsets,
    flips,
    steps,
    top,
    codes,
    code_cosines,
    largest_code_angle,
    vectors,
    scales,
    keys,
    allowed,
    bounds,
    ids,
    scores,
    counts,
):
    """Search a block of queries, missing nothing; return the number of hits.

    Angles on the sphere obey the triangle inequality. A unit whose members lie within γ of a
    direction holds no match where the query is further than γ + θ from it, θ the angle of the
    similarity. The signs of a rotated member are a direction, too, at a known angle from it.

    Parameters
    ----------
    queries : IN (n_queries, dim)
        Stored like the vectors.
    tested : IN float32 (n_queries, dim)
        The same as unit rows.
    similarity : IN float64
    angle : IN float64
        θ, of the lowest score that is a match.
    group_directions : IN float32 (n_groups, dim)
    group_limits : IN float32 (n_groups,)
        cos(γ + θ) of each group, less the rounding; a query below it matches none of its members.
    group_offsets : IN int64 (n_groups + 1,)
        Group g holds the units from ``group_offsets[g]`` on; one entry where there are no groups.
    unit_directions, unit_limits : IN, likewise
        Units beyond them are visited without a test.
    offsets : IN int64 (n_units + 1,)
    flips, steps, top : IN
        Of `rotate` and `quantise_query`.
    codes : IN uint64 (n_vectors, n_words)
        No rows where codes are of no use.
    code_cosines : IN float32 (n_vectors,)
        The cosine between a rotated member and the signs of its code.
    largest_code_angle : IN float64
        The largest angle of these.
    vectors, scales : IN
        Of `collect_matches`.
    keys : IN int64 (n_vectors,)
    allowed : IN bool (n_keys,) or (0,)
        Of `is_allowed`.
    bounds : OUT int64 (n_queries + 1,)
    ids : OUT int64 (capacity,)
    scores : OUT float64 (capacity,)
    counts : OUT int64 (n_queries, N_COUNTS)
    """
    n_units, n_tested = offsets.shape[0] - 1, unit_limits.shape[0]
    n_groups, n_words = group_limits.shape[0], codes.shape[1]
    padded = flips.shape[1]
    rotated, scratch = room(padded, np.float32), room(padded, np.float32)
    planes, totals = room((3, n_words), np.uint64), room((2, n_words), np.float32)
    # Unpacked, rows would not be known to be contiguous.
    signs, low, high, sums, squares = planes[0], planes[1], planes[2], totals[0], totals[1]
    passes = room(n_units, np.bool_)
    count = 0
    for q in range(queries.shape[0]):
        query, stored = tested[q], queries[q]
        own_scale = row_scale(stored)
        bounds[q] = count
        n_tests = n_visited = n_members = n_codes = n_exact = 0
        passes[:] = True
        for group in range(n_groups):
            if group_limits[group] > _TOO_LOW:
                n_tests += 1
                if dot(query, group_directions[group]) < group_limits[group]:
                    passes[group_offsets[group] : group_offsets[group + 1]] = False
        cosine = sine = scale = 0.0
        by_codes = False
        if codes.shape[0] > 0:
            rotate(query, flips, scratch, rotated)
            quantise_query(rotated, steps, top, signs, low, high, sums, squares)
            reach = angle + _angle_of_levels(rotated, signs, low, high) + _ANGLE_SLACK
            # Beyond a right angle, codes of unrelated members pass.
            by_codes = reach + largest_code_angle < 0.5 * math.pi
            cosine, sine = math.cos(reach), math.sin(reach)
            scale = math.sqrt(np.float64(squares[n_words - 1]) * padded)
        for unit in range(n_units):
            if not passes[unit]:
                continue
            if unit < n_tested and unit_limits[unit] > _TOO_LOW:
                n_tests += 1
                if dot(query, unit_directions[unit]) < unit_limits[unit]:
                    continue
            n_visited += 1
            n_members += offsets[unit + 1] - offsets[unit]
            for row in range(offsets[unit], offsets[unit + 1]):
                if not is_allowed(row, keys, allowed):
                    continue
                if by_codes:
                    n_codes += 1
                    p = disagreement(codes[row], signs, low, high)
                    near = np.float64(code_cosines[row])
                    limit = cosine * near - sine * math.sqrt(max(0.0, 1.0 - near * near))
                    if np.float64(sums[n_words - 1]) - 2.0 * p < scale * limit:
                        continue
                n_exact += 1
                count = keep_match(
                    stored,
                    own_scale,
                    vectors,
                    scales,
                    row,
                    keys[row],
                    similarity,
                    ids,
                    scores,
                    count,
                )
        sort_hits(ids, scores, bounds[q], count)
        counts[q, 0], counts[q, 1], counts[q, 2] = n_tests, n_visited, n_members
        counts[q, 3], counts[q, 4] = n_codes, n_exact
    bounds[queries.shape[0]] = count
    return count
