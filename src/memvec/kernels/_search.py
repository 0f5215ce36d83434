"""What every search ends with: exact scores of members, and hits in order."""

from __future__ import annotations

import numpy as np

from memvec.kernels._bits import borrowed, lane_products, room
from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._scores import (
    canonical_score,
    dot,
    float32_slack,
    pair_scale,
    row_scale,
    scaled,
)

# A match is a pair whose canonical score reaches the similarity less this.
MATCH_SLACK = 1e-6
# What a search counts for each query: unit tests, units visited, members tested, codes tested,
# exact products.
N_COUNTS = 5
# Rows that are scored at a time.
_TOGETHER = 4
# Hits up to so many are put in order one by one.
_FEW_HITS = 32


@fast_kernel
def score_units(query, unit_vectors, scores):
    """Fill scores[u] = yᵀm of every unit.

    Parameters
    ----------
    query : IN float32 (dim,)
    unit_vectors : IN float32 (n_units, dim)
    scores : OUT float32 (n_units,)
    """
    for unit in range(unit_vectors.shape[0]):
        scores[unit] = dot(query, unit_vectors[unit])


@inner_kernel
def _keep_hit(score, key, similarity, ids, scores, count):
    """Append a member to the hits where its score is that of a match; return how many there are.

    Hits beyond the capacity of `ids` are counted and not written: the caller asks again with more.
    """
    if not score >= similarity - MATCH_SLACK:  # nor NaN, of a row that is damaged
        return count
    if count < ids.shape[0]:
        ids[count] = key
        scores[count] = score
    return count + 1


@inner_kernel
def keep_match(query, scale, vectors, scales, row, key, similarity, ids, scores, count):
    """Append a member to the hits where it matches; return how many there are.

    `query` is stored like the members, and `scale` is its `row_scale`. Float32 sorts out most
    members, in half the time: for tests that most members fail.
    """
    lowest = similarity - MATCH_SLACK - float32_slack(query.shape[0])
    factor = pair_scale(scale, vectors, scales, row)
    if np.float32(dot(query, vectors[row])) * np.float32(factor) < np.float32(lowest):
        return count
    score = scaled(canonical_score(query, vectors[row]), factor)
    return _keep_hit(score, key, similarity, ids, scores, count)


@fast_kernel
def keep_matches(query, scale, candidates, vectors, scales, keys, similarity, ids, scores, count):
    """Append the candidates that match to the hits; return how many there are.

    Four canonical scores at a time take little longer than four float32 products.

    Parameters
    ----------
    query : IN float64 (dim,)
        Its entries, stored like the vectors, as float64, which saves doing it for every row.
    scale : IN float64
        Its `row_scale`.
    candidates : IN int32 (n_candidates,)
        Rows of `vectors`.
    vectors, scales : IN
        Of `collect_matches`.
    keys : IN int64 (n_vectors,)
    similarity : IN float64
    ids, scores : OUT int64, float64 (capacity,)
    count : IN int
        How many hits there are already.
    """
    query, candidates = borrowed(query), borrowed(candidates)
    vectors, scales, keys = borrowed(vectors), borrowed(scales), borrowed(keys)
    ids, scores = borrowed(ids), borrowed(scores)
    n_candidates, dim = candidates.shape[0], np.int64(vectors.shape[1])
    whole = n_candidates - n_candidates % _TOGETHER
    for first in range(0, whole, _TOGETHER):
        rows = candidates[first : first + _TOGETHER]
        places = (rows[0] * dim, rows[1] * dim, rows[2] * dim, rows[3] * dim)
        found = lane_products(query, vectors, places)
        for i in range(_TOGETHER):
            score = scaled(found[i], pair_scale(scale, vectors, scales, rows[i]))
            count = _keep_hit(score, keys[rows[i]], similarity, ids, scores, count)
    for row in candidates[whole:]:
        [product] = lane_products(query, vectors, (row * dim,))
        score = scaled(product, pair_scale(scale, vectors, scales, row))
        count = _keep_hit(score, keys[row], similarity, ids, scores, count)
    return count


@inner_kernel
def is_allowed(row, keys, allowed):
    """Tell whether the member of a row may be a hit; all may where `allowed` is empty.

    Parameters
    ----------
    row : IN int
    keys : IN int64 (n_vectors,)
    allowed : IN bool (n_keys,) or (0,)
        By key.
    """
    return allowed.shape[0] == 0 or allowed[keys[row]]


@fast_kernel
def keep_allowed(candidates, keys, allowed):
    """Keep the rows that may be hits, in place; return how many are kept.

    Parameters
    ----------
    candidates : IN OUT int32 (n_candidates,)
    keys : IN int64 (n_vectors,)
    allowed : IN bool (n_keys,)
        By key; not empty.
    """
    count = 0
    for i in range(candidates.shape[0]):
        candidates[count] = candidates[i]
        if allowed[keys[candidates[i]]]:
            count += 1
    return count


@inner_kernel
def _sort(ids, scores, start, stop):
    """Order some hits in place, however they lie: each moves up until one before it is better.

    Of few hits, neighbours are compared; of more, first those that lie far apart (a Shell sort).
    """
    gap = stop - start if stop - start > _FEW_HITS else 2
    while gap > 1:
        gap = gap * 4 // 9 | 1  # odd, and close to the gaps of Tokuda
        for last in range(start + gap, stop):
            key, score, place = ids[last], scores[last], last
            while place >= start + gap and not (
                scores[place - gap] > score
                or (scores[place - gap] == score and ids[place - gap] < key)
            ):
                ids[place], scores[place] = ids[place - gap], scores[place - gap]
                place -= gap
            ids[place], scores[place] = key, score


