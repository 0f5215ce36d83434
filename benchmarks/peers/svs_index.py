"""SVS (Scalable Vector Search): a Vamana graph.

Its compressed forms, LVQ and LeanVec, stop the process on processors that are not Intel's ("not
supported on non-Intel hardware"), so float16 and float32 take part.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import svs

from benchmarks.peers.contender import geometric
from benchmarks.peers.top_k import TopK, TopKContender
from memvec.types import Float32Array

# Rounding entries to float16 moves the cosine of unit rows by 5e-4 at most.
_FLOAT16_MARGIN = 2e-3


class Svs(TopKContender):
    """The effort is the search window; float16 scores are refined exactly."""

    larger_is_closer = True

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.margin = _FLOAT16_MARGIN if self.dtype == np.float16 else 0.0
        self.name = f"SVS Vamana {dtype}" + ", refined" * (self.margin > 0)

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.vectors = vectors
        # Below 1: with inner products larger is closer.
        parameters = svs.VamanaBuildParameters(alpha=0.95, graph_max_degree=48, window_size=128)
        self.index = svs.Vamana.build(
            parameters, vectors.astype(self.dtype), svs.MIP, num_threads=threads
        )
        self.index.num_threads = 1

    def efforts(self, k: int) -> list[float]:
        return list(geometric(k, min(8192, len(self.vectors) + k), 1.08))

    def configure(self, setting: TopK) -> None:
        self.index.num_threads = 1
        self.index.search_window_size = int(setting.effort)

    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        ids, scores = self.index.search(query, k)
        return ids[0], scores[0]

    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        self.index.num_threads = threads
        return self.index.search(queries, k)

    def save(self, folder: Path) -> None:
        self.index.save(*(str(folder / part) for part in ("config", "graph", "data")))

    def label(self, setting: TopK) -> str:
        return f"k={setting.k} window={setting.effort}"
