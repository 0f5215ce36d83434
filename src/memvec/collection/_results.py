"""What searches of a collection return."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec.collection._ids import Id
from memvec.guarantee import Certificate
from memvec.index import Work
from memvec.types import Float32Array, IntArray

IdArray: TypeAlias = np.ndarray[Any, np.dtype[np.object_]]


class Match(NamedTuple):
    """One match of one query."""

    query: int
    id: Id
    score: float


class CollectionRow(NamedTuple):
    """The matches of one query, the best first."""

    ids: IdArray
    scores: Float32Array


@dataclass(frozen=True, eq=False)
class CollectionHits:
    """All matches of some queries, flat, each query's ordered by score and then by id.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,)
        Query q has the matches from ``offsets[q]`` to ``offsets[q + 1]``.
    ids : ndarray of shape (n_matches,)
        Integers and strings, in an array of objects.
    scores : ndarray of shape (n_matches,)
        Their cosines with the query, float32.
    certificate : Certificate
        What is promised about the matches missed.
    work : Work
        What was spent, summed over queries and segments.
    """

    offsets: IntArray
    ids: IdArray
    scores: Float32Array
    certificate: Certificate
    work: Work

    @property
    def counts(self) -> IntArray:
        """The number of matches of each query, shape (n_queries,)."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> CollectionRow:
        start, stop = self.offsets[:-1][query], self.offsets[1:][query]
        return CollectionRow(self.ids[start:stop], self.scores[start:stop])

    def __iter__(self) -> Iterator[CollectionRow]:
        return (self[query] for query in range(len(self)))

    def __repr__(self) -> str:
        return f"CollectionHits({len(self.ids)} matches of {len(self)} queries)"


@dataclass(frozen=True, eq=False)
class CollectionTopHits:
    """The best k of each query, ordered by score and then by id.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        Integers and strings, in an array of objects; None where there are fewer than k.
    scores : ndarray of shape (n_queries, k)
        Their cosines, float32, falling; -inf where there is no id.
    certificate : Certificate
        What is promised about the vectors missed.
    work : Work
        What was spent, summed over queries and segments.
    """

    ids: IdArray
    scores: Float32Array
    certificate: Certificate
    work: Work

    @classmethod
    def of(cls, hits: CollectionHits, k: int) -> CollectionTopHits:
        """Return the first k matches of each query, filled up."""
        ids = np.full((len(hits), k), None, dtype=object)
        scores = np.full((len(hits), k), -np.inf, dtype=np.float32)
        for query, row in enumerate(hits):
            n_found = min(k, len(row.ids))
            ids[query, :n_found] = row.ids[:n_found]
            scores[query, :n_found] = row.scores[:n_found]
        return cls(ids, scores, hits.certificate, hits.work)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        n_queries, k = self.ids.shape
        return f"CollectionTopHits(best {k} of {n_queries} queries)"


__all__ = ["CollectionHits", "CollectionRow", "CollectionTopHits", "IdArray", "Match"]
