"""Collections: ingest, latency by waiting vectors, segments and filters, opening, memory, joins."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import memvec
from benchmarks.collection_join import run_join
from benchmarks.data import sentence_vectors, structured_vectors
from benchmarks.measure import interleaved, print_table, spread
from memvec import Collection
from memvec.types import Float32Array

PARTS = ("ingest", "waiting", "segments", "filters", "open", "memory", "join")
BATCH = 1000
WAITING = (0, 1000, 9999)
SEGMENTS = (1, 10, 100)
SHARES = (1.0, 0.5, 0.05, 0.005)
# Filters keep a share of this many values.
_VALUES = 1000
_SINGLE_ADDS = 200
_SYNCS = 50


@dataclass(frozen=True)
class Plan:
    """How large the benchmark is.

    Attributes
    ----------
    n_vectors : int
        Vectors of the parts on latency and ingest.
    n_joined : int or None
        Embeddings that are joined; all of them by default.
    n_opened : int
        Vectors of the collection that is opened and whose memory is measured.
    dim : int
        Dimension of made-up vectors.
    similarity : float
        Of the searches.
    join_similarity : float
        Of the self-join.
    n_queries : int
        Single queries a round.
    rounds : int
        Rounds, interleaved.
    work : str or None
        Where collections are made; the disk of this folder is measured.
    """

    n_vectors: int = 100_000
    n_joined: int | None = None
    n_opened: int = 1_000_000
    dim: int = 384
    similarity: float = 0.7
    join_similarity: float = 0.8
    n_queries: int = 200
    rounds: int = 5
    work: str | None = None


def run(data: str | None, parts: Sequence[str], plan: Plan) -> None:
    """Print the tables of some parts."""
    for part in parts:
        if part == "join":
            run_join(*_join_set(data, plan), plan.join_similarity, plan.work)
        elif part not in ("open", "memory"):
            _RUNNERS[part](plan)
    chosen = [part for part in ("open", "memory") if part in parts]
    if chosen:
        _large(chosen, plan)


def _join_set(data: str | None, plan: Plan) -> tuple[Float32Array, str]:
    """Return all sentence embeddings, or so many made-up vectors."""
    if data is None:
        return structured_vectors(plan.n_vectors, plan.dim), "structured vectors"
    vectors, name = sentence_vectors(data)
    return vectors[: plan.n_joined], name


@contextmanager
def _folder(plan: Plan) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=plan.work) as folder:
        yield Path(folder)


def _open(path: Path, plan: Plan, dim: int, **more: Any) -> Collection:
    return memvec.open(path, dim=dim, similarity=plan.similarity, **more)


# --- ingest --------------------------------------------------------------------------------------


def _ingest(plan: Plan) -> None:
    vectors = structured_vectors(plan.n_vectors, plan.dim)
    few = vectors[: min(len(vectors), 20 * BATCH)]
    rows = []
    with _folder(plan) as folder:
        page, batch = _sync_ms(folder, 4096), _sync_ms(folder, 4 * plan.dim * BATCH)
        rows.append(["a write of 4 KiB and its fsync", f"{spread(page)} ms"])
        rows.append([f"a write of {BATCH} vectors and its fsync", f"{spread(batch)} ms"])
        with _open(folder / "batches.mv", plan, plan.dim, seal_at=0) as collection:
            seconds = _timed_batches(collection, few)
            rows.append([f"a batch of {BATCH}", f"{spread([1000 * s for s in seconds])} ms"])
            rows.append(["without sealing", f"{len(few) / sum(seconds):,.0f} vectors/s"])
            single = _timed_singles(collection, vectors)
            rows.append(["a single add", f"{spread([1000 * s for s in single])} ms"])
            rows.append(["single adds", f"{len(single) / sum(single):,.0f} vectors/s"])
        started = time.perf_counter()
        with _open(folder / "sustained.mv", plan, plan.dim) as collection:
            _timed_batches(collection, vectors)
            added = time.perf_counter() - started
        closed = time.perf_counter() - started
        rows.append(["sealing meanwhile", f"{len(vectors) / added:,.0f} vectors/s"])
        rows.append(["until all is sealed", f"{len(vectors) / closed:,.0f} vectors/s"])
    title = f"Ingest of {len(vectors):,} × {plan.dim}, batches of {BATCH}"
    print_table(title, ["what", "median (lowest–highest)"], rows, _disk_note(plan))


def _sync_ms(folder: Path, size: int) -> list[float]:
    """Return the milliseconds of writing and syncing so many bytes, again and again."""
    content, taken = os.urandom(size), []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            started = time.perf_counter()
            file.write(content)
            os.fsync(file.fileno())
            taken.append(1000 * (time.perf_counter() - started))
    return taken


def _timed_batches(collection: Collection, vectors: Float32Array) -> list[float]:
    seconds = []
    for start in range(0, len(vectors), BATCH):
        started = time.perf_counter()
        collection.add(vectors[start : start + BATCH])
        seconds.append(time.perf_counter() - started)
    return seconds


def _timed_singles(collection: Collection, vectors: Float32Array) -> list[float]:
    seconds = []
    for row in range(min(_SINGLE_ADDS, len(vectors))):
        started = time.perf_counter()
        collection.add(vectors[row : row + 1])
        seconds.append(time.perf_counter() - started)
    return seconds


def _disk_note(plan: Plan) -> str:
    folder = plan.work or tempfile.gettempdir()
    if not os.path.exists("/proc/mounts"):
        return "All of it is synced before a call returns."
    with open("/proc/mounts", encoding="utf-8") as lines:
        mounts = [line.split()[:3] for line in lines]
    where = os.path.realpath(folder)
    held = [m for m in mounts if os.path.commonpath([where, m[1]]) == m[1]]
    device, _, kind = max(held, key=lambda mount: len(mount[1]))
    return f"On {device} ({kind}). All of it is synced before a call returns."


# --- latency -------------------------------------------------------------------------------------


def _split(plan: Plan, n_vectors: int) -> tuple[Float32Array, Float32Array]:
    """Return vectors and queries that are none of them."""
    rows = structured_vectors(n_vectors + plan.n_queries, plan.dim)
    return rows[plan.n_queries :], rows[: plan.n_queries]


def _searches(collection: Collection, queries: Float32Array, **more: Any) -> Callable[[], None]:
    def work() -> None:
        for query in queries:
            collection.range_search(query, threads=1, **more)

    work()  # compiles, solves the promise, makes bitmaps
    return work


def _print_latency(
    title: str, what: str, works: dict[str, Callable[[], object]], plan: Plan, *, note: str = ""
) -> None:
    seconds = interleaved(works, plan.rounds)
    first = statistics.median(next(iter(seconds.values())))
    rows = [
        [
            name,
            spread([1000 * s / plan.n_queries for s in taken], 3),
            f"{statistics.median(taken) / first:.2f}",
        ]
        for name, taken in seconds.items()
    ]
    print_table(title, [what, "ms a query", "ratio"], rows, note)


def _waiting(plan: Plan) -> None:
    vectors, queries = _split(plan, plan.n_vectors + max(WAITING))
    sealed, late = vectors[: plan.n_vectors], vectors[plan.n_vectors :]
    with _folder(plan) as folder:
        opened: dict[str, Collection] = {}
        with _open(folder / "0.mv", plan, plan.dim, seal_at=0) as collection:
            _timed_batches(collection, sealed)
            collection.seal(progress=False)
        for n_waiting in WAITING:
            path = folder / f"{n_waiting}.mv"
            if n_waiting:
                shutil.copytree(folder / "0.mv", path)
                with memvec.open(path) as collection:
                    _timed_batches(collection, late[:n_waiting])
            opened[f"{n_waiting:,}"] = memvec.open(path, read_only=True)
        works = {name: _searches(collection, queries) for name, collection in opened.items()}
        title = f"Everything above {plan.similarity:g} while vectors wait, {len(sealed):,} sealed"
        _print_latency(title, "waiting", works, plan)
        for collection in opened.values():
            collection.close()


def _segments(plan: Plan) -> None:
    vectors, queries = _split(plan, plan.n_vectors)
    with _folder(plan) as folder:
        opened = {}
        for n_segments in SEGMENTS:
            path = folder / f"{n_segments}.mv"
            _make_segments(path, vectors, n_segments, plan)
            opened[f"{n_segments}"] = memvec.open(path, read_only=True)
        works = {name: _searches(collection, queries) for name, collection in opened.items()}
        title = f"{len(vectors):,} × {plan.dim} in so many segments, above {plan.similarity:g}"
        note = "Ten segments of one size are merged otherwise; here they were not."
        _print_latency(title, "segments", works, plan, note=note)
        for collection in opened.values():
            collection.close()


def _make_segments(path: Path, vectors: Float32Array, n_segments: int, plan: Plan) -> None:
    with _open(path, plan, plan.dim, seal_at=0) as collection:
        for rows in np.array_split(vectors, n_segments):
            collection.add(rows)
            collection.seal(merge=False, progress=False)
        assert len(collection.stats().segment_sizes) == n_segments


def _filters(plan: Plan) -> None:
    vectors, queries = _split(plan, plan.n_vectors)
    values = np.random.default_rng(3).integers(_VALUES, size=len(vectors)).tolist()
    with _folder(plan) as folder, _open(folder / "f.mv", plan, plan.dim, seal_at=0) as collection:
        collection.add(vectors, metadata=[{"value": value} for value in values])
        collection.seal(progress=False)
        works, first = {}, []
        for share in SHARES:
            where = {"value": {"$lt": round(share * _VALUES)}}
            asked = None if share == 1 else where
            started = time.perf_counter()
            collection.range_search(queries[0], where=asked)
            first.append(f"{share:.1%}: {1000 * (time.perf_counter() - started):.1f} ms")
            works[f"{share:.1%}" if share < 1 else "no filter"] = _searches(
                collection, queries, where=asked
            )
        title = f"Filters that keep a share of {len(vectors):,} × {plan.dim}"
        times = ", ".join(first[1:])
        note = (
            f"The first search with a filter makes its bitmap and solves its thresholds: {times}."
        )
        _print_latency(title, "kept", works, plan, note=note)


# --- opening and memory --------------------------------------------------------------------------


def _large(parts: Sequence[str], plan: Plan) -> None:
    """Make one large collection, and look at how it opens and what it takes."""
    vectors, queries = _split(plan, plan.n_opened)
    with _folder(plan) as folder:
        path = folder / "large.mv"
        started = time.perf_counter()
        with _open(path, plan, plan.dim, seal_at=0) as collection:
            _timed_batches(collection, vectors)
            collection.seal(progress=False)
        made = time.perf_counter() - started
        np.save(folder / "queries.npy", queries)
        del vectors
        if "open" in parts:
            _print_opening(path, plan, made)
        if "memory" in parts:
            _print_memory(path, folder / "queries.npy", plan)


def _print_opening(path: Path, plan: Plan, made: float) -> None:
    def opened() -> None:
        memvec.open(path, read_only=True).close()

    def searched(verify: bool) -> None:
        with memvec.open(path, read_only=True, verify=verify) as collection:
            collection.range_search(np.ones(plan.dim, np.float32))

    works = {
        "open": opened,
        "open, first search, no checksums": lambda: searched(False),
        "open, first search, checksums": lambda: searched(True),
    }
    seconds = interleaved(works, plan.rounds)
    rows = [[name, spread(taken, 3)] for name, taken in seconds.items()]
    rows.append(["add and seal all of it", f"{made:.0f}"])
    title = f"Opening {plan.n_opened:,} × {plan.dim}"
    print_table(title, ["what", "seconds"], rows, "The files are in the cache of the system.")


# Run in a process of its own: prints kilobytes of memory before and after the searches.
_MEMORY = """
import sys, numpy as np, memvec

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssFile"))]

