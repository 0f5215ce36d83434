"""USearch: a hierarchical graph over vectors of a chosen precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from usearch.index import Index

from benchmarks.peers.contender import geometric
from benchmarks.peers.top_k import TopK, TopKContender
from memvec.types import Float32Array

# How far scores lie below the cosine. Rounding both vectors to bf16 moves it by 4e-3 at most (seen
# on 30,000 pairs of sentence embeddings: 4e-4); int8 scores deviate by 5e-3, 2.4e-2 at most there.
_MARGINS = {"f32": 0.0, "bf16": 5e-3, "i8": 3e-2}


class Usearch(TopKContender):
    """The effort is the expansion of a search; scores of short types are refined exactly.

    The `radius` argument is left alone: in USearch 2.26 answers hold k neighbours whatever it is.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype, self.margin = dtype, _MARGINS[dtype]
        self.name = f"USearch {dtype}" + ", refined" * (self.margin > 0)

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.vectors = vectors
        self.index = Index(
            ndim=vectors.shape[1],
            metric="cos",
            dtype=self.dtype,
            connectivity=16,
            expansion_add=128,
        )
        self.index.add(np.arange(len(vectors)), vectors, threads=threads)

    def efforts(self, k: int) -> list[float]:
        return list(geometric(k, min(8192, len(self.vectors) + k), 1.08))

    def configure(self, setting: TopK) -> None:
        self.index.expansion_search = int(setting.effort)

    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        found = self.index.search(query, k, threads=1)
        return found.keys, found.distances

    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        found = self.index.search(queries, k, threads=threads)
        if len(queries) == 1:
            return np.atleast_2d(found.keys), np.atleast_2d(found.distances)
        return found.keys, found.distances

    def save(self, folder: Path) -> None:
        self.index.save(str(folder / "index"))

    def label(self, setting: TopK) -> str:
        return f"k={setting.k} expansion={setting.effort}"
