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
