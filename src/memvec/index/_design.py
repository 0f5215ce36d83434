"""From what is asked and what the data is like to the size of a unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from memvec.index._config import IndexConfig
from memvec.theory import effective_dimension, optimal_design, unit_design
from memvec.types import Float32Array

# Pairs drawn to measure the effective dimension: a relative error of about 0.5 %.
_PAIRS = 50_000
# k-means keeps the matches of a query together, so it bears larger units than the law of random
# ones allows. The paper packs ten; on WordNet embeddings ten cost less than the law's two to four.
_SMALLEST_KMEANS_UNIT = 10


@dataclass(frozen=True)
class IndexDesign:
    """The choice of unit size, and what it is expected to cost.

    Attributes
    ----------
    similarity, miss_rate : float
        What the index is designed for: α₀ and ε.
    dim, effective_dim : float
        The dimension of the vectors, and the one that the laws are given.
    unit_size : int
        Vectors a unit n.
    cost_ratio : float or None
        Inner products spent over those of the exhaustive scan, by the law of random units; None
        where it does not apply (a unit as large as the effective dimension).
    chosen : bool
        Whether the size was chosen here; otherwise the configuration fixed it.
    """

    similarity: float
    miss_rate: float
    dim: int
    effective_dim: float
    unit_size: int
    cost_ratio: float | None
    chosen: bool

    def __str__(self) -> str:
        how = "of least cost" if self.chosen else "as configured"
        cost = "unknown" if self.cost_ratio is None else f"{self.cost_ratio:.3f} of a scan"
        return (
            f"units of {self.unit_size} ({how}) for similarity {self.similarity:g} and miss rate "
            f"{self.miss_rate:g}; dimension {self.dim}, effective {self.effective_dim:.0f}; "
            f"expected cost for random units: {cost}"
        )


def design_index(
    rows: Float32Array, similarity: float, miss_rate: float, config: IndexConfig
) -> IndexDesign:
    """Return the size of units for this data; a size fixed by the configuration is kept."""
    n_vectors, dim = rows.shape
    effective = float(dim)
    if n_vectors > 1:
        measured = effective_dimension(rows, pairs=_PAIRS, seed=config.seed).dimension
        effective = min(max(measured, 2.0), float(dim)) if dim > 1 else 1.0
    if config.unit_size != "auto":
        size = int(config.unit_size)
        cost = _expected_cost(size, effective, similarity, miss_rate)
        return IndexDesign(similarity, miss_rate, dim, effective, size, cost, chosen=False)
    size = _cheapest_size(n_vectors, effective, similarity, miss_rate)
    if config.assignment == "kmeans":
        size = max(size, min(_SMALLEST_KMEANS_UNIT, n_vectors))
    cost = _expected_cost(size, effective, similarity, miss_rate)
    return IndexDesign(similarity, miss_rate, dim, effective, size, cost, chosen=True)


def _cheapest_size(n_vectors: int, effective: float, similarity: float, miss_rate: float) -> int:
    if effective < 2.0:
        return 1
    return optimal_design(
        "pinv",
        dim=effective,
        similarity=similarity,
        miss_rate=miss_rate,
        max_unit_size=min(n_vectors, math.floor(effective)),
    ).unit_size


def _expected_cost(
    size: int, effective: float, similarity: float, miss_rate: float
) -> float | None:
    if size > effective or effective < 2.0:
        return None
    return unit_design(
        "pinv", unit_size=size, dim=effective, similarity=similarity, miss_rate=miss_rate
    ).cost_ratio


__all__ = ["IndexDesign", "design_index"]
