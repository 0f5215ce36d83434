"""Spherical k-means against FAISS, and what batches and two steps save and lose."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np

from benchmarks.data import sentence_vectors
from benchmarks.measure import interleaved, print_table, spread
from memvec.assignment import (
    Assignment,
    batch_assignment,
    kmeans_assignment,
    two_step_assignment,
)
from memvec.constructions import memory_vectors
from memvec.evaluation import exact_range
from memvec.kernels import default_threads
from memvec.matches import Matches
from memvec.types import Float32Array, IntArray

N_QUERIES, UNIT_SIZE, ITERATIONS = 2000, 10, 10
N_BATCHES = 10
SIMILARITY, SHARE_FOUND = 0.7, 0.99


def run(data: str | None, n_vectors: int, rounds: int) -> None:
    """Print both tables."""
    vectors, name = sentence_vectors(data)
    order = np.random.default_rng(0).permutation(len(vectors))
    queries = vectors[order[:N_QUERIES]]
    vectors = vectors[order[N_QUERIES : N_QUERIES + n_vectors]]
    _against_faiss(vectors, name, rounds)
    _quality(vectors, queries, name)


def _against_faiss(vectors: Float32Array, name: str, rounds: int) -> None:
    import faiss

    faiss.omp_set_num_threads(default_threads())
    n_units = len(vectors) // UNIT_SIZE
    objectives: dict[str, float] = {}

    def theirs() -> None:
        kmeans = faiss.Kmeans(
            vectors.shape[1],
            n_units,
            niter=ITERATIONS,
            spherical=True,
            min_points_per_centroid=1,
            max_points_per_centroid=len(vectors),
        )
        kmeans.train(vectors)
        objectives["faiss.Kmeans(spherical=True)"] = float(kmeans.obj[-1]) / len(vectors)

    def ours(construction: str, normalised: bool) -> Callable[[], None]:
        def work() -> None:
            found = kmeans_assignment(
                vectors,
                UNIT_SIZE,
                construction=construction,  # type: ignore[arg-type]
                normalised=normalised,
                iterations=ITERATIONS,
            )
            label = construction + "+norm" * normalised
            objectives[label] = _mean_cosine(vectors, found)

        return work

    rules = {
        "sum": ours("sum", False),
        "sum+norm": ours("sum", True),
        "pinv": ours("pinv", False),
        "pinv+norm": ours("pinv", True),
    }
    kmeans_assignment(vectors[:1000], UNIT_SIZE)
    seconds = interleaved({"faiss.Kmeans(spherical=True)": theirs, **rules}, rounds)
    base = statistics.median(seconds["faiss.Kmeans(spherical=True)"])
    rows = []
    for rule, values in seconds.items():
        own_sum = statistics.median(seconds.get("sum" + rule.removeprefix("pinv"), values))
        ratio = statistics.median(values) / own_sum if rule.startswith("pinv") else None
        rows.append(
            [
                rule,
                spread(values, 1),
                f"{statistics.median(values) / base:.2f}",
                f"{ratio:.2f}" if ratio else "",
                f"{objectives[rule]:.4f}",
            ]
        )
    print_table(
        f"k-means, {len(vectors):,} × {vectors.shape[1]} {name} into {n_units:,} units, "
        f"{ITERATIONS} rounds, {default_threads()} threads",
        ["rule", "seconds", "over FAISS", "over its own sum", "mean cosine to the centroid"],
        rows,
    )


def _mean_cosine(vectors: Float32Array, found: Assignment) -> float:
    centroids = memory_vectors(
        vectors, found.offsets, order=found.order, construction="sum", normalised=True
    )
    return float(np.einsum("ij,ij->i", vectors, centroids[found.labels]).mean())


def _quality(vectors: Float32Array, queries: Float32Array, name: str) -> None:
    batch = len(vectors) // N_BATCHES
    methods: dict[str, Callable[[], Assignment]] = {
        "full": lambda: kmeans_assignment(vectors, UNIT_SIZE, normalised=True),
        "two steps": lambda: two_step_assignment(vectors, UNIT_SIZE, normalised=True),
        f"batches of {batch:,}": lambda: batch_assignment(
            vectors, UNIT_SIZE, batch, normalised=True
        ),
    }
    truth = exact_range(vectors, queries, SIMILARITY)
    rows = []
    for method, assign in methods.items():
        result: list[Assignment] = []
        seconds = interleaved({method: lambda: result.append(assign())}, 1)[method]  # noqa: B023
        found = result[0]
        visited = _units_needed(vectors, queries, truth, found)
        rows.append(
            [
                method,
                f"{seconds[0]:.1f}",
                f"{_mean_cosine(vectors, found):.4f}",
                f"{found.imbalance:.2f}",
                f"{visited:,}",
                f"{1 / UNIT_SIZE + visited / found.n_units:.4f}",
            ]
        )
    print_table(
        f"pinv+norm k-means at once, in two steps, in batches; {len(vectors):,} {name}, "
        f"{SHARE_FOUND:.0%} of matches at {SIMILARITY} found",
        ["assignment", "seconds", "mean cosine", "imbalance", "units to visit", "cost ratio"],
        rows,
    )


def _units_needed(
    vectors: Float32Array, queries: Float32Array, truth: Matches, found: Assignment
) -> int:
    """Return how many of the best units must be visited to find the wanted share of matches."""
    unit_vectors = memory_vectors(vectors, found.offsets, order=found.order)
    ranks: list[IntArray] = []
    weights: list[np.ndarray] = []
    for query, row in zip(queries, truth, strict=True):
        if len(row.ids):
            scores = unit_vectors @ query
            own = scores[found.labels[row.ids]]
            ranks.append((scores[np.newaxis, :] > own[:, np.newaxis]).sum(axis=1))
            weights.append(np.full(len(own), 1 / len(own)))
    rank, weight = np.concatenate(ranks), np.concatenate(weights)
    order = np.argsort(rank)
    reached = np.cumsum(weight[order]) / weight.sum()
    return int(rank[order][np.searchsorted(reached, SHARE_FOUND)]) + 1
