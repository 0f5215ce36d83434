"""Rounds of k-means in which vectors may leave their cluster for one beside it."""

from __future__ import annotations

from memvec.assignment._kmeans import UpdateRule, fill_empty_units
from memvec.assignment._near_groups import NearGroups
from memvec.assignment._result import Assignment
from memvec.progress import Advance
from memvec.types import IntArray


def refine_units(
    found: Assignment,
    nearby: NearGroups,
    rule: UpdateRule,
    rounds: int,
    advance: Advance,
) -> IntArray:
    """Let every vector try the units of the clusters it is nearest to; return the labels.

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
    """
    assert found.group_offsets is not None
    labels = found.labels
    for _ in range(rounds):
        state = Assignment(labels, found.n_units)
        units = rule.representatives(nearby.rows, state.offsets, state.order)
        labels, best = nearby.best_units(units, found.group_offsets)
        fill_empty_units(labels, best, found.n_units)
        advance(len(labels))
    return labels
