"""The exact laws behind the pinv memory vector of independent uniform vectors."""

from __future__ import annotations

import math

import numpy as np

from memvec import checks
from memvec.lazy import special
from memvec.theory._score import _cap_share
from memvec.theory._symmetric import SymmetricLaw
from memvec.types import Float64Array

_NODES = 401
# The nodes reach to where the density of the norm has dropped by e^-60.
_LOG_DROP = 60.0


class PinvNormLaw:
    """The law of the norm of m* = X(XᵀX)⁻¹1, n independent uniform unit vectors in dimension d.

    1/‖m*‖ is the distance from the origin to the flat through the n points. By the affine
    Blaschke-Petkantschin formula on the sphere (Miles, 1971) its square follows the law
    Beta((d−n+1)/2, (n−1)(d−1)/2), whence E‖m*‖² = n(d−2)/(d−n−1). The paper only has the limit
    n/(1−n/d) (Section 6, "Expected value of the memory unit").

    Parameters
    ----------
    unit_size : int
        The number n of vectors, 1 ≤ n ≤ d.
    dim : float
        The dimension d ≥ 2.

    Examples
    --------
    >>> law = PinvNormLaw(unit_size=10, dim=100)
    >>> round(law.mean_squared_norm, 4), round(law.limit_squared_norm, 4)
    (11.0112, 11.1111)
    """

    def __init__(self, unit_size: int, dim: float) -> None:
        self.unit_size = checks.integer(unit_size, "unit_size", "PinvNormLaw")
        self.dim = checks.real(dim, "dim", "PinvNormLaw", low=2.0)
        if self.unit_size > self.dim:
            expected = f"at most the dimension {dim:g}"
            raise checks.bad_value("unit_size", "PinvNormLaw", expected, unit_size)
        self.shapes = (
            (self.dim - self.unit_size + 1) / 2,
            (self.unit_size - 1) * (self.dim - 1) / 2,
        )

    def __repr__(self) -> str:
        return f"PinvNormLaw(unit_size={self.unit_size}, dim={self.dim:g})"

    @property
    def mean_squared_norm(self) -> float:
        """E‖m*‖² = n(d−2)/(d−n−1), infinite from n = d−1 on (unless n = 1, where it is 1)."""
        if self.unit_size == 1:
            return 1.0
        room = self.dim - self.unit_size - 1
        return self.unit_size * (self.dim - 2) / room if room > 0 else math.inf

    @property
    def variance_squared_norm(self) -> float:
        """V‖m*‖², from E[1/q²] of the Beta law; infinite from n = d−3 on (unless n = 1)."""
        if self.unit_size == 1:
            return 0.0
        first, second = self.shapes
        if first <= 2:
            return math.inf
        total = first + second
        return second * (total - 1) / ((first - 1) ** 2 * (first - 2))

    @property
    def limit_squared_norm(self) -> float:
        """n/(1 − n/d), the Marčenko–Pastur limit of E‖m*‖² for n and d large."""
        share = self.unit_size / self.dim
        return self.unit_size / (1 - share) if share < 1 else math.inf

    def cdf(self, squared_norm: float) -> float:
        """P(‖m*‖² ≤ r)."""
        if self.unit_size == 1:
            return float(squared_norm >= 1)
        first, second = self.shapes
        return float(special.betaincc(first, second, min(1.0, 1 / max(squared_norm, 1e-300))))

    def nodes(self) -> tuple[Float64Array, Float64Array]:
        """Return values of 1/‖m*‖² with weights that sum to 1, for averages over the law.

        The trapezoidal rule on the logit, whose density is log-concave: spectral accuracy.
        """
        if self.unit_size == 1:
            return np.ones(1), np.ones(1)
        first, second = self.shapes
        grid = np.linspace(*_logit_range(first, second), _NODES)
        log_density = first * grid - (first + second) * np.logaddexp(0.0, grid)
        weights = np.exp(log_density - log_density.max())
        return special.expit(grid), weights / weights.sum()


def _logit_range(first: float, second: float) -> tuple[float, float]:
    """Where the log-density of logit(Beta(a, b)) lies within the drop of its top."""
    top = math.log(first / second)

    def drop(offset: float) -> float:
        at_top = (first + second) * np.logaddexp(0.0, top)
        return float((first + second) * np.logaddexp(0.0, top + offset) - at_top - first * offset)

    def reach(sign: float) -> float:
        low, high = 0.0, 1.0
        while drop(sign * high) < _LOG_DROP:
            high *= 2
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if drop(sign * middle) > _LOG_DROP else (middle, high)
        return sign * high

    return top + reach(-1.0), top + reach(1.0)


class PinvNullLaw(SymmetricLaw):
    """The law of yᵀm* under H0: the score law, averaged over the law of ‖m*‖."""

    def __init__(self, unit_size: int, dim: float) -> None:
        self.norm_law = PinvNormLaw(unit_size, dim)
        self._inverse_squares, self._weights = self.norm_law.nodes()
        self._norms = 1 / np.sqrt(self._inverse_squares)

    @property
    def variance(self) -> float:
        """E‖m*‖²/d."""
        return self.norm_law.mean_squared_norm / self.norm_law.dim

    def _upper_tail(self, score: Float64Array) -> Float64Array:
        share = _cap_share(score[:, np.newaxis], self._norms, self.norm_law.dim)
        tail: Float64Array = share @ self._weights
        return tail


class PinvNoiseLaw(SymmetricLaw):
    """The law of β zᵀm*⊥ under H1: z uniform among the unit vectors orthogonal to x₁.

    m*⊥ = m* − x₁ has ‖m*⊥‖² = ‖m*‖² − 1 and z lives in dimension d−1.
    """

    def __init__(self, unit_size: int, dim: float, noise: float) -> None:
        self.norm_law = PinvNormLaw(unit_size, dim)
        self.noise = noise
        inverse_squares, self._weights = self.norm_law.nodes()
        self._norms = noise * np.sqrt((1 - inverse_squares) / inverse_squares)

    @property
    def variance(self) -> float:
        """β² (E‖m*‖² − 1)/(d−1)."""
        law = self.norm_law
        return self.noise**2 * (law.mean_squared_norm - 1) / (law.dim - 1)

    def _upper_tail(self, score: Float64Array) -> Float64Array:
        share = _cap_share(score[:, np.newaxis], self._norms, self.norm_law.dim - 1)
        tail: Float64Array = share @ self._weights
        return tail
