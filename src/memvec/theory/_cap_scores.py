"""Scores of a unit whose vectors share a spherical cap: the paper's model of k-means units.

Paper, Section 6, "Modeling k-means for the sum construction" and "... for the pinv construction",
with the corrections of the errata. x = S′u + N with S′ from the cap's law and N orthogonal to the
axis u; the query is uniform under H0 and y = αx₁ + βz under H1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from memvec import checks
from memvec.lazy import special
from memvec.theory._cap import CapMoments, cap_moments
from memvec.theory._cost import Design

CapConstruction = Literal["sum", "pinv"]


def gaussian_kl(mean: float, variance: float, other_mean: float, other_variance: float) -> float:
    """Kullback–Leibler distance of N(mean, variance) from N(other_mean, other_variance).

    KL(p‖q) = ½ [log(σ_q²/σ_p²) + (σ_p² + (μ_p−μ_q)²)/σ_q² − 1], infinite when only q is a point.

    Examples
    --------
    >>> gaussian_kl(0.0, 1.0, 2.0, 1.0)
    2.0
    """
    if other_variance == 0 or variance == 0:
        return math.inf
    ratio = variance / other_variance
    shift = (mean - other_mean) ** 2 / other_variance
    return (ratio - 1 - math.log(ratio) + shift) / 2


@dataclass(frozen=True)
class CapScores:
    """Mean and variance of the score under both hypotheses, under the cap model."""

    null_variance: float
    match_mean: float
    match_variance: float

    @property
    def null_mean(self) -> float:
        """E[yᵀm | H0] = 0."""
        return 0.0

    @property
    def kl(self) -> float:
        """KL(H1‖H0) of the Gaussians with these moments; the paper names no direction."""
        return gaussian_kl(self.match_mean, self.match_variance, 0.0, self.null_variance)

    @property
    def reverse_kl(self) -> float:
        """KL(H0‖H1)."""
        return gaussian_kl(0.0, self.null_variance, self.match_mean, self.match_variance)


@dataclass(frozen=True)
class SumCapScores(CapScores):
    """Scores of a sum unit in a cap; the four variance terms are uncorrelated and add up.

    yᵀm = α + α Σ S′₁S′ᵢ + α N₁ᵀN′ + β (zᵀu) uᵀm′ + β z⊥ᵀN′, with m′ = Σ_{i≥2} xᵢ, N′ = Σ_{i≥2} Nᵢ.

    Attributes
    ----------
    squared_norm : float
        E‖m‖² = n + n(n−1)μ₁².
    axis_variance : float
        V[α Σ S′₁S′ᵢ] = α²(n−1)(μ₂−μ₁²)(μ₂+(n−1)μ₁²).
    residual_variance : float
        V[α N₁ᵀN′] = α²(n−1)(1−μ₂)²/(d−1).
    noise_axis_variance : float
        V[β (zᵀu) uᵀm′] = β²(n−1)/(d−1) (1−μ₂)(μ₂+(n−2)μ₁²).
    noise_residual_variance : float
        V[β z⊥ᵀN′] = β²(n−1)/(d−1) (1−μ₂)(1−(1−μ₂)/(d−1)).
    """

    squared_norm: float
    axis_variance: float
    residual_variance: float
    noise_axis_variance: float
    noise_residual_variance: float


@dataclass(frozen=True)
class PinvCapScores(CapScores):
    """Scores of a pinv unit in a cap.

    V[yᵀm*] is E‖m*‖²/d under H0 and β²(E‖m*‖²−1)/(d−1) under H1.

    Attributes
    ----------
    squared_norm : float
        E‖m*‖², estimated (see `pinv_cap_scores`).
    squared_norm_bound : float
        n/(1+(n−1)μ₁²), the paper's lower bound of it.
    null_variance_bound, match_variance_bound : float
        The paper's lower bounds of the variances, from that of the norm.
    """

    squared_norm: float
    squared_norm_bound: float
    null_variance_bound: float
    match_variance_bound: float


def sum_cap_scores(
    unit_size: int, *, dim: float, similarity: float, cap_cosine: float
) -> SumCapScores:
    """Return the moments of the score of a sum unit whose n vectors share a cap.

    Parameters
    ----------
    unit_size : int
        n.
    dim : float
        d ≥ 2.
    similarity : float
        α.
    cap_cosine : float
        η in [−1, 1).

    Examples
    --------
    On the whole sphere the variance under H1 is (n−1)/d again:

    >>> scores = sum_cap_scores(11, dim=100, similarity=0.5, cap_cosine=-1.0)
    >>> round(scores.match_mean, 12), round(scores.match_variance, 12)
    (0.5, 0.1)
    """
    n, d, alpha, cap = _arguments("sum_cap_scores", unit_size, dim, similarity, cap_cosine)
    beta_squared = (1 - alpha) * (1 + alpha)
    others = n - 1
    mean_squared = cap.mean**2
    axis = alpha**2 * others * cap.variance * (cap.second + others * mean_squared)
    residual = alpha**2 * others * cap.co_second**2 / (d - 1)
    noise = beta_squared * others * cap.co_second / (d - 1)
    # Written so that n = 1, where there are no others, gives 0 times a finite number.
    noise_axis = noise * (cap.second + (n - 2) * mean_squared)
    noise_residual = noise * (1 - cap.co_second / (d - 1))
    squared_norm = n + n * others * mean_squared
    return SumCapScores(
        null_variance=squared_norm / d,
        match_mean=alpha * (1 + others * mean_squared),
        match_variance=axis + residual + noise_axis + noise_residual,
        squared_norm=squared_norm,
        axis_variance=axis,
        residual_variance=residual,
        noise_axis_variance=noise_axis,
        noise_residual_variance=noise_residual,
    )


def pinv_cap_scores(
    unit_size: int, *, dim: float, similarity: float, cap_cosine: float
) -> PinvCapScores:
    """Return the moments of the score of a pinv unit whose n vectors share a cap.

    With 1/‖m*‖² = 1/a + t²/(1+w), a the squared norm of the pinv vector of the parts orthogonal to
    the axis, each term replaced by its mean (D = d−1, ρ = D·V[S′]/(1−μ₂)):

        1/E‖m*‖² ≈ (1−μ₂)(D−n−1)/(n(D−2)) + (μ₁² + V[S′](D−1)/(n(D−n)))/(1 + ρ(n−1)/(D−n)).

    Exact for n = 1 and for η → 1. Simulation agrees within 1 % for d ≥ 100 and n ≤ d/5,
    within 3 % for d = 50 and n = 30; the paper's bound is short by up to 19 % and 60 % there.

    Parameters
    ----------
    unit_size : int
        n ≤ d − 3 (beyond, the mean squared norm is infinite or nearly so), or 1.
    dim, similarity, cap_cosine : float
        d ≥ 2, α and η.

    Examples
    --------
    >>> scores = pinv_cap_scores(10, dim=512, similarity=0.5, cap_cosine=0.3)
    >>> round(scores.squared_norm, 3), round(scores.squared_norm_bound, 3)
    (5.48, 5.432)
    """
    n, d, alpha, cap = _arguments("pinv_cap_scores", unit_size, dim, similarity, cap_cosine)
    if n > max(1, d - 3):
        expected = f"at most the dimension {d:g} less 3, or 1"
        raise checks.bad_value("unit_size", "pinv_cap_scores", expected, n)
    beta_squared = (1 - alpha) * (1 + alpha)
    squared_norm = _pinv_squared_norm(n, d, cap)
    bound = n / (1 + (n - 1) * cap.mean**2)
    excess_bound = (n - 1) * cap.co_mean / (1 + (n - 1) * cap.mean**2)
    return PinvCapScores(
        null_variance=squared_norm / d,
        match_mean=alpha,
        match_variance=beta_squared * max(squared_norm - 1, 0.0) / (d - 1),
        squared_norm=squared_norm,
        squared_norm_bound=bound,
        null_variance_bound=bound / d,
        match_variance_bound=beta_squared * excess_bound / (d - 1),
    )


def _pinv_squared_norm(n: int, d: float, cap: CapMoments) -> float:
    if n == 1:
        return 1.0
    across = d - 1
    room = across - n
    ratio = across * cap.variance / cap.co_second
    residual = cap.co_second * (room - 1) / (n * (across - 2))
    axis = cap.mean**2 + cap.variance * (across - 1) / (n * room)
    return 1 / (residual + axis / (1 + ratio * (n - 1) / room))


def _arguments(
    where: str, unit_size: int, dim: float, similarity: float, cap_cosine: float
) -> tuple[int, float, float, CapMoments]:
    n = checks.integer(unit_size, "unit_size", where)
    d = checks.real(dim, "dim", where, low=2.0)
    return n, d, checks.similarity(similarity, where), cap_moments(cap_cosine, d)


def cap_design(
    construction: CapConstruction,
    *,
    unit_size: int,
    dim: float,
    similarity: float,
    cap_cosine: float,
    miss_rate: float = 0.01,
) -> Design:
    """Return threshold, false positive rate and cost of units whose vectors share a cap.

    τ = μ₁ + σ₁Φ⁻¹(ε), P_fp = 1 − Φ(τ/σ₀), C_H0/N = 1/n + P_fp, with the moments of the cap model
    (paper, Section 4, "Weakly supervised assignment"; Gaussian laws, equal units).

    Examples
    --------
    >>> cost = [cap_design("sum", unit_size=30, dim=1000, similarity=0.7, cap_cosine=eta).cost_ratio
    ...         for eta in (-1.0, 0.2, 0.4)]
    >>> [round(value, 4) for value in cost]
    [0.073, 0.0334, 0.0333]
    """
    checks.choice(construction, "construction", "cap_design", get_args(CapConstruction))
    rate = checks.miss_rate(miss_rate, "cap_design")
    make = sum_cap_scores if construction == "sum" else pinv_cap_scores
    scores = make(unit_size, dim=dim, similarity=similarity, cap_cosine=cap_cosine)
    threshold = scores.match_mean + math.sqrt(scores.match_variance) * float(special.ndtri(rate))
    false_positives = float(special.ndtr(-threshold / math.sqrt(scores.null_variance)))
    return Design(construction, dim, similarity, miss_rate, unit_size, threshold, false_positives)
