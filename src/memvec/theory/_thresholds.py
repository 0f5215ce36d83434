"""The law of a match's score with one given unit, and the thresholds that follow, vectorised."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.lazy import special
from memvec.types import ArrayLike, Float64Array

UnitConstruction = Literal["sum", "pinv", "ridge"]


def unit_score_moments(
    norms: ArrayLike,
    *,
    dim: float,
    similarity: float,
    construction: UnitConstruction = "pinv",
    sizes: ArrayLike | None = None,
    member_variance: ArrayLike | None = None,
    noise_variance: ArrayLike = 0.0,
) -> tuple[Float64Array, Float64Array]:
    """Return mean and standard deviation of yᵀm under H1, unit by unit, when ‖m‖ is known.

    The query is y = αx + βz with x a member of the unit drawn at random and z uniform among the
    unit vectors orthogonal to it, so that yᵀm = α xᵀm + β zᵀm and, with a and v the mean and
    variance of xᵀm over the members,

        E = α a,    V = α² v + β² (‖m‖² − a² − v)/(d−1) + noise.

    * pinv: a = 1, v = 0: every member scores 1.
    * sum: a = ‖m‖²/n exactly, since Σ xᵢᵀm = ‖m‖²: a long unit has positive interference. For
      random members v ≈ (‖m‖²/d)(1−c²)²(n−2)/(n−1) with c = ‖m‖/n, the spread of vectors tilted
      towards their known sum; at ‖m‖² = n it is (n−1)(n−2)/(nd): of the interference variance
      (n−1)/d, knowing ‖m‖ removes the share 2/n. Where members are not random, pass the measured
      `member_variance`.
    * ridge: a = 1 (units are rescaled so), v is measured: `member_variance`.

    Parameters
    ----------
    norms : array_like of shape (n_units,)
        ‖m‖ of each unit.
    dim : float
        The dimension d > 1; for real data, its effective dimension.
    similarity : float
        α₀, the cosine of query and match.
    construction : {"sum", "pinv", "ridge"}
        The construction of the memory vectors, which are not normalised.
    sizes : array_like of shape (n_units,), optional
        The number of members of each unit, needed by sum.
    member_variance : array_like of shape (n_units,), optional
        The variance of xᵢᵀm over the members of each unit, needed by ridge.
    noise_variance : array_like, optional
        Variance added by coding the score, one number or one per unit.

    Returns
    -------
    mean, std : ndarray of shape (n_units,)

    Examples
    --------
    Three vectors with ‖m‖² = 3.6 have a mean interference of 0.2:

    >>> mean, std = unit_score_moments([3.6**0.5], dim=101, similarity=0.5, construction="sum",
    ...                                sizes=[3])
    >>> mean.round(6), std.round(4)
    (array([0.6]), array([0.1333]))
    """
    moments = _moments(norms, dim, similarity, construction, sizes, member_variance, noise_variance)
    return moments[0], moments[1]


def _moments(
    norms: ArrayLike,
    dim: float,
    similarity: float,
    construction: UnitConstruction,
    sizes: ArrayLike | None,
    member_variance: ArrayLike | None,
    noise_variance: ArrayLike,
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return mean, standard deviation and third cumulant of yᵀm under H1."""
    where = "unit_score_moments"
    dim = checks.real(dim, "dim", where, low=1.0, low_open=True)
    alpha = checks.similarity(similarity, where)
    checks.choice(construction, "construction", where, get_args(UnitConstruction))
    squared = _numbers(norms, "norms") ** 2
    members = _member_scores(squared, dim, construction, sizes, member_variance)
    centre, spread, third = np.broadcast_arrays(*members)
    across = np.maximum(squared - centre**2 - spread, 0.0) / (dim - 1)
    beta_squared = (1 - alpha) * (1 + alpha)
    noise = _numbers(noise_variance, "noise_variance")
    std = np.sqrt(alpha**2 * spread + beta_squared * across + noise)
    # A member with a low xᵀm leaves more of ‖m‖² to the noise: 3αβ² Cov[xᵀm, ‖m‖² − (xᵀm)²]/(d−1).
    skew = alpha**3 * third - 6 * alpha * beta_squared * centre * spread / (dim - 1)
    mean, std, skew = np.broadcast_arrays(alpha * centre, std, skew)
    return mean.copy(), std.copy(), skew


