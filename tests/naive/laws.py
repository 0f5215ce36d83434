"""Twins and simulations of the theory room."""

import numpy as np
from scipy import optimize, special


def sphere(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def cap(rng, count, dim, eta):
    """Unit vectors with first coordinate > eta, kept out of uniform ones."""
    kept = np.empty((0, dim))
    while len(kept) < count:
        rows = sphere(rng, 4 * count, dim)
        kept = np.concatenate([kept, rows[rows[:, 0] > eta]])
    return kept[:count]


def memory_vector(rows, construction):
    if construction == "sum":
        return rows.sum(axis=0)
    return rows.T @ np.linalg.solve(rows @ rows.T, np.ones(len(rows)))


def related_query(rng, row, alpha):
    """One query at cosine alpha with the row, uniform otherwise."""
    noise = rng.standard_normal(row.size)
    noise -= (noise @ row) * row
    return alpha * row + np.sqrt(1 - alpha**2) * noise / np.linalg.norm(noise)


def tail(score, radius, dim):
    """P(S >= s) for a uniform vector against a vector of this norm."""
    score, radius = np.broadcast_arrays(np.asarray(score, dtype=float), radius)
    cosine = np.clip(np.abs(score) / np.maximum(radius, 1e-300), 0, 1)
    share = special.betainc((dim - 1) / 2, 0.5, 1 - cosine**2) / 2
    return np.where(score >= 0, share, 1 - share)


class Units:
    """Many simulated units of one size, and their error rates.

    The rates are averages of exact conditional probabilities: given m, a uniform query passes with
    `tail`; given the other members, so does a related one (sum); given m and the member, the noise
    is uniform in the d-1 dimensions orthogonal to the member (pinv).
    """

    def __init__(self, rng, construction, size, dim, count):
        self.construction, self.dim, self.count = construction, dim, count
        self.norms = np.empty(count)
        self.rests = np.empty((count, size))
        for i in range(count):
            rows = sphere(rng, size, dim)
            m = memory_vector(rows, construction)
            self.norms[i] = np.linalg.norm(m)
            if construction == "sum":
                self.rests[i] = np.linalg.norm(m - rows, axis=1)
            else:
                self.rests[i] = np.sqrt(max(m @ m - 1, 0))

    def false_negatives(self, threshold, alpha):
        if self.construction == "sum":
            return tail(alpha - threshold, self.rests, self.dim).mean(axis=1)
        scale = np.sqrt(1 - alpha**2) * self.rests
        return tail(alpha - threshold, scale, self.dim - 1).mean(axis=1)

    def false_positives(self, threshold):
        return tail(threshold, self.norms, self.dim)

    def threshold(self, alpha, rate):
        def excess(value):
            return self.false_negatives(value, alpha).mean() - rate

        return optimize.brentq(excess, alpha - 3, alpha)


def sum_cap_terms(rng, size, dim, alpha, eta, count, draw=cap):
    """The four random terms of the sum score in a cap, one row a simulated unit and query."""
    beta = np.sqrt(1 - alpha**2)
    terms = np.empty((count, 4))
    for i in range(count):
        rows = draw(rng, size, dim, eta)
        along, across = rows[:, 0], rows.copy()
        across[:, 0] = 0
        noise = (related_query(rng, rows[0], alpha) - alpha * rows[0]) / beta
        rest = rows[1:].sum(axis=0)
        residual = across[1:].sum(axis=0)
        terms[i] = (
            alpha * along[0] * along[1:].sum(),
            alpha * across[0] @ residual,
            beta * noise[0] * rest[0],
            beta * noise[1:] @ residual[1:],
        )
    return terms


def mean_and_error(values):
    values = np.asarray(values)
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def variance_and_error(values):
    squares = (np.asarray(values) - np.mean(values)) ** 2
    return mean_and_error(squares)
