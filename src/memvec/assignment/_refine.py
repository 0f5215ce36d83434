"""Rounds of k-means in which vectors may leave their cluster for one beside it."""

from __future__ import annotations

import numpy as np

from memvec.assignment._kmeans import fill_empty_units
from memvec.assignment._nearest import NearestUnits
from memvec.assignment._result import Assignment
from memvec.constructions import Construction, memory_vectors
from memvec.progress import Advance
from memvec.types import Float32Array, IntArray

# Clusters whose units a vector tries, its own among them. On 113,659 embeddings in 256 clusters
# and units of 28, with noise like that of codes, two rounds left 8,300 members to visit at 0.7,
# with twelve clusters 9,200, and no round 10,100.
_NEAR_CLUSTERS = 24


def refine_units(
    rows: Float32Array,
    found: Assignment,
    construction: Construction,
    normalised: bool,
    rounds: int,
    threads: int | None,
    advance: Advance,
) -> IntArray:
    """Let every vector try the units of the clusters beside its own; return the labels.

    Parameters
    ----------
    rows : ndarray of shape (n_vectors, dim)
        Unit rows.
    found : Assignment
        With `group_offsets`: the units of each cluster.
    construction, normalised, rounds, threads
        As in :func:`two_step_assignment`.
    """
    assert found.group_offsets is not None
    starts = found.group_offsets
    cluster_of = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    nearest = NearestUnits(rows, threads)
    labels = found.labels
    for _ in range(rounds):
        units = _representatives(
            rows, Assignment(labels, found.n_units), construction, normalised, threads
        )
        clusters = Assignment(cluster_of[labels], len(starts) - 1)
        centroids = _representatives(rows, clusters, "sum", normalised=True, threads=threads)
        nearest.forget()
        inside = np.split(clusters.order, clusters.offsets[1:-1])
        for members, beside in zip(inside, _near_clusters(centroids), strict=True):
            tried = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in beside])
            nearest.try_units(members, units[tried], tried)
            advance(len(members))
        fill_empty_units(nearest, found.n_units)
        labels = nearest.labels.copy()
    return labels


def _representatives(
    rows: Float32Array,
    state: Assignment,
    construction: Construction,
    normalised: bool,
    threads: int | None,
) -> Float32Array:
    return memory_vectors(
        rows,
        state.offsets,
        order=state.order,
        construction=construction,
        normalised=normalised,
        threads=threads,
    )


def _near_clusters(centroids: Float32Array) -> list[IntArray]:
    """Return for each cluster the nearest ones, itself among them, in rising order."""
    n_near = min(_NEAR_CLUSTERS, len(centroids))
    scores = centroids @ centroids.T
    np.fill_diagonal(scores, np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n_near]
    return list(np.sort(order, axis=1))


__all__ = ["refine_units"]
