"""Lines of thresholds that are solved cell by cell, so that ranges nest."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from memvec.cache import Cache
from memvec.guarantee._bounds import Rule
from memvec.guarantee._cells import Cells
from memvec.guarantee._family import FOR_PROMISE, Families, ThresholdFamily
from memvec.guarantee._planting import Planting
from memvec.guarantee._table import CalibrationTable
from memvec.guarantee._thresholds import Thresholds
from memvec.types import Float64Array

# The table and the search add up in float32, in different order; this covers both, and costs
# nothing: it is a thousandth of a standard deviation.
ROUNDING = 1e-3
# What is kept of each kind, in bytes: a thousand or more of what was solved.
_MOST_KEPT = 4 << 20

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True)
class Anchor:
    """λ of the cell that begins at a similarity; the stages were tested at `at`.

    It is −∞ where the lines of higher points find enough, and ∞ where no λ does.
    """

    cell: float
    at: float
    value: float
    natural: bool


@dataclass(frozen=True, eq=False)
class _Question:
    """What λ of a cell is solved on."""

    rows: CalibrationTable
    at: float
    needed: Float64Array
    since: float | None


class NestedLines:
    """Solves λ of cells, and gathers the lines of a cell and of all above; what was solved is kept.

    Parameters
    ----------
    cells : Cells
        Which similarities are solved together, and on what evidence.
    table : CalibrationTable or None
        The matches of the calibration queries.
    planting : Planting
        What takes their place.
    families : Families
        How strict the stages are against each other.
    planted : Cache
        λ of planted cells that lean on no other: they rest on no table, and are shared.
    least_slopes : ndarray of shape (n_stages,)
        What a similarity lower by 1 is worth to every unit and member, at each stage.
    """

    def __init__(
        self,
        cells: Cells,
        table: CalibrationTable | None,
        planting: Planting,
        families: Families,
        planted: Cache[tuple[float, Rule], float],
        least_slopes: Float64Array,
    ) -> None:
        self._cells, self._table, self._planting = cells, table, planting
        self._families, self._least_slopes = families, least_slopes
        self._of_planted = planted
        self._anchors: Cache[tuple[float, Rule, bool], Anchor] = Cache(_MOST_KEPT)
        self._lines: Cache[tuple[float, Rule, bool], Thresholds | None] = Cache(
            _MOST_KEPT, lambda lines: 0 if lines is None else 4096
        )
        self._on_the_way = threading.local()

    @property
    def n_solved(self) -> int:
        """Cells whose λ is kept."""
        return len(self._anchors)

    def anchor(self, similarity: float, rule: Rule, natural: bool) -> Anchor:
        """Return λ of the cell that a similarity lies in."""
        cell = self._cells.lower_end(similarity, rule, natural=natural)
        key = (cell, rule, natural)
        return self._held(self._anchors, key, lambda: self._solve_cell(cell, rule, natural))

    def lines_from(self, similarity: float, rule: Rule, natural: bool) -> Thresholds | None:
        """Return the lines of a cell, and of the points above it; None if evidence is too little.

        Those of a natural cell do not depend on the similarity within it, and are kept.
        """
        anchor = self.anchor(similarity, rule, natural)
        key = (anchor.cell if natural else similarity, rule, natural)
        return self._held(self._lines, key, lambda: self._gather(similarity, anchor, rule))

    def _held(self, cache: Cache[Key, Value], key: Key, make: Callable[[], Value]) -> Value:
        """Return what a cache keeps, or is made now.

        Cells lean on cells above them: what is made on the way to one is held until it is there.
        Otherwise a cache that others fill would let the same cells be solved over and over.
        """
        held = getattr(self._on_the_way, "held", None)
        if held is not None:
            place = id(cache), key
            if place not in held:
                held[place] = cache.get(key, make)
            return held[place]  # type: ignore[no-any-return]
        self._on_the_way.held = {}
        try:
            return cache.get(key, make)
        finally:
            del self._on_the_way.held

    def planted_rows(self, cell: float, rule: Rule) -> CalibrationTable:
        """Return what is planted where a cell begins."""
        return self._planting.table(cell, rule, FOR_PROMISE)

    def _gather(self, similarity: float, anchor: Anchor, rule: Rule) -> Thresholds | None:
        if anchor.value == math.inf:
            return None
        at: list[float] = []
        slack: list[Float64Array] = []
        if anchor.value > -math.inf:
            at.append(self._cells.tested_at(similarity, rule, natural=anchor.natural))
            slack.append(self._family(anchor.at, rule, anchor.natural).slack(anchor.value))
        above = anchor.cell if anchor.natural else similarity
        for point, natural in self._cells.points_above(above, rule):
            tested_at = self._cells.tested_at(point, rule, natural=natural)
            family = self._family(tested_at, rule, natural)
            enough = self._covered(tested_at, family, at, slack)
            value = self._value_above(point, natural, enough, rule)
            # Where there is too little evidence, a search promises less, and nothing nests.
            if enough < value < math.inf:
                at.append(tested_at)
                slack.append(family.slack(value))
        if not at:  # of evidence that was forged, say: no line is known to find anything
            return None
        return Thresholds(np.array(at), np.array(slack) + ROUNDING)

    def _covered(
        self,
        at: float,
        family: ThresholdFamily,
        lines: Sequence[float],
        slack: Sequence[Float64Array],
    ) -> float:
        """Return the most λ of a line at a similarity that passes nothing which these stop."""
        if not lines:
            return -math.inf
        relief = at - np.array(lines)
        slopes = np.where(family.used, self._least_slopes, 0.0)
        levels = family.levels(np.array(slack) + np.outer(relief, slopes))
        covered = levels[:, family.used].min(axis=1)
        # Units of larger slopes gain more than the least by a test at a lower similarity.
        return float(np.where(relief < 0, -np.inf, covered).max())

    def _value_above(self, point: float, natural: bool, enough: float, rule: Rule) -> float:
        """Return λ of a higher point, or less than `enough` where that much will do."""
        cell = self._cells.lower_end(point, rule, natural=natural)
        if natural and (cell, rule, natural) not in self._anchors:
            asked = self._question(cell, rule, natural)
            if asked.rows.holds(asked.needed, enough, rule.holds, asked.since):
                return -math.inf
        return self.anchor(point, rule, natural).value

    def _solve_cell(self, cell: float, rule: Rule, natural: bool) -> Anchor:
        if not natural and rule.promise == "high_probability":
            # Its confidence would be one over the draw of a seed.
            return Anchor(cell, cell, math.inf, natural)
        if natural or self._cells.leans_on(cell, rule, natural=False) is not None:
            asked = self._question(cell, rule, natural)
            return Anchor(cell, asked.at, self._solved(asked, rule), natural)

        def solved() -> float:
            return self._solved(self._question(cell, rule, natural=False), rule)

        value = self._of_planted.get((cell, rule), solved)
        return Anchor(cell, self._cells.tested_at(cell, rule, natural=False), value, natural)

    @staticmethod
    def _solved(asked: _Question, rule: Rule) -> float:
        return asked.rows.solve(asked.needed, rule.holds, asked.since)

    def _question(self, cell: float, rule: Rule, natural: bool) -> _Question:
        at, since = self._cells.tested_at(cell, rule, natural=natural), None
        if natural:
            assert self._table is not None
            rows, since = self._table.above(cell), self._cells.judged_up_to(cell, rule)
        else:
            rows = self.planted_rows(cell, rule)
        leant_on = self._cells.leans_on(cell, rule, natural=natural)
        besides = None if leant_on is None else self.lines_from(leant_on, rule, False)
        needed = self._family(at, rule, natural).needed(rows, at, besides)
        return _Question(rows, at, needed, since)

    def _family(self, at: float, rule: Rule, natural: bool) -> ThresholdFamily:
        return self._families.at(at, rule.miss_rate, natural)
