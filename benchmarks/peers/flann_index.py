"""FLANN as OpenCV ships it: a tree of k-means, or what its autotuning chooses.

From Python, OpenCV passes floats as doubles and FLANN refuses them, so autotuning runs with its own
defaults (precision 0.8, a tenth of the data as sample); it took 90 s for 20,000 x 384 vectors, and
is run where it is asked for by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.peers.contender import SLACK, Contender, Ladder, geometric
from memvec.types import Float32Array, IntArray

_KMEANS: dict[str, Any] = {"algorithm": 2, "branching": 32, "iterations": 7}
# Neighbours there is room for at first; where they are more, the search is repeated with more room.
_ROOM = 256
_AUTOTUNED: dict[str, Any] = {"algorithm": 255}


class Flann(Contender):
    """FLANN's radius search; the setting is the number of leaves checked."""

    parallel_batches = False

    def __init__(self, autotuned: bool) -> None:
        self.parameters = _AUTOTUNED if autotuned else _KMEANS
        self.name = "FLANN autotuned" if autotuned else "FLANN k-means tree"

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        cv2.setNumThreads(threads)
        self.n_vectors = len(vectors)
        self.index = cv2.flann.Index(vectors, self.parameters)

    def settings(self, counts: IntArray) -> list[Ladder]:
        return [geometric(16, self.n_vectors, 1.1)]

    def find(self, query: Float32Array, similarity: float, setting: int) -> IntArray:
        radius, room = 2.0 - 2.0 * similarity + 2 * SLACK, _ROOM
        room = min(room, self.n_vectors)
        while True:
            count, ids, _ = self.index.radiusSearch(
                query[np.newaxis], radius, room, params={"checks": setting}
            )
            if count < room or room == self.n_vectors:
                break
            room = min(4 * room, self.n_vectors)
        return ids[0, :count].astype(np.int64) if count else np.empty(0, np.int64)

    def save(self, folder: Path) -> None:
        self.index.save(str(folder / "index"))

    def label(self, setting: int) -> str:
        return f"checks={setting}"
