"""Rows that wait, as a source: scanned, by their codes or in float32, or tested by open units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.collection._open_units import OpenUnits
from memvec.collection._state import Part
from memvec.collection._waiting import Waiting
from memvec.collection._waiting_codes import WaitingCodes
from memvec.guarantee import Thresholds
from memvec.matches import Matches
from memvec.search import ALL_ALLOWED, PlainRows, StageView, are_few
from memvec.types import BoolArray, Float32Array, IntArray


@dataclass(frozen=True, eq=False)
class WaitingSource:
    """The waiting rows of a state; thresholds of segments say nothing about them.

    Attributes
    ----------
    part : Part
        The rows.
    codes : WaitingCodes or None
        Those that are scanned by codes; None scores them all in float32.
    units : OpenUnits or None
        What tests them instead, at the level of the model.
    similarity : float
        That the codes are explained at.
    miss_rate : float
        ε of the open units.
    """

    part: Part[Waiting]
    codes: WaitingCodes | None
    units: OpenUnits | None
    similarity: float
    miss_rate: float

    def __len__(self) -> int:
        return len(self.part.keys)

    @property
    def _plain(self) -> PlainRows:
        return PlainRows(self.part.rows.rows)

    def search(
        self,
        queries: Float32Array,
        similarity: float,
        thresholds: Thresholds | None,
        threads: int | None,
        allowed: BoolArray = ALL_ALLOWED,
    ) -> Matches:
        """Return everything above a similarity; with thresholds, less what codes or units miss."""
        if not len(self):
            return Matches.merged([], len(queries))
        allowed = allowed if len(allowed) else np.ones(len(self), dtype=bool)
        if thresholds is None or thresholds.pass_everything:
            return self._plain.compare_all(queries, similarity, threads, allowed)
        if self.units is not None:
            rate = self.miss_rate
            return self.units.search(self.part, queries, similarity, rate, threads, allowed)
        by_codes = 0 if self.codes is None else self.codes.n_rows
        if self.codes is None or are_few(int(np.count_nonzero(allowed[:by_codes]))):
            return self._plain.compare_all(queries, similarity, threads, allowed)
        rest = allowed.copy()
        rest[:by_codes] = False
        found = [
            *self.codes.search(queries, similarity, threads, allowed),
            self._plain.compare_all(queries, similarity, threads, rest),
        ]
        return Matches.merged(found, len(queries))

    def compare_all(
        self,
        queries: Float32Array,
        similarity: float,
        threads: int | None = None,
        allowed: BoolArray = ALL_ALLOWED,
        progress: bool | None = False,
    ) -> Matches:
        """Return everything above a similarity, by comparing everything that is allowed."""
        return self._plain.compare_all(queries, similarity, threads, allowed)

    def see(
        self, queries: Float32Array, query_of: IntArray, ids: IntArray
    ) -> tuple[Float32Array, Float32Array]:
        """Return NaN: what these rows are tested by is not calibrated."""
        return self._plain.see(queries, query_of, ids)

    def stages(
        self, query: Float32Array, row: int, thresholds: Thresholds | None
    ) -> tuple[StageView, ...]:
        """Return the tests of a row: of its open unit, of its code, or none."""
        if thresholds is None or thresholds.pass_everything:
            return ()
        if self.units is not None:
            return self.units.stages(self.part, query, row, self.similarity, self.miss_rate)
        return () if self.codes is None else self.codes.stages(query, row, self.similarity)
