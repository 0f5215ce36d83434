"""Two units of one order: of rows of norm 1, the Euclidean distance is √(2 − 2·cosine)."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from memvec import checks
from memvec.types import Float32Array, Float64Array

Metric = Literal["cosine", "euclidean"]

# Norms are 1 up to UNIT_NORM_TOLERANCE, so the cosine of a row with its copy is 1 up to twice that,
# and the square of their distance is 0 up to four times that.
LEAST_DISTANCE = math.sqrt(4 * checks.UNIT_NORM_TOLERANCE)
_NO_METRIC = (
    "an inner product ranks long rows above near ones, and memvec searches by angle; for rows of "
    "norm 1, it is the cosine, so scale them if your model allows it"
)


def checked_metric(value: object, where: str) -> Metric:
    """Return a metric; an inner product is refused with the reason and the way out."""
    for known in get_args(Metric):
        if value == known:
            return known  # type: ignore[no-any-return]
    expected = "'cosine' or 'euclidean'"
    if isinstance(value, str) and value.lower().strip("_") in {"ip", "dot", "inner_product"}:
        expected = f"{expected} ({_NO_METRIC})"
    raise checks.bad_value("metric", where, expected, repr(value))


def checked_level(
    metric: Metric, similarity: float | None, radius: float | None, default: float, where: str
) -> float:
    """Return the cosine that is asked for, in the unit of the metric; by default `default`."""
    if metric == "cosine":
        if radius is not None:
            expected = "left out where metric is 'cosine'; give 'similarity', 1 − radius²/2"
            raise checks.bad_value("radius", where, expected, radius)
        return default if similarity is None else checks.similarity(similarity, where)
    if similarity is not None:
        expected = "left out where metric is 'euclidean'; give 'radius', √(2 − 2·similarity)"
        raise checks.bad_value("similarity", where, expected, similarity)
    return default if radius is None else similarity_of(radius, where)


def similarity_of(radius: object, where: str) -> float:
    """Return the cosine of rows of norm 1 at a distance: 1 − r²/2."""
    value = checks.real(radius, "radius", where, low=0.0, high=math.sqrt(2), high_open=True)
    return max(1 - value**2 / 2, math.ulp(1.0))


def radius_of(similarity: float) -> float:
    """Return the distance of rows of norm 1 with a cosine: √(2 − 2α)."""
    return math.sqrt(max(0.0, 2 - 2 * similarity))


def scores_of(metric: Metric, cosines: Float64Array | Float32Array) -> Float32Array:
    """Return cosines as scores of the metric."""
    if metric == "cosine":
        return cosines.astype(np.float32)
    squares = 2 - 2 * cosines.astype(np.float64)
    squares[squares <= LEAST_DISTANCE**2] = 0.0
    distances: Float64Array = np.sqrt(squares)
    return distances.astype(np.float32)


def cosine_of(metric: Metric, score: float) -> float:
    """Return a score of the metric as a cosine."""
    return score if metric == "cosine" else 1 - score**2 / 2


def cosines_of(metric: Metric, scores: Float32Array) -> Float32Array:
    """Return scores of the metric as cosines."""
    return scores if metric == "cosine" else (1 - scores**2 / 2).astype(np.float32)


def limit_text(metric: Metric, similarity: float) -> str:
    """Return how a range is told: ``above 0.8``, ``within 0.632``."""
    if metric == "cosine":
        return f"above {similarity:g}"
    return f"within {radius_of(similarity):.6g}"
