"""From the embedded local descriptors of a photograph to one vector."""

from __future__ import annotations

from typing import Literal

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError
from memvec.types import ArrayLike, Float32Array, Float64Array, FloatArray

Aggregation = Literal["sum", "democratic"]
AGGREGATIONS: tuple[Aggregation, ...] = ("sum", "democratic")

# Jégou and Zisserman (2014) use the square root and 10 rounds.
_SINKHORN_ROUNDS = 10


def democratic_weights(embedded: ArrayLike, *, rounds: int = _SINKHORN_ROUNDS) -> Float64Array:
    """Return weights λ by which all descriptors contribute equally: λᵢ Σⱼ λⱼ K⁺ᵢⱼ nearly 1.

    K⁺ is the Gram matrix of the descriptors with its negative entries set to 0, so that all sums
    are positive; each round of Sinkhorn's algorithm divides λᵢ by the square root of
    λᵢ Σⱼ λⱼ K⁺ᵢⱼ (H. Jégou and A. Zisserman, "Triangulation embedding and democratic aggregation
    for image search", CVPR 2014).

    Parameters
    ----------
    embedded : array_like of shape (n, dim)
        The embedded descriptors of one photograph. Zero rows keep the weight 1.
    rounds : int
        Rounds of the algorithm.

    Examples
    --------
    A descriptor seen twice counts as once:

    >>> democratic_weights([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).round(3)
    array([0.707, 0.707, 1.   ])
    """
    where = "democratic_weights"
    rows = checks.matrix(embedded, "embedded", where)
    rounds = checks.integer(rounds, "rounds", where)
    gram = np.maximum(rows @ rows.T, 0.0).astype(np.float64)
    usable = np.diagonal(gram) > 0
    weights = np.ones(len(rows))
    for _ in range(rounds):
        contributions = weights * (gram @ weights)
        weights[usable] /= np.sqrt(contributions[usable])
    return weights


def power_law(vectors: ArrayLike, power: float) -> Float64Array:
    """Return sign(x)·abs(x)ᵃ of every entry: a < 1 damps entries that repeated structures fill.

    Examples
    --------
    >>> power_law([4.0, -9.0], 0.5)
    array([ 2., -3.])
    """
    values = checks.numbers(vectors, "vectors", "power_law").astype(np.float64)
    power = checks.real(power, "power", "power_law", low=0.0, high=1.0, low_open=True)
    return np.sign(values) * np.abs(values) ** power


def finished(vector: FloatArray, power: float) -> Float32Array:
    """Return an aggregated vector after the power law, scaled to norm 1."""
    wide = vector.astype(np.float64) if power == 1 else power_law(vector, power)
    norm = float(np.linalg.norm(wide))
    if not np.isfinite(norm) or norm == 0:
        raise FileFormatError("The photograph's local descriptors cancel out: it has no direction.")
    return (wide / norm).astype(np.float32)
