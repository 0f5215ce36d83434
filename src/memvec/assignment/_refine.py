"""Rounds of k-means in which vectors may leave their cluster for one beside it."""

from __future__ import annotations

import numpy as np

from memvec.assignment._kmeans import UpdateRule, fill_empty_units
from memvec.assignment._near_groups import NearGroups
from memvec.assignment._result import Assignment
from memvec.progress import Advance
from memvec.types import Int32Array, IntArray

# Clusters that a vector tries in all rounds but the last: those move most vectors already, and the
# last round, which tries all, settles the others.
FEW_CLUSTERS = 12


def refine_units(
    found: Assignment,
    nearby: NearGroups,
    rule: UpdateRule,
    rounds: int,
    n_near: int,
    advance: Advance,
) -> tuple[IntArray, Int32Array]:
    """Let every vector try the units of the clusters it is nearest to.

    Parameters
    ----------
    found : Assignment
        With `group_offsets`: the units of each cluster.
    nearby : NearGroups
        The vectors, and the clusters each is nearest to.
    rule : UpdateRule
        What represents a unit.
    rounds : int
        How many are run.
    n_near : int
        How many of the best units to return.

    Returns
    -------
    labels : ndarray of shape (n_vectors,)
        The unit of each vector.
    near : ndarray of shape (n_vectors, n_near)
        The best units in the last round, best first; −1 where there are fewer.
    """
    assert found.group_offsets is not None
    labels = found.labels
    near = np.full((len(labels), n_near), -1, dtype=np.int32)
    for left in reversed(range(rounds)):
        state = Assignment(labels, found.n_units)
        units = rule.representatives(nearby.rows, state.offsets, state.order)
        n_best = 1 if left else n_near
        tried = nearby.nearest_few(FEW_CLUSTERS) if left else nearby
        near, scores = tried.best_units(units, found.group_offsets, n_best)
        labels = near[:, 0].astype(np.int64)
        fill_empty_units(labels, scores[:, 0], found.n_units)
        advance(len(labels))
    return labels, near
