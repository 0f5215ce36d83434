"""Twins of constructions, assignment and the unit test."""

import numpy as np

from naive.scores import matches


def pinv_memory_vector(members, ridge=0.0, cut=1e-6):
    """X(XᵀX + ridge I)⁻¹1 on the eigenvectors of XᵀX whose eigenvalue is above the cut."""
    rows = np.asarray(members, dtype=np.float64)
    values, basis = np.linalg.eigh(rows @ rows.T)
    kept = values > cut * values.max()
    weights = basis[:, kept] @ ((basis[:, kept].T @ np.ones(len(rows))) / (values[kept] + ridge))
    return rows.T @ weights


def ridge_memory_vector(members, ridge):
    rows = np.asarray(members, dtype=np.float64)
    vector = rows.sum(axis=0) if np.isinf(ridge) else pinv_memory_vector(members, ridge)
    mean_score = (rows @ vector).mean()
    return vector / mean_score if mean_score > 1e-12 else vector


def memory_vector(members, construction, ridge=0.0, normalised=False):
    rows = np.asarray(members, dtype=np.float64)
    if construction == "sum":
        vector = rows.sum(axis=0)
    elif construction == "pinv":
        vector = pinv_memory_vector(members)
    else:
        vector = ridge_memory_vector(members, ridge)
    norm = np.linalg.norm(vector)
    return vector / norm if normalised and norm > 1e-12 else vector


def best_units(vectors, unit_vectors):
    """The highest score of each vector and all the units that reach it, up to rounding."""
    scores = vectors.astype(np.float64) @ unit_vectors.astype(np.float64).T
    best = scores.max(axis=1)
    return best, scores >= best[:, np.newaxis] - 1e-5 * np.abs(unit_vectors).sum(axis=1).max()


def units_of_groups(groups, starts):
    """The units of some groups, of which group g holds those from ``starts[g]`` on."""
    return [unit for group in groups for unit in range(starts[group], starts[group + 1])]


def units_of_those_beside(near, together):
    """The units that any of each so many rows names: one set for each row."""
    named = []
    for row in range(len(near)):
        first = row - row % together
        named.append(set(np.ravel(near[first : first + together]).tolist()) - {-1})
    return named


def nearest_by_bits(code, others, n_best):
    """The codes that differ from one in the fewest bits, and in how many; earlier ones first."""
    apart = [
        sum((int(x) ^ int(y)).bit_count() for x, y in zip(code, other, strict=True))
        for other in others
    ]
    nearest = sorted(range(len(others)), key=lambda place: (apart[place], place))[:n_best]
    return nearest, [apart[place] for place in nearest]


def second_losses(vector, units, home, pull, least_share):
    """SOAR's ‖r′‖² + λ(r′ᵀr)²/‖r‖² of every unit; infinity for the home and for units far off."""
    x, rows = vector.astype(np.float64), units.astype(np.float64)
    residuals = [x - (x @ unit) * unit for unit in rows]
    own = residuals[home]
    losses = [r @ r + pull * (r @ own) ** 2 / max(own @ own, 1e-6) for r in residuals]
    least = max(least_share * (x @ rows[home]), 0.0)
    out = [unit == home or x @ rows[unit] <= least for unit in range(len(rows))]
    return np.where(out, np.inf, losses)


def imbalance(labels, n_units):
    return n_units * sum((np.sum(labels == unit) / len(labels)) ** 2 for unit in range(n_units))


def unit_test(unit_vectors, query, thresholds):
    """The units whose memory vector scores at least the threshold."""
    scores = unit_vectors.astype(np.float64) @ query.astype(np.float64)
    return [
        u for u, (score, limit) in enumerate(zip(scores, thresholds, strict=True)) if score >= limit
    ]


def range_in_units(vectors, labels, unit_vectors, query, thresholds, similarity, allowed=None):
    """The paper's search: matches among the members of the units that pass."""
    passed = set(unit_test(unit_vectors, query, thresholds))
    found = matches(vectors, query, similarity, allowed=allowed)
    return [(row, score) for row, score in found if labels[row] in passed]
