"""Rows in four, two and one bytes an entry: what rounding does, and what it saves."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.data import structured_vectors
from benchmarks.measure import interleaved, print_table
from memvec import Index
from memvec.checks import unit_rows
from memvec.kernels import ROW_TYPES, StoredRows, canonical_score_pairs
from memvec.types import Float32Array, RowType

SETS = ("wordnet-minilm", "glove-100")
_PAIRS, _LEAST = 200_000, 0.5
_MILLION = 1e6


def run(data: str | None, n_vectors: int, n_queries: int, rounds: int) -> None:
    """Print the errors of cosines, and sizes and times of an index."""
    if data is not None:
        _print_errors(Path(data))
    _print_sizes(n_vectors, n_queries, rounds)


def cosine_errors(rows: Float32Array, dtype: RowType, seed: int = 0) -> tuple[float, ...]:
    """Return how far cosines of stored rows are from those given.

    Returns
    -------
    tuple of float
        Mean and largest, of random pairs; the same, of pairs above 0.5 among 5,000 rows.
    """
    rng = np.random.default_rng(seed)
    left = rng.integers(len(rows), size=_PAIRS)
    right = (left + rng.integers(1, len(rows), size=_PAIRS)) % len(rows)
    some = rows[rng.choice(len(rows), min(5000, len(rows)), replace=False)]
    near = np.nonzero(np.triu(some @ some.T, 1) >= _LEAST)
    found: list[float] = []
    for given, pair in ((rows, (left, right)), (some, near)):
        stored = StoredRows.of(given, dtype)
        exact = canonical_score_pairs(given, given, *pair)
        errors = np.abs(canonical_score_pairs(stored, stored, *pair) - exact)
        found += [float(errors.mean()), float(errors.max())]
    return tuple(found)


def _print_errors(data: Path) -> None:
    lines = []
    for name in SETS:
        steps = np.load(data / name / "vectors_int8.npy", allow_pickle=False)
        scales = np.load(data / name / "scales.npy", allow_pickle=False)
        rows = unit_rows(steps * scales, "vectors", "benchmarks")
        for dtype in ROW_TYPES[1:]:
            cells = [f"{error:.1e}" for error in cosine_errors(rows, dtype)]
            lines.append([f"{name}, {len(rows):,} × {rows.shape[1]}", dtype, *cells])
    header = ["data", "dtype", "random pairs: mean", "largest", "pairs above 0.5: mean", "largest"]
    print_table("Cosines of stored rows, less those of the vectors given", header, lines)


def _print_sizes(n_vectors: int, n_queries: int, rounds: int) -> None:
    rows = structured_vectors(n_vectors + n_queries, 384)
    vectors, queries = rows[:n_vectors], rows[n_vectors:]
    with tempfile.TemporaryDirectory() as folder:
        opened, disk = {}, {}
        for dtype in ROW_TYPES:
            path = Path(folder) / dtype
            Index.build(vectors, dtype=dtype, progress=False).save(path)
            files = [one for one in path.rglob("*") if one.is_file()]
            disk[dtype] = sum(one.stat().st_size for one in files)
            opened[dtype] = Index.open(path)
            opened[dtype].shadow = 0.0
        resident = {dtype: _resident_after(opened[dtype], queries) for dtype in ROW_TYPES}
        times = interleaved({dtype: _asked(opened[dtype], queries) for dtype in ROW_TYPES}, rounds)
        lines = [
            [
                dtype,
                f"{vectors.size * np.dtype(dtype).itemsize / _MILLION:.1f}",
                f"{disk[dtype] / _MILLION:.1f}",
                f"{resident[dtype] / _MILLION:.1f}",
                f"{statistics.median(times[dtype]) / len(queries) * 1e6:.0f}",
            ]
            for dtype in ROW_TYPES
        ]
    header = ["dtype", "vectors, MB", "on disk, MB", "memory, MB", "µs a query"]
    note = "Memory is what the process grows by while all vectors are compared with a query."
    print_table(f"Index of {n_vectors:,} × 384", header, lines, note)


def _asked(index: Index, queries: Float32Array) -> Callable[[], object]:
    def work() -> None:
        for query in queries:
            index.range_search(query, threads=1)

    work()  # compiled, and in memory
    return work


def _resident_after(index: Index, queries: Float32Array) -> int:
    before = _resident()
    index.range_search(queries[:1], threshold=-np.inf, threads=1)
    return _resident() - before


def _resident() -> int:
    """Return the bytes of this process that are in memory, mapped files included."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
