"""The law of S = yᵀm for y uniform on the sphere (paper, Section 6, "Distribution of a scalar
product"): exact, its large-d approximation, and the Gaussian one.
"""  # noqa: D205

from __future__ import annotations

import math

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.lazy import special
from memvec.theory._symmetric import SymmetricLaw
from memvec.types import ArrayLike, Float64Array


def score_tail(scores: ArrayLike, norms: ArrayLike, dim: float) -> Float64Array:
    """P(S ≥ s) for S = yᵀm, y uniform on the sphere, element by element.

    For s ≥ 0 it is ½ I_{1−s²/‖m‖²}((d−1)/2, ½), the complement of the paper's
    F_S(s) = ½(1 + I_{s²/‖m‖²}(½, (d−1)/2)) without the subtraction. It is the p-value of a score.

    Parameters
    ----------
    scores : array_like
        The scores s, of any shape.
    norms : array_like
        The norms ‖m‖ ≥ 0, broadcast against `scores`.
    dim : float
        The dimension d ≥ 1, or an effective dimension, which need not be an integer.

    Returns
    -------
    ndarray
        Probabilities of the broadcast shape.

    Examples
    --------
    In three dimensions the score of a unit vector is uniform on [−1, 1] (Archimedes):

    >>> score_tail([-1.0, 0.0, 0.5], 1.0, dim=3)
    array([1.  , 0.5 , 0.25])
    """
    dim = checks.real(dim, "dim", "score_tail", low=1.0)
    radii = np.asarray(norms, dtype=np.float64)
    if not (radii >= 0).all():
        raise checks.bad_value("norms", "score_tail", "numbers >= 0", radii.min())
    values = np.asarray(scores, dtype=np.float64)
    tail = _cap_share(np.abs(values), radii, dim)
    return np.where(values >= 0, tail, 1 - tail)


def _cap_share(scores: Float64Array, radii: Float64Array, dim: float) -> Float64Array:
    """P(S ≥ s) for s ≥ 0: the share of the sphere covered by a cap."""
    scores, radii = np.broadcast_arrays(scores, radii)
    if dim == 1:
        # The sphere of R¹ is {−1, 1}: half of the mass sits at each end.
        return np.where(scores > radii, 0.0, np.where(scores == 0, 1 - 0.5 * (radii > 0), 0.5))
    cosines = np.divide(scores, radii, out=np.full(scores.shape, np.inf), where=radii > 0)
    cosines = np.where((radii == 0) & (scores == 0), 0.0, cosines)
    inside = np.minimum(cosines, 1.0)
    share: Float64Array = 0.5 * special.betainc((dim - 1) / 2, 0.5, (1 - inside) * (1 + inside))
    return np.where((radii == 0) & (scores == 0), 1.0, share)


def log_beta_half(half: float) -> float:
    """Return log B(½, a); for large a by the series of Γ(a+½)/Γ(a), which loses no digits."""
    if half < 50:
        return float(special.betaln(0.5, half))
    inverse = 1 / half
    series = (1 / 128 + (5 / 1024 - 21 * inverse / 32768) * inverse) * inverse
    return math.log(math.pi * inverse) / 2 - math.log1p((series - 1 / 8) * inverse)


class ScoreLaw(SymmetricLaw):
    """The law of S = yᵀm for y uniform on the sphere of dimension d and m of known norm.

    S²/‖m‖² follows the law Beta(½, (d−1)/2), so that E[S] = 0 and V[S] = ‖m‖²/d. For d = 1 it is
    the two-point law on ±‖m‖.

    Parameters
    ----------
    norm : float
        ‖m‖ > 0.
    dim : float
        The dimension d ≥ 1, or an effective dimension.

    Examples
    --------
    >>> law = ScoreLaw(norm=2.0, dim=1000)
    >>> round(law.variance, 6)
    0.004
    >>> float(law.sf(0.3)), float(law.large_dim_sf(0.3)), float(law.gaussian_sf(0.3))
    (9.35...e-07, 9.30...e-07, 1.05...e-06)
    """

    def __init__(self, norm: float, dim: float) -> None:
        self.norm = checks.real(norm, "norm", "ScoreLaw", low=0.0, low_open=True)
        self.dim = checks.real(dim, "dim", "ScoreLaw", low=1.0)

    def __repr__(self) -> str:
        return f"ScoreLaw(norm={self.norm:g}, dim={self.dim:g})"

    @property
    def variance(self) -> float:
        """V[S] = ‖m‖²/d."""
        return self.norm**2 / self.dim

    def _upper_tail(self, score: Float64Array) -> Float64Array:
        return _cap_share(score, np.asarray(self.norm), self.dim)

    def below(self, score: ArrayLike) -> Float64Array:
        """P(S < s); for d = 1, an atom at s = ±‖m‖ is not included."""
        values = np.asarray(score, dtype=np.float64)
        if self.dim > 1:
            return self.cdf(values)
        return np.where(values > self.norm, 1.0, np.where(values > -self.norm, 0.5, 0.0))

    def pdf(self, score: ArrayLike) -> Float64Array:
        """f_S(s) = (1 − s²/‖m‖²)^((d−3)/2) / (‖m‖ B(½, (d−1)/2)) inside (−‖m‖, ‖m‖)."""
        if self.dim == 1:
            raise InvalidValueError("The score law of dimension 1 has two atoms and no density.")
        cosine = np.asarray(score, dtype=np.float64) / self.norm
        inside = np.abs(cosine) < 1
        log_base = np.log1p(-(np.where(inside, cosine, 0.0) ** 2))
        log_pdf = (self.dim - 3) / 2 * log_base - log_beta_half((self.dim - 1) / 2)
        return np.where(inside, np.exp(log_pdf) / self.norm, 0.0)

    def _upper_quantiles(self, probability: Float64Array) -> Float64Array:
        if self.dim == 1:
            return np.full(probability.shape, self.norm)
        half = (self.dim - 1) / 2
        complement = special.betaincinv(half, 0.5, 2 * probability)
        # Near the median 1 − x² has lost its digits: solve for x² itself.
        square = special.betaincinv(0.5, half, 1 - 2 * probability)
        square = np.where(complement < 0.5, 1 - complement, square)
        return self._polish(self.norm * np.sqrt(square), probability)

    def _polish(self, score: Float64Array, probability: Float64Array) -> Float64Array:
        """Improve quantiles by one Newton step: the inverse function is good to 1e-5 only."""
        if self.dim <= 3:
            return score
        density = self.pdf(score)
        step = np.divide(
            self.sf(score) - probability, density, out=np.zeros_like(score), where=density > 0
        )
        return score + step

    def large_dim_sf(self, score: ArrayLike) -> Float64Array:
        """Large-d approximation, 1 − Φ(√((d−1)/‖m‖²) · 2s/(1 + √(1 − s²/‖m‖²)))."""
        cosine = np.clip(np.asarray(score, dtype=np.float64) / self.norm, -1.0, 1.0)
        bent = 2 * cosine / (1 + np.sqrt((1 - cosine) * (1 + cosine)))
        tail: Float64Array = special.ndtr(-math.sqrt(self.dim - 1) * bent)
        return tail

    def gaussian_sf(self, score: ArrayLike) -> Float64Array:
        """Gaussian approximation, 1 − Φ(s √d/‖m‖)."""
        tail: Float64Array = special.ndtr(-np.asarray(score, dtype=np.float64) / self.std)
        return tail
