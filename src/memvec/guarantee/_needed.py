"""How much slack matches need, against what was solved: the score that drift is seen by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._table import CalibrationTable
from memvec.kernels import MATCH_SLACK
from memvec.types import Float32Array, Float64Array, IntArray


@dataclass(frozen=True, eq=False)
class NeededSlack:
    """The λ that matches need to pass all stages, where a search was solved to give them so much.

    Attributes
    ----------
    similarity : float
        What is asked for.
    at : float
        The similarity that the stages test at.
    family : ThresholdFamily
        The slack of each stage, as a function of λ.
    limit : float
        λ as it was solved. Matches that need as much or more are found by chance or not at all, and
        are left out.
    """

    similarity: float
    at: float
    family: ThresholdFamily
    limit: float

    def of_pairs(self, scores: Float32Array, slopes: Float32Array) -> Float64Array:
        """Return the λ that each pair needs, from what the stages see; NaN for those left out."""
        if np.isnan(scores).all():  # none is in a unit: nobody knows the stages then
            return np.full(len(scores), np.nan)
        needed = self.family.levels(self.at * slopes.astype(np.float64) - scores).max(axis=1)
        return np.where(np.isfinite(needed) & (needed < self.limit), needed, np.nan)

    def of_queries(self, table: CalibrationTable, seed: int) -> Float64Array:
        """Return what one match of each calibration query needs, drawn at random.

        Queries that are copies of stored vectors, and those with no match to draw, have none.
        """
        rows = table.above(self.similarity)
        needed = self.of_pairs(rows.scores, rows.slopes)
        copies = rows.queries[rows.cosines >= 1 - MATCH_SLACK]
        chosen = np.isfinite(needed) & ~np.isin(rows.queries, copies)
        left, needed = rows.rows(chosen), needed[chosen]
        rng = np.random.default_rng([seed, round(self.similarity * 1e9)])
        return needed[_one_of_each(left.queries, left.copies.astype(np.float64), rng)]


def _one_of_each(queries: IntArray, weights: Float64Array, rng: np.random.Generator) -> IntArray:
    """Return one row of each query, drawn in proportion to the weights.

    The least of exponential variables, each divided by its weight, belongs to each of them with a
    probability in proportion to its weight.
    """
    times = rng.exponential(size=len(queries)) / weights
    order = np.lexsort((times, queries))
    first = np.flatnonzero(np.diff(queries[order], prepend=-1) != 0)
    return order[first]
