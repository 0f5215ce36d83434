"""Results as users see them: hits, the best k, the work spent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec.guarantee import Certificate, NullLaw
from memvec.types import Float32Array, Float64Array, IntArray

IdArray: TypeAlias = np.ndarray[Any, np.dtype[np.object_]]


@dataclass(frozen=True)
class Work:
    """What a search spent, summed over the queries.

    Attributes
    ----------
    n_queries, n_vectors : int
        The size of the question.
    unit_tests : int
        Memory vectors tested, of groups and of units, by float32 or by code.
    units_visited : int
        Units whose members were tested.
    members_tested : int
        Members of those units, tested by float32 or by the first words of their codes.
    codes_tested : int
        Members whose whole code was tested.
    exact_products : int
        Members scored exactly.
    """

    n_queries: int
    n_vectors: int
    unit_tests: int
    units_visited: int
    members_tested: int
    codes_tested: int
    exact_products: int

    @classmethod
    def of(cls, spent: IntArray, searched: Searched) -> Work:
        """Return the sum over queries, from what each spent."""
        return cls(len(spent), searched.n_vectors, *spent.sum(axis=0).tolist())

    @property
    def cost_ratio(self) -> float:
        """Vectors compared over those of the exhaustive scan: (M + Σ nᵢ)/N (paper, Section 5)."""
        compared = self.unit_tests + self.members_tested
        return compared / max(1, self.n_queries * self.n_vectors)

    @property
    def skipped(self) -> float:
        """The share of vectors that no exact score was spent on."""
        return 1 - self.exact_products / max(1, self.n_queries * self.n_vectors)


@dataclass(frozen=True, eq=False)
class Searched:
    """What hits were found in.

    Attributes
    ----------
    n_vectors : int
        Vectors stored.
    n_candidates : int
        Those that could be hits: neither deleted nor left out by a filter.
    null_law : NullLaw
        What vectors that have nothing to do with a query score.
    """

    n_vectors: int
    n_candidates: int
    null_law: NullLaw


class HitRow(NamedTuple):
    """The matches of one query, the best first."""

    ids: IntArray | IdArray
    scores: Float32Array


@dataclass(frozen=True, eq=False, init=False)
class Hits:
    """All matches of some queries, flat, each query's ordered by score and then by id.

    Attributes
    ----------
    offsets : ndarray of shape (n_queries + 1,)
        Query q has the matches from ``offsets[q]`` to ``offsets[q + 1]``.
    ids : ndarray of shape (n_matches,)
        Of an index, rows of the array it was built from, int64; of a collection, integers and
        strings, in an array of objects.
    scores : ndarray of shape (n_matches,)
        Their cosines with the query, float32.
    certificate : Certificate
        What is promised about the matches missed.
    spent : ndarray of shape (n_queries, 5)
        What each query took: unit tests, units visited, members tested, whole codes tested, exact
        products. `work` is their sum.
    searched : Searched
        What they were found in.
    """

    offsets: IntArray
    ids: IntArray | IdArray
    scores: Float32Array
    certificate: Certificate
    spent: IntArray
    searched: Searched

    def __init__(
        self,
        offsets: IntArray,
        ids: IntArray | IdArray,
        scores: Float32Array,
        certificate: Certificate,
        spent: IntArray,
        searched: Searched,
    ) -> None:
        # All at once: field by field, as dataclasses do it, takes a microsecond of every search.
        vars(self).update(
            offsets=offsets,
            ids=ids,
            scores=scores,
            certificate=certificate,
            spent=spent,
            searched=searched,
        )

    @property
    def work(self) -> Work:
        """What was spent, summed over the queries."""
        return Work.of(self.spent, self.searched)

    @property
    def null_law(self) -> NullLaw:
        """What vectors that have nothing to do with a query score."""
        return self.searched.null_law

    @property
    def p_values(self) -> Float64Array:
        """The chance that an unrelated vector scores as high, for each hit.

        It is an upper limit where it equals ``null_law.smallest``, unless ``null_law.is_uniform``.
        """
        return self.null_law.p_values(self.scores)

    @property
    def e_values(self) -> Float64Array:
        """p·N: how many unrelated vectors a search is expected to return at the hit's score."""
        return self.p_values * self.searched.n_candidates

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
    """The best k of each query, ordered by score and then by id.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        As in :class:`Hits`; where fewer than k were found, -1 of an index and None of a collection.
    scores : ndarray of shape (n_queries, k)
        Their cosines, float32, falling; -inf where there is no id.
    certificate : Certificate
        What is promised about the vectors missed.
    spent : ndarray of shape (n_queries, 5)
        What each query took; `work` is their sum.
    searched : Searched
        What they were found in.
    """

    ids: IntArray | IdArray
    scores: Float32Array
    certificate: Certificate
    spent: IntArray
    searched: Searched

    @classmethod
    def of(cls, hits: Hits, k: int) -> TopHits:
        """Return the first k matches of each query, filled up."""
        named = hits.ids.dtype == np.object_
        ids: Any = np.full((len(hits), k), None if named else -1, dtype=hits.ids.dtype)
        scores = np.full((len(hits), k), -np.inf, dtype=np.float32)
        for query, (start, stop) in enumerate(pairwise(hits.offsets.tolist())):
            n_found = min(k, stop - start)
            ids[query, :n_found] = hits.ids[start : start + n_found]
            scores[query, :n_found] = hits.scores[start : start + n_found]
        return cls(ids, scores, hits.certificate, hits.spent, hits.searched)

    @property
    def work(self) -> Work:
        """What was spent, summed over the queries."""
        return Work.of(self.spent, self.searched)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        n_queries, k = self.ids.shape
        return f"TopHits(best {k} of {n_queries} queries, cost ratio {self.work.cost_ratio:.3f})"
