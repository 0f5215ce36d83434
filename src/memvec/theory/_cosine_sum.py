"""The exact law of a sum of independent cosines, which is the score of a sum memory vector."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memvec import checks
from memvec.lazy import special
from memvec.theory._score import ScoreLaw
from memvec.theory._symmetric import SymmetricLaw
from memvec.types import ArrayLike, Float64Array

Complex128Array: TypeAlias = NDArray[np.complex128]

# The integrand along the contour decays like |t|^(−n(d−1)/2 − 1); below this value of n(d−1) the
# decay is too slow to integrate and the law is convolved on a lattice instead.
_SMOOTH = 60.0
_LATTICE_BINS = 1 << 14
# From this Bessel order on, four terms of the uniform expansion are exact to about 1e-10.
_LARGE_ORDER = 50.0
_CONTOUR_NODES = 640


class CosineSumLaw(SymmetricLaw):
    """The law of Σ yᵀxᵢ, n independent uniform unit vectors xᵢ in dimension d and any unit y.

    The cosines are independent even though they share y, so the characteristic function is
    φ(t)ⁿ with φ(t) = ₀F₁(; d/2; −t²/4). The tail is the inversion integral
    P(S ≥ s) = 1/(2πi) ∫ φ(−iz)ⁿ e^(−zs) dz/z taken on a vertical line through (nearly) the saddle
    point, where the integrand is positive and bell-shaped: relative accuracy near 1e-10 however
    small the tail. Where few low-dimensional vectors make the integrand decay slowly, the law is
    convolved on a lattice instead (absolute accuracy about 1e-6).

    Parameters
    ----------
    count : int
        The number n ≥ 1 of vectors.
    dim : float
        The dimension d ≥ 2.

    Examples
    --------
    >>> law = CosineSumLaw(count=10, dim=1000)
    >>> round(law.variance, 6), float(law.sf(0.5))
    (0.01, 2.82...e-07)
    """

    def __init__(self, count: int, dim: float) -> None:
        self.count = checks.integer(count, "count", "CosineSumLaw")
        self.dim = checks.real(dim, "dim", "CosineSumLaw", low=2.0)

    def __repr__(self) -> str:
        return f"CosineSumLaw(count={self.count}, dim={self.dim:g})"

    @property
    def variance(self) -> float:
        """V[S] = n/d."""
        return self.count / self.dim

    def _upper_tail(self, score: Float64Array) -> Float64Array:
        if self.count == 1:
            return ScoreLaw(1.0, self.dim).sf(score)
        inside = np.minimum(score, self.count * (1 - 1e-12))
        if self.count * (self.dim - 1) < _SMOOTH:
            tail = _lattice_tail(inside, self.count, self.dim)
        else:
            tail = _contour_tail(inside, self.count, self.dim)
        return np.where(score >= self.count, 0.0, tail)


def _contour_tail(score: Float64Array, count: int, dim: float) -> Float64Array:
    """Integrate exp(n log φ − zs)/z over z = c + it, t ≥ 0, by the trapezoidal rule."""
    mean_cosine = score / count
    # Approximate inverse of I_{ν+1}/I_ν (Banerjee et al., JMLR 2005): any c > 0 is exact, this
    # one is near the saddle point. At least 1/σ keeps the contour away from the pole at zero.
    saddle = mean_cosine * (dim - mean_cosine**2) / (1 - mean_cosine**2)
    width = math.sqrt(dim / count)
    abscissa = np.maximum(saddle, width)[:, np.newaxis]
    # The tilted law is never wider than the law itself, nor narrower than (1 − r²) times it.
    spread = width / np.sqrt(np.maximum(1 - mean_cosine**2, 1e-12))[:, np.newaxis] ** 2
    step = np.minimum(abscissa / 6, spread / 6)
    ordinate = np.sinh(np.arange(_CONTOUR_NODES) / 80) * 80 * step
    weight = np.cosh(np.arange(_CONTOUR_NODES) / 80) * step
    weight[:, 0] /= 2
    point = abscissa + 1j * ordinate
    base = count * log_hyp0f1(abscissa, dim).real - abscissa * score[:, np.newaxis]
    exponent = count * log_hyp0f1(point, dim) - point * score[:, np.newaxis] - base
    total = np.sum(weight * (np.exp(exponent) / point).real, axis=1)
    tail: Float64Array = np.clip(total / math.pi * np.exp(base[:, 0]), 0.0, 0.5)
    return tail


def log_hyp0f1(argument: ArrayLike, dim: float) -> Complex128Array:
    """Return log ₀F₁(; d/2; z²/4), the cumulant generating function of a cosine, for Re z > 0."""
    order = dim / 2 - 1
    point = np.asarray(argument, dtype=np.complex128)
    if order < _LARGE_ORDER:
        scaled = np.log(special.ive(order, point)) + point.real
        small: Complex128Array = special.gammaln(order + 1) - order * np.log(point / 2) + scaled
        return small
    # Uniform expansion of I_ν(νx), DLMF 10.41.3, minus its own value at x = 0.
    square = (point / order) ** 2
    root: Complex128Array = np.sqrt(1 + square)
    excess = square / (1 + root)  # root − 1, whose digits a large order would cancel
    # NumPy's log1p of complex numbers rounds 1 + x first; SciPy's does not.
    main: Complex128Array = order * (excess - special.log1p(excess / 2))
    main -= special.log1p(excess) / 2
    return main + np.log(_debye(1 / root, order)) - np.log(_debye(np.ones(1, np.complex128), order))


def _debye(p: Complex128Array, order: float) -> Complex128Array:
    """Σ U_k(p)/ν^k, k ≤ 4, with the polynomials of DLMF 10.41.10."""
    q = p * p
    first = p * (3 - 5 * q) / 24
    second = q * (81 + q * (-462 + 385 * q)) / 1152
    third = p * q * (30375 + q * (-369603 + q * (765765 - 425425 * q))) / 414720
    fourth = (
        q
        * q
        * (4465125 + q * (-94121676 + q * (349922430 + q * (-446185740 + 185910725 * q))))
        / 39813120
    )
    return 1 + (first + (second + (third + fourth / order) / order) / order) / order


def _lattice_tail(score: Float64Array, count: int, dim: float) -> Float64Array:
    edges, tail = _lattice(count, dim)
    return np.clip(np.interp(score, edges, tail), 0.0, 0.5)


@lru_cache(maxsize=32)
def _lattice(count: int, dim: float) -> tuple[Float64Array, Float64Array]:
    """Convolve the bin masses of one cosine with themselves; tails at the bin edges ≥ 0."""
    cuts = np.linspace(-1.0, 1.0, _LATTICE_BINS + 1)
    masses = -np.diff(ScoreLaw(1.0, dim).sf(cuts))
    bins = count * (_LATTICE_BINS - 1) + 1
    size = 1 << bins.bit_length()
    law = np.fft.irfft(np.fft.rfft(masses, size) ** count, size)[:bins]
    tail = np.cumsum(np.maximum(law, 0.0)[::-1])[::-1]
    width = 2.0 / _LATTICE_BINS
    edges = (np.arange(bins, dtype=np.float64) - bins / 2) * width
    keep = edges >= -2 * width
    return edges[keep], tail[keep]
