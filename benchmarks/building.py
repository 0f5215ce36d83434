"""Building an index: seconds, memory at the peak, and what it adds to the vectors.

Each way runs in a process of its own, as the peak of one would hide that of the next.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.data import structured_vectors, uniform_vectors
from benchmarks.measure import print_table
from memvec import Index, IndexConfig

# The data of each way, and its configuration: batches of the paper's size.
WAYS = {
    "random": (uniform_vectors, IndexConfig(assignment="random")),
    "batch": (structured_vectors, IndexConfig(assignment="kmeans", batch_size=10_000)),
    "two-step": (structured_vectors, IndexConfig(assignment="kmeans")),
}
SIMILARITY = 0.7
_FEW_SHARE = 10
_SAMPLES_A_SECOND = 20


def run(n_vectors: int, dim: int, ways: tuple[str, ...]) -> None:
    """Print what building takes, for each way."""
    spawn = multiprocessing.get_context("spawn")
    rows = []
    for way in ways:
        with spawn.Pool(1) as process:
            rows.append(process.apply(_row, (way, n_vectors, dim)))
    print_table(
        f"Building an index of {n_vectors:,} × {dim}, for similarity {SIMILARITY}, all cores",
        ["way", "design", "s (CPU s)", "peak beyond the array, × input", "added on disk, × input"],
        rows,
    )


def _row(way: str, n_vectors: int, dim: int) -> list[str]:
    make, config = WAYS[way]
    vectors = make(n_vectors, dim)
    # Compiled code is loaded once, whatever the size.
    Index.build(
        vectors[: n_vectors // _FEW_SHARE], similarity=SIMILARITY, config=config, progress=False
    )
    before = resident("VmRSS")
    # The kernel forgets the peak so far.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    started, cpu_started = time.perf_counter(), time.process_time()
    index = Index.build(vectors, similarity=SIMILARITY, config=config, progress=False)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    peak = resident("VmHWM") - before
    return [
        way,
        str(index.design).split(", for ")[0],
        f"{seconds:.0f} ({cpu_seconds:.0f})",
        f"{peak / vectors.nbytes:.2f}",
        f"{_bytes_on_disk(index) / vectors.nbytes - 1:.3f}",
    ]


def resident(field: str) -> int:
    """Return a figure of this process's memory in bytes, as Linux tells it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"this system does not tell {field}")


@contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    """Note the most memory that is no mapped file, looking at it many times a second."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(1 / _SAMPLES_A_SECOND):
            peak[0] = max(peak[0], resident("RssAnon"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _bytes_on_disk(index: Index) -> int:
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index.mv")
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
