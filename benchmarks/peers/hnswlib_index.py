"""hnswlib: a hierarchical graph, the k nearest with ef candidates."""

from __future__ import annotations

from pathlib import Path

import hnswlib
import numpy as np

from benchmarks.peers.contender import geometric
from benchmarks.peers.top_k import TopK, TopKContender
from memvec.types import Float32Array


class Hnswlib(TopKContender):
    """The effort is ef."""

    def __init__(self, degree: int, construction: int = 200) -> None:
        self.degree, self.construction = degree, construction
        self.name = f"hnswlib, M={degree}"

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.vectors = vectors
        self.index = hnswlib.Index("ip", vectors.shape[1])
        self.index.init_index(len(vectors), M=self.degree, ef_construction=self.construction)
        self.index.add_items(vectors, num_threads=threads)

    def efforts(self, k: int) -> list[float]:
        return list(geometric(k, min(8192, len(self.vectors) + k), 1.08))

    def configure(self, setting: TopK) -> None:
        self.index.set_ef(int(setting.effort))

    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        ids, distances = self.index.knn_query(query, k, num_threads=1)
        return ids[0], distances[0]

    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.index.knn_query(queries, k, num_threads=threads)

    def save(self, folder: Path) -> None:
        self.index.save_index(str(folder / "index"))

    def label(self, setting: TopK) -> str:
        return f"k={setting.k} ef={setting.effort}"