queries = np.load(sys.argv[2])
print(*resident())
with memvec.open(sys.argv[1], read_only=True, verify=False) as collection:
    print(*resident())
    for query in queries:
        collection.range_search(query, threads=1)
    print(*resident())
"""


def _print_memory(path: Path, queries: Path, plan: Plan) -> None:
    command = [sys.executable, "-c", _MEMORY, str(path), str(queries)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    steps = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    names = ("memvec imported", "opened", f"after {plan.n_queries} searches")
    rows = [
        [name, *(f"{kilobytes * 1024 / 1e6:,.0f}" for kilobytes in (*pair, sum(pair)))]
        for name, pair in zip(names, steps, strict=True)
    ]
    files = [file for file in path.rglob("*.npy") if file.is_file()]
    vectors = sum(file.stat().st_size for file in files if file.name == "vectors.npy")
    others = sum(file.stat().st_size for file in files) - vectors
    note = (
        f"On disk: {others / 1e6:,.0f} MB of codes, memory vectors and tables, and "
        f"{vectors / 1e6:,.0f} MB of vectors, of which searches touch the pages they re-rank."
    )
    title = f"Memory while searching {plan.n_opened:,} × {plan.dim}"
    print_table(title, ["", "its own, MB", "mapped files, MB", "both, MB"], rows, note)


_RUNNERS = {
    "ingest": _ingest,
    "waiting": _waiting,
    "segments": _segments,
    "filters": _filters,
}
