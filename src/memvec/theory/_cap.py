"""The spherical cap: its share of the sphere, and the moments of the cosine with its axis.

Paper, Section 6, "Y uniformly drawn over a spherical cap". The cap is the set of unit vectors
whose cosine S′ with the axis exceeds η.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.lazy import special
from memvec.theory._score import ScoreLaw, log_beta_half

# The continued fraction is used where η√(d−1) exceeds the first or η the second: there the cap's
# mass may underflow or 1 − μ₁ cancel.
_NARROW = 2.0
_POINTED = 0.5
# The variance of a cap beyond one of these is integrated; of a wider one, μ₂ − μ₁² is precise.
_NARROW_VARIANCE = 4.5
_POINTED_VARIANCE = 0.98
_LAGUERRE_NODES = 60


@dataclass(frozen=True)
class CapMoments:
    """Moments of S′ = yᵀu for y uniform on a cap, and their small differences without cancellation.

    Attributes
    ----------
    mean : float
        μ₁(η, d) = E[S′].
    second : float
        μ₂(η, d) = E[S′²].
    variance : float
        μ₂ − μ₁², computed without that subtraction where it would cancel.
    co_mean : float
        1 − μ₁², likewise.
    co_second : float
        1 − μ₂, the mean squared norm of the part orthogonal to the axis, likewise.
    """

    mean: float
    second: float
    variance: float
    co_mean: float
    co_second: float


def cap_moments(cap_cosine: float, dim: float) -> CapMoments:
    """Return μ₁(η, d), μ₂(η, d) and the variance, for any −1 ≤ η < 1 and d ≥ 2.

    μ₁ = (1−η²)^((d−1)/2) / ((d−1) B(½,(d−1)/2) P(S > η)), and integration by parts gives
    μ₂ = (1 + (d−1) η μ₁)/d. Where P(S > η) is small, μ₁ = η(1 + K) with K > 0 from the continued
    fraction of ₂F₁(1, ½; (d+1)/2; 1−1/η²) = 1/(1+K): no power underflows and nothing cancels.

    Parameters
    ----------
    cap_cosine : float
        η = cos γ: −1 is the whole sphere, 0 half of it, 1 (excluded) its axis alone.
    dim : float
        The dimension d ≥ 2.

    Examples
    --------
    >>> moments = cap_moments(0.5, dim=100_000)
    >>> round(moments.mean, 7), f"{moments.variance:.3e}"
    (0.500015, '2.249e-10')
    """
    eta = checks.real(cap_cosine, "cap_cosine", "cap_moments", low=-1.0, high=1.0, high_open=True)
    dim = checks.real(dim, "dim", "cap_moments", low=2.0)
    if eta * math.sqrt(dim - 1) > _NARROW or eta > _POINTED:
        return _narrow_moments(eta, dim)
    half = (dim - 1) / 2
    if eta == -1:
        mean = 0.0
    else:
        log_edge = half * math.log((1 - eta) * (1 + eta)) - log_beta_half(half)
        mean = math.exp(log_edge) / ((dim - 1) * cap_mass(eta, dim))
    second = (1 + (dim - 1) * eta * mean) / dim
    co_second = (dim - 1) * (1 - eta * mean) / dim
    return CapMoments(mean, second, second - mean**2, (1 - mean) * (1 + mean), co_second)


def _narrow_moments(eta: float, dim: float) -> CapMoments:
    squared_sine = (1 - eta) * (1 + eta)
    excess = _gauss_fraction((dim + 1) / 2, squared_sine / eta**2)
    mean = eta * (1 + excess)
    second = (1 + (dim - 1) * eta * mean) / dim
    co_edge = squared_sine - eta**2 * excess  # 1 − ημ₁
    if eta * math.sqrt(dim - 1) > _NARROW_VARIANCE or eta > _POINTED_VARIANCE:
        variance = _narrow_variance(eta, squared_sine, dim)
    else:
        variance = second - mean**2
    return CapMoments(
        mean=mean,
        second=second,
        variance=variance,
        co_mean=squared_sine - eta**2 * excess * (2 + excess),
        co_second=(dim - 1) * co_edge / dim,
    )


def _gauss_fraction(third: float, ratio: float) -> float:
    """K with ₂F₁(1, ½; c; −x) = 1/(1+K), by Gauss's continued fraction (all terms positive)."""
    tail = 0.0
    # 400 levels give full precision wherever the fraction is used; the tests hold it against
    # values computed with 60 digits.
    for level in range(400, 0, -1):
        step = (level + 1) // 2
        top = (step - 0.5) * (third + step - 2) if level % 2 else step * (third + step - 1.5)
        bottom = (third + level - 2) * (third + level - 1)
        tail = ratio * top / bottom / (1 + tail)
    return tail


def _narrow_variance(eta: float, squared_sine: float, dim: float) -> float:
    """V[S′] by Gauss-Laguerre: 1 − S′² = (1−η²)e^(−2t/(d−1)) with t nearly exponential."""
    nodes, weights = special.roots_laguerre(_LAGUERRE_NODES)
    shrink = -np.expm1(-2 * nodes / (dim - 1))
    cosine = np.sqrt(eta**2 + squared_sine * shrink)
    weights = weights / cosine
    weights = weights / weights.sum()
    # Differences of cosines through differences of squares keep the digits of a narrow cap.
    offset = squared_sine * shrink / (cosine + eta)
    return float(weights @ (offset - weights @ offset) ** 2)


def cap_mass(cap_cosine: float, dim: float) -> float:
    """Return the share of the sphere that the cap covers, P(S > η).

    Examples
    --------
    >>> cap_mass(0.0, dim=50), round(cap_mass(0.5, dim=3), 12)
    (0.5, 0.25)
    """
    eta = checks.real(cap_cosine, "cap_cosine", "cap_mass", low=-1.0, high=1.0)
    return float(ScoreLaw(1.0, checks.real(dim, "dim", "cap_mass", low=2.0)).sf(eta))


def cap_cosine(mass: float, dim: float) -> float:
    """Return the η whose cap covers the given share of the sphere, the inverse of `cap_mass`.

    If M equal units divide the sphere like caps, each has mass 1/M = n/N.

    Examples
    --------
    >>> round(cap_cosine(1e-4, dim=1000), 4)
    0.1173
    """
    share = checks.real(mass, "mass", "cap_cosine", low=0.0, high=1.0, low_open=True)
    return float(ScoreLaw(1.0, checks.real(dim, "dim", "cap_cosine", low=2.0)).isf(share))
