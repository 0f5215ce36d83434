"""Cells of similarities: thresholds are solved for a cell at a time."""

from __future__ import annotations

import math

import numpy as np

from memvec.kernels import MATCH_SLACK
from memvec.types import Float32Array, Float64Array, IntArray

# A similarity that is computed, as 0.1 + 0.2, belongs to the cell that it is meant to be in.
_ROUNDING = 1e-10
# Towards 1 the noise of a match, √(1 − α²), vanishes: hundredths of the cosine are too wide there.
# Each further cell halves 1 − α, so that the angle shrinks by √2, down to what counts as a copy.
_HUNDREDTHS = 100
_HALVINGS = int(math.log2(1 / (_HUNDREDTHS * MATCH_SLACK)))
# Planted matches serve cells of 0.05, until the noise begins to vanish.
_PLANTED_WIDTH = 0.05
_NEAR_COPIES = 0.95


def _edges() -> Float64Array:
    hundredths = [step / _HUNDREDTHS for step in range(_HUNDREDTHS)]
    halvings = [1 - 0.5**step / _HUNDREDTHS for step in range(1, _HALVINGS + 1)]
    return np.array([round(edge, 10) for edge in hundredths + halvings])


#: The lower ends of all cells: hundredths up to 0.99, then 0.995, 0.9975, ….
EDGES: Float64Array = _edges()


def lower_end(similarity: float) -> float:
    """Return the lower end of the cell that a similarity lies in.

    Examples
    --------
    >>> lower_end(0.709), lower_end(0.7), lower_end(0.996), lower_end(1.0)
    (0.7, 0.7, 0.995, 0.9999987793)
    """
    return float(EDGES[_cell(similarity)])


def upper_end(similarity: float) -> float:
    """Return where the cell of a similarity ends and the next begins; 1 for the last.

    Examples
    --------
    >>> upper_end(0.7), upper_end(0.996), upper_end(0.9999999)
    (0.71, 0.9975, 1.0)
    """
    following = _cell(similarity) + 1
    return float(EDGES[following]) if following < len(EDGES) else 1.0


def edges_above(similarity: float) -> list[float]:
    """Return the lower ends of all cells above the one that a similarity lies in."""
    edges: list[float] = EDGES[_cell(similarity) + 1 :].tolist()
    return edges


def planted_end(similarity: float) -> float:
    """Return the lower end of the cell that planted matches serve.

    Examples
    --------
    >>> planted_end(0.74), planted_end(0.97), planted_end(0.998)
    (0.7, 0.97, 0.9975)
    """
    if similarity >= _NEAR_COPIES - _ROUNDING:
        return lower_end(similarity)
    return round(math.floor(similarity / _PLANTED_WIDTH + _ROUNDING) * _PLANTED_WIDTH, 10)


def strata(cosines: Float32Array | Float64Array) -> IntArray:
    """Return the cell of each pair, by the highest edge at which it is a match; −1 for none."""
    wide = np.asarray(cosines, dtype=np.float64) + MATCH_SLACK
    return np.asarray(np.searchsorted(EDGES, wide, side="right") - 1, dtype=np.int64)


def sizes_of_strata(falling: Float32Array | Float64Array) -> IntArray:
    """Return how many of some falling cosines lie in each cell, the highest first.

    Examples
    --------
    >>> sizes = sizes_of_strata(np.array([0.999, 0.715, 0.71, 0.703]))
    >>> sizes[sizes > 0].tolist()
    [1, 2, 1]
    """
    above = np.searchsorted(-falling, MATCH_SLACK - EDGES[::-1], side="right")
    return np.diff(above, prepend=0)


def _cell(similarity: float) -> int:
    return int(np.searchsorted(EDGES, similarity + _ROUNDING, side="right")) - 1
