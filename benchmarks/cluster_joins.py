"""A self-join of files on Ray by one worker and by two, beside that of a collection.

CPU seconds are told by stage: on cores that are free, a stage takes as long as its busiest worker
and the driver before and after it. So the efficiency of two workers does not depend on what else
runs on the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import memvec
from benchmarks.measure import print_table
from memvec import cluster
from memvec.guarantee import Guarantee
from memvec.progress import listening
from memvec.types import Float32Array, IntArray

_SIMILARITY = 0.8
_FILES = 8
# About eight blocks, so that there is work for two.
_BLOCKS, _SMALLEST = 8, 10_000
_TICKS = os.sysconf("SC_CLK_TCK")
_ADDED_AT_ONCE = 10_000

Started = Callable[[int], AbstractContextManager[None]]


class Stages:
    """Listens to the bars of a join, and takes the CPU times of all processes at each stage."""

    def __init__(self) -> None:
        self._taken: list[tuple[str, float, dict[int, float]]] = []

    def __call__(self, description: str, done: int, total: int) -> None:
        name = description.split(" ")[0]
        if not self._taken or self._taken[-1][0] != name:
            self.take(name)

    def take(self, name: str) -> None:
        """Begin a stage."""
        self._taken.append((name, time.process_time(), _worker_seconds(os.getpid())))

    def seconds(self) -> dict[str, tuple[float, float]]:
        """Return of each stage the CPU seconds of all, and what it takes on cores that are free."""
        found = {}
        for (name, driver, workers), (_, driver_end, ends) in zip(
            self._taken[:-1], self._taken[1:], strict=True
        ):
            spent = [end - workers.get(number, 0.0) for number, end in ends.items()]
            own = driver_end - driver
            found[name] = own + sum(spent), own + max(spent, default=0.0)
        return found


def _worker_seconds(driver: int) -> dict[int, float]:
    """Return the CPU seconds of each worker of the cluster that a process has started."""
    parents, seconds = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace")
            is_worker = Path(f"/proc/{name}/cmdline").read_bytes().startswith(b"ray::")
        except OSError:  # it has ended
            continue
        fields = text.rsplit(")", 1)[1].split()
        parents[int(name)] = int(fields[1])
        if is_worker:
            seconds[int(name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    return {
        number: some for number, some in seconds.items() if parents.get(parents[number]) == driver
    }


def print_joins(started: Started, folder: Path, rows: Float32Array, compare: bool) -> None:
    """Join a set with itself by one worker and by two; the files written must be equal."""
    for number, some in enumerate(np.array_split(rows, _FILES)):
        flat = pa.FixedSizeListArray.from_arrays(some.ravel(), some.shape[1])
        pq.write_table(pa.table({"embedding": flat}), folder / f"part-{number}.parquet")
    n_rows, dim = rows.shape
    memory = 630_000_000 + 72 * n_rows + max(n_rows // _BLOCKS, _SMALLEST) * (4 * dim + 700)
    written, table, stages = [], [], []
    for workers in (1, 2):
        out = folder / f"pairs-{workers}"
        listener = Stages()
        with started(workers), listening(listener):
            listener.take("start")
            begun = time.perf_counter()
            found = cluster.self_join(
                folder / "part-*.parquet", out, _SIMILARITY, field="embedding", memory=memory
            )
            seconds = time.perf_counter() - begun
            listener.take("end")
        stages.append(listener.seconds())
        written.append({path.name: path.read_bytes() for path in sorted(out.glob("pairs-*"))})
        cpu, free = (sum(some) for some in zip(*stages[-1].values(), strict=True))
        first = sum(some[1] for some in stages[0].values())
        numbers = [f"{n_rows:,}", f"{workers}", f"{found.n_blocks}", f"{found.n_pairs:,}"]
        numbers += [f"{seconds:.0f}", f"{cpu:.1f}", f"{free:.1f}", f"{first / free / workers:.2f}"]
        table.append(numbers)
    assert written[0] == written[1], "the files of one worker and of two differ"
    header = ["vectors", "workers", "blocks", "pairs", "seconds", "CPU s"]
    header += ["CPU s of the busiest worker of each stage, and the driver", "efficiency"]
    load = f"Load of the machine at the end: {os.getloadavg()[0]:.1f}."
    print_table(f"Files joined with themselves above {_SIMILARITY}", header, table, load)
    _print_stages(stages)
    if compare:
        level: Guarantee | None = "exact" if found.certificate.complete else None
        _print_compared(folder, rows, level, _pairs_of(folder / "pairs-1"))


def _print_stages(stages: list[dict[str, tuple[float, float]]]) -> None:
    table = [
        [name, *(f"{value:.2f}" for one in stages for value in one.get(name, (0.0, 0.0)))]
        for name in stages[-1]
    ]
    header = ["stage"]
    for workers in ("1 worker", "2 workers"):
        header += [f"{workers}: CPU s", f"{workers}: busiest and driver"]
    print_table("The same by stage", header, table)


def _pairs_of(out: Path) -> tuple[IntArray, Float32Array]:
    """Return the pairs of files as sorted numbers, and their scores."""
    table = pq.read_table(sorted(out.glob("pairs-*.parquet")))
    return _numbered(*(np.asarray(table[name]) for name in ("id_a", "id_b", "score")))


def _numbered(left: Any, right: Any, scores: Any) -> tuple[IntArray, Float32Array]:
    both = np.sort(np.stack([left, right], axis=1).astype(np.int64), axis=1)
    numbers = both @ np.array([1 << 32, 1])
    order = np.argsort(numbers)
    return numbers[order], np.asarray(scores, np.float32)[order]


def _print_compared(
    folder: Path, rows: Float32Array, level: Guarantee | None, files: tuple[IntArray, Float32Array]
) -> None:
    """Join a collection of the same rows; where both find a pair, its scores must be equal.

    Where nothing is missed, both find the same. Elsewhere each misses pairs of its own.
    """
    options: dict[str, Any] = {"dim": rows.shape[1], "similarity": _SIMILARITY, "seal_at": 0}
    with memvec.open(folder / "whole.mv", **options) as collection:
        for start in range(0, len(rows), _ADDED_AT_ONCE):
            some = rows[start : start + _ADDED_AT_ONCE]
            collection.add(some, range(start, start + len(some)))
        collection.seal(progress=False)
        columns: tuple[list[Any], ...] = ([], [], [])
        for block in collection.self_join(_SIMILARITY, guarantee=level, progress=False).blocks():
            for column, values in zip(columns, block, strict=True):
                column.extend(values)
    whole = _numbered(*columns)
    _, ours, theirs = np.intersect1d(files[0], whole[0], return_indices=True)
    assert np.array_equal(files[1][ours], whole[1][theirs]), "scores of the same pairs differ"
    table = [[f"{len(ours):,}", f"{len(files[0]) - len(ours):,}", f"{len(whole[0]) - len(ours):,}"]]
    header = ["pairs of both, scores equal", "of the files alone", "of the collection alone"]
    print_table("The files beside Collection.self_join", header, table)
