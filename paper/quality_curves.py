"""Quality against complexity: the curves of the paper's Section 5.

An index is built from a configuration and gives the scores of its units for every query. At a
threshold τ the members of the units that score above are ranked by cosine; since the ranking of a
part is part of the ranking of all, one exact ranking of a data set serves every index and every τ.
`Index.search(threshold=τ)` returns the same, as a test shows, τ by τ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from memvec.assignment import (
    Assignment,
    batch_assignment,
    kmeans_assignment,
    random_assignment,
)
from memvec.constructions import Construction, memory_vectors
from memvec.index import Index, IndexConfig
from memvec.types import Float32Array, Float64Array, IntArray
from paper.experiment import Run
from paper.retrieval_sets import RetrievalSet
from paper.table import Cell, Table, plain

CURVE_COLUMNS = ("data", "variant", "ratio", "quality", "baseline")
RUN_COLUMNS = (*CURVE_COLUMNS, "run")
# Between these complexity ratios curves are compared by their mean height.
_RANGE = (0.11, 0.6)
KMEANS_SUM, KMEANS_PINV, KMEANS_NORM = "k-means sum", "k-means pinv", "k-means sum, normalised"


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


def kmeans_variants(unit_size: int, seed: int, rounds: int) -> dict[str, IndexConfig]:
    """Return k-means with plain sums, with pinv, and with sums normalised to length 1.

    The last, the footnote of the paper's Section 4.3, assigns and scores by normalised sums.
    """
    settings = {"iterations": rounds}
    return {
        KMEANS_SUM: paper_config("kmeans", "sum", unit_size, seed, **settings),
        KMEANS_PINV: paper_config("kmeans", "pinv", unit_size, seed, **settings),
        KMEANS_NORM: paper_config(
            "kmeans", "sum", unit_size, seed, kmeans_rule="sum+norm", normalised=True, **settings
        ),
    }


def search_units(data: RetrievalSet, config: IndexConfig) -> SearchedUnits:
    """Return the units that an index of a data set has, scored for all queries.

    Without codes the index is not built: its assignment and its memory vectors are all there is to
    a unit, and the design step, which chooses nothing here, takes most of the time. A test holds
    the shortcut to the index.
    """
    if config.codes != "none":
        index = Index.build(data.vectors, config=config, progress=False)
        return SearchedUnits.of_index(index, data.queries)
    found = _assignment(data.vectors, config)
    vectors = memory_vectors(
        data.vectors,
        found.offsets,
        order=found.order,
        construction=config.construction,  # type: ignore[arg-type]
        normalised=config.normalised,
    )
    return SearchedUnits(data.queries @ vectors.T, found.labels, found.sizes)


def _assignment(vectors: Float32Array, config: IndexConfig) -> Assignment:
    size = int(config.unit_size)
    if config.assignment == "random":
        return random_assignment(len(vectors), size, seed=config.seed)
    construction, _, normalised = config.kmeans_rule.partition("+")
    rule: dict[str, Any] = {
        "construction": construction,
        "normalised": bool(normalised),
        "iterations": config.iterations,
        "seed": config.seed,
        "progress": False,
    }
    if config.batch_size is not None:
        return batch_assignment(vectors, size, config.batch_size, **rule)
    return kmeans_assignment(vectors, size, **rule)


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
    variants: Callable[[int], Mapping[str, IndexConfig]],
) -> Table:
    """Return the curves of every data set, variant and run; settings name ratios and runs.

    `variants` gives the configurations for the seed of a run. The share of the vectors that the
    largest unit holds stands in the last column.
    """
    rows: list[tuple[Cell, ...]] = []
    ratios = [ratio for ratio in run.settings["ratios"] if ratio < 1]
    with run.bar(title, len(sets) * run.settings["runs"]) as advance:
        for data in sets:
            for number in range(run.settings["runs"]):
                for variant, config in variants(run.seed + number).items():
                    units = search_units(data, config)
                    drawn = curve_rows(data, variant, units, ratios)
                    rows += [(*row, number, units.largest) for row in drawn]
                advance(1)
    return Table(title, (*RUN_COLUMNS, "largest unit"), tuple(rows))


def over_runs(table: Table, value: Callable[..., float], *which: Any) -> Float64Array:
    """Return what `value` says of the table of each run, such as `quality_at`."""
    parts = (table.where(run=number) for number in table.values("run"))
    return np.array([value(part, *which) for part in parts])


def mean_table(table: Table) -> Table:
    """Return the curves of several runs as one, point by point, with the deviation of runs."""
    parts = [table.where(run=number) for number in table.values("run")]
    ratios, qualities = (
        np.array([part.column(name) for part in parts]) for name in ("ratio", "quality")
    )
    deviations = qualities.std(axis=0, ddof=1) if len(parts) > 1 else np.zeros(ratios.shape[1])
    rows = [
        plain([*row[:2], ratio, quality, row[4], deviation])
        for row, ratio, quality, deviation in zip(
            parts[0].rows, ratios.mean(axis=0), qualities.mean(axis=0), deviations, strict=True
        )
    ]
    return Table(table.title, (*CURVE_COLUMNS, "deviation"), tuple(rows))


def mean_height(
    table: Table, data: Cell, variant: Cell, between: tuple[float, float] = _RANGE
) -> float:
    """Return the mean share of the exhaustive quality at ratios between two."""
    curve = table.where(data=data, variant=variant)
    shares: Float64Array = curve.column("quality") / curve.column("baseline")
    at = np.linspace(*between, 50)
    return float(np.interp(at, curve.column("ratio"), shares).mean())


def spread(values: Float64Array, digits: int = 3, sign: str = "") -> str:
    """Return mean and standard deviation of the runs as text.

    Examples
    --------
    >>> spread(np.array([0.1, 0.2]))
    '0.150 ± 0.071'
    """
    mean = f"{values.mean():{sign}.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {values.std(ddof=1):.{digits}f}"


def largest_unit(table: Table, data: Cell, variant: Cell) -> float:
    """Return the share of all vectors that the largest unit of any run holds."""
    return float(table.where(data=data, variant=variant).column("largest unit").max())


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
    "KMEANS_NORM",
    "KMEANS_PINV",
    "KMEANS_SUM",
    "RUN_COLUMNS",
    "SearchedUnits",
    "curve_rows",
    "kmeans_variants",
    "largest_unit",
    "mean_height",
    "mean_table",
    "over_runs",
    "paper_config",
    "quality_at",
    "quality_table",
    "ratio_to_reach",
    "search_units",
    "spread",
]
