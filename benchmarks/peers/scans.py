"""The exhaustive scan with the BLAS that NumPy brings: what every index is measured against."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.peers.contender import SLACK, Answer, Contender, Ladder
from memvec.types import Float32Array, IntArray

# Scores of a block of queries with a block of vectors: 512 x 8192 floats are 16 MiB.
_QUERY_ROWS, _VECTOR_ROWS = 512, 8192


class BlasScan(Contender):
    """One query: a matrix-vector product (gemv). A batch: blocked matrix products (GEMM)."""

    name = "BLAS scan"
    exact = True

    def build(self, vectors: Float32Array, similarity: float, threads: int) -> None:
        self.vectors = vectors

    def settings(self, counts: IntArray) -> list[Ladder]:
        return [["all"]]

    def find(self, query: Float32Array, similarity: float, setting: str) -> IntArray:
        return np.flatnonzero(self.vectors @ query >= similarity - SLACK)

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: str, threads: int
    ) -> Answer:
        # The number of threads is limited outside, by threadpoolctl.
        rows: list[np.ndarray] = []
        for start in range(0, len(queries), _QUERY_ROWS):
            rows += self._block(queries[start : start + _QUERY_ROWS], similarity)
        return Answer.of_rows(rows)

    def _block(self, queries: Float32Array, similarity: float) -> list[np.ndarray]:
        query, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, len(self.vectors), _VECTOR_ROWS):
            scores = queries @ self.vectors[start : start + _VECTOR_ROWS].T
            rows, columns = np.divmod(np.flatnonzero(scores >= similarity - SLACK), scores.shape[1])
            query.append(rows)
            ids.append(columns + start)
        flat_query, flat_ids = np.concatenate(query), np.concatenate(ids)
        order = np.argsort(flat_query, kind="stable")
        bounds = np.searchsorted(flat_query[order], np.arange(1, len(queries)))
        return np.split(flat_ids[order], bounds)

    def save(self, folder: Path) -> None:
        np.save(folder / "vectors.npy", self.vectors)
