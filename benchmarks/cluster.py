"""Shards on Ray: latency beside a bare fan-out, batches, joins by workers, components by rounds.

Vectors like sentence embeddings. The bare fan-out asks as many actors, each of which returns at
once, and is measured in turn with the searches.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray

from benchmarks.cluster_joins import print_joins
from benchmarks.data import structured_vectors
from benchmarks.measure import print_table
from memvec import cluster
from memvec.types import Float32Array

_SIMILARITY = 0.7
_QUERIES = 300
_BATCH = 1000
_STORE_BYTES = 300_000_000


class _Bare:
    """An actor that returns what it is given."""

    def call(self, method: str, row: Float32Array) -> int:
        return len(row)


def run(
    shards: Sequence[int],
    vectors: int,
    dim: int,
    joined: int,
    pairs: int,
    compare: bool,
    work: str | None,
) -> None:
    """Print all tables; each part starts and stops a cluster of its own."""
    rows = structured_vectors(max(vectors, joined) + _BATCH, dim)
    with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=work) as name:
        folder = Path(name)
        if vectors:
            _print_searches(folder, shards, rows[-_BATCH:], rows[:vectors])
        if joined:
            print_joins(_started, folder, rows[:joined], compare)
        if pairs:
            _print_components(folder, pairs)


@contextmanager
def _started(cpus: int) -> Iterator[None]:
    ray.init(
        address="local",  # a cluster of its own, whatever runs beside it
        num_cpus=cpus,
        object_store_memory=_STORE_BYTES,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    try:
        yield
    finally:
        ray.shutdown()


def _print_searches(
    folder: Path, counts: Sequence[int], queries: Float32Array, rows: Float32Array
) -> None:
    table = []
    for shards in counts:
        root = folder / f"shards-{shards}"
        options: dict[str, Any] = {"dim": rows.shape[1], "similarity": _SIMILARITY, "seal_at": 0}
        with cluster.open(root, shards=shards, local=True, **options) as local:
            local.add(rows)
            local.seal()
            alone, many_alone = _times([local], queries)
        with _started(shards), cluster.open(root, cpus=0.5) as remote:
            [beside, bare], many = _times([remote, _bare(shards)], queries)
        table.append(
            [
                f"{shards}",
                f"{1e3 * alone[0]:.2f}",
                f"{1e3 * beside:.2f}",
                f"{1e3 * bare:.2f}",
                f"{1e3 * (beside - bare):+.2f}",
                f"{len(queries) / many_alone:,.0f}",
                f"{len(queries) / many:,.0f}",
            ]
        )
    header = ["shards", "one process, ms", "Ray, ms", "bare fan-out, ms", "difference, ms"]
    header += ["one process, queries/s", "Ray, queries/s"]
    print_table(f"{len(rows):,} vectors above {_SIMILARITY}, one query and batches", header, table)


def _bare(n_actors: int) -> Callable[[Float32Array], Any]:
    """Return what asks actors that do nothing, and waits for all of them."""
    actors = [ray.remote(_Bare).options(num_cpus=0.1).remote() for _ in range(n_actors)]

    def ask(row: Float32Array) -> Any:
        return ray.get([actor.call.remote("find", row) for actor in actors])

    return ask


def _times(asked: list[Any], queries: Float32Array) -> tuple[list[float], float]:
    """Return the median seconds of one query, measured in turn, and those of a batch."""
    calls = [getattr(one, "range_search", one) for one in asked]
    for call in calls:
        for row in queries[:20]:
            call(row)
    seconds: list[list[float]] = [[] for _ in calls]
    for row in queries[:_QUERIES]:
        for call, spent in zip(calls, seconds, strict=True):
            started = time.perf_counter()
            call(row)
            spent.append(time.perf_counter() - started)
    rounds = []
    for _ in range(3):
        started = time.perf_counter()
        calls[0](queries)
        rounds.append(time.perf_counter() - started)
    return [median(spent) for spent in seconds], min(rounds)


def _print_components(folder: Path, n_pairs: int) -> None:
    """Connect made-up pairs, half of them in one giant component, with one worker and with two."""
    rng = np.random.default_rng(0)
    n_nodes = n_pairs
    half = n_pairs // 2
    giant = rng.integers(0, n_nodes // 4, (half, 2))
    small = n_nodes // 4 + rng.integers(0, n_nodes * 3 // 8, (half, 1)) * 2 + np.array([[0, 1]])
    edges = np.concatenate([giant, small])[rng.permutation(2 * half)]
    files = []
    for number, some in enumerate(np.array_split(edges, 8)):
        files.append(str(folder / f"edges-{number}"))
        some.tofile(files[-1])
    table, found = [], []
    with _started(2):
        for workers in (1, 2):
            steps = 0

            def run_calls(function: Callable[..., Any], some: Any) -> list[Any]:
                nonlocal steps
                steps += function.__name__ == "_star"
                # One worker at a time is one that takes both CPUs.
                remote = ray.remote(function).options(num_cpus=2 / workers)  # noqa: B023
                return ray.get([remote.remote(*one) for one in some])

            started = time.perf_counter()
            parts = cluster.components(n_nodes, files, str(folder / "rounds"), 8, run_calls)
            seconds = time.perf_counter() - started
            found.append(np.concatenate([np.fromfile(part, dtype=np.int64) for part in parts]))
            largest = int(np.bincount(found[-1]).max())
            numbers = [f"{n_pairs:,}", f"{n_nodes:,}", f"{largest:,}", f"{steps // 2}"]
            table.append([*numbers, f"{workers}", f"{seconds:.0f}"])
    assert np.array_equal(*found), "the components of one worker and of two differ"
    header = ["pairs", "nodes", "largest component", "rounds", "workers", "seconds"]
    print_table("Components by rounds", header, table)
