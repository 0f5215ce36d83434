"""Range search with libraries that only know the k nearest."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from benchmarks.peers.contender import (
    SLACK,
    Answer,
    Contender,
    Ladder,
    geometric,
    refine,
    refine_batch,
)
from memvec.types import Float32Array, IntArray

# Where all k are above the similarity there may be more: ask again for so many times as many.
GROWTH = 4


class TopK(NamedTuple):
    """How many neighbours to ask for at first, and how hard to look for them."""

    k: int
    effort: float


class TopKContender(Contender):
    """Asks for k neighbours, and for more while all of them are above the similarity.

    Attributes
    ----------
    larger_is_closer : bool
        Whether the library returns similarities; distances 1 − cosine otherwise.
    margin : float
        How far below the true cosine the library's own score may lie; above 0, candidates are
        scored again with the caller's vectors.
    """

    larger_is_closer = False
    margin = 0.0
    vectors: Float32Array

    @abstractmethod
    def top(self, query: Float32Array, k: int, effort: float) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and scores of one query, the closest first."""

    @abstractmethod
    def top_batch(
        self, queries: Float32Array, k: int, effort: float, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and scores of shape (n_queries, k)."""

    @abstractmethod
    def efforts(self, k: int) -> list[float]:
        """Return the efforts worth trying with k, rising."""

    def settings(self, counts: IntArray) -> list[Ladder]:
        """Return one ladder of efforts for each k up to the most matches of a query."""
        most = max(4, int(counts.max(initial=1)) + 1)
        ks = geometric(2, min(most, len(self.vectors)), 1.6)
        return [[TopK(k, effort) for effort in self.efforts(k)] for k in ks]

    def find(self, query: Float32Array, similarity: float, setting: TopK) -> IntArray:
        k, effort = setting[:2]
        while True:
            ids, scores = self.top(query, k, effort)
            count = np.count_nonzero(self._above(scores, similarity))
            if count < k or k == len(self.vectors):
                break
            k = min(GROWTH * k, len(self.vectors))
        ids = ids[:count].astype(np.int64)
        return refine(self.vectors, query, ids, similarity) if self.margin else ids

    def find_batch(
        self, queries: Float32Array, similarity: float, setting: TopK, threads: int
    ) -> Answer:
        k, effort = setting[:2]
        rows: list[np.ndarray] = [np.empty(0, np.int64)] * len(queries)
        pending = np.arange(len(queries))
        while len(pending):
            ids, scores = self.top_batch(queries[pending], k, effort, threads)
            counts = np.count_nonzero(self._above(scores, similarity), axis=1)
            for row, found, count in zip(pending, ids, counts, strict=True):
                rows[row] = found[:count]
            if k == len(self.vectors):
                break
            pending = pending[counts == k]
            k = min(GROWTH * k, len(self.vectors))
        answer = Answer.of_rows(rows)
        return refine_batch(self.vectors, queries, answer, similarity) if self.margin else answer

    def _above(self, scores: np.ndarray, similarity: float) -> np.ndarray:
        cut = similarity - SLACK - self.margin
        return scores >= cut if self.larger_is_closer else scores <= 1.0 - cut
