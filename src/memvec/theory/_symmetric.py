"""The common face of the score laws: symmetric about zero, known by their upper tail."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from memvec import checks
from memvec.lazy import special
from memvec.types import ArrayLike, Float64Array

# Quantiles are polished to this relative width; the tails themselves are good to about 1e-10.
_QUANTILE_TOLERANCE = 1e-13
_MAX_STEPS = 200


class SymmetricLaw(ABC):
    """A probability law that is symmetric about zero.

    A subclass defines `variance` and the upper tail P(S ≥ s) for s ≥ 0; everything else follows.
    The tail is never computed as one minus a probability, so small probabilities keep their digits.
    """

    @property
    def mean(self) -> float:
        """E[S] = 0 by symmetry."""
        return 0.0

    @property
    @abstractmethod
    def variance(self) -> float:
        """V[S]."""

    @abstractmethod
    def _upper_tail(self, score: Float64Array) -> Float64Array:
        """P(S ≥ s) for an array of s ≥ 0."""

    @property
    def std(self) -> float:
        """The standard deviation of S."""
        return math.sqrt(self.variance)

    def sf(self, score: ArrayLike) -> Float64Array:
        """P(S ≥ s), from the complemented function."""
        values = np.asarray(score, dtype=np.float64)
        tail = self._upper_tail(np.abs(np.atleast_1d(values)))
        flat = np.atleast_1d(values)
        return np.where(flat >= 0, tail, 1 - tail).reshape(values.shape)

    def cdf(self, score: ArrayLike) -> Float64Array:
        """P(S ≤ s) = P(S ≥ −s)."""
        return self.sf(-np.asarray(score, dtype=np.float64))

    def below(self, score: ArrayLike) -> Float64Array:
        """P(S < s), which differs from the cdf only at an atom of the law."""
        return self.cdf(score)

    def isf(self, probability: ArrayLike) -> Float64Array:
        """Return the score that is reached with the given probability, inverse of `sf`."""
        values = np.asarray(probability, dtype=np.float64)
        flat = np.atleast_1d(values)
        if not ((flat >= 0) & (flat <= 1)).all():
            where = f"{type(self).__name__}.isf"
            raise checks.bad_value("probability", where, "in [0, 1]", values.tolist())
        upper = self._upper_quantiles(np.minimum(flat, 1 - flat))
        return np.where(flat == 0.5, 0.0, np.where(flat < 0.5, upper, -upper)).reshape(values.shape)

    def ppf(self, probability: ArrayLike) -> Float64Array:
        """Return the score below which S falls with the given probability, inverse of `cdf`."""
        return -self.isf(probability)

    def _upper_quantiles(self, probability: Float64Array) -> Float64Array:
        """Solve P(S ≥ s) = probability for s ≥ 0, an array of probabilities ≤ ½."""
        return np.array([self._upper_quantile(float(value)) for value in probability])

    def _upper_quantile(self, probability: float) -> float:
        """Solve P(S ≥ s) = probability for s > 0 by bracketing on the logarithm of the tail."""
        if probability == 0:
            return math.inf
        if probability == 0.5:
            return 0.0
        high = self._guess(probability)

        def excess(score: float) -> float:
            tail = float(self._upper_tail(np.array([score]))[0])
            return math.log(max(tail, 1e-320)) - math.log(probability)

        while excess(high) > 0:
            high *= 1.5
        return _falling_root(excess, 0.0, high)

    def _guess(self, probability: float) -> float:
        spread = self.std if math.isfinite(self.variance) else 1.0
        return spread * (0.01 - float(special.ndtri(probability)))


def _falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Solve f(x) = 0 for a falling f with f(low) ≥ 0 ≥ f(high): false position, Illinois variant.

    scipy.optimize has better ones, but importing it takes as long as the rest of this room.
    """
    at_low, at_high, side = function(low), function(high), 0
    for _ in range(_MAX_STEPS):
        if at_low == at_high or high - low <= _QUANTILE_TOLERANCE * high:
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at_middle = function(middle)
        if at_middle == 0:
            return middle
        if at_middle > 0:
            # An end that stays twice is given half its weight, so that both ends move.
            at_high = at_high / 2 if side == 1 else at_high
            low, at_low, side = middle, at_middle, 1
        else:
            at_low = at_low / 2 if side == -1 else at_low
            high, at_high, side = middle, at_middle, -1
    return low if abs(at_low) < abs(at_high) else high


class PointLaw(SymmetricLaw):
    """The law of a score that is always zero: the interference in a unit of one vector."""

    @property
    def variance(self) -> float:
        """V[S] = 0."""
        return 0.0

    def _upper_tail(self, score: Float64Array) -> Float64Array:
        return np.where(score > 0, 0.0, 1.0)

    def below(self, score: ArrayLike) -> Float64Array:
        """P(S < s): the atom at zero is not below zero."""
        return np.where(np.asarray(score, dtype=np.float64) > 0, 1.0, 0.0)

    def _upper_quantile(self, probability: float) -> float:
        return 0.0


class NormalLaw(SymmetricLaw):
    """A centred Gaussian, the paper's approximation of every score law.

    Examples
    --------
    >>> round(float(NormalLaw(2.0).isf(0.025)), 3)
    3.92
    """

    def __init__(self, std: float) -> None:
        self._std = checks.real(std, "std", "NormalLaw", low=0.0, low_open=True)

    @property
    def variance(self) -> float:
        """V[S]."""
        return self._std**2

    def _upper_tail(self, score: Float64Array) -> Float64Array:
        tail: Float64Array = special.ndtr(-score / self._std)
        return tail

    def _upper_quantile(self, probability: float) -> float:
        return -self._std * float(special.ndtri(probability))
