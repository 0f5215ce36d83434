"""DBSCAN through the graph of an index: beside scikit-learn's own, and on more rows.

scikit-learn compares all rows with each other for cosines, so only the smaller set is compared.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_matrix
from sklearn.cluster import DBSCAN
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import RadiusNeighborsTransformer

from benchmarks.data import sentence_vectors, structured_vectors
from benchmarks.measure import print_table
from memvec.guarantee import Guarantee
from memvec.integrations.sklearn import RangeNeighborsTransformer
from memvec.types import Float32Array, IntArray

MIN_SAMPLES = 5
_COMPARED: tuple[Guarantee, ...] = ("expected", "exact")


def run(data: str | None, n_compared: int, n_vectors: int, radius: float) -> None:
    """Print both tables."""
    vectors, name = sentence_vectors(data)
    drawn = np.random.default_rng(0).permutation(len(vectors))[:n_compared]
    compare(vectors[drawn], name, radius)
    cluster_many(structured_vectors(n_vectors, vectors.shape[1]), radius)


def compare(vectors: Float32Array, name: str, radius: float) -> None:
    """Cluster with both graphs, and compare graphs and labels."""
    theirs, their_times = _timed(
        lambda: RadiusNeighborsTransformer(radius=radius, metric="cosine").fit_transform(vectors)
    )
    wanted = _labels(theirs, radius)
    rows = [["scikit-learn", their_times, f"{theirs.nnz:,}", f"{wanted.max() + 1:,}", "", ""]]
    for guarantee in _COMPARED:
        graph, times = _timed(partial(_graph, vectors, radius, guarantee))
        labels = _labels(graph, radius)
        missed = f"{(theirs.nnz - graph.nnz) / theirs.nnz:.2%} missed"
        alike = f"{adjusted_rand_score(wanted, labels):.5f}", f"{n_other_labels(wanted, labels):,}"
        entries = f"{graph.nnz:,} ({missed})"
        rows.append([f"memvec, {guarantee}", times, entries, f"{labels.max() + 1:,}", *alike])
    header = [
        "graph",
        "seconds (CPU)",
        "entries",
        "clusters",
        "adjusted Rand index",
        "other labels",
    ]
    title = f"DBSCAN, {len(vectors):,} × {vectors.shape[1]}, {name}, radius {radius:g}"
    print_table(title, header, rows, "Seconds are those of the graph, fit included.")


def cluster_many(vectors: Float32Array, radius: float) -> None:
    """Cluster with our graph alone."""
    graph, graph_times = _timed(lambda: _graph(vectors, radius))
    labels, cluster_times = _timed(lambda: _labels(graph, radius))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    clusters, noise = f"{labels.max() + 1:,}", f"{np.mean(labels < 0):.1%}"
    row = [graph_times, cluster_times, f"{graph.nnz:,}", clusters, noise, f"{peak:.1f}"]
    header = ["graph, s (CPU)", "DBSCAN, s (CPU)", "entries", "clusters", "noise", "peak, GB"]
    size = f"{len(vectors):,} × {vectors.shape[1]}"
    title = f"DBSCAN, {size} vectors like sentence embeddings, radius {radius:g}"
    print_table(title, header, [row], "The peak is that of the process, vectors included.")


def n_other_labels(wanted: IntArray, labels: IntArray) -> int:
    """Return how many rows have another label, with clusters named so that fewest do."""
    table = coo_matrix((np.ones(len(labels)), (wanted + 1, labels + 1))).toarray()
    noise, clusters = table[0, 0], table[1:, 1:]
    return int(len(labels) - noise - clusters[linear_sum_assignment(-clusters)].sum())


def _graph(vectors: Float32Array, radius: float, guarantee: Guarantee = "expected") -> Any:
    return RangeNeighborsTransformer(radius=radius, guarantee=guarantee).fit_transform(vectors)


def _labels(graph: Any, radius: float) -> IntArray:
    clusters = DBSCAN(eps=radius, min_samples=MIN_SAMPLES, metric="precomputed")
    return clusters.fit_predict(graph)  # type: ignore[no-any-return]


def _timed(work: Callable[[], Any]) -> tuple[Any, str]:
    started, cpu_started = time.perf_counter(), time.process_time()
    done = work()
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    return done, f"{seconds:.1f} ({cpu_seconds:.1f})"
