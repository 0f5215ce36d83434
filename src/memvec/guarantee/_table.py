"""The calibration table: one row for each true match of a calibration query."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.kernels import MATCH_SLACK
from memvec.types import Float32Array, Float64Array, IntArray


@dataclass(frozen=True, eq=False)
class CalibrationTable:
    """What the stages of a search see of pairs that are known to match.

    A stage passes a pair at similarity α where the slack it is given is at least α·slope − score,
    both measured in standard deviations of the stage. Where the slacks of all stages are one
    number λ times a direction κ, each row needs λ ≥ max over stages of (α·slope − score)/κ: one
    number a row, and every question is a quantile of it.

    Attributes
    ----------
    queries : ndarray of shape (n_rows,)
        Which calibration query the row belongs to.
    cosines : ndarray of shape (n_rows,)
        The canonical score of the pair, rounded to float32 and kept as float64.
    ranks : ndarray of shape (n_rows,)
        How many vectors are nearer to the query, from 0.
    keys : ndarray of shape (n_rows,)
        The matching vector.
    copies : ndarray of shape (n_rows,)
        How many matches a row stands for, float32: of a query with very many, some are drawn.
    scores, slopes : ndarray of shape (n_rows, n_stages)
        What the stages see.
    """

    queries: IntArray
    cosines: Float64Array
    ranks: IntArray
    keys: IntArray
    copies: Float32Array
    scores: Float32Array
    slopes: Float32Array

    def __len__(self) -> int:
        return len(self.queries)

    def above(self, similarity: float) -> CalibrationTable:
        """Return the rows that match at a similarity."""
        return self._rows(self.cosines >= similarity - MATCH_SLACK)

    def just_below(self, similarity: float, width: float) -> CalibrationTable:
        """Return the rows that would match at a similarity lower by `width`, and do not yet."""
        below = self.cosines < similarity - MATCH_SLACK
        return self._rows(below & (self.cosines >= similarity - width))

    def nearest(self, k: int) -> CalibrationTable:
        """Return the rows among the k nearest vectors of their query."""
        return self._rows(self.ranks < k)

    def beyond(self, k: int) -> CalibrationTable:
        """Return the rows that are not among the k nearest vectors of their query."""
        return self._rows(self.ranks >= k)

    def _rows(self, chosen: np.ndarray) -> CalibrationTable:
        return CalibrationTable(
            self.queries[chosen],
            self.cosines[chosen],
            self.ranks[chosen],
            self.keys[chosen],
            self.copies[chosen],
            self.scores[chosen],
            self.slopes[chosen],
        )

    @property
    def n_queries(self) -> int:
        """Calibration queries with at least one row."""
        return len(np.unique(self.queries))

    def needed(self, similarity: float | Float64Array) -> Float64Array:
        """Return the slack that each row needs at each stage, shape (n_rows, n_stages).

        Parameters
        ----------
        similarity : float or ndarray of shape (n_rows,)
            α of the search, one for all rows or one for each.
        """
        alpha = np.broadcast_to(np.asarray(similarity, dtype=np.float64), len(self))
        return np.asarray(alpha[:, np.newaxis] * self.slopes - self.scores)

    @cached_property
    def weights(self) -> Float64Array:
        """The share of its query's matches that each row stands for, shape (n_rows,)."""
        _, query = np.unique(self.queries, return_inverse=True)
        return np.asarray(self.copies / np.bincount(query, self.copies)[query])

    def solve(self, needed: Float64Array, miss_rate: float) -> float:
        """Return the smallest λ whose expected miss rate is at most `miss_rate`.

        Conformal risk control (Angelopoulos et al., "Conformal risk control", 2022): with n
        calibration queries and the mean share R(λ) of their matches that need more than λ, the
        expected share missed of a further query like them is at most (n·R(λ) + 1)/(n + 1).

        Parameters
        ----------
        needed : ndarray of shape (n_rows,)
            The λ at which each row passes every stage.
        miss_rate : float
            ε.

        Returns
        -------
        float
            Infinity where there are too few queries, n < 1/ε − 1.
        """
        allowed = miss_rate * (self.n_queries + 1) - 1.0
        if len(self) == 0 or allowed < -1e-9:
            return math.inf
        order = np.argsort(-needed, kind="stable")
        # The sum over queries of the share missed, if λ is just below the need of each row.
        missed = np.cumsum(self.weights[order])
        within = int(np.searchsorted(missed, allowed + 1e-9, side="right"))
        return float(needed[order[within]]) if within < len(order) else -math.inf

    def quantile(self, values: Float64Array, share: float) -> float:
        """Return the value that this share of matches exceeds, queries counting alike."""
        order = np.argsort(-values, kind="stable")
        exceeding = np.cumsum(self.weights[order]) / self.weights.sum()
        last = min(int(np.searchsorted(exceeding, share)), len(order) - 1)
        return float(values[order[last]])


__all__ = ["CalibrationTable"]
