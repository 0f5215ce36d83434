"""PyNNDescent: a neighbour graph by descent, searched by Numba."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pynndescent

from benchmarks.peers.top_k import TopK, TopKContender
from memvec.types import Float32Array


class Pynndescent(TopKContender):
    """The effort is epsilon. Batches are answered by one thread."""

    name = "PyNNDescent"
    parallel_batches = False

    def warm_up(self, vectors: Float32Array) -> None:
        """Compile on a few vectors, so that the build is not charged for it."""
        self.build(vectors, 0.5, 1)
        self.top(vectors[0], 4, 0.1)

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.vectors = vectors
        self.index = pynndescent.NNDescent(vectors, metric="cosine", n_jobs=threads, random_state=0)
        self.index.prepare()

    def efforts(self, k: int) -> list[float]:
        return [round(0.01 * step, 2) for step in range(61)]

    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        ids, distances = self.top_batch(query[np.newaxis], k, effort, 1)
        return ids[0], distances[0]

    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.index.query(queries, k=k, epsilon=effort, pre_normalized=True)

    def save(self, folder: Path) -> None:
        with open(folder / "index", "wb") as file:
            pickle.dump(self.index, file)

    def label(self, setting: TopK) -> str:
        return f"k={setting.k} epsilon={setting.effort:g}"
