"""All pairs above a similarity: a collection's self-join against FAISS and vicinity."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import memvec
from benchmarks.measure import print_table
from benchmarks.peers.contender import SLACK
from memvec.guarantee import Guarantee
from memvec.types import Float32Array, IntArray

# Queries that FAISS answers at a time: their products with everything are held in memory.
_FAISS_QUERIES = 1024
# What vicinity asks for by default.
_NEIGHBOURS = (100,)
_LEVELS: tuple[tuple[str, Guarantee | None], ...] = (("memvec", None), ("memvec, exact", "exact"))
# Below it, an exact search visits nearly everything.
_BOUNDS_HELP = 0.9


def run_join(vectors: Float32Array, name: str, similarity: float, work: str | None) -> None:
    """Print times, and the pairs that each misses."""
    rows = []
    truth, seconds = _timed(_faiss_pairs(vectors, similarity))
    rows.append(_row("FAISS Flat, range search", 0.0, seconds, truth, truth, seconds))
    with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=work) as folder:
        path = Path(folder) / "join.mv"
        started = time.perf_counter()
        with memvec.open(path, dim=vectors.shape[1], similarity=similarity, seal_at=0) as made:
            for start in range(0, len(vectors), 10_000):
                stop = min(start + 10_000, len(vectors))
                made.add(vectors[start:stop], ids=range(start, stop))
            made.seal(progress=False)
        build = time.perf_counter() - started
        with memvec.open(path, read_only=True) as collection:
            for label, level in _LEVELS[: 2 if similarity >= _BOUNDS_HELP else 1]:
                pairs = collection.self_join(similarity, guarantee=level, progress=False)
                found, taken = _timed((pair.left, pair.right) for pair in pairs)
                rows.append(_row(label, build, taken, found, truth, seconds))
    for label, build, pairs in _vicinity(vectors, similarity):
        found, taken = _timed(pairs)
        rows.append(_row(label, build, taken, found, truth, seconds))
    title = f"Self-join of {len(vectors):,} {name} above {similarity:g}: {len(truth):,} pairs"
    header = ["", "build s", "join s", "× FAISS", "× with build", "pairs missed", "share"]
    print_table(title, header, rows, "All cores; vicinity as it comes. Each pair counts once.")


def _timed(pairs: Iterator[tuple[int, int]]) -> tuple[IntArray, float]:
    """Return the pairs as sorted numbers, and the seconds that finding them took."""
    started = time.perf_counter()
    found = list(pairs)
    seconds = time.perf_counter() - started
    both = np.sort(np.array(found, dtype=np.int64).reshape(-1, 2), axis=1)
    return np.unique(both[both[:, 0] < both[:, 1]] @ np.array([1 << 32, 1])), seconds


def _row(
    label: str, build: float, taken: float, found: IntArray, truth: IntArray, faiss: float
) -> list[str]:
    missed = len(np.setdiff1d(truth, found))
    return [
        label,
        f"{build:.1f}",
        f"{taken:.2f}",
        f"{faiss / taken:.1f}",
        f"{faiss / (build + taken):.1f}",
        f"{missed:,}",
        f"{missed / max(1, len(truth)):.2%}",
    ]


def _faiss_pairs(vectors: Float32Array, similarity: float) -> Iterator[tuple[int, int]]:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    for start in range(0, len(vectors), _FAISS_QUERIES):
        queries = vectors[start : start + _FAISS_QUERIES]
        limits, _, ids = index.range_search(queries, similarity - SLACK)
        left = np.repeat(np.arange(start, start + len(queries)), np.diff(limits).astype(np.int64))
        later = ids > left
        yield from zip(left[later].tolist(), ids[later].tolist(), strict=True)


def _vicinity(
    vectors: Float32Array, similarity: float
) -> Iterator[tuple[str, float, Iterator[tuple[int, int]]]]:
    """Yield the backend that semhash uses, with its number of neighbours and with more."""
    try:
        from vicinity import Backend, Vicinity
    except ImportError:
        return
    started = time.perf_counter()
    index = Vicinity.from_vectors_and_items(
        vectors, list(range(len(vectors))), backend_type=Backend.USEARCH
    )
    build = time.perf_counter() - started
    for most in _NEIGHBOURS:
        if most < len(vectors):
            pairs = _vicinity_pairs(index, vectors, similarity, most)
            yield f"vicinity, USearch, max_k={most}", build, pairs


def _vicinity_pairs(
    index: object, vectors: Float32Array, similarity: float, most: int
) -> Iterator[tuple[int, int]]:
    distance = 1.0 - similarity + SLACK
    found = index.query_threshold(vectors, threshold=distance, max_k=most)  # type: ignore[attr-defined]
    for left, row in enumerate(found):
        for right, _ in row:
            yield left, int(right)
