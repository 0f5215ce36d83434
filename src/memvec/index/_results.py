"""What searches return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memvec.guarantee import Certificate
from memvec.types import Float32Array, IntArray


@dataclass(frozen=True)
class Work:
    """Inner products spent, summed over the queries.

    Attributes
    ----------
    n_queries, n_vectors : int
        The size of the question.
    unit_tests : int
        Scores with memory vectors.
    units_visited : int
        Units whose members were scored.
    members_scored : int
        Scores with members.
    """

    n_queries: int
    n_vectors: int
    unit_tests: int
    units_visited: int
    members_scored: int

    @property
    def products(self) -> int:
        """All inner products: M + Σ nᵢ over the units visited, for each query."""
        return self.unit_tests + self.members_scored

    @property
    def cost_ratio(self) -> float:
        """Products over those of the exhaustive scan, C/N (paper, Section 5); 0 for no query."""
        return self.products / max(1, self.n_queries * self.n_vectors)


class HitRow(NamedTuple):
    """The matches of one query, the best first."""

    ids: IntArray
    scores: Float32Array


@dataclass(frozen=True, eq=False)
class Hits:
    """All matches of some queries, flat, each query's ordered by score and then by id.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,)
        Query q has the matches from ``offsets[q]`` to ``offsets[q + 1]``.
    ids : ndarray of shape (n_matches,)
        Rows of the array the index was built from, int64.
    scores : ndarray of shape (n_matches,)
        Their cosines with the query, float32.
    certificate : Certificate
        What is promised about the matches missed.
    work : Work
        What was spent.
    """

    offsets: IntArray
    ids: IntArray
    scores: Float32Array
    certificate: Certificate
    work: Work

    @property
    def counts(self) -> IntArray:
        """The number of matches of each query, shape (n_queries,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> HitRow:
        start, stop = self.offsets[:-1][query], self.offsets[1:][query]
        return HitRow(self.ids[start:stop], self.scores[start:stop])

    def __iter__(self) -> Iterator[HitRow]:
        return (self[query] for query in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"Hits({len(self.ids)} matches of {len(self)} queries, "
            f"cost ratio {self.work.cost_ratio:.3f})"
        )


@dataclass(frozen=True, eq=False)
class TopHits:
    """The best k of each query.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        Rows of the array the index was built from; -1 where fewer than k were found.
    scores : ndarray of shape (n_queries, k)
        Their cosines, float32, falling; -inf where there is no id.
    certificate : Certificate
        What is promised about the vectors missed.
    work : Work
        What was spent.
    """

    ids: IntArray
    scores: Float32Array
    certificate: Certificate
    work: Work

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        n_queries, k = self.ids.shape
        return f"TopHits(best {k} of {n_queries} queries, cost ratio {self.work.cost_ratio:.3f})"


__all__ = ["HitRow", "Hits", "TopHits", "Work"]
