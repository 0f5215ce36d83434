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
import pyarrow as pa
import pyarrow.parquet as pq
import ray

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
    shards: Sequence[int], vectors: int, dim: int, joined: int, pairs: int, work: str | None
) -> None:
    """Print all tables; each part starts and stops a cluster of its own."""
    rows = structured_vectors(max(vectors, joined) + _BATCH, dim)
    with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=work) as name:
        folder = Path(name)
        if vectors:
            _print_searches(folder, shards, rows[-_BATCH:], rows[:vectors])
        if joined:
            _print_joins(folder, rows[:joined])
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


def _print_joins(folder: Path, rows: Float32Array) -> None:
    """Join a set with itself by one worker and by two; the files written must be equal."""
    for number, some in enumerate(np.array_split(rows, 8)):
        flat = pa.FixedSizeListArray.from_arrays(some.ravel(), some.shape[1])
        pq.write_table(pa.table({"embedding": flat}), folder / f"part-{number}.parquet")
    # About eight blocks, so that there is work for two.
    memory = 630_000_000 + 72 * len(rows) + max(len(rows) // 8, 10_000) * (4 * rows.shape[1] + 700)
    seconds, written, table = [], [], []
    for workers in (1, 2):
        out = folder / f"pairs-{workers}"
        with _started(workers):
            started = time.perf_counter()
            found = cluster.self_join(
                folder / "part-*.parquet", out, 0.8, field="embedding", memory=memory
            )
            seconds.append(time.perf_counter() - started)
        written.append({path.name: path.read_bytes() for path in sorted(out.glob("pairs-*"))})
        efficiency = seconds[0] / seconds[-1] / workers
        numbers = [f"{len(rows):,}", f"{workers}", f"{found.n_blocks}", f"{found.n_pairs:,}"]
        table.append([*numbers, f"{seconds[-1]:.0f}", f"{efficiency:.2f}"])
    assert written[0] == written[1], "the files of one worker and of two differ"
    header = ["vectors", "workers", "blocks", "pairs", "seconds", "efficiency"]
    print_table("Files joined with themselves above 0.8", header, table)


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
    for workers in (1, 2):
        calls = 0
        with _started(workers):

            def run_calls(function: Callable[..., Any], some: Any) -> list[Any]:
                nonlocal calls
                calls += function.__name__ == "_star"
                return ray.get([ray.remote(function).remote(*one) for one in some])

            started = time.perf_counter()
            parts = cluster.components(n_nodes, files, str(folder / "rounds"), 8, run_calls)
            seconds = time.perf_counter() - started
        found.append(np.concatenate([np.fromfile(part, dtype=np.int64) for part in parts]))
        largest = int(np.bincount(found[-1]).max())
        numbers = [f"{n_pairs:,}", f"{n_nodes:,}", f"{largest:,}", f"{calls // 2}", f"{workers}"]
        table.append([*numbers, f"{seconds:.0f}"])
    assert np.array_equal(*found), "the components of one worker and of two differ"
    header = ["pairs", "nodes", "largest component", "rounds", "workers", "seconds"]
    print_table("Components by rounds", header, table)
