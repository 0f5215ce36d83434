"""A deduplication of files by blocks: CPU time by stage, some of the joins standing for all.

All rows are read and indexed. Joins of two blocks are independent of each other and take about the
same time, so the mean of a few tells what all take; the joins left out are not counted as measured.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import structured_vectors
from benchmarks.measure import print_table
from memvec.collection import Asked, Task, WorkFolder, deduplicate_by, do_task
from memvec.kernels import THREADS
from memvec.types import Float32Array

_SIMILARITY = 0.8
_FILES = 10
_ROWS_AT_ONCE = 65_536


class _EnoughError(Exception):
    """Raised when the joins that were asked for are done: the rest of the work is not needed."""


class SomeJoins:
    """Does the tasks of a deduplication, only so many of its joins, and takes their CPU times."""

    def __init__(self, n_joins: int) -> None:
        self._n_joins = n_joins
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.n_blocks = 0

    def __call__(
        self, work: WorkFolder, tasks: list[Task], advance: Callable[[Task], None]
    ) -> None:
        self.n_blocks = work.plan.n_blocks
        is_join = tasks[0].kind == "join"
        for task in _spread(tasks, self._n_joins) if is_join else tasks:
            begun = time.process_time()
            do_task(work, task, 1)
            self.seconds[task.kind].append(time.process_time() - begun)
            advance(task)
        if is_join and self._n_joins < len(tasks):
            raise _EnoughError

    @property
    def n_pairs(self) -> int:
        """Pairs of blocks, a block with itself among them."""
        return self.n_blocks * (self.n_blocks + 1) // 2

    @property
    def whole(self) -> float:
        """CPU seconds of the whole work, where the mean of the joins done stands for all."""
        others = sum(sum(some) for kind, some in self.seconds.items() if kind != "join")
        return others + self.n_pairs * float(np.mean(self.seconds["join"]))


def _spread(tasks: list[Task], number: int) -> list[Task]:
    """Return so many tasks, evenly from first to last."""
    places = np.linspace(0, len(tasks) - 1, min(number, len(tasks))).round().astype(int)
    return [tasks[place] for place in np.unique(places)]


def run(sizes: tuple[int, ...], dim: int, memory: str, n_joins: int, work: str | None) -> None:
    """Deduplicate files of each size, and print CPU seconds by stage and of the whole."""
    rows = []
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"  # builds, too: a stage's CPU time is that of one thread
    try:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="memvec-bench-", dir=work) as folder:
                rows.append(_row(Path(folder), size, dim, memory, n_joins))
    finally:
        os.environ.pop(THREADS)
        if before is not None:
            os.environ[THREADS] = before
    header = ["vectors", "blocks", "rows of a block", "reading and indexing a row, µs"]
    header += ["searching a row in a block, µs", "joins done", "CPU s of all"]
    title = f"Files deduplicated by blocks: dimension {dim}, above {_SIMILARITY}, one thread"
    print_table(title, header, rows, f"Load of the machine at the end: {os.getloadavg()[0]:.1f}.")


def _row(folder: Path, n_vectors: int, dim: int, memory: str, n_joins: int) -> list[str]:
    _write_files(folder, n_vectors, dim)
    done = SomeJoins(n_joins)
    asked = Asked(
        _SIMILARITY, "embedding", None, None, "first", "components", 0.01, "expected", 0.95
    )
    with suppress(_EnoughError):
        deduplicate_by(done, folder / "part-*.parquet", asked, out=folder / "pairs", memory=memory)
    block = n_vectors / done.n_blocks
    made = sum(sum(done.seconds[kind]) for kind in ("read", "copies", "index", "thresholds"))
    joined = done.seconds["join"]
    return [
        f"{n_vectors:,}",
        f"{done.n_blocks}",
        f"{block:,.0f}",
        f"{made / n_vectors * 1e6:.1f}",
        f"{np.mean(joined) / block * 1e6:.1f} ({min(joined) / block * 1e6:.1f}–"
        f"{max(joined) / block * 1e6:.1f})",
        f"{len(joined)} of {done.n_pairs}",
        f"{done.whole:,.1f}",
    ]


def _write_files(folder: Path, n_vectors: int, dim: int) -> None:
    path = folder / "rows.f32"
    rows = np.memmap(path, dtype=np.float32, mode="w+", shape=(n_vectors, dim))
    structured_vectors(n_vectors, dim, rows=rows)
    for number in range(_FILES):
        start, stop = (n_vectors * part // _FILES for part in (number, number + 1))
        _write_file(folder / f"part-{number:02d}.parquet", rows[start:stop])
    path.unlink()


def _write_file(path: Path, rows: Float32Array) -> None:
    dim = rows.shape[1]
    schema = pa.schema([("embedding", pa.list_(pa.float32(), dim))])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            flat = pa.array(np.array(rows[start : start + _ROWS_AT_ONCE]).ravel())
            lists = pa.FixedSizeListArray.from_arrays(flat, dim)
            file.write_table(pa.table({"embedding": lists}, schema=schema))
