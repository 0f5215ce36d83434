"""Empirical ROC curves, and the cost of a search beside the exhaustive one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.types import ArrayLike, Float64Array, IntArray


@dataclass(frozen=True, eq=False, repr=False)
class RocCurve:
    """The error rates of the test "score ≥ τ", at every τ where they change.

    Attributes
    ----------
    thresholds : ndarray of shape (n_points,)
        In descending order; the first is infinite, the others are the distinct scores.
    false_positive_rate : ndarray of shape (n_points,)
        P_fp(τ), the share of H0 scores ≥ τ, from 0 to 1.
    true_positive_rate : ndarray of shape (n_points,)
        1 − P_fn(τ), the share of H1 scores ≥ τ, from 0 to 1.
    """

    thresholds: Float64Array
    false_positive_rate: Float64Array
    true_positive_rate: Float64Array

    @property
    def false_negative_rate(self) -> Float64Array:
        """P_fn(τ), the share of H1 scores below τ."""
        return 1.0 - self.true_positive_rate

    @property
    def area(self) -> float:
        """The area under the curve; ties count one half, as in the Mann–Whitney statistic."""
        heights = (self.true_positive_rate[1:] + self.true_positive_rate[:-1]) / 2
        return float(np.diff(self.false_positive_rate) @ heights)

    def __repr__(self) -> str:
        return f"RocCurve(n_points={len(self.thresholds)}, area={self.area:.4g})"


def roc_curve(scores_h0: ArrayLike, scores_h1: ArrayLike) -> RocCurve:
    """Return the empirical ROC curve from scores of unrelated (H0) and related (H1) queries.

    Parameters
    ----------
    scores_h0, scores_h1 : array_like
        Finite scores under each hypothesis, of any shape and number, at least one each.

    Examples
    --------
    >>> curve = roc_curve([0.1, 0.4], [0.4, 0.8])
    >>> curve.thresholds
    array([inf, 0.8, 0.4, 0.1])
    >>> curve.false_positive_rate, curve.true_positive_rate
    (array([0. , 0. , 0.5, 1. ]), array([0. , 0.5, 1. , 1. ]))
    >>> curve
    RocCurve(n_points=4, area=0.875)
    """
    return _roc_curve(scores_h0, scores_h1, "roc_curve")


def auc(scores_h0: ArrayLike, scores_h1: ArrayLike) -> float:
    """Return the area under the ROC curve: P(S₁ > S₀) + P(S₁ = S₀)/2 for a random pair of scores.

    Examples
    --------
    >>> auc([0.1, 0.4], [0.4, 0.8])
    0.875
    """
    return _roc_curve(scores_h0, scores_h1, "auc").area


def complexity_ratio(
    unit_scores: ArrayLike, unit_sizes: ArrayLike, threshold: float
) -> Float64Array:
    """Return C_H1(τ)/N = (M + Σ nᵢ)/N of each query, the sum over units scoring above τ.

    One inner product for each of the M memory vectors and one for each member of the units that
    pass, over the N of the exhaustive search. For large τ it is M/N, not M as the paper writes.

    Parameters
    ----------
    unit_scores : array_like of shape (n_queries, n_units)
        The score yᵀmᵢ of each query with each memory vector.
    unit_sizes : array_like of shape (n_units,)
        The number nᵢ of vectors in each unit; they add up to N.
    threshold : float
        The threshold τ.

    Returns
    -------
    ndarray of shape (n_queries,)

    Examples
    --------
    >>> complexity_ratio([[0.9, 0.2], [0.1, 0.3]], [6, 4], threshold=0.5)
    array([0.8, 0.2])
    """
    where = "complexity_ratio"
    threshold = checks.real(threshold, "threshold", where)
    scores = checks.matrix(unit_scores, "unit_scores", where)
    if np.isnan(scores).any():
        row = int(np.argmax(np.isnan(scores).any(axis=1)))
        raise checks.bad_value("unit_scores", where, "free of NaN", f"one in row {row}")
    sizes = _sizes(unit_sizes, scores.shape[1], where)
    scored = (scores > threshold) @ sizes
    return np.asarray((len(sizes) + scored) / sizes.sum(), dtype=np.float64)


def _roc_curve(scores_h0: ArrayLike, scores_h1: ArrayLike, where: str) -> RocCurve:
    below = np.sort(_scores(scores_h0, "scores_h0", where))
    above = np.sort(_scores(scores_h1, "scores_h1", where))
    thresholds = np.unique(np.concatenate([below, above]))[::-1]
    return RocCurve(
        np.concatenate([[np.inf], thresholds]),
        np.concatenate([[0.0], 1 - np.searchsorted(below, thresholds) / len(below)]),
        np.concatenate([[0.0], 1 - np.searchsorted(above, thresholds) / len(above)]),
    )


def _scores(value: ArrayLike, name: str, where: str) -> Float64Array:
    array = checks.numbers(value, name, where)
    expected = "an array of at least one finite number"
    scores = array.astype(np.float64).ravel()
    if len(scores) == 0:
        raise checks.bad_value(name, where, expected, f"shape {array.shape}")
    if not np.isfinite(scores).all():
        raise checks.bad_value(name, where, expected, f"{scores[~np.isfinite(scores)][0]}")
    return scores


def _sizes(value: ArrayLike, n_units: int, where: str) -> IntArray:
    array = np.asarray(value)
    expected = f"{n_units} integers >= 0, one per unit and not all 0"
    if array.dtype.kind not in "iu":
        raise checks.bad_type("unit_sizes", where, expected, f"dtype {array.dtype}")
    if array.shape != (n_units,):
        raise checks.bad_value("unit_sizes", where, expected, f"shape {array.shape}")
    if (array < 0).any() or not array.any():
        got = f"a smallest of {array.min()} and a largest of {array.max()}"
        raise checks.bad_value("unit_sizes", where, expected, got)
    return array.astype(np.int64)
