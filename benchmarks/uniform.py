"""Uniform vectors against the scan: the paper's own setting, 1M × 1024, at five similarities.

Each query is planted at a cosine of one stored vector, and judged by whether that vector is found:
nothing else is near in so many dimensions. Queries and scans take turns on one thread; a batch of a
thousand queries on two threads is compared with a matrix product in blocks on two threads.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import planted_queries, uniform_vectors
from benchmarks.measure import print_table
from benchmarks.search import one_thread
from memvec import Index, IndexConfig
from memvec.types import Float32Array

SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
N_JUDGED, QUERIES_A_ROUND = 3000, 100
BATCH, BATCH_THREADS, BATCH_ROUNDS = 1000, 2, 3
# Rows of a block of the matrix product: its scores stay in the cache until they are compared.
PRODUCT_ROWS = 2048
# Rounding may take a planted query a little below its cosine.
ROUNDING = 1e-5


def run(
    n_vectors: int,
    dim: int,
    rounds: int,
    codes: str,
    similarities: Sequence[float] = SIMILARITIES,
    cpu: int | None = None,
) -> None:
    """Print microseconds, misses and the ratio to the scan for each similarity."""
    vectors = uniform_vectors(n_vectors, dim)
    rows = [_row(vectors, similarity, rounds, codes, cpu) for similarity in similarities]
    print_table(
        f"Uniform vectors, {n_vectors:,} × {dim}, 1 % asked, codes {codes!r}, one thread",
        [
            "similarity",
            "unit size",
            "µs a query",
            "99th percentile",
            "scan ms",
            "× scan",
            "missed",
            f"batch of {BATCH}, {BATCH_THREADS} threads: µs a query",
            "× matrix product",
        ],
        rows,
    )


def _row(
    vectors: Float32Array, similarity: float, rounds: int, codes: str, cpu: int | None
) -> list[str]:
    # Uniform vectors have no matches to calibrate on, so nothing is kept out for it.
    config = IndexConfig(reserve=0, codes=codes)  # type: ignore[arg-type]
    index = Index.build(vectors, similarity=similarity, config=config, progress=False)
    queries = planted_queries(vectors, similarity, N_JUDGED)
    asked = similarity - ROUNDING
    found = index.range_search(queries, asked).counts > 0
    scans, searches = [], []
    with one_thread(cpu):
        for start in range(0, rounds * QUERIES_A_ROUND, QUERIES_A_ROUND):
            scans.append(_seconds(lambda: vectors @ queries[0]))
            for query in queries[start : start + QUERIES_A_ROUND]:
                searches.append(_seconds(lambda: index.range_search(query, asked, threads=1)))  # noqa: B023
    scan, search = statistics.median(scans), statistics.median(searches)
    batch, product = _batch_seconds(index, vectors, queries[:BATCH], asked)
    missed, error = 1 - found.mean(), np.sqrt(found.mean() * (1 - found.mean()) / N_JUDGED)
    return [
        f"{similarity}",
        f"{index.config.unit_size}",
        f"{1e6 * search:.0f}",
        f"{1e6 * np.quantile(searches, 0.99):.0f}",
        f"{1e3 * scan:.0f}",
        f"{scan / search:.0f}",
        f"{missed:.2%} ± {error:.2%}",
        f"{1e6 * batch / BATCH:.0f}",
        f"{product / batch:.0f}",
    ]


def _batch_seconds(
    index: Index, vectors: Float32Array, queries: Float32Array, similarity: float
) -> tuple[float, float]:
    """Return the median seconds of a batch by the index and by a matrix product, in turns."""
    searches, products = [], []
    with threadpool_limits(BATCH_THREADS):
        for _ in range(BATCH_ROUNDS):
            searches.append(
                _seconds(lambda: index.range_search(queries, similarity, threads=BATCH_THREADS))
            )
            products.append(_seconds(lambda: _matches_by_product(vectors, queries, similarity)))
    return statistics.median(searches), statistics.median(products)


def _matches_by_product(vectors: Float32Array, queries: Float32Array, similarity: float) -> int:
    """Return how many pairs match, by a product over everything."""
    limit = np.float32(similarity)
    return sum(
        int(np.count_nonzero(vectors[start : start + PRODUCT_ROWS] @ queries.T >= limit))
        for start in range(0, len(vectors), PRODUCT_ROWS)
    )


def _seconds(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started