def _member_scores(
    squared_norms: Float64Array,
    dim: float,
    construction: str,
    sizes: ArrayLike | None,
    member_variance: ArrayLike | None,
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return mean a, variance v and third cumulant of xᵀm over the members of each unit."""
    zeros, ones = np.zeros_like(squared_norms), np.ones_like(squared_norms)
    measured = None if member_variance is None else _numbers(member_variance, "member_variance")
    if construction == "pinv":
        return ones, zeros, zeros
    if construction == "ridge":
        if measured is None:
            raise InvalidValueError(_needed("member_variance", "ridge"))
        return ones, measured, zeros
    if sizes is None:
        raise InvalidValueError(_needed("sizes", "sum"))
    counts = np.asarray(sizes, dtype=np.float64)
    if not (counts >= 1).all():
        raise checks.bad_value("sizes", "unit_score_moments", "numbers >= 1", counts.min())
    if measured is not None:
        return squared_norms / counts, measured, zeros
    return squared_norms / counts, *_tilted_spread(squared_norms, counts, dim)


def _tilted_spread(
    squared_norms: Float64Array, counts: Float64Array, dim: float
) -> tuple[Float64Array, Float64Array]:
    """Second and third cumulant of xᵀm, for n vectors known to add up to m.

    Conditioned on their sum, vectors follow the von Mises–Fisher law of mean cosine c = ‖m‖/n,
    whose cosine has the cumulants (1−c²)²/d and −4c(1−c²)³/d² in high dimension; that the n
    deviations add up to zero takes the factors in n.
    """
    left = np.maximum(1 - squared_norms / counts**2, 0.0)
    others = np.maximum(counts - 1, 1.0)
    free = np.maximum(counts - 2, 0.0)
    variance = squared_norms / dim * left**2 * free / others
    third = -4 * squared_norms**2 / (counts * dim**2) * left**3 * others * free / counts**2
    return variance, third


def _needed(name: str, construction: str) -> str:
    expected = f"given for the construction '{construction}'"
    return checks.message(name, "unit_score_moments", expected, None)


def _numbers(value: ArrayLike, name: str) -> Float64Array:
    array = np.asarray(value, dtype=np.float64)
    if not (array >= 0).all():
        bad = array[~(array >= 0)].flat[0]
        raise checks.bad_value(name, "unit_score_moments", "numbers >= 0", bad)
    return array


def unit_thresholds(
    norms: ArrayLike,
    *,
    dim: float,
    similarity: float,
    miss_rate: float = 0.01,
    construction: UnitConstruction = "pinv",
    sizes: ArrayLike | None = None,
    member_variance: ArrayLike | None = None,
    noise_variance: ArrayLike = 0.0,
) -> Float64Array:
    """Return the threshold of each unit, τ = μ + σ Φ⁻¹(ε), from its own norm.

    μ and σ are those of `unit_score_moments` at the cosine α₀, so that each unit misses the share
    ε of the queries at that cosine. For pinv the Gaussian quantile is the safe side of the exact
    Beta one for ε < 4 % (the sphere's tails are lighter). For sum and ridge, whose scores lean
    to the low side, the quantile z = Φ⁻¹(ε) becomes z + γ(z²−1)/6 with γ the skewness.

    Parameters
    ----------
    norms, dim, similarity, construction, sizes, member_variance, noise_variance
        As in `unit_score_moments`.
    miss_rate : float
        ε, the share of matches that may be missed.

    Returns
    -------
    ndarray of shape (n_units,)

    Examples
    --------
    >>> unit_thresholds([1.0, 3.0], dim=1001, similarity=0.7, miss_rate=0.01).round(4)
    array([0.7   , 0.5514])
    """
    rate = checks.miss_rate(miss_rate, "unit_thresholds")
    mean, std, third = _moments(
        norms, dim, similarity, construction, sizes, member_variance, noise_variance
    )
    quantile = float(special.ndtri(rate))
    lean = np.divide(third, std**2, out=np.zeros_like(std), where=std > 0)
    return mean + std * quantile + lean * (quantile**2 - 1) / 6
