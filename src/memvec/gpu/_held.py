"""Units of an index on a card, and what is computed from their members."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from memvec.gpu._card import Card
from memvec.gpu._kmeans import CardUnitsOfRows, combined, memory_vectors_on_card
from memvec.gpu._members import Runs
from memvec.gpu._packages import cupy
from memvec.gpu._scores import CardRows
from memvec.gpu._solve import member_weights
from memvec.types import IntArray, RowType


class SolvedUnits(NamedTuple):
    """Memory vectors of some units, and what their members score on them.

    Attributes
    ----------
    vectors : cupy.ndarray of shape (n_units, dim), float32
    squared : cupy.ndarray of shape (n_units,), float32
        ‖m‖² of each.
    means, variances : cupy.ndarray of shape (n_units,), float32
    """

    vectors: Any
    squared: Any
    means: Any
    variances: Any


@dataclass(frozen=True, eq=False)
class OnCard:
    """Units on a card, in the order of their codes.

    Attributes
    ----------
    card : Card
    dim : int
    dtype : {"float32", "float16", "int8"}
    rows : CardRows
        With the place of the row of each code.
    runs : Runs
        Units, and the codes of their members.
    unit_codes : cupy.ndarray of shape (≥ n_tested, bits / 32), uint32
    scales : cupy.ndarray of shape (n_tested,), float32
        What a match 1 scores on each unit, in units of its code.
    moments : cupy.ndarray of shape (2, n_tested), float32
        Mean and variance of the members' scores.
    size : int or None
        Members of every unit; None where they differ.
    """

    card: Card
    dim: int
    dtype: RowType
    rows: CardRows
    runs: Runs
    unit_codes: Any
    scales: Any
    moments: Any
    size: int | None

    @property
    def n_tested(self) -> int:
        """Units with a memory vector."""
        return len(self.scales)

    @cached_property
    def bounds(self) -> IntArray:
        """Where units begin, shape (n_tested + 1,)."""
        if self.size is not None:
            return self.size * np.arange(self.n_tested + 1)
        ends = self.runs.ends[: self.n_tested].get()
        return np.append(0, ends).astype(np.int64)

    def units_in(self, n_rows: int) -> int:
        """Return how many units have about so many members together."""
        size = self.size or -(-int(self.bounds[-1]) // max(1, self.n_tested))
        return max(1, n_rows // size)

    def memory_vectors(self, first: int, stop: int) -> Any:
        """Return the memory vectors of some units on the card."""
        if self.size is None:
            return memory_vectors_on_card(*self._members(first, stop), self.card)
        return self._solved_alike(first, stop)[2]

    def solved(self, first: int, stop: int) -> SolvedUnits:
        """Return the memory vectors of some units, and what members score on them."""
        xp = cupy()
        if self.size is None:
            return self._solved_each(first, stop)
        grams, weights, vectors = self._solved_alike(first, stop)
        scores = xp.matmul(grams, weights[:, :, np.newaxis])[:, :, 0]
        squared = (weights * scores).sum(axis=1)
        return SolvedUnits(vectors, squared, scores.mean(axis=1), scores.var(axis=1))

    def _solved_alike(self, first: int, stop: int) -> tuple[Any, Any, Any]:
        """Return scalar products of members, their weights, and the memory vectors."""
        assert self.size is not None
        members = self._rows_of(first * self.size, stop * self.size)
        members = members.reshape(stop - first, self.size, self.dim)
        grams = cupy().matmul(members, members.transpose(0, 2, 1))
        weights = member_weights(grams, self.card)
        vectors = cupy().matmul(weights[:, np.newaxis], members)[:, 0]
        return grams, weights, vectors

    def _solved_each(self, first: int, stop: int) -> SolvedUnits:
        xp = cupy()
        rows, units = self._members(first, stop)
        vectors = memory_vectors_on_card(rows, units, self.card)
        own = xp.searchsorted(units.offsets[1:], units.order, side="right")
        scores = (rows * vectors[own]).sum(axis=1, keepdims=True)
        # Sums of units in a fixed order: a count of weights has none on a card.
        sizes = xp.maximum(units.sizes, 1).astype(np.float32)
        means = combined(scores, units, None, self.card)[:, 0] / sizes
        apart = (scores[:, 0] - means[own]) ** 2
        variances = combined(apart[:, np.newaxis], units, None, self.card)[:, 0] / sizes
        return SolvedUnits(vectors, (vectors * vectors).sum(axis=1), means, variances)

    def _members(self, first: int, stop: int) -> tuple[Any, CardUnitsOfRows]:
        """Return the members of some units, and where each unit begins among them."""
        bounds = self.bounds[first : stop + 1]
        rows = self._rows_of(int(bounds[0]), int(bounds[-1]))
        offsets = cupy().asarray((bounds - bounds[0]).astype(np.int32))
        return rows, CardUnitsOfRows(cupy().arange(len(rows), dtype=np.int32), offsets)

    def _rows_of(self, first: int, stop: int) -> Any:
        return unit_rows(self.rows, self.rows.places[first:stop], self.dim)


def unit_rows(rows: CardRows, places: Any, dim: int) -> Any:
    """Return rows of norm 1 on the card, float32, by their places."""
    data = rows.data[places, :dim]
    if rows.scales is None:
        return data
    scales = rows.scales[places].astype(np.float32)
    return data.astype(np.float32) * scales[:, np.newaxis]
