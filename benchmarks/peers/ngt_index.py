"""NGT: a graph of approximate neighbours (ANNG), searched by radius or for the k nearest."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import ngtpy
import numpy as np

from benchmarks.peers.contender import SLACK, Contender, Ladder, geometric
from memvec.types import Float32Array, IntArray

_NO_RADIUS = float(np.finfo(np.float32).max)


class Explored(NamedTuple):
    """Neighbours wanted (0: all within the radius) and how far beyond them NGT explores."""

    k: int
    epsilon: float


class Ngt(Contender):
    """Both of its searches are tried; NGT returns lists of ids, so batches go one by one."""

    name = "NGT ANNG"
    parallel_batches = False

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.n_vectors = len(vectors)
        self._folder = tempfile.TemporaryDirectory()
        path = str(Path(self._folder.name) / "index")
        ngtpy.create(
            path,
            vectors.shape[1],
            edge_size_for_creation=20,
            edge_size_for_search=40,
            distance_type="Normalized Cosine",
        )
        self.index = ngtpy.Index(path, log_disabled=True)
        self.index.batch_insert(vectors, num_threads=threads)

    def settings(self, counts: IntArray) -> list[Ladder]:
        most = max(4, int(counts.max(initial=1)) + 1)
        by_radius = [Explored(0, round(0.02 * step, 2)) for step in range(5, 126)]
        reaches = [round(0.005 * step, 3) for step in range(-20, 61)]
        by_number = [
            [Explored(k, reach) for reach in reaches]
            for k in geometric(2, min(most, self.n_vectors), 2.0)
        ]
        return [by_radius, *by_number]

    def find(self, query: Float32Array, similarity: float, setting: Explored) -> IntArray:
        limit = 1.0 - similarity + SLACK
        if setting.k == 0:
            self.index.set(search_radius=limit)
            found = self.index.search(query, self.n_vectors, setting.epsilon)
            return np.array([name for name, _ in found], dtype=np.int64)
        k = setting.k
        while True:
            found = self.index.search(query, k, setting.epsilon)
            ids = [name for name, distance in found if distance <= limit]
            if len(ids) < k or k == self.n_vectors:
                return np.array(ids, dtype=np.int64)
            k = min(4 * k, self.n_vectors)

    def configure(self, setting: Explored) -> None:
        self.index.set(search_radius=_NO_RADIUS)

    def save(self, folder: Path) -> None:
        # NGT always lives in a folder; saving anew is not offered, so the copy is measured.
        self.index.save()
        for file in Path(self._folder.name).rglob("*"):
            if file.is_file():
                (folder / file.name).write_bytes(file.read_bytes())

    def label(self, setting: Explored) -> str:
        what = f"k={setting.k}" if setting.k else "by radius"
        return f"{what} epsilon={setting.epsilon:g}"
