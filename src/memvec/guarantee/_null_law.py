"""How likely a score is between vectors that have nothing to do with each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec.lazy import special
from memvec.types import Float32Array, Float64Array

# A tail with fewer pairs than this says too little about its probability.
_FEWEST_PAIRS = 10
# The law of uniform vectors is used where it gives no less than the pairs do, up to chance.
_STANDARD_ERRORS = 3.0
# No law is known so well that less than this could be told from it.
_SMALLEST = 1e-30


@dataclass(frozen=True, eq=False)
class NullLaw:
    """The law of the cosine of two random vectors of a data set.

    Where the cosines of random pairs do not exceed what the exact law of uniform vectors says, with
    the effective dimension in place of d, that law gives p-values however small. Elsewhere the
    pairs themselves do, down to ten of them; below, all that is known is "less than".

    Attributes
    ----------
    cosines : ndarray of shape (n_pairs,)
        Of random pairs, rising, float32.
    dimension : float
        1/E[cos²] of the pairs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> law = NullLaw.of_pairs(rng.normal(scale=0.1, size=100_000).astype(np.float32))
    >>> bool(0.02 < law.p_values(0.2) < 0.026)
    True
    """

    cosines: Float32Array
    dimension: float

    @classmethod
    def of_pairs(cls, cosines: Float32Array) -> NullLaw:
        """Return the law of a sample of cosines."""
        square = float(np.mean(np.square(cosines, dtype=np.float64)))
        return cls(np.sort(cosines), 1 / max(square, 1e-12))

    @property
    def smallest(self) -> float:
        """The smallest p-value that the pairs support, 10/n_pairs."""
        return min(1.0, _FEWEST_PAIRS / len(self.cosines))

    @cached_property
    def is_uniform(self) -> bool:
        """Whether the law of uniform vectors is at least as large as the pairs say, all along."""
        n = len(self.cosines)
        if n < 2 * _FEWEST_PAIRS:
            return False
        counts = np.unique(np.geomspace(_FEWEST_PAIRS, n / 2, 40).astype(np.int64))
        shares = counts / n
        scores = self.cosines[n - counts].astype(np.float64)
        errors = np.sqrt(shares * (1 - shares) / n)
        return bool(
            np.all(uniform_tail(scores, self.dimension) >= shares - _STANDARD_ERRORS * errors)
        )

    def p_values(self, scores: float | Float32Array | Float64Array) -> Float64Array:
        """Return the chance that an unrelated vector scores as high, for each score.

        Values at `smallest` are to be read as "less than" unless `is_uniform`.
        """
        values = np.asarray(scores, dtype=np.float64)
        at_least = len(self.cosines) - np.searchsorted(self.cosines, values.astype(np.float32))
        # Adding one to both makes the p-value of a further pair too large rather than too small.
        empirical = np.maximum((at_least + 1) / (len(self.cosines) + 1), self.smallest)
        if not self.is_uniform:
            return np.asarray(empirical)
        tail = np.maximum(uniform_tail(values, self.dimension), _SMALLEST)
        return np.where(empirical > self.smallest, np.maximum(empirical, tail), tail)


def uniform_tail(scores: float | Float64Array, dim: float) -> Float64Array:
    """Return P(cosine ≥ s) of uniform vectors of a dimension: (1 + cos)/2 is Beta distributed.

    Examples
    --------
    >>> uniform_tail(np.array([-1.0, 0.0, 0.5]), 3).tolist()  # uniform on [-1, 1] in space
    [1.0, 0.5, 0.25]
    """
    half = (max(dim, 1.0 + 1e-9) - 1) / 2
    below = (1 - np.clip(np.asarray(scores, dtype=np.float64), -1.0, 1.0)) / 2
    return np.asarray(special.betainc(half, half, below))


@dataclass(frozen=True)
class Significance:
    """How surprising a score is.

    Attributes
    ----------
    p_value : float
        The chance that a vector that has nothing to do with the query scores as high.
    e_value : float
        p·N: how many such vectors a search is expected to return.
    at_most : bool
        Whether both are upper limits: fewer than ten of the random pairs score as high.
    """

    p_value: float
    e_value: float
    at_most: bool

    def __str__(self) -> str:
        sign = "<" if self.at_most else "="
        return f"p {sign} {self.p_value:.2g}, E {sign} {self.e_value:.2g}"


def significance(law: NullLaw, score: float, n_vectors: int) -> Significance:
    """Return p-value and E-value of a score in a search of `n_vectors`."""
    p_value = float(law.p_values(score))
    floor = _SMALLEST if law.is_uniform else law.smallest
    at_most = math.isclose(p_value, floor)
    return Significance(p_value, p_value * n_vectors, at_most)
