"""Groups of near-duplicates, from pairs that come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from memvec.kernels import blocks
from memvec.matches import Matches
from memvec.progress import progress_bar
from memvec.types import IntArray

#: What makes a group: a chain of similar pairs, or a centre that all are similar to.
Grouping = Literal["components", "star"]


class Components:
    """Connected components of a graph whose edges come in blocks, and are not kept.

    Parameters
    ----------
    parents : ndarray of shape (n_nodes,)
        The numbers of the nodes, from 0; it is written to, and may be a mapped file.
    """

    def __init__(self, parents: IntArray) -> None:
        self._parent = parents

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


def grouped(labels: IntArray) -> list[IntArray]:
    """Return the members of each label that several nodes share, by rising label."""
    _, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
    # Nearly all nodes are alone, and leave before anything is done for each.
    shared = np.flatnonzero(counts[label] > 1)
    order = shared[np.argsort(labels[shared], kind="stable")]
    if not len(order):
        return []
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def star_labels(
    ranks: IntArray, near: Callable[[IntArray], Matches], at_once: int, progress: bool | None
) -> tuple[IntArray, int]:
    """Return of each node the centre that it belongs to, and how many pairs that took.

    Nodes become centres in the order of their ranks, unless a centre before has taken them.

    Parameters
    ----------
    ranks : ndarray of shape (n_nodes,)
        The lowest for the node that becomes a centre before all others.
    near : callable
        Returns which nodes some nodes are near.
    at_once : int
        How many nodes that is asked of at the same time.
    """
    labels, n_pairs = np.full(len(ranks), -1), 0
    order = np.argsort(ranks)
    with progress_bar("grouping", len(order), progress) as advance:
        for start, stop in blocks(len(order), at_once):
            some = order[start:stop]
            some = some[labels[some] < 0]
            n_pairs += _cover(labels, some, near(some))
            advance(stop - start)
    return labels, n_pairs


def _cover(labels: IntArray, centres: IntArray, found: Matches) -> int:
    """Let each centre that is free still take what it found and is free; count the pairs."""
    n_pairs = 0
    for centre, row in zip(centres.tolist(), found, strict=True):
        if labels[centre] < 0:
            labels[centre] = centre
            taken = row.ids[labels[row.ids] < 0]
            labels[taken] = centre
            n_pairs += len(taken)
    return n_pairs
