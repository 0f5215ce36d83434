"""Error rates of the test "is the query related to this unit?" under random assignment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from memvec import checks
from memvec.lazy import special
from memvec.theory._cosine_sum import CosineSumLaw
from memvec.theory._pinv import PinvNoiseLaw, PinvNormLaw, PinvNullLaw
from memvec.theory._score import ScoreLaw
from memvec.theory._symmetric import NormalLaw, PointLaw, SymmetricLaw
from memvec.types import ArrayLike, Float64Array

Construction = Literal["sum", "pinv", "orthogonal"]
LawName = Literal["exact", "gaussian", "paper"]

# Gauss-Legendre nodes in the quantiles of H1, enough for an area to 1e-6.
_AREA_NODES = 200


@dataclass(frozen=True)
class UnitTest:
    """The test yᵀm ≥ τ of one unit of n random vectors, its two laws and its error rates.

    Under H0 the query y is uniform; under H1 it is y = αx₁ + βz with z uniform among the unit
    vectors orthogonal to x₁ (paper, Section 3). The score is then

    * sum: Σᵢ yᵀxᵢ under H0 and α + Σ_{i≥2} yᵀxᵢ under H1, sums of independent cosines;
    * pinv: ‖m‖T under H0 and α + β√(‖m‖²−1) T′ under H1, with T, T′ cosines of uniform vectors in
      dimensions d and d−1 and 1/‖m‖² a Beta variable;
    * orthogonal: the same with ‖m‖² = n, for pairwise orthogonal vectors.

    Parameters
    ----------
    construction : {"sum", "pinv", "orthogonal"}
        How the memory vector is made.
    unit_size : int
        The number n of vectors in the unit; at most d for pinv and orthogonal.
    dim : float
        The dimension d ≥ 2.
    similarity : float
        The cosine α between the query and its match, in (0, 1].
    law : {"exact", "gaussian", "paper"}
        The laws above; Gaussians with their variances; or the paper's Gaussians (its
        equations for P_fp and P_fn as printed, see the errata).

    Examples
    --------
    >>> test = UnitTest("pinv", unit_size=20, dim=1000, similarity=0.7)
    >>> tau = test.threshold(miss_rate=0.01)
    >>> round(tau, 4), round(float(test.false_positive_rate(tau)), 5)
    (0.4685, 0.00052)
    """

    construction: Construction
    unit_size: int
    dim: float
    similarity: float
    law: LawName = "exact"

    def __post_init__(self) -> None:
        where = "UnitTest"
        checks.choice(self.construction, "construction", where, get_args(Construction))
        checks.choice(self.law, "law", where, get_args(LawName))
        checks.integer(self.unit_size, "unit_size", where)
        checks.real(self.dim, "dim", where, low=2.0)
        checks.similarity(self.similarity, where)
        if self.construction != "sum" and self.unit_size > self.dim:
            limit = f"at most the dimension {self.dim:g} for {self.construction}"
            raise checks.bad_value("unit_size", where, limit, self.unit_size)

    @property
    def noise(self) -> float:
        """β = √(1−α²), without cancellation near α = 1."""
        return math.sqrt((1 - self.similarity) * (1 + self.similarity))

    @property
    def null_variance(self) -> float:
        """V[yᵀm] under H0: E‖m‖²/d."""
        n, d = self.unit_size, self.dim
        if self.construction != "pinv":
            return n / d
        norm_law = PinvNormLaw(n, d)
        if self.law == "paper":
            return norm_law.limit_squared_norm / d
        return norm_law.mean_squared_norm / d

    @property
    def match_variance(self) -> float:
        """V[yᵀm] under H1: (n−1)/d for sum, β²(E‖m‖²−1)/(d−1) otherwise."""
        n, d = self.unit_size, self.dim
        if self.construction == "sum":
            return (n - 1) / d
        if self.law == "paper":
            squared_norm = n - 1 if self.construction == "orthogonal" else d * self.null_variance
            return self.noise**2 * squared_norm / d
        if self.noise == 0:
            return 0.0
        return self.noise**2 * (d * self.null_variance - 1) / (d - 1)

    @cached_property
    def null_law(self) -> SymmetricLaw:
        """The law of the score under H0."""
        if self.law != "exact":
            return _normal(self.null_variance)
        if self.construction == "sum":
            return CosineSumLaw(self.unit_size, self.dim)
        if self.construction == "pinv":
            return PinvNullLaw(self.unit_size, self.dim)
        return ScoreLaw(math.sqrt(self.unit_size), self.dim)

    @cached_property
    def noise_law(self) -> SymmetricLaw:
        """The law of the score under H1, less its mean α."""
        if self.law != "exact":
            return _normal(self.match_variance)
        if self.unit_size == 1 or (self.construction != "sum" and self.noise == 0):
            return PointLaw()
        if self.construction == "sum":
            return CosineSumLaw(self.unit_size - 1, self.dim)
        if self.construction == "pinv":
            return PinvNoiseLaw(self.unit_size, self.dim, self.noise)
        return ScoreLaw(self.noise * math.sqrt(self.unit_size - 1), self.dim - 1)

    def false_positive_rate(self, threshold: ArrayLike) -> Float64Array:
        """P_fp = P(yᵀm ≥ τ | H0)."""
        return self.null_law.sf(threshold)

    def false_negative_rate(self, threshold: ArrayLike) -> Float64Array:
        """P_fn = P(yᵀm < τ | H1)."""
        return self.noise_law.below(np.asarray(threshold, dtype=np.float64) - self.similarity)

    def threshold(self, miss_rate: float) -> float:
        """Return the threshold τ with P_fn = ε, the share of queries at cosine α missed."""
        rate = checks.miss_rate(miss_rate, "UnitTest.threshold")
        return self.similarity + float(self.noise_law.ppf(rate))

    def roc(self, false_positive_rates: ArrayLike) -> Float64Array:
        """Return the true positive rates 1 − P_fn at given false positive rates."""
        thresholds = self.null_law.isf(false_positive_rates)
        return 1 - self.false_negative_rate(thresholds)

    def auc(self) -> float:
        """Return the area under the ROC curve, P(score under H1 > score under H0).

        For sum it is one tail of 2n−1 cosines; for Gaussians Φ(α/√(σ₀²+σ₁²)).
        """
        if self.law != "exact":
            total = math.sqrt(self.null_variance + self.match_variance)
            return float(special.ndtr(self.similarity / total))
        if self.construction == "sum":
            return float(CosineSumLaw(2 * self.unit_size - 1, self.dim).cdf(self.similarity))
        if isinstance(self.noise_law, PointLaw):
            return float(self.null_law.cdf(self.similarity))
        nodes, weights = special.roots_legendre(_AREA_NODES)
        scores = self.similarity + self.noise_law.ppf((nodes + 1) / 2)
        return float(self.null_law.cdf(scores) @ weights / 2)


def _normal(variance: float) -> SymmetricLaw:
    return NormalLaw(math.sqrt(variance)) if variance > 0 else PointLaw()