@fast_kernel
def sort_hits(ids, scores, start, stop):
    """Order the hits from `start` to `stop` by falling score and then by id, in place.

    Hits beyond the capacity of `ids` are asked for again, and nothing is ordered. Scores are dealt
    out to as many bins of equal width as there are hits, and each bin is ordered by itself.
    """
    if stop > ids.shape[0]:
        return
    size, highest, lowest = stop - start, 0.0, 0.0
    if size > _FEW_HITS:
        highest, lowest = scores[start], scores[start]
        for i in range(start, stop):
            highest = scores[i] if scores[i] > highest else highest
            lowest = scores[i] if scores[i] < lowest else lowest
    if highest == lowest:
        _sort(ids, scores, start, stop)
        return
    bins, ends = room(size, np.int64), room(size + 1, np.int64)
    ends[:] = 0
    held_ids, held_scores = ids[start:stop].copy(), scores[start:stop].copy()
    a_bin = (size - 1) / (highest - lowest)
    for i in range(size):
        bins[i] = min(np.int64((highest - held_scores[i]) * a_bin), size - 1)
        ends[bins[i] + 1] += 1
    for i in range(size):
        ends[i + 1] += ends[i]
    for i in range(size):
        place = start + ends[bins[i]]
        ends[bins[i]] += 1
        ids[place], scores[place] = held_ids[i], held_scores[i]
    # Each bin has moved on to the beginning of the next.
    first = 0
    for i in range(size):
        last = ends[i]
        if last - first > 1:
            _sort(ids, scores, start + first, start + last)
        first = last


@fast_kernel
def collect_matches(
    query, vectors, scales, keys, offsets, selected, similarity, allowed, ids, scores
):
    """Collect the members of the selected units that match, in order; return how many.

    Parameters
    ----------
    query : IN (dim,)
        Stored like the vectors.
    vectors : IN float32, uint16 or int8 (n_vectors, dim)
        Stored rows; see `StoredRows`.
    scales : IN float64 (n_vectors,), or (0,) for float32
        1/‖row‖ of each.
    keys : IN int64 (n_vectors,)
    offsets : IN int64 (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    selected : IN int64 (n_selected,)
    similarity : IN float64
    allowed : IN bool (n_keys,) or (0,)
        Of `is_allowed`.
    ids : OUT int64 (n_members of the selected units,)
    scores : OUT float64, likewise
        Canonical scores.
    """
    count, scale = 0, row_scale(query)
    for unit in selected:
        for row in range(offsets[unit], offsets[unit + 1]):
            if is_allowed(row, keys, allowed):
                count = keep_match(
                    query, scale, vectors, scales, row, keys[row], similarity, ids, scores, count
                )
    sort_hits(ids, scores, 0, count)
    return count


@fast_kernel
def search_vectors(
    queries,
    tested,
    similarity,
    thresholds,
    unit_vectors,
    offsets,
    vectors,
    scales,
    keys,
    allowed,
    bounds,
    ids,
    scores,
    counts,
):
    """Search a block of queries by float32 memory vectors; return the number of hits.

    Parameters
    ----------
    queries : IN (n_queries, dim)
        Stored like the vectors.
    tested : IN float32 (n_queries, tested_dim)
        The queries as the unit test sees them: projected, or as unit rows.
    similarity : IN float64
    thresholds : IN float32 (n_tested,)
        Units from the last of them on are visited without a test.
    unit_vectors : IN float32 (n_tested, tested_dim)
    offsets : IN int64 (n_units + 1,)
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
    n_tested, count = thresholds.shape[0], 0
    for q in range(queries.shape[0]):
        query, visited, members, scored = queries[q], 0, 0, 0
        scale = row_scale(query)
        bounds[q] = count
        for unit in range(offsets.shape[0] - 1):
            if unit < n_tested and dot(tested[q], unit_vectors[unit]) < thresholds[unit]:
                continue
            visited += 1
            members += offsets[unit + 1] - offsets[unit]
            for row in range(offsets[unit], offsets[unit + 1]):
                if not is_allowed(row, keys, allowed):
                    continue
                scored += 1
                count = keep_match(
                    query, scale, vectors, scales, row, keys[row], similarity, ids, scores, count
                )
        sort_hits(ids, scores, bounds[q], count)
        counts[q, 0], counts[q, 1], counts[q, 2] = n_tested, visited, members
        counts[q, 3], counts[q, 4] = 0, scored
    bounds[queries.shape[0]] = count
    return count


@fast_kernel
def calibrate_vectors(queries, query_of, unit_of, unit_vectors, means, spreads, scores, slopes):
    """Fill what the unit test sees of given pairs: the slack a pair needs at α is α·slope − score.

    Parameters
    ----------
    queries : IN float32 (n_queries, dim)
    query_of, unit_of : IN int64 (n_pairs,)
    unit_vectors : IN float32 (n_tested, dim)
    means, spreads : IN float32 (n_tested,)
        What members score on their unit on average, and the standard deviation of a match's score.
    scores, slopes : OUT float32 (n_pairs, 1)
        A unit that is not tested has score ∞ and slope 0.
    """
    for pair in range(query_of.shape[0]):
        unit = unit_of[pair]
        if unit >= unit_vectors.shape[0]:
            scores[pair, 0], slopes[pair, 0] = np.inf, 0.0
        else:
            scores[pair, 0] = dot(queries[query_of[pair]], unit_vectors[unit]) / spreads[unit]
            slopes[pair, 0] = means[unit] / spreads[unit]
