"""Twins of the result: one list of (id, score) a query."""

import numpy as np


def in_order(pairs):
    """By falling score, rounded to float32, then by rising id."""
    rounded = [(int(name), float(np.float32(score))) for name, score in pairs]
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))


def merged(sources, n_queries):
    """What several sources find for the same queries."""
    return [in_order(pair for rows in sources for pair in rows[i]) for i in range(n_queries)]


def best(row, k):
    """The first k, and what is as good as the last of them."""
    return row if len(row) <= k else [pair for pair in row if pair[1] >= row[k - 1][1]]


def nearest_of_passing(scored, k, passes):
    """Whom one visit must find: of the k nearest, those that pass at the score of the k-th.

    Parameters
    ----------
    scored : list of (name, score), the best first
    k : int
    passes : callable
        Tells of a name and a similarity whether every stage passes it.
    """
    near = best(scored, k)
    last = scored[min(k, len(scored)) - 1][1]
    return [name for name, _ in near if passes(name, last)]
