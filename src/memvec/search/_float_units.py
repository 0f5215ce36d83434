"""Units that are tested by float32 memory vectors, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from memvec.guarantee import Thresholds
from memvec.kernels import (
    ALL_ALLOWED,
    Room,
    StoredRows,
    calibrate_vectors,
    float32_slack,
    room_for,
    score_units,
    search_blocks,
    search_vectors,
)
from memvec.matches import Matches
from memvec.search._units import Units
from memvec.theory import MatchLaw
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# A match scores a little more than nothing beside its mean, even where members are all alike.
_LEAST_SPREAD = 1e-5


@dataclass(frozen=True, eq=False)
class FloatUnits:
    """Search by float32 memory vectors, as in the paper: a unit passes where yᵀm ≥ αa − λσ.

    Attributes
    ----------
    units : Units
        What is searched.
    spreads : ndarray of shape (n_tested,)
        σ of a match's score on each unit, at the similarity the index is designed for.
    law : MatchLaw
        What matches score on the units at any similarity.
    """

    units: Units
    spreads: Float64Array
    law: MatchLaw

    @classmethod
    def of_units(cls, units: Units, similarity: float, effective_dim: float) -> FloatUnits:
        """Return units with the spreads of the paper's law."""
        law = units.law(effective_dim)
        spread = np.maximum(law.spread(similarity), _LEAST_SPREAD)
        return cls(units, spread, law)

    @property
    def vectors(self) -> StoredRows:
        """The members, in unit order."""
        return self.units.vectors

    @property
    def keys(self) -> IntArray:
        """The id of each member."""
        return self.units.keys

    def model_spreads(self, similarity: float) -> Float64Array:
        """Return the most that a unit spreads at a similarity, over what it does at the build's."""
        return np.array([(self.law.spread(similarity) / self.spreads).max(initial=1.0)])

    stage_names: ClassVar[tuple[str, ...]] = ("unit",)

    @property
    def stage_shares(self) -> Float64Array:
        """There is one stage."""
        return np.ones(1)

    @property
    def most_slack(self) -> Float64Array:
        """Of a unit's score no limit is known."""
        return np.array([np.inf])

    @property
    def most_deviations(self) -> Float64Array:
        """Thresholds alone decide."""
        return np.array([np.inf])

    @property
    def least_slopes(self) -> Float64Array:
        """The least a/σ of a unit, for the one stage there is."""
        return np.array([(self.units.means / self.spreads).min(initial=np.inf)])

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return the matches of all queries."""
        units = self.units
        # Unit scores are float32: rounding must not fail a match that is at the limit.
        limits = np.outer(thresholds.at, units.means)
        limits -= np.outer(thresholds.slack[:, 0], self.spreads)
        slack = float32_slack(units.unit_vectors.shape[1])
        least = (limits.min(axis=0) - slack).astype(np.float32)

        def some(rows: Float32Array, room: Room) -> int:
            return int(
                search_vectors(
                    units.vectors.queries(rows),
                    units.as_tested(rows),
                    similarity,
                    least,
                    units.unit_vectors,
                    units.offsets,
                    *units.vectors.for_kernel,
                    units.keys,
                    allowed,
                    *room,
                )
            )

        return search_blocks(some, queries, room_for(similarity, len(self.units.vectors)), threads)

    def see(
        self, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the unit test sees of given pairs."""
        scores, slopes = np.empty((2, len(query_of), 1), dtype=np.float32)
        calibrate_vectors(
            self.units.as_tested(queries),
            query_of,
            self.units.unit_of(row_of),
            self.units.unit_vectors,
            self.units.means,
            self.spreads,
            scores,
            slopes,
        )
        return scores, slopes

    def see_homes(
        self, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> list[tuple[Float32Array, Float32Array]]:
        """Return what the unit test sees; there is one home."""
        return [self.see(queries, query_of, row_of)]

    def unit_scores(self, query: Float32Array) -> Float32Array:
        """Return yᵀm of every unit."""
        scores = np.empty(self.units.n_tested, dtype=np.float32)
        [tested] = self.units.as_tested(query[np.newaxis])
        score_units(tested, self.units.unit_vectors, scores)
        return scores

    def unit_similarities(self, query: Float32Array) -> Float32Array:
        """Return the unit scores in shares of what a match 1 scores."""
        means: Float32Array = self.units.means.astype(np.float32)
        return np.asarray(self.unit_scores(query) / means, dtype=np.float32)
