"""Groups of near-duplicates, from pairs that come in blocks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from memvec.types import IntArray


class Components:
    """Connected components of a graph whose edges come in blocks, and are not kept.

    Parameters
    ----------
    n_nodes : int
        Nodes are numbered from 0.
    """

    def __init__(self, n_nodes: int) -> None:
        self._parent = np.arange(n_nodes)

    def join(self, left: IntArray, right: IntArray) -> None:
        """Take some edges in."""
        roots = np.stack([self._roots(left), self._roots(right)], axis=1)
        fresh = np.unique(np.sort(roots[roots[:, 0] != roots[:, 1]], axis=1), axis=0)
        for a, b in fresh.tolist():
            low, high = sorted((self._root(a), self._root(b)))
            self._parent[high] = low

    def labels(self) -> IntArray:
        """Return of each node the smallest of its component."""
        return self._roots(np.arange(len(self._parent)))

    def _root(self, node: int) -> int:
        while self._parent[node] != node:
            self._parent[node] = self._parent[self._parent[node]]
            node = int(self._parent[node])
        return node

    def _roots(self, nodes: IntArray) -> IntArray:
        """Follow all parents to their ends, and remember the ends."""
        roots = self._parent[nodes]
        while True:
            further = self._parent[roots]
            if np.array_equal(further, roots):
                self._parent[nodes] = roots
                return roots
            roots = further


def grouped(labels: IntArray) -> Iterable[IntArray]:
    """Yield the members of each label that several nodes share, by rising label."""
    order = np.argsort(labels, kind="stable")
    bounds = np.flatnonzero(np.diff(labels[order])) + 1
    return (members for members in np.split(order, bounds) if len(members) > 1)
