"""Quality against complexity: the curves of the paper's Section 5.

An index is built from a configuration and gives the scores of its units for every query. At a
threshold τ the members of the units that score above are ranked by cosine; since the ranking of a
part is part of the ranking of all, one exact ranking of a data set serves every index and every τ.
`Index.search(threshold=τ)` returns the same, as a test shows, τ by τ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.constructions import Construction, memory_vectors
from memvec.index import Index, IndexConfig
from memvec.types import Float32Array, Float64Array, IntArray
from paper.experiment import Run
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table, plain

CURVE_COLUMNS = ("data", "variant", "ratio", "quality", "baseline")


@dataclass(frozen=True, eq=False)
class SearchedUnits:
    """Units as some queries see them.

    Attributes
    ----------
    scores : ndarray of shape (n_queries, n_units)
        What the unit test sees.
    labels : ndarray of shape (n_vectors,)
        The unit of each vector.
    sizes : ndarray of shape (n_units,)
        Vectors in each unit.
    """

    scores: Float32Array
    labels: IntArray
    sizes: IntArray

    @classmethod
    def of_index(cls, index: Index, queries: Float32Array) -> SearchedUnits:
        """Return the units of an index; it must have no reserve."""
        return cls(index.unit_scores(queries), index.labels, index.unit_sizes)

    @classmethod
    def of_labels(
        cls,
        vectors: Float32Array,
        labels: IntArray,
        queries: Float32Array,
        construction: Construction,
        *,
        centroids: bool = False,
    ) -> SearchedUnits:
        """Return units that something else than an index has made; empty ones are left out."""
        used, labels = np.unique(labels, return_inverse=True)
        sizes = np.bincount(labels, minlength=len(used))
        vectors_of_units = memory_vectors(
            vectors,
            np.concatenate([[0], np.cumsum(sizes)]),
            order=np.argsort(labels, kind="stable"),
            construction="ridge" if centroids else construction,
            ridge=np.inf if centroids else 0.0,
            normalised=centroids,
        )
        return cls(queries @ vectors_of_units.T, labels, sizes)

    @property
    def largest(self) -> float:
        """The share of all vectors that the largest unit holds."""
        return float(self.sizes.max() / len(self.labels))

    def threshold(self, ratio: float) -> float:
        """Return the lowest τ at which queries cost at most `ratio` on average."""
        order, costs = self._by_score
        affordable = int(np.searchsorted(costs, ratio * (1 + 1e-9), side="right"))
        if affordable == 0:
            return float("inf")
        return float(self.scores.ravel()[order[affordable - 1]])

    @cached_property
    def _by_score(self) -> tuple[IntArray, Float64Array]:
        """All pairs of query and unit by falling score, and what the first so many cost."""
        order = np.argsort(-self.scores, axis=None, kind="stable")
        sizes = np.broadcast_to(self.sizes, self.scores.shape).ravel()[order]
        n_queries, n_vectors = len(self.scores), len(self.labels)
        costs = len(self.sizes) / n_vectors + np.cumsum(sizes) / (n_queries * n_vectors)
        return order, costs

    def ratios(self, threshold: float) -> Float64Array:
        """Return C(τ)/N of each query."""
        visited = (self.scores >= threshold) @ self.sizes
        return np.asarray((len(self.sizes) + visited) / len(self.labels), dtype=np.float64)

    def rankings(self, data: RetrievalSet, threshold: float) -> list[IntArray]:
        """Return what each query finds in the units above a threshold, the best first."""
        if data.measure == "found":
            candidates: Sequence[IntArray] = data.relevant
        else:
            candidates = list(data.ranking)
        passed = self.scores >= threshold
        return [ids[passed[query, self.labels[ids]]] for query, ids in enumerate(candidates)]


def paper_config(
    assignment: str, construction: str, unit_size: int, seed: int, **others: object
) -> IndexConfig:
    """Return the configuration of one of the paper's variants, without codes.

    Examples
    --------
    >>> paper_config("kmeans", "sum", 10, seed=0).kmeans_rule
    'sum'
    """
    settings: dict[str, object] = {
        "assignment": assignment,
        "construction": construction,
        "kmeans_rule": construction if assignment == "kmeans" else "sum+norm",
        "unit_size": unit_size,
        "levels": 1,
        "codes": "none",
        "reserve": 0,
        "seed": seed,
        **others,
    }
    return IndexConfig(**settings)  # type: ignore[arg-type]


def kmeans_variants(unit_size: int, seed: int) -> dict[str, IndexConfig]:
    """Return k-means with plain sums, with normalised sums, and with pinv.

    Normalised sums assign vectors, the footnote of the paper's Section 4.3; the memory vectors of
    these units are plain sums, as everywhere in the paper.
    """
    return {
        "k-means sum": paper_config("kmeans", "sum", unit_size, seed),
        "k-means sum+norm": paper_config("kmeans", "sum", unit_size, seed, kmeans_rule="sum+norm"),
        "k-means pinv": paper_config("kmeans", "pinv", unit_size, seed),
    }


def search_units(
    data: RetrievalSet, config: IndexConfig, progress: bool | None = False
) -> SearchedUnits:
    """Build an index of a data set and score its units for all queries."""
    index = Index.build(data.vectors, config=config, progress=progress)
    return SearchedUnits.of_index(index, data.queries)


def curve_rows(
    data: RetrievalSet, variant: str, units: SearchedUnits, ratios: Sequence[float]
) -> list[tuple[Cell, ...]]:
    """Return the points of one curve, at the thresholds that cost the ratios on average.

    The last point is that of a threshold which every unit passes, 1 + M/N.
    """
    whole = data.quality(units.rankings(data, -np.inf))
    everything = 1 + len(units.sizes) / len(units.labels)
    thresholds = [units.threshold(ratio) for ratio in ratios if ratio < everything]
    rows = []
    for threshold in (*thresholds, -np.inf):
        ratio = units.ratios(threshold).mean()
        quality = data.quality(units.rankings(data, threshold))
        rows.append(plain([data.name, variant, ratio, quality, whole]))
    return rows


def quality_table(
    run: Run,
    title: str,
    sets: Sequence[RetrievalSet],
    variants: Mapping[str, IndexConfig],
) -> Table:
    """Return the curves of every data set and variant; the settings name the ratios."""
    rows: list[tuple[Cell, ...]] = []
    with run.bar(title, len(sets) * len(variants)) as advance:
        for data in sets:
            for variant, config in variants.items():
                units = search_units(data, config)
                rows += curve_rows(data, variant, units, run.settings["ratios"])
                advance(1)
    return Table(title, CURVE_COLUMNS, tuple(rows))


def quality_at(table: Table, data: Cell, variant: Cell, ratio: float) -> float:
    """Return the share of the exhaustive quality that a variant has at a complexity ratio."""
    curve = table.where(data=data, variant=variant)
    shares = curve.column("quality") / curve.column("baseline")
    return float(np.interp(ratio, curve.column("ratio"), shares))


def ratio_to_reach(table: Table, data: Cell, variant: Cell, share: float = 0.99) -> float:
    """Return the least complexity ratio at which a curve has a share of the exhaustive quality.

    Between points it is interpolated; where no point is as good, it is infinite.
    """
    curve = table.where(data=data, variant=variant)
    ratios = curve.column("ratio")
    shares = curve.column("quality") / curve.column("baseline")
    good = np.flatnonzero(shares >= share - 1e-12)
    if not len(good):
        return float("inf")
    first = int(good[0])
    if first == 0 or shares[first] == shares[first - 1]:
        return float(ratios[first])
    step = (share - shares[first - 1]) / (shares[first] - shares[first - 1])
    return float(ratios[first - 1] + step * (ratios[first] - ratios[first - 1]))


__all__ = [
    "CURVE_COLUMNS",
    "SearchedUnits",
    "curve_rows",
    "kmeans_variants",
    "paper_config",
    "quality_at",
    "quality_table",
    "ratio_to_reach",
    "search_units",
]
