"""A data set with queries and what they should find, and the vectors made up for want of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from memvec import checks
from memvec.codes import Projection
from memvec.evaluation import exact_range, exact_top_k, four_recall_at_4, mean_average_precision
from memvec.types import ArrayLike, Float32Array, IntArray

Measure: TypeAlias = Literal["mAP", "4-recall@4", "found"]

# Deeper ranks add less than 1e-4 to a mean average precision; rankings of millions of vectors
# would not fit into memory.
_DEEPEST_RANKING = 20_000


@dataclass(frozen=True, eq=False)
class RetrievalSet:
    """Vectors, queries and the ids each query should find.

    Attributes
    ----------
    name : str
        What figures call it.
    vectors : ndarray of shape (n_vectors, dim)
        Unit rows.
    queries : ndarray of shape (n_queries, dim)
        Unit rows.
    relevant : sequence of n_queries arrays of ids
        What should be found.
    measure : {"mAP", "4-recall@4", "found"}
        How a ranking is judged; "found" is the mean share of the relevant ids that are ranked.
    own : ndarray of shape (n_queries,), optional
        The id of each query in the data, left out of rankings (the rule of Holidays).
    junk : sequence of n_queries arrays of ids, optional
        Ids that count neither way (the rule of Oxford5k).
    """

    name: str
    vectors: Float32Array
    queries: Float32Array
    relevant: Sequence[IntArray]
    measure: Measure
    own: IntArray | None = None
    junk: Sequence[IntArray] | None = None

    @cached_property
    def ranking(self) -> IntArray:
        """All ids by falling cosine for each query, shape (n_queries, depth)."""
        depth = min(len(self.vectors), _DEEPEST_RANKING)
        return exact_top_k(self.vectors, self.queries, depth, progress=False).ids

    def quality(self, rankings: Sequence[ArrayLike]) -> float:
        """Return the measure of some rankings, one a query."""
        if self.measure == "mAP":
            return mean_average_precision(rankings, self.relevant, junk=self.junk, queries=self.own)
        if self.measure == "4-recall@4":
            return four_recall_at_4(rankings, self.relevant)
        shares = [
            np.isin(ids, ranked).mean() for ids, ranked in zip(self.relevant, rankings, strict=True)
        ]
        return float(np.mean(shares))

    def projected(self, projection: Projection, name: str) -> RetrievalSet:
        """Return the set with vectors and queries projected."""
        return RetrievalSet(
            name,
            projection.apply(self.vectors),
            projection.apply(self.queries),
            self.relevant,
            self.measure,
            self.own,
            self.junk,
        )


def cosine_set(
    name: str, rows: Float32Array, n_queries: int, similarity: float, seed: int
) -> RetrievalSet:
    """Split rows into queries and data; what should be found is all above a cosine.

    Queries without a match have nothing to find and are left out.
    """
    order = np.random.default_rng(seed).permutation(len(rows))
    queries, vectors = rows[order[:n_queries]], rows[np.sort(order[n_queries:])]
    truth = exact_range(vectors, queries, similarity, progress=False)
    asked = np.flatnonzero(np.diff(truth.offsets))
    relevant = [truth[int(query)].ids for query in asked]
    return RetrievalSet(name, vectors, queries[asked], relevant, "found")


def made_up_views(
    name: str, n_scenes: int, n_views: int, n_others: int, dim: int, seed: int
) -> RetrievalSet:
    """Make up descriptors of scenes seen several times, among those of other scenes.

    Views of a scene share a direction, and all vectors a fading spectrum: neighbours have cosines
    about 0.7, and the effective dimension is about half of `dim`. With 4 views the queries are all
    of them and 4-recall@4 is measured, otherwise the first view of each scene and mAP.
    """
    rng = np.random.default_rng([seed, dim, n_views])
    spectrum = np.arange(1, dim + 1) ** -0.3
    scenes = np.repeat(rng.standard_normal((n_scenes, dim)), n_views, axis=0)
    views = 0.85 * scenes + 0.55 * rng.standard_normal((n_scenes * n_views, dim))
    rows = np.concatenate([views, rng.standard_normal((n_others, dim))]) * spectrum
    vectors = checks.unit_rows(rows, "rows", "made_up_views")
    groups = np.arange(n_scenes * n_views).reshape(n_scenes, n_views)
    if n_views == 4:
        every = np.repeat(groups, 4, axis=0)
        return RetrievalSet(name, vectors, vectors[: len(every)], list(every), "4-recall@4")
    return RetrievalSet(
        name, vectors, vectors[groups[:, 0]], list(groups[:, 1:]), "mAP", groups[:, 0]
    )


__all__ = ["Measure", "RetrievalSet", "cosine_set", "made_up_views"]
