"""The loops of a search: units, then members, then the canonical score."""

from __future__ import annotations

import numpy as np

from memvec.kernels._compile import fast_kernel, kernel
from memvec.kernels._scores import canonical_score, dot

# A match is a pair whose canonical score reaches the similarity less this.
MATCH_SLACK = 1e-6
# Float32 decides where it is further than this from the limit; its error is under 1e-6.
FLOAT32_SLACK = 1e-5


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


@fast_kernel
def select_units(query, unit_vectors, thresholds, selected):
    """Collect the units that pass their test, yᵀm ≥ τ; return how many.

    Parameters
    ----------
    query : IN float32 (dim,)
    unit_vectors : IN float32 (n_units, dim)
    thresholds : IN float32 (n_units,)
    selected : OUT int64 (n_units,)
    """
    count = 0
    for unit in range(unit_vectors.shape[0]):
        if dot(query, unit_vectors[unit]) >= thresholds[unit]:
            selected[count] = unit
            count += 1
    return count


@fast_kernel
def collect_matches(query, vectors, offsets, selected, similarity, rows, scores):
    """Collect the members of the selected units that match; return how many.

    Parameters
    ----------
    query : IN float32 (dim,)
    vectors : IN float32 (n_vectors, dim)
    offsets : IN int64 (n_units + 1,)
        Unit u holds the rows from ``offsets[u]`` to ``offsets[u + 1]``.
    selected : IN int64 (n_selected,)
    similarity : IN float64
    rows : OUT int64 (n_members of the selected units,)
    scores : OUT float64, likewise
        Canonical scores.
    """
    limit = similarity - MATCH_SLACK
    worth = np.float32(similarity - FLOAT32_SLACK)
    count = 0
    for unit in selected:
        for row in range(offsets[unit], offsets[unit + 1]):
            if dot(query, vectors[row]) >= worth:
                score = canonical_score(query, vectors[row])
                if score >= limit:
                    rows[count] = row
                    scores[count] = score
                    count += 1
    return count


@kernel
def _insert(row, key, score, rows, keys, scores, filled):
    """Put a row at its place in lists ordered by falling score, then by key; drop the last."""
    place = filled if filled < rows.shape[0] else rows.shape[0] - 1
    while place > 0:
        above = place - 1
        if scores[above] > score or (scores[above] == score and keys[above] < key):
            break
        rows[place], keys[place], scores[place] = rows[above], keys[above], scores[above]
        place = above
    rows[place], keys[place], scores[place] = row, key, score


@fast_kernel
def collect_best(query, vectors, keys, offsets, units, potentials, rows, best_keys, scores):
    """Collect the best members, visiting units in order until none left can hold a better one.

    Parameters
    ----------
    query : IN float32 (dim,)
    vectors : IN float32 (n_vectors, dim)
    keys : IN int64 (n_vectors,)
        Equal scores are ordered by key.
    offsets : IN int64 (n_units + 1,)
    units : IN int64 (n_selected,)
        The units to visit, the most promising first.
    potentials : IN float64 (n_selected,)
        The highest similarity that each of them may hold, falling.
    rows, best_keys : OUT int64 (k,)
    scores : OUT float64 (k,)
        Canonical scores, falling.

    Returns
    -------
    (found, visited, scored) : how many of the k were found, units visited and members scored.
    """
    k = rows.shape[0]
    found = visited = scored = 0
    for position in range(units.shape[0]):
        if found == k and scores[k - 1] > potentials[position] + FLOAT32_SLACK:
            break
        visited += 1
        unit = units[position]
        for row in range(offsets[unit], offsets[unit + 1]):
            scored += 1
            value = dot(query, vectors[row])
            if found == k and value < scores[k - 1] - FLOAT32_SLACK:
                continue
            score = canonical_score(query, vectors[row])
            key = keys[row]
            if found == k and (
                score < scores[k - 1] or (score == scores[k - 1] and key > best_keys[k - 1])
            ):
                continue
            _insert(row, key, score, rows, best_keys, scores, found)
            found = min(found + 1, k)
    return found, visited, scored
