"""Cells of similarities: thresholds are solved for a cell at a time, on the evidence it has."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memvec.guarantee._bounds import Rule
from memvec.kernels import MATCH_SLACK
from memvec.types import Float32Array, Float64Array, IntArray

# A similarity that is computed, as 0.1 + 0.2, belongs to the cell that it is meant to be in.
_ROUNDING = 1e-10
# Towards 1 the noise of a match, √(1 − α²), vanishes: hundredths of the cosine are too wide there.
# Each further cell halves 1 − α, so that the angle shrinks by √2, down to what counts as a copy.
_HUNDREDTHS = 100
_HALVINGS = int(math.log2(1 / (_HUNDREDTHS * MATCH_SLACK)))
# Planted matches serve cells of 0.05, until the noise begins to vanish.
_PLANTED_WIDTH = 0.05
_NEAR_COPIES = 0.95
# The lowest cell begins just above 0: vectors of one entry have no query at a right angle.
_LOWEST_PLANTED = MATCH_SLACK
# With so many times 1/ε calibration queries, outliers do not set the slack. Cells with fewer are
# tested at a lower similarity, at most this much below their own, and lean on planted evidence.
_ENOUGH = 5.0
_MOST_BELOW = 0.15


def _edges() -> Float64Array:
    hundredths = [step / _HUNDREDTHS for step in range(_HUNDREDTHS)]
    halvings = [1 - 0.5**step / _HUNDREDTHS for step in range(1, _HALVINGS + 1)]
    return np.array([round(edge, 10) for edge in hundredths + halvings])


#: The lower ends of all cells: hundredths up to 0.99, then 0.995, 0.9975, ….
EDGES: Float64Array = _edges()


def lower_end(similarity: float) -> float:
    """Return the lower end of the cell that a similarity lies in.

    Examples
    --------
    >>> lower_end(0.709), lower_end(0.7), lower_end(0.996), lower_end(1.0)
    (0.7, 0.7, 0.995, 0.9999987793)
    """
    return float(EDGES[_cell(similarity)])


def upper_end(similarity: float) -> float:
    """Return where the cell of a similarity ends and the next begins; 1 for the last.

    Examples
    --------
    >>> upper_end(0.7), upper_end(0.996), upper_end(0.9999999)
    (0.71, 0.9975, 1.0)
    """
    following = _cell(similarity) + 1
    return float(EDGES[following]) if following < len(EDGES) else 1.0


def edges_above(similarity: float) -> list[float]:
    """Return the lower ends of all cells above the one that a similarity lies in."""
    edges: list[float] = EDGES[_cell(similarity) + 1 :].tolist()
    return edges


def planted_end(similarity: float) -> float:
    """Return the lower end of the cell that planted matches serve.

    Examples
    --------
    >>> planted_end(0.74), planted_end(0.97), planted_end(0.998)
    (0.7, 0.97, 0.9975)
    """
    if similarity >= _NEAR_COPIES - _ROUNDING:
        return lower_end(similarity)
    return round(math.floor(similarity / _PLANTED_WIDTH + _ROUNDING) * _PLANTED_WIDTH, 10)


def strata(cosines: Float32Array | Float64Array) -> IntArray:
    """Return the cell of each pair, by the highest edge at which it is a match; −1 for none."""
    wide = np.asarray(cosines, dtype=np.float64) + MATCH_SLACK
    return np.asarray(np.searchsorted(EDGES, wide, side="right") - 1, dtype=np.int64)


def sizes_of_strata(falling: Float32Array | Float64Array) -> IntArray:
    """Return how many of some falling cosines lie in each cell, the highest first.

    Examples
    --------
    >>> sizes = sizes_of_strata(np.array([0.999, 0.715, 0.71, 0.703]))
    >>> sizes[sizes > 0].tolist()
    [1, 2, 1]
    """
    above = np.searchsorted(-falling, MATCH_SLACK - EDGES[::-1], side="right")
    return np.diff(above, prepend=0)


def _cell(similarity: float) -> int:
    return int(np.searchsorted(EDGES, similarity + _ROUNDING, side="right")) - 1


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cell a similarity is solved with, where the stages test for it, and on what evidence.

    Natural cells rest on the matches of calibration queries, wherever enough of them have some; the
    others rest on planted matches.

    Attributes
    ----------
    best_cosines : ndarray of shape (n_queries,) or None
        The cosine of each calibration query's best match, rising; None where there are no queries.
    floor : float
        Below this similarity not all matches are known.
    designed_for : float
        The similarity of the build.
    listed : tuple of float
        Those that "high_probability" is promised for; each is a cell of its own.
    nested : bool
        Whether ranges nest. Where one similarity is all that is ever asked for, natural evidence
        serves it alone: cells above it have fewer queries, whose outliers would set the slack.
    """

    best_cosines: Float64Array | None
    floor: float
    designed_for: float
    listed: tuple[float, ...]
    nested: bool = True

    def n_queries(self, similarity: float) -> int:
        """Return how many calibration queries have a match at a similarity; 0 where unknown."""
        if self.best_cosines is None or similarity < self.floor:
            return 0
        below = np.searchsorted(self.best_cosines, similarity - MATCH_SLACK)
        return len(self.best_cosines) - int(below)

    def natural_range(self, rule: Rule) -> tuple[float, float]:
        """Return between which similarities enough calibration queries have matches."""
        best, needed = self.best_cosines, rule.queries_needed
        if best is None or len(best) < needed:
            return math.inf, -math.inf
        return max(self.floor, 0.0), min(float(best[-needed]) + MATCH_SLACK, 1.0)

    def is_natural(self, similarity: float, rule: Rule) -> bool:
        """Tell whether enough calibration queries have matches at a similarity."""
        low, high = self.natural_range(rule)
        return low <= similarity <= high

    def lower_end(self, similarity: float, rule: Rule, *, natural: bool) -> float:
        """Return the lower end of the cell that a similarity is solved with."""
        if rule.promise == "high_probability" or (natural and not self.nested):
            return similarity
        low, high = self.natural_range(rule)
        if natural:
            return max(lower_end(similarity), low)
        if low <= high <= similarity:
            return max(planted_end(similarity), high)
        return max(planted_end(similarity), _LOWEST_PLANTED)

    def judged_up_to(self, cell: float, rule: Rule) -> float | None:
        """Return up to which similarity the promise of a natural cell must hold; None for its own.

        Beyond the natural range too few queries are left to tell.
        """
        if rule.promise == "high_probability" or not self.nested:
            return None
        return min(upper_end(cell), self.natural_range(rule)[1])

    def points_above(self, similarity: float, rule: Rule) -> list[tuple[float, bool]]:
        """Return the points above a similarity that are solved at, and which are natural.

        Besides the ends of cells these are both ends of what is natural: planted evidence serves
        below the lower one, and from the upper one on.
        """
        if rule.promise == "high_probability":
            listed = [one for one in self.listed if one > similarity]
            return [(one, True) for one in listed if self.is_natural(one, rule)]
        if not self.nested and self.is_natural(similarity, rule):
            return []
        low, high = self.natural_range(rule)
        points = [
            (edge, low <= edge <= high)
            for edge in edges_above(similarity)
            if low <= edge <= high or planted_end(edge) == edge
        ]
        if similarity < low <= high:
            points.append((low, True))
        if low <= high and similarity < high < 1:
            points.append((high, False))
        return sorted(points)

    def tested_at(self, similarity: float, rule: Rule, *, natural: bool) -> float:
        """Return the similarity at which the stages test for another.

        Few queries allow for few misses or none, so that outliers set λ. An outlier scores low on
        its unit however near it is: the higher the similarity tested at, the more slack it needs,
        and all other units have as much. So natural cells with few queries are tested at the
        similarity of the build, and lower similarities, which take their lines, pay little for
        them. Of planted matches there are enough everywhere.
        """
        if not natural:
            return similarity
        cell, known = self.lower_end(similarity, rule, natural=True), self._well_known(rule)
        if rule.promise == "high_probability" or known is None or cell <= known:
            return cell
        lowest = max(self.natural_range(rule)[0], cell - _MOST_BELOW)
        return max(min(known, self.designed_for), lowest)

    def leans_on(self, cell: float, rule: Rule, *, natural: bool) -> float | None:
        """Return from where on planted evidence finds matches for a cell, too; None for none.

        A search of the cell takes the lines of all planted points above what is natural, since
        ranges nest. Few queries would set a λ that finds their outliers a second time. So λ of a
        cell with few, and of a planted one, is what is left to find. That of the build and of all
        cells below it, which queries are watched by for drift, is solved by itself.
        """
        low, high = self.natural_range(rule)
        if rule.promise == "high_probability" or not self.nested or cell < low or low > high:
            return None
        if not natural:
            return next((point for point, _ in self.points_above(cell, rule)), None)
        known = self._well_known(rule)
        enough = max(self.designed_for, -math.inf if known is None else known)
        return high if enough < cell and high < 1 else None

    def _well_known(self, rule: Rule) -> float | None:
        """Return the highest cell whose queries are enough for outliers not to set the slack."""
        enough, best = math.ceil(_ENOUGH / rule.miss_rate), self.best_cosines
        if best is None or len(best) < enough:
            return None
        return lower_end(min(float(best[-enough]) + MATCH_SLACK, 1.0))
