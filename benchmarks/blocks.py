"""Files larger than memory, deduplicated by blocks: seconds, memory at the peak, and pairs missed.

Vectors like sentence embeddings, a twentieth of them near-copies of others at similarities around
the one asked for, lie in Parquet files in random order.
"""

from __future__ import annotations

import resource
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import memvec
from benchmarks.building import watched
from benchmarks.data import structured_vectors
from benchmarks.measure import print_table
from memvec.types import Float32Array, Float64Array, IntArray

_COPIED_SHARE = 0.05
_LOWEST_COPY = 0.93
_FILES = 10
_ROWS_AT_ONCE = 8192


def run(n_vectors: int, dim: int, similarity: float, memory: str, work: str | None) -> None:
    """Make files, deduplicate them, and print what that took."""
    with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=work) as name:
        folder = Path(name)
        left, right, cosines = _make_files(folder, n_vectors, dim)
        started, cpu_started, peak = time.perf_counter(), time.process_time(), [0]
        with watched(peak):
            found = memvec.deduplicate_files(
                folder / "part-*.parquet",
                similarity,
                out=folder / "pairs",
                keep_list=folder / "kept.parquet",
                field="embedding",
                memory=memory,
            )
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        asked = cosines >= similarity
        n_missed = _n_missed(folder / "pairs", left[asked], right[asked])
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    row = [
        f"{n_vectors:,}",
        f"{found.n_blocks}",
        f"{seconds / 60:.1f} ({cpu_seconds / 60:.1f})",
        f"{peak[0] / 1e9:.2f} ({whole:.1f})",
        f"{found.n_pairs:,}",
        f"{n_missed:,} of {np.count_nonzero(asked):,} ({n_missed / np.count_nonzero(asked):.2%})",
        f"{found.expected_missed:,}",
    ]
    header = [
        "vectors",
        "blocks",
        "minutes (CPU)",
        "memory, GB (with mapped files)",
        "pairs",
        "planted pairs missed",
        "expected left",
    ]
    title = f"Files deduplicated by blocks: dimension {dim}, above {similarity:g}, memory {memory}"
    print_table(title, header, [row], f"Memory at the peak. {found.certificate}")


def _make_files(folder: Path, n_vectors: int, dim: int) -> tuple[IntArray, IntArray, Float64Array]:
    """Write files; return the rows of planted pairs, the first before the second, and cosines."""
    path = folder / "rows.f32"
    rows = np.memmap(path, dtype=np.float32, mode="w+", shape=(n_vectors, dim))
    structured_vectors(n_vectors, dim, rows=rows)
    rng = np.random.default_rng(1)
    chosen = rng.permutation(n_vectors)[: 2 * int(_COPIED_SHARE * n_vectors)]
    copied, copies = chosen.reshape(2, -1)
    cosines = np.empty(len(copies))
    for start in range(0, len(copies), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        near = _near_copies(rows[copied[some]], rng)
        cosines[some] = np.einsum("ij,ij->i", near, rows[copied[some]], dtype=np.float64)
        rows[copies[some]] = near
    bounds = np.arange(_FILES + 1) * n_vectors // _FILES
    for number, (start, stop) in enumerate(pairwise(bounds.tolist())):
        flat = pa.array(np.array(rows[start:stop]).ravel())
        table = {"embedding": pa.FixedSizeListArray.from_arrays(flat, dim)}
        pq.write_table(pa.table(table), folder / f"part-{number:02d}.parquet")
    path.unlink()
    return np.minimum(copied, copies), np.maximum(copied, copies), cosines


def _near_copies(vectors: Float32Array, rng: np.random.Generator) -> Float32Array:
    """Return vectors at similarities drawn at random, in random directions."""
    noise = rng.standard_normal(vectors.shape, dtype=np.float32)
    noise -= np.einsum("ij,ij->i", noise, vectors)[:, np.newaxis] * vectors
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosines = rng.uniform(_LOWEST_COPY, 1.0, size=(len(vectors), 1)).astype(np.float32)
    return np.asarray(cosines * vectors + np.sqrt(1 - cosines**2) * noise)


def _n_missed(pairs: Path, left: IntArray, right: IntArray) -> int:
    table = pq.read_table(pairs, columns=["id_a", "id_b"])
    found = np.asarray(table["id_a"]) << 32 | np.asarray(table["id_b"])
    return int(np.count_nonzero(~np.isin(left << 32 | right, found)))
