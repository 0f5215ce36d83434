"""Dense answers: what each match adds to the time of a query.

Clusters of known size lie among uniform vectors. The query at the middle of a cluster has all of
its members as matches; the query at a random place has none. Queries take turns on one thread and
are asked several times in a row, so that the rows of their matches are in cache.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.measure import print_table
from benchmarks.search import one_thread
from memvec import Index
from memvec.types import Float32Array

SIZES = (0, 30, 100, 300, 1000, 3000)
SIMILARITY, MEMBER_COSINE = 0.7, 0.8
ASKED_IN_A_ROW = 40


def clustered(n_vectors: int, dim: int, sizes: Sequence[int]) -> tuple[Float32Array, Float32Array]:
    """Return vectors with a cluster of each size among them, and the middles of the clusters."""
    rng = np.random.default_rng(0)
    middles = _unit(rng.standard_normal((len(sizes), dim)))
    parts = [_unit(rng.standard_normal((n_vectors, dim)))]
    for middle, size in zip(middles, sizes, strict=True):
        noise = _unit(rng.standard_normal((size, dim)))
        parts.append(_unit(MEMBER_COSINE * middle + (1 - MEMBER_COSINE**2) ** 0.5 * noise))
    vectors = np.concatenate(parts)
    return vectors[rng.permutation(len(vectors))], middles


def _unit(rows: np.ndarray) -> Float32Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def run(n_vectors: int, dim: int, rounds: int, cpu: int | None) -> None:
    """Print what a match costs, for queries with more and more of them."""
    vectors, queries = clustered(n_vectors, dim, SIZES)
    index = Index.build(vectors, similarity=SIMILARITY, progress=False)
    times: list[list[int]] = [[] for _ in SIZES]
    with one_thread(cpu):
        for _ in range(rounds):
            for query, own in zip(queries, times, strict=True):
                index.range_search(query, shadow=0.0, threads=1)
                own += [_nanoseconds(index, query) for _ in range(ASKED_IN_A_ROW)]
    hits = index.range_search(queries, shadow=0.0)
    none = np.median(times[0])
    print_table(
        f"Dense answers, {len(vectors):,} × {dim}, above {SIMILARITY}, one thread",
        ["matches", "members tested", "median µs", "99th percentile", "ns a match"],
        [
            [
                f"{matches}",
                f"{members:,}",
                f"{np.median(own) / 1e3:.1f}",
                f"{np.quantile(own, 0.99) / 1e3:.1f}",
                f"{(np.median(own) - none) / matches:.0f}" if matches else "–",
            ]
            for matches, members, own in zip(hits.counts, hits.spent[:, 2], times, strict=True)
        ],
    )


def _nanoseconds(index: Index, query: Float32Array) -> int:
    started = time.perf_counter_ns()
    index.range_search(query, shadow=0.0, threads=1)
    return time.perf_counter_ns() - started
