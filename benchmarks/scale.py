"""Indexes of up to ten million vectors on one machine: building, opening, searching, joining.

Vectors like sentence embeddings lie in a mapped file of float16; the index stores int8. Each size
is built in a process of its own, and searched in another, from the folder.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.building import resident, watched
from benchmarks.data import structured_vectors
from benchmarks.measure import print_table
from benchmarks.search_tables import exponent
from memvec import Index
from memvec.types import Float32Array

BUILT_FOR = 0.7
_ROWS_AT_ONCE = 65536
# Compiled code is loaded before anything is timed, on so many vectors.
_WARMING = 3000


def run(
    sizes: Sequence[int],
    dim: int,
    similarities: Sequence[float],
    join_similarity: float | None,
    n_queries: int,
    work: str | None,
) -> None:
    """Print what building takes, what searches take and how both grow."""
    built, searched, joined = [], {}, []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=work) as folder:
            place = Path(folder)
            alone(_make_file, place, size, dim, n_queries)
            built.append(alone(_build, place))
            searched[size] = alone(_search, place, tuple(similarities))
            if join_similarity is not None:
                joined.append(alone(_join, place, join_similarity))
            _print_built(dim, built)
            _print_searched(similarities, searched)
            if joined:
                _print_joined(joined, join_similarity)


def alone(work: Callable[..., Any], *arguments: object) -> Any:
    """Return what a process of its own computes: the peak of one would hide that of the next."""
    with multiprocessing.get_context("spawn").Pool(1) as process:
        return process.apply(work, arguments)


def _make_file(place: Path, n_vectors: int, dim: int, n_queries: int) -> None:
    """Write vectors and queries of one draw."""
    shape = n_vectors + n_queries, dim
    path = place / "drawn.f32"
    rows = np.memmap(path, dtype=np.float32, mode="w+", shape=shape)
    structured_vectors(*shape, rows=rows)
    halves = np.lib.format.open_memmap(
        place / "vectors.npy", mode="w+", dtype=np.float16, shape=(n_vectors, dim)
    )
    for start in range(0, n_vectors, _ROWS_AT_ONCE):
        some = slice(start, min(start + _ROWS_AT_ONCE, n_vectors))
        halves[some] = rows[some]
    np.save(place / "queries.npy", rows[n_vectors:])
    path.unlink()


def _build(place: Path) -> dict[str, Any]:
    vectors = np.load(place / "vectors.npy", mmap_mode="r")
    Index.build(np.array(vectors[:_WARMING]), similarity=BUILT_FOR, dtype="int8", progress=False)
    peak, started, cpu_started = [0], time.perf_counter(), time.process_time()
    with watched(peak):
        index = Index.build(vectors, similarity=BUILT_FOR, dtype="int8", progress=False)
        cpu_seconds = time.process_time() - cpu_started
        seconds = time.perf_counter() - started
        index.save(place / "index.mv")
    files = (file for file in (place / "index.mv").rglob("*") if file.is_file())
    return {
        "n_vectors": len(vectors),
        "design": str(index.design).split(", for ")[0],
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "own": peak[0],
        "whole": resident("VmHWM"),
        "disk": sum(file.stat().st_size for file in files),
    }


def _search(place: Path, similarities: Sequence[float]) -> dict[float, dict[str, Any]]:
    started = time.process_time()
    index = Index.open(place / "index.mv")
    open_seconds = time.process_time() - started
    queries = np.load(place / "queries.npy")
    found = {}
    for similarity in similarities:
        measured = index.measure(queries, similarity, progress=False)
        # The second pass finds code compiled and pages of the files mapped.
        _milliseconds(index, queries, similarity)
        times = _milliseconds(index, queries, similarity)
        found[similarity] = {
            "open": open_seconds,
            "ms": float(np.mean(times)),
            "median": float(np.median(times)),
            "last": float(np.quantile(times, 0.99)),
            "matches": measured.n_matches / len(queries),
            "missed": measured.miss_rate,
            "interval": measured.interval,
            "own": resident("RssAnon"),
        }
    return found


def _milliseconds(index: Index, queries: Float32Array, similarity: float) -> list[float]:
    times = []
    for query in queries:
        started = time.process_time()
        index.range_search(query, similarity, threads=1, shadow=0.0)
        times.append(1e3 * (time.process_time() - started))
    return times


def _join(place: Path, similarity: float) -> dict[str, Any]:
    index = Index.open(place / "index.mv")
    started, cpu_started, n_pairs = time.perf_counter(), time.process_time(), 0
    for pairs in index.iter_self_join(similarity, progress=False):
        n_pairs += len(pairs.left)
    return {
        "n_vectors": len(index),
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "n_pairs": n_pairs,
        "own": resident("RssAnon"),
    }


def _print_built(dim: int, built: Sequence[dict[str, Any]]) -> None:
    header = [
        "vectors",
        "design",
        "minutes",
        "CPU s",
        "CPU s a million",
        "memory at the peak, GB (with mapped files)",
        "on disk, GB",
    ]
    rows = [
        [
            f"{one['n_vectors']:,}",
            one["design"],
            f"{one['seconds'] / 60:.1f}",
            f"{one['cpu_seconds']:.0f}",
            f"{1e6 * one['cpu_seconds'] / one['n_vectors']:.0f}",
            f"{one['own'] / 1e9:.2f} ({one['whole'] / 1e9:.2f})",
            f"{one['disk'] / 1e9:.2f}",
        ]
        for one in built
    ]
    print_table(f"Building: structured vectors of dimension {dim}, int8 rows", header, rows)


def _print_searched(
    similarities: Sequence[float], searched: dict[int, dict[float, dict[str, Any]]]
) -> None:
    header = ["above", "vectors", "matches a query", "mean ms", "median", "99th percentile"]
    header += ["miss rate (95 %)", "opening, CPU s", "memory, GB"]
    rows, notes = [], []
    for similarity in similarities:
        rows += [
            [
                f"{similarity:g}",
                f"{size:,}",
                f"{found[similarity]['matches']:.2f}",
                f"{found[similarity]['ms']:.3f}",
                f"{found[similarity]['median']:.3f}",
                f"{found[similarity]['last']:.3f}",
                _missed(found[similarity]),
                f"{found[similarity]['open']:.2f}",
                f"{found[similarity]['own'] / 1e9:.2f}",
            ]
            for size, found in searched.items()
        ]
        if len(searched) > 1:
            grown = exponent({size: found[similarity] for size, found in searched.items()}, "ms")
            notes.append(f"{grown:.2f} above {similarity:g}")
    note = f"CPU time, one thread. Exponents of the mean: {', '.join(notes)}." if notes else ""
    print_table("Searching, one query after the other", header, rows, note)


def _missed(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['missed']:.2%} ({low:.2%}–{high:.2%})"


def _print_joined(joined: Sequence[dict[str, Any]], similarity: float | None) -> None:
    header = ["vectors", "pairs", "minutes", "CPU s", "CPU ms a vector", "memory, GB"]
    rows = [
        [
            f"{one['n_vectors']:,}",
            f"{one['n_pairs']:,}",
            f"{one['seconds'] / 60:.1f}",
            f"{one['cpu_seconds']:.0f}",
            f"{1e3 * one['cpu_seconds'] / one['n_vectors']:.3f}",
            f"{one['own'] / 1e9:.2f}",
        ]
        for one in joined
    ]
    print_table(f"All pairs above {similarity:g}", header, rows)
