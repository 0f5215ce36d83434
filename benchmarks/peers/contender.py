"""What every library in the search benchmark is asked to do."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memvec.types import Float32Array, IntArray

# A match may lie 1e-6 below the similarity, and float32 scores of libraries are a few 1e-7 off:
# none of them shall miss a pair for its rounding.
SLACK = 2e-6

Setting = Any
Ladder = Sequence[Setting]


@dataclass(frozen=True, eq=False)
class Answer:
    """Ids of many queries, flat: query q has ``ids[offsets[q]:offsets[q + 1]]``."""

    offsets: IntArray
    ids: IntArray

    @classmethod
    def of_rows(cls, rows: Sequence[np.ndarray]) -> Answer:
        counts = [len(row) for row in rows]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(offsets, np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64))


class Contender(ABC):
    """A library with an index type; the speed is bought with misses along its ladders.

    Attributes
    ----------
    name : str
        How tables call it.
    exact : bool
        Whether it misses nothing by construction.
    tied_to_similarity : bool
        Whether the index is built for one similarity; the others are built once for all.
    parallel_batches : bool
        Whether a batch can be shared out over threads.
    tuning_queries : ndarray of shape (n_queries, dim) or None
        Queries like those to come, for whoever can make use of them in a build.
    build_seconds, build_cpu_seconds : float
        Time of the last build, on the clock and of all threads together.
    """

    name: str
    index: Any = None
    exact = False
    tied_to_similarity = False
    parallel_batches = True
    tuning_queries: Float32Array | None = None
    build_seconds = float("nan")
    build_cpu_seconds = float("nan")
    _resident = 0
    _disk: int | None = None
    _setting: Setting = None

    def warm_up(self, vectors: Float32Array) -> None:  # noqa: B027
        """Compile what is compiled at the first use, on a few vectors."""

    def timed_build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        """Build and note the time and the memory it took, beyond the caller's array."""
        self.index = None  # an earlier index would be freed meanwhile and hide the growth
        before, clock, cpu = resident_bytes(), time.perf_counter(), time.process_time()
        self.build(vectors, similarity, threads)
        self.build_seconds = time.perf_counter() - clock
        self.build_cpu_seconds = time.process_time() - cpu
        self._resident = max(0, resident_bytes() - before)
        self._setting, self._disk = None, None

    @abstractmethod
    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        """Index unit rows."""

    @abstractmethod
    def settings(self, counts: IntArray) -> list[Ladder]:
        """Return ladders of settings: along each, cost and share found rise.

        `counts` holds the number of matches of each tuning query.
        """

    def fixed_settings(self) -> dict[str, Setting]:
        """Return settings that get a row of their own without any tuning."""
        return {}

    def search(self, query: Float32Array, similarity: float, setting: Setting) -> IntArray:
        """Return the ids of everything above the similarity for one query, shape (dim,)."""
        if setting is not self._setting:
            self.configure(setting)
            self._setting = setting
        return self.find(query, similarity, setting)

    def search_batch(
        self, queries: Float32Array, similarity: float, setting: Setting, threads: int
    ) -> Answer:
        """Answer many queries with so many threads."""
        self.configure(setting)
        self._setting = setting
        return self.find_batch(queries, similarity, setting, threads)

    def configure(self, setting: Setting) -> None:  # noqa: B027
        """Put a setting into the index where it is not an argument of the search."""

    @abstractmethod
    def find(self, query: Float32Array, similarity: float, setting: Setting) -> IntArray:
        """Answer one query; the setting is configured already."""

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: Setting, threads: int
    ) -> Answer:
        """Answer many queries: one after the other, shared out over threads."""

        def work(part: Float32Array) -> list[IntArray]:
            return [self.find(query, similarity, setting) for query in part]

        if threads == 1:
            return Answer.of_rows(work(queries))
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(work, np.array_split(queries, threads))
            return Answer.of_rows([row for part in parts for row in part])

    def memory_bytes(self) -> int:
        """Return by how much the process grew with the build; 0 where that cannot be read."""
        return self._resident

    def disk_bytes(self) -> int:
        """Return the size of the saved index; 0 where it cannot be saved."""
        if self._disk is None:
            with tempfile.TemporaryDirectory() as folder:
                self.save(Path(folder))
                files = [path for path in Path(folder).rglob("*") if path.is_file()]
                self._disk = sum(path.stat().st_size for path in files)
        return self._disk

    def save(self, folder: Path) -> None:  # noqa: B027
        """Write the index into a folder."""

    def work(
        self, queries: Float32Array, similarity: float, setting: Setting
    ) -> dict[str, float] | None:
        """Return what a query takes on average, by name; None where nobody counts."""
        return None

    def design(self) -> str:
        """Return how the index was built, where it was chosen by itself."""
        return ""

    def label(self, setting: Setting) -> str:
        """Return the setting in a few words."""
        if hasattr(setting, "_asdict"):
            return " ".join(f"{key}={_short(value)}" for key, value in setting._asdict().items())
        return _short(setting)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def geometric(low: float, high: float, ratio: float) -> list[int]:
    """Return distinct integers from `low` to `high`, each about `ratio` times the one before."""
    high = max(low, high)
    steps = int(np.ceil(np.log(high / low) / np.log(ratio)))
    return sorted({round(float(x)) for x in np.geomspace(low, high, max(1, steps) + 1)})


def refine(
    vectors: Float32Array, query: Float32Array, ids: np.ndarray, similarity: float
) -> IntArray:
    """Return those of the ids whose exact score reaches the similarity."""
    scores = vectors.take(ids, axis=0) @ query
    return ids[scores >= similarity - SLACK]


def refine_batch(
    vectors: Float32Array, queries: Float32Array, candidates: Answer, similarity: float
) -> Answer:
    """Do the same for many queries."""
    bounds = candidates.offsets
    return Answer.of_rows(
        [
            refine(vectors, query, candidates.ids[bounds[row] : bounds[row + 1]], similarity)
            for row, query in enumerate(queries)
        ]
    )


def resident_bytes() -> int:
    """Return the memory this process holds, after giving back what is free; 0 where unknown."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, AttributeError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
