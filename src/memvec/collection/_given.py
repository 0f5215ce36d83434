"""Queries that a collection was calibrated on while it was open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from memvec.collection._segment import Segment
from memvec.guarantee import CalibrationTable
from memvec.kernels import MATCH_SLACK
from memvec.types import Float32Array


@dataclass(frozen=True, eq=False)
class GivenQueries:
    """Queries to calibrate on, instead of the reserves, and what they find in each segment.

    Attributes
    ----------
    rows : ndarray of shape (n_queries, dim)
        As unit rows.
    """

    rows: Float32Array
    calibrated: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _left_out: set[int] = field(default_factory=set)
    _tables: dict[int, CalibrationTable] = field(default_factory=dict)

    @property
    def n_left_out(self) -> int:
        """Copies of stored vectors, found so far."""
        return len(self._left_out)

    def find(self, segments: Sequence[Segment], progress: bool | None = False) -> None:
        """Look for their matches in segments where that was not done."""
        for segment in segments:
            if segment.number not in self._tables:
                found = segment.index.calibration_rows(self.rows, progress=progress)
                self._tables[segment.number] = replace(found, keys=segment.keys[found.keys])

    def table(self, segments: Sequence[Segment]) -> CalibrationTable | None:
        """Return what they find in all segments, those sealed since included; None if nothing.

        Copies of stored vectors are left out: units know them.
        """
        self.find(segments)
        numbers = [segment.number for segment in segments]
        for gone in self._tables.keys() - set(numbers):
            self._tables.pop(gone, None)
        if not numbers:
            return None
        merged = CalibrationTable.merged([self._tables[number] for number in numbers])
        copies = merged.queries[merged.cosines >= 1 - MATCH_SLACK]
        self._left_out.update(copies.tolist())
        left = merged.rows(~np.isin(merged.queries, copies))
        return left if len(left) else None
