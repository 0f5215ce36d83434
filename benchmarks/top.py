"""The k nearest: how many of them are found, and how fast, beside the scan and graphs.

Graphs are tuned on one half of the queries; all are judged and timed on the other. The oracle knows
the similarity of the k-th nearest, and searches the range from there on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.measure import print_table
from benchmarks.peers import CONTENDERS
from benchmarks.peers.top_k import TopK, TopKContender
from benchmarks.search import one_thread
from benchmarks.search_sets import search_set
from memvec import Index
from memvec.types import Float32Array, IntArray

KS = (1, 10, 100)
GRAPHS = ("hnswlib",)
ORACLE = "range above the k-th"
N_QUERIES, TIMED = 2000, 200
RECALL = 0.99
_BLOCK = 200
# A range that begins here has the k-th nearest in it, whatever its score was rounded to.
_BELOW = 1e-6

# Finds the nearest of the query of a number.
Top = Callable[[int], IntArray]


def run(
    name: str,
    data: str | None,
    n_vectors: int | None,
    rounds: int,
    cpu: int | None,
    graphs: Sequence[str] = GRAPHS,
    cpu_time: bool = False,
) -> None:
    """Print recall, mean and median time for each k."""
    asked = search_set(name, data, n_vectors, None, N_QUERIES)
    vectors, queries = asked.vectors, asked.queries(0.7)
    index = Index.build(vectors, progress=False)
    built = [_built(graph, vectors) for graph in graphs]
    rows = []
    for k in KS:
        nearest = _nearest(vectors, queries, k)
        tuning, judging = ((queries[half::2], nearest[half::2]) for half in (0, 1))
        with one_thread(cpu):
            efforts = {graph: _least_effort(graph, *tuning, k) for graph in built}
            contenders = {
                "memvec, miss_rate=0.01": _memvec(index, judging[0], k),
                ORACLE: _oracle(index, vectors, *judging),
                "BLAS scan": _scan(vectors, judging[0], k),
                **{
                    f"{graph.name}, effort {effort:g}": _graph(graph, judging[0], k, effort)
                    for graph, effort in efforts.items()
                },
            }
            rows += _rows(contenders, judging[1], k, rounds, cpu_time)
    title = f"The k nearest of {len(vectors):,} {asked.name}, {TIMED:,} queries, one thread"
    header = ["k", "contender", "recall", "mean ms", "median ms", "mean over the oracle's"]
    print_table(title, header, rows)


def _built(name: str, vectors: Float32Array) -> TopKContender:
    graph = CONTENDERS[name]()
    assert isinstance(graph, TopKContender)
    graph.timed_build(vectors, 0.7, 2)
    return graph


def _memvec(index: Index, queries: Float32Array, k: int) -> Top:
    return lambda i: np.asarray(index.search(queries[i], k=k, threads=1).ids[0])


def _oracle(index: Index, vectors: Float32Array, queries: Float32Array, nearest: IntArray) -> Top:
    scores = np.einsum("qkd,qd->qk", vectors[nearest[:TIMED]], queries[:TIMED])
    lowest = np.clip(scores.min(axis=1) - _BELOW, _BELOW, 1.0).tolist()

    def top(i: int) -> IntArray:
        found = index.range_search(queries[i], lowest[i % TIMED], shadow=0.0, threads=1)
        return np.asarray(found.ids)

    return top


def _scan(vectors: Float32Array, queries: Float32Array, k: int) -> Top:
    return lambda i: np.argpartition(-(vectors @ queries[i]), k)[:k]


def _graph(graph: TopKContender, queries: Float32Array, k: int, effort: float) -> Top:
    def top(i: int) -> IntArray:
        return graph.top(queries[i], k, effort)[0].astype(np.int64)

    return top


def _rows(
    contenders: dict[str, Top], nearest: IntArray, k: int, rounds: int, cpu_time: bool
) -> list[list[str]]:
    recalls = {name: _recall(top, nearest[:TIMED]) for name, top in contenders.items()}
    times = {name: np.empty((rounds, TIMED)) for name in contenders}
    clock = time.process_time_ns if cpu_time else time.perf_counter_ns
    for turn in range(rounds):
        for name, top in contenders.items():
            for i in range(TIMED):
                started = clock()
                top(i)
                times[name][turn, i] = (clock() - started) / 1e6
    # What else ran on the machine added to some rounds: a query has the median of its rounds.
    of_queries = {name: np.median(taken, axis=0) for name, taken in times.items()}
    of_oracle = float(of_queries[ORACLE].mean())
    return [
        [
            f"{k}",
            name,
            f"{recalls[name]:.4f}",
            f"{taken.mean():.3f}",
            f"{np.median(taken):.3f}",
            f"{taken.mean() / of_oracle:.2f}",
        ]
        for name, taken in of_queries.items()
    ]


def _least_effort(graph: TopKContender, queries: Float32Array, nearest: IntArray, k: int) -> float:
    """Return the least effort of a graph that finds enough."""
    for effort in graph.efforts(k):
        graph.configure(TopK(k, effort))
        if _recall(_graph(graph, queries, k, effort), nearest) >= RECALL:
            return effort
    raise RuntimeError(f"{graph.name} finds less than {RECALL:.0%} of the {k} nearest")


def _recall(top: Top, nearest: IntArray) -> float:
    found = [len(np.intersect1d(top(i), best)) for i, best in enumerate(nearest)]
    return sum(found) / nearest.size


def _nearest(vectors: Float32Array, queries: Float32Array, k: int) -> IntArray:
    """Return the k nearest of each query, in no order."""
    blocks = [
        np.argpartition(-(queries[start : start + _BLOCK] @ vectors.T), k, axis=1)[:, :k]
        for start in range(0, len(queries), _BLOCK)
    ]
    return np.concatenate(blocks)
