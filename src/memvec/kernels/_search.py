"""What every search ends with: exact scores of members, and hits in order."""

from __future__ import annotations

import numpy as np

from memvec.kernels._compile import fast_kernel, inner_kernel
from memvec.kernels._scores import canonical_score, dot, float32_slack

# A match is a pair whose canonical score reaches the similarity less this.
MATCH_SLACK = 1e-6
# What a search counts for each query: unit tests, units visited, members tested, codes tested,
# exact products.
N_COUNTS = 5


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
def keep_match(query, vectors, row, key, similarity, ids, scores, count):
    """Append a member to the hits where it matches; return how many there are.

    Hits beyond the capacity of `ids` are counted and not written: the caller asks again with more.
    """
    lowest = similarity - MATCH_SLACK - float32_slack(query.shape[0])
    if dot(query, vectors[row]) >= np.float32(lowest):
        score = canonical_score(query, vectors[row])
        if score >= similarity - MATCH_SLACK:
            if count < ids.shape[0]:
                ids[count] = key
                scores[count] = score
            return count + 1
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
def _before(scores, ids, left, right):
    """Tell whether a hit comes before another: the higher score, then the lower id."""
    if scores[left] != scores[right]:
        return scores[left] > scores[right]
    return ids[left] < ids[right]


@fast_kernel
def sort_hits(ids, scores, start, stop):
    """Order the hits from `start` to `stop` by falling score and then by id, in place.

    Hits beyond the capacity of `ids` are asked for again, and nothing is ordered. It is a heap
    sort: first each root sinks, from the last to the first, then the first of the heap goes behind
    the rest of it, again and again.
    """
    if stop > ids.shape[0]:
        return
    size = stop - start
    half = size // 2
    ids, scores = ids[start:stop], scores[start:stop]
    for step in range(half + size - 1):
        root, left = half - 1 - step, size
        if step >= half:
            root, left = 0, size - 1 - (step - half)
            ids[0], ids[left] = ids[left], ids[0]
            scores[0], scores[left] = scores[left], scores[0]
        while 2 * root + 1 < left:
            child = 2 * root + 1
            if child + 1 < left and _before(scores, ids, child, child + 1):
                child += 1
            if not _before(scores, ids, root, child):
                break
            ids[root], ids[child] = ids[child], ids[root]
            scores[root], scores[child] = scores[child], scores[root]
            root = child


@fast_kernel
def collect_matches(query, vectors, keys, offsets, selected, similarity, allowed, ids, scores):
    """Collect the members of the selected units that match, in order; return how many.

    Parameters
    ----------
    query : IN float32 (dim,)
    vectors : IN float32 (n_vectors, dim)
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
    count = 0
    for unit in selected:
        for row in range(offsets[unit], offsets[unit + 1]):
            if is_allowed(row, keys, allowed):
                count = keep_match(query, vectors, row, keys[row], similarity, ids, scores, count)
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
    queries : IN float32 (n_queries, dim)
    tested : IN float32 (n_queries, tested_dim)
        The queries as the unit test sees them: projected, or as they are.
    similarity : IN float64
    thresholds : IN float32 (n_tested,)
        Units from the last of them on are visited without a test.
    unit_vectors : IN float32 (n_tested, tested_dim)
    offsets : IN int64 (n_units + 1,)
    vectors : IN float32 (n_vectors, dim)
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
                count = keep_match(query, vectors, row, keys[row], similarity, ids, scores, count)
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
