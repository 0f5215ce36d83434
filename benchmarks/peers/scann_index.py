"""ScaNN: a tree of partitions, anisotropic codes, exact reordering."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scann

from benchmarks.peers.contender import Ladder, geometric
from benchmarks.peers.top_k import TopKContender
from memvec.types import Float32Array, IntArray


class Reordered(NamedTuple):
    """Neighbours wanted and the leaves read for them; `spare` times as many are reordered."""

    k: int
    effort: int
    spare: int


class Scann(TopKContender):
    """The effort is the number of leaves."""

    name = "ScaNN"
    larger_is_closer = True
    spare = 1

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.vectors = vectors
        self.leaves = max(1, min(round(4 * math.sqrt(len(vectors))), len(vectors) // 40))
        builder = scann.scann_ops_pybind.builder(vectors, 10, "dot_product")
        builder.set_n_training_threads(threads)
        builder.tree(
            num_leaves=self.leaves,
            num_leaves_to_search=max(1, self.leaves // 20),
            training_sample_size=min(len(vectors), 250_000),
        )
        builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100)
        self.index = builder.build()
        self.index.set_num_threads(threads)

    def settings(self, counts: IntArray) -> list[Ladder]:
        most = max(8, int(counts.max(initial=1)) + 1)
        ks = geometric(4, min(most, len(self.vectors)), 2.0)
        return [
            [Reordered(k, leaves, spare) for leaves in self.efforts(k)]
            for k in ks
            for spare in (2, 4, 8, 16)
        ]

    def efforts(self, k: int) -> list[float]:
        return list(geometric(1, self.leaves, 1.08))

    def configure(self, setting: Reordered) -> None:
        self.spare = setting.spare

    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        return self.index.search(
            query,
            final_num_neighbors=k,
            pre_reorder_num_neighbors=self.spare * k,
            leaves_to_search=int(effort),
        )

    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        self.index.set_num_threads(threads)
        search = self.index.search_batched if threads == 1 else self.index.search_batched_parallel
        return search(
            queries,
            final_num_neighbors=k,
            pre_reorder_num_neighbors=self.spare * k,
            leaves_to_search=int(effort),
        )

    def save(self, folder: Path) -> None:
        self.index.serialize(str(folder))

    def label(self, setting: Reordered) -> str:
        return (
            f"k={setting.k} leaves={setting.effort} of {self.leaves} "
            f"reorder={setting.k * setting.spare}"
        )
