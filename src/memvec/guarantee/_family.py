"""The one family of threshold vectors along which promises are solved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.guarantee._table import CalibrationTable
from memvec.types import BoolArray, Float64Array

# A stage that hardly misses anything is still given this much, in standard deviations.
_LEAST_DIRECTION = 0.5


@dataclass(frozen=True, eq=False)
class ThresholdFamily:
    """The slack of each stage, as a function of one number λ: a direction times λ, up to a limit.

    Attributes
    ----------
    shares : ndarray of shape (n_stages,)
        The part of each stage in the pairs that are lost; 0 for a stage that tests nothing.
    direction : ndarray of shape (n_stages,)
        κ, how strict the stages are against each other.
    most : ndarray of shape (n_stages,)
        The largest slack of each stage. Codes of single vectors have Gaussian noise, so there is a
        number of standard deviations that none needs; a stage that tests units has no such limit.

    Examples
    --------
    >>> family = ThresholdFamily(np.full(2, 0.5), np.array([1.0, 2.0]), np.array([np.inf, 5.0]))
    >>> family.slack(3.0).tolist()
    [3.0, 5.0]
    >>> family.levels(np.array([[3.0, 4.0], [3.0, 6.0]])).tolist()
    [[3.0, 2.0], [3.0, inf]]
    """

    shares: Float64Array
    direction: Float64Array
    most: Float64Array

    @classmethod
    def of_pairs(
        cls, pairs: CalibrationTable, shares: Float64Array, most: Float64Array, miss_rate: float
    ) -> ThresholdFamily:
        """Return the family through the slack with which each stage alone loses its share.

        Parameters
        ----------
        pairs : CalibrationTable
            Pairs that would be matches at their own cosine.
        shares, most
            As above.
        miss_rate : float
            ε, of which each stage has its share.
        """
        needed = pairs.needed(pairs.cosines)
        quantiles = [
            pairs.quantile(needed[:, stage], share * miss_rate)
            for stage, share in enumerate(shares)
        ]
        return cls(shares, np.maximum(quantiles, _LEAST_DIRECTION), most)

    @property
    def used(self) -> BoolArray:
        """Which stages test anything."""
        return self.shares > 0

    def slack(self, value: float) -> Float64Array:
        """Return the slack of each stage at λ."""
        return np.minimum(value * self.direction, self.most)

    def levels(self, slack: Float64Array) -> Float64Array:
        """Return the λ at which each stage has a given slack, shape (n, n_stages) like the slack.

        It is ∞ where none gives that much, and −∞ for stages that test nothing.
        """
        levels = np.where(slack > self.most, np.inf, slack / self.direction)
        return np.where(self.used, levels, -np.inf)

    def needed(self, pairs: CalibrationTable, at: float | Float64Array) -> Float64Array:
        """Return the λ that each pair needs to pass all stages, tested at a similarity."""
        return np.asarray(self.levels(pairs.needed(at)).max(axis=1, initial=-np.inf))


__all__ = ["ThresholdFamily"]
