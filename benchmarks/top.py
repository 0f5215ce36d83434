"""The k nearest: how many of them are found, and how fast, beside the scan and a graph.

The graph is tuned on one half of the queries; all are judged and timed on the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measure import interleaved, print_table, spread
from benchmarks.peers import CONTENDERS
from benchmarks.peers.top_k import TopK, TopKContender
from benchmarks.search import one_thread
from benchmarks.search_sets import search_set
from memvec import Index
from memvec.types import Float32Array, IntArray

KS = (1, 10, 100)
N_QUERIES, TIMED = 2000, 200
RECALL = 0.99
_BLOCK = 200

Top = Callable[[Float32Array], IntArray]


def run(name: str, data: str | None, n_vectors: int | None, rounds: int, cpu: int | None) -> None:
    """Print recall and milliseconds for each k."""
    asked = search_set(name, data, n_vectors, None, N_QUERIES)
    vectors, queries = asked.vectors, asked.queries(0.7)
    index = Index.build(vectors, progress=False)
    graph = CONTENDERS["hnswlib"]()
    assert isinstance(graph, TopKContender)
    graph.timed_build(vectors, 0.7, 2)
    rows = []
    for k in KS:
        nearest = _nearest(vectors, queries, k)
        tuning, judging = ((queries[half::2], nearest[half::2]) for half in (0, 1))
        contenders = {
            "memvec, miss_rate=0.01": lambda row, k=k: index.search(row, k=k, threads=1).ids,
            "BLAS scan": lambda row, k=k: np.argpartition(-(vectors @ row), k)[:k],
            **_tuned_graph(graph, *tuning, k),
        }
        with one_thread(cpu):
            rows += _rows(contenders, *judging, k, rounds)
    title = (
        f"The k nearest of {len(vectors):,} {asked.name}, {N_QUERIES // 2:,} queries, one thread"
    )
    print_table(title, ["k", "contender", "recall", "ms a query"], rows)


def _rows(
    contenders: dict[str, Top], queries: Float32Array, nearest: IntArray, k: int, rounds: int
) -> list[list[str]]:
    recalls = {name: _recall(top, queries, nearest) for name, top in contenders.items()}
    seconds = interleaved(
        {
            name: lambda top=top: [top(row) for row in queries[:TIMED]]
            for name, top in contenders.items()
        },
        rounds,
    )
    return [
        [f"{k}", name, f"{recalls[name]:.4f}", spread([1e3 * s / TIMED for s in times], 3)]
        for name, times in seconds.items()
    ]


def _tuned_graph(
    graph: TopKContender, queries: Float32Array, nearest: IntArray, k: int
) -> dict[str, Top]:
    """Return the graph with the least effort that finds enough, under the name of its setting."""
    for effort in graph.efforts(k):
        graph.configure(TopK(k, effort))

        def top(row: Float32Array, effort: float = effort) -> IntArray:
            return graph.top(row, k, effort)[0].astype(np.int64)

        if _recall(top, queries, nearest) >= RECALL:
            return {f"{graph.name}, ef={effort}": top}
    raise RuntimeError(f"{graph.name} finds less than {RECALL:.0%} of the {k} nearest")


def _recall(top: Top, queries: Float32Array, nearest: IntArray) -> float:
    found = [
        len(np.intersect1d(top(row), best)) for row, best in zip(queries, nearest, strict=True)
    ]
    return sum(found) / nearest.size


def _nearest(vectors: Float32Array, queries: Float32Array, k: int) -> IntArray:
    """Return the k nearest of each query, in no order."""
    blocks = [
        np.argpartition(-(queries[start : start + _BLOCK] @ vectors.T), k, axis=1)[:, :k]
        for start in range(0, len(queries), _BLOCK)
    ]
    return np.concatenate(blocks)
