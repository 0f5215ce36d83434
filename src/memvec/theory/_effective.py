"""The dimension that the laws of uniform vectors should be given for a real data set."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.types import Float64Array, IntArray

# Pairs are drawn among so many rows at most; more would only cost reading.
_SAMPLE_ROWS = 20_000
# Pairs whose rows are gathered at a time: at most so many, and so many numbers.
_PAIR_BLOCK, _BLOCK_NUMBERS = 4096, 1 << 24


@dataclass(frozen=True)
class EffectiveDimension:
    """The effective dimension of a data set, from random pairs.

    Attributes
    ----------
    dimension : float
        1/E[cos²]: uniform vectors of this dimension have cosines of the same size.
    centred_dimension : float
        The same after the mean vector is subtracted and rows are scaled to norm 1 again; NaN if all
        rows are equal.
    mean_cosine : float
        E[cos], 0 for data without a common direction.
    pairs : int
        The number of pairs drawn.
    """

    dimension: float
    centred_dimension: float
    mean_cosine: float
    pairs: int


def effective_dimension(
    vectors: object, *, pairs: int = 100_000, seed: int | np.random.Generator = 0
) -> EffectiveDimension:
    """Estimate the effective dimension of a data set from random pairs of distinct rows.

    For y uniform on the sphere, E[(yᵀx)²] = 1/d. So 1/E[cos²] takes the place of d in the laws if
    data has fewer degrees of freedom than coordinates (paper, end of "Random assignment").

    Parameters
    ----------
    vectors : array_like of shape (n_vectors, dim)
        At least two rows, of any norm except zero.
    pairs : int
        Number of pairs to draw; the relative standard error is about √(2/pairs).
    seed : int or numpy.random.Generator
        Source of randomness.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((2000, 64))
    >>> found = effective_dimension(rows, pairs=50_000)
    >>> abs(found.dimension - 64) < 2
    True
    """
    where = "effective_dimension"
    array = checks.matrix(vectors, "vectors", where)
    drawn = checks.integer(pairs, "pairs", where)
    generator = checks.generator(seed, where)
    if array.shape[0] < 2:
        raise checks.bad_value("vectors", where, "at least 2 rows", "1")
    if array.shape[0] > _SAMPLE_ROWS:
        chosen = np.sort(generator.choice(array.shape[0], _SAMPLE_ROWS, replace=False))
        array = array[chosen]
    rows = checks.unit_rows(array, "vectors", where, copy=False).astype(np.float64)
    del array
    left = generator.integers(rows.shape[0], size=drawn)
    right = (left + generator.integers(1, rows.shape[0], size=drawn)) % rows.shape[0]
    cosines = _pair_products(rows, left, right)
    rows -= rows.mean(axis=0)
    return EffectiveDimension(
        dimension=_inverse_mean_square(cosines),
        centred_dimension=_inverse_mean_square(_centred_cosines(rows, left, right)),
        mean_cosine=float(cosines.mean()),
        pairs=drawn,
    )


def _pair_products(rows: Float64Array, left: IntArray, right: IntArray) -> Float64Array:
    n_rows, dim = rows.shape
    if n_rows**2 <= left.size:  # each pair is drawn again and again
        return np.asarray((rows @ rows.T)[left, right])
    products = np.empty(left.size)
    block = max(1, min(_PAIR_BLOCK, _BLOCK_NUMBERS // dim))
    for start in range(0, left.size, block):
        part = slice(start, start + block)
        products[part] = np.einsum("ij,ij->i", rows[left[part]], rows[right[part]])
    return products


def _centred_cosines(centred: Float64Array, left: IntArray, right: IntArray) -> Float64Array:
    parts = range(0, len(centred), _PAIR_BLOCK)
    norms = np.concatenate([np.linalg.norm(centred[i : i + _PAIR_BLOCK], axis=1) for i in parts])
    # A row on the mean has no direction left; rounding leaves about 1e-8 of float32 rows.
    usable = (norms[left] > 1e-6) & (norms[right] > 1e-6)
    left, right = left[usable], right[usable]
    cosines: Float64Array = _pair_products(centred, left, right) / (norms[left] * norms[right])
    return cosines


def _inverse_mean_square(cosines: Float64Array) -> float:
    if cosines.size == 0:
        return math.nan
    square = float(np.mean(cosines**2))
    return 1 / square if square > 0 else math.inf
