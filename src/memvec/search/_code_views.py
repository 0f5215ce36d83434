"""What the tests by codes see of a query, a unit and a member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memvec.kernels import N_STAGES, calibrate_codes, centre_queries, estimate_scores, see_fine
from memvec.search._centring import Centring
from memvec.search._units import Units
from memvec.types import Float32Array, IntArray, WordArray

# A unit whose members cancel has no scale.
_LEAST_SCALE = np.float32(1e-30)
_UNFRAMED = np.empty((0, 2), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class CodeViews:
    """Shows what the stages of units by codes see, as the search computes it.

    Attributes
    ----------
    units : Units
    centring : Centring
    encoding, unit_tests, member_tests : tuple
        How queries become codes, and what groups and units, and members, are tested by, in the
        order of the arguments of kernels.
    fine_tests : tuple or None
        What members are tested by last; None where one bit is enough.
    """

    units: Units
    centring: Centring
    encoding: tuple[object, ...]
    unit_tests: tuple[object, ...]
    member_tests: tuple[object, ...]
    fine_tests: tuple[object, ...] | None

    def framed(self, queries: Float32Array) -> tuple[Float32Array, Float32Array]:
        """Return queries as the tests see them, and their frames where vectors are centred."""
        projection = self.units.projection
        if projection is None:
            return queries, _UNFRAMED
        if not self.centring:
            return self.units.as_tested(queries), _UNFRAMED
        tested, frames = np.empty_like(queries), np.empty((len(queries), 2), dtype=np.float32)
        centre: Callable[..., None] = centre_queries
        centre(queries, projection.mean, tested, frames)
        return tested, frames

    def at(
        self, unit_of: IntArray, queries: Float32Array, query_of: IntArray, row_of: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return what the stages see of given pairs, whose rows are tested in given units."""
        units = self.units
        scores, slopes = np.empty((2, len(query_of), N_STAGES), dtype=np.float32)
        calibrate: Callable[..., None] = calibrate_codes
        calibrate(
            *self.framed(queries),
            query_of,
            row_of,
            unit_of,
            np.searchsorted(units.group_offsets, unit_of, side="right") - 1,
            *self.encoding,
            *self.unit_tests,
            *self.member_tests,
            self.centring.arrays,
            self.fine_tests is not None,
            scores,
            slopes,
        )
        if self.fine_tests is not None:
            see: Callable[..., None] = see_fine
            see(queries, query_of, row_of, *self.fine_tests, scores, slopes)
        return scores, slopes

    def unit_scores(
        self, query: Float32Array, unit_codes: WordArray, unit_scales: Float32Array
    ) -> Float32Array:
        """Return the estimated score of every unit, in shares of what a match 1 would score."""
        estimates = np.empty(self.units.n_tested, dtype=np.float32)
        tested, frames = self.framed(query[np.newaxis])
        estimate: Callable[..., None] = estimate_scores
        estimate(tested[0], *self.encoding, unit_codes, unit_scales, estimates)
        if self.centring:
            shifts = self.centring.unit_shifts / np.maximum(unit_scales, _LEAST_SCALE)
            estimates = estimates / frames[0, 1] + frames[0, 0] + shifts
        return estimates
