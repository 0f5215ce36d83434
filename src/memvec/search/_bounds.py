"""Search without a miss: angular radii of units and groups, and the angles of codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.checks import UNIT_NORM_TOLERANCE
from memvec.constructions import memory_vectors
from memvec.kernels import (
    ALL_ALLOWED,
    MATCH_SLACK,
    Room,
    UnitRows,
    float32_slack,
    room_for,
    run_blocks,
    search_blocks,
    search_bounded,
    some_rows,
)
from memvec.matches import Matches
from memvec.search._code_units import CodeUnits
from memvec.search._float_units import FloatUnits
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Float32 sums differ from the canonical score by less.
_ROUNDING = 1e-6
_ROWS_A_BLOCK = 4096
# Larger runs are not tried with the pseudo-inverse, whose cost grows with the cube.
_LARGEST_PINV = 32


@dataclass(frozen=True, eq=False)
class Caps:
    """Directions with the angle within which all of a run's members lie.

    Attributes
    ----------
    directions : ndarray of shape (n_runs, dim)
        Of norm 1, float32.
    radii : ndarray of shape (n_runs,)
        γ, in radians.
    """

    directions: Float32Array
    radii: Float64Array

    @classmethod
    def around(cls, vectors: UnitRows, offsets: IntArray) -> Caps:
        """Return a cap for each run of rows, around its mean or its memory vector.

        All members score the same on the memory vector of the pseudo-inverse, which makes it the
        centre of few members; the mean is better for many. The smaller cap is kept.
        """
        if len(offsets) < 2:
            return cls(np.empty((0, vectors.shape[1]), dtype=np.float32), np.empty(0))
        members = some_rows(vectors, slice(offsets[-1]))
        directions = memory_vectors(members, offsets, construction="sum", normalised=True)
        least = _least_cosines(members, offsets, directions)
        if np.diff(offsets).max(initial=0) <= _LARGEST_PINV:
            equal = memory_vectors(members, offsets, construction="pinv", normalised=True)
            of_equal = _least_cosines(members, offsets, equal)
            better = of_equal > least
            directions[better], least[better] = equal[better], of_equal[better]
        cosines = least / (1 + UNIT_NORM_TOLERANCE) - _ROUNDING
        return cls(directions, np.arccos(np.clip(cosines, -1.0, 1.0)))

    def limits(self, angle: float) -> Float32Array:
        """Return the cosine below which a query has no member within an angle."""
        reach = self.radii + angle
        slack = float32_slack(self.directions.shape[1])
        return np.where(reach < math.pi, np.cos(reach) - slack, -2.0).astype(np.float32)


def _least_cosines(vectors: UnitRows, offsets: IntArray, directions: Float32Array) -> Float64Array:
    """Return the least inner product of a run's members with its direction."""
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    products = np.empty(len(owner))

    def measure(start: int, stop: int) -> None:
        own = directions[owner[start:stop]]
        products[start:stop] = np.einsum("ij,ij->i", vectors[start:stop], own, dtype=np.float64)

    run_blocks(measure, len(owner), _ROWS_A_BLOCK)
    least = np.full(len(sizes), 1.0)
    np.minimum.at(least, owner, products)
    return least


@dataclass(frozen=True, eq=False)
class BoundedSearch:
    """Visits every unit and member that the bounds do not exclude; no match is missed."""

    cascade: CodeUnits | FloatUnits

    @cached_property
    def unit_caps(self) -> Caps:
        """Around the members of each unit that is tested."""
        units = self.cascade.units
        return Caps.around(units.vectors.unit_rows, units.offsets[: units.n_tested + 1])

    @cached_property
    def group_caps(self) -> Caps:
        """Around the members of each group."""
        units = self.cascade.units
        return Caps.around(units.vectors.unit_rows, units.offsets[units.group_offsets])

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return the matches of all queries; `allowed` as in `Source.search`."""
        # The lowest cosine of a match: rows that are taken for unit rows may be a little longer,
        # and near 1 an angle is the root of what its cosine lacks.
        lowest = (similarity - MATCH_SLACK) / (1 + UNIT_NORM_TOLERANCE) ** 2 - _ROUNDING
        angle = math.acos(min(1.0, max(-1.0, lowest)))
        units = self.cascade.units
        limits = self.group_caps.limits(angle), self.unit_caps.limits(angle)
        search: Callable[..., int] = search_bounded

        def some(rows: Float32Array, room: Room) -> int:
            return int(
                search(
                    units.vectors.queries(rows),
                    rows,
                    similarity,
                    angle,
                    self.group_caps.directions,
                    limits[0],
                    units.group_offsets,
                    self.unit_caps.directions,
                    limits[1],
                    units.offsets,
                    *self._code_arguments,
                    *units.vectors.for_kernel,
                    units.keys,
                    allowed,
                    *room,
                )
            )

        return search_blocks(some, queries, room_for(similarity, len(units.vectors)), threads)

    @cached_property
    def _code_arguments(self) -> tuple[object, ...]:
        """What the kernel is given of codes; those of projected vectors bound no angle.

        Nor do the paper's codes, which keep no sum of magnitudes a member.
        """
        cascade = self.cascade
        if not isinstance(cascade, CodeUnits) or not cascade.codes_have_angles:
            flips = np.zeros((1, 64), dtype=np.float32)
            none = np.empty((0, 1), dtype=np.uint64), np.empty(0, dtype=np.float32)
            return flips, np.float32(1.0), 1, *none, 0.0
        space = cascade.space
        cosines = cascade.code_scales / np.float32(math.sqrt(space.padded_dim))
        # A rotation keeps norms up to float32, in which the magnitudes are added up, too; a cosine
        # that is too small only lets more pass.
        lost = np.float32(UNIT_NORM_TOLERANCE + float32_slack(space.padded_dim))
        cosines = np.clip(cosines - lost, 0.0, 1.0)
        largest = math.acos(float(cosines.min(initial=1.0)))
        return space.flips, np.float32(space.steps), space.top, cascade.codes, cosines, largest
