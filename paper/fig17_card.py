"""Batches of figure 17 on a GPU: made up, indexed, searched and forgotten there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memvec.gpu import CardUnitsOfRows, find_card, kmeans_on_card, memory_vectors_on_card
from memvec.index import IndexConfig
from memvec.kernels import MATCH_SLACK
from memvec.types import Float32Array, Float64Array
from paper.fig17_stream import MadeUpStream
from paper.quality_curves import SearchedUnits


class CardStream(MadeUpStream):
    """The made-up stream, drawn by the generator of a card: other vectors of the same law."""

    def batch(self, number: int, size: int) -> Any:
        """Return the vectors of a batch, on the card."""
        import cupy

        rng = cupy.random.default_rng([self.seed, 18, number])
        mixed, related = self.drawn(rng, number, size)
        rows = rng.standard_normal((size, self.dim), dtype=np.float32)
        chosen, directions = cupy.flatnonzero(related), cupy.asarray(self.directions)
        centres = self.centres(directions, mixed[chosen])
        rows[chosen] = np.float32(0.8) * centres + np.float32(0.6) * rows[chosen]
        rows *= cupy.arange(1, self.dim + 1, dtype=np.float32) ** np.float32(-0.2)
        return rows / cupy.sqrt((rows * rows).sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class CardBatch:
    """One batch on a card, and which of its vectors match which queries.

    Attributes
    ----------
    rows, queries : cupy.ndarray of shape (n, dim), float32
    asked, ids : cupy.ndarray of shape (n_matches,)
        The query and the row of each match, by products in float32.
    device : str
    """

    rows: Any
    queries: Any
    asked: Any
    ids: Any
    device: str

    @classmethod
    def of(cls, batch: Any, queries: Any, own: Any, similarity: float, device: str) -> CardBatch:
        """Compare a batch with all queries; a query is no match of itself."""
        import cupy

        rows, queries = cupy.asarray(batch), cupy.asarray(queries)
        products = queries @ rows.T
        asked, ids = cupy.nonzero(products >= np.float32(similarity - MATCH_SLACK))
        others = ids != cupy.asarray(own)[asked]
        return cls(rows, queries, asked[others], ids[others], device)

    @property
    def n_matches(self) -> Float64Array:
        """How many matches each query has."""
        return self._counted(self.asked)

    def units(self, config: IndexConfig) -> CardUnitsOfRows:
        """Share the rows out over units, at random or by k-means."""
        import cupy

        n_rows, card = len(self.rows), find_card(self.device)
        n_units = -(-n_rows // int(config.unit_size))
        if config.assignment == "random":
            order = cupy.random.RandomState(config.seed).permutation(n_rows)
            labels = cupy.empty(n_rows, dtype=np.int32)
            labels[order] = cupy.arange(n_rows, dtype=np.int32) % n_units
            return CardUnitsOfRows.of_labels(labels, n_units)
        construction, _, normalised = config.kmeans_rule.partition("+")
        return kmeans_on_card(
            *(self.rows, n_units, card),
            construction=construction,  # type: ignore[arg-type]
            normalised=bool(normalised),
            iterations=config.iterations,
            seed=config.seed,
        )

    def searched(self, config: IndexConfig) -> CardSearch:
        """Build the units of a variant and score them for all queries."""
        import cupy

        units = self.units(config)
        given: Any = {"construction": config.construction}
        vectors = memory_vectors_on_card(self.rows, units, find_card(self.device), **given)
        labels = cupy.empty(len(self.rows), dtype=np.int32)
        slots = cupy.arange(len(self.rows), dtype=np.int32)
        labels[units.order] = cupy.searchsorted(units.offsets[1:], slots, "right")
        return CardSearch(self, self.queries @ vectors.T, labels, units.sizes)

    def _counted(self, asked: Any) -> Float64Array:
        import cupy

        counts = cupy.bincount(asked, minlength=len(self.queries))
        return np.asarray(counts.get(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CardSearch:
    """Units of a batch as the queries see them; the arrays of `SearchedUnits`, on a card."""

    batch: CardBatch
    scores: Any
    labels: Any
    sizes: Any

    @property
    def largest(self) -> float:
        """The share of all vectors that the largest unit holds."""
        return float(self.sizes.max()) / len(self.labels)

    def thresholds(self, ratios: Sequence[float]) -> list[float]:
        """Return the lowest thresholds at which queries cost at most these ratios on average."""
        seen: list[Float32Array] = [part.get() for part in (self.scores, self.labels, self.sizes)]
        units = SearchedUnits(*seen)  # type: ignore[arg-type]
        return [units.threshold(ratio) for ratio in ratios]

    def costs(self, threshold: float) -> Float64Array:
        """Return C(τ) of each query."""
        passed = (self.scores >= np.float32(threshold)).astype(np.float32)
        visited = passed @ self.sizes.astype(np.float32)  # whole numbers below 2²⁴
        return np.asarray(visited.get(), dtype=np.float64) + len(self.sizes)

    def found(self, threshold: float) -> Float64Array:
        """Return how many matches of each query lie in units that pass."""
        asked, ids = self.batch.asked, self.batch.ids
        hits = self.scores[asked, self.labels[ids]]
        return self.batch._counted(asked[hits >= np.float32(threshold)])


__all__ = ["CardBatch", "CardSearch", "CardStream"]
