"""When evidence supports a promise: rules on the number of queries and the share they missed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from memvec.lazy import special
from memvec.types import BoolArray, Float64Array

Promise: TypeAlias = Literal["expected", "high_probability"]

# A sum of shares that are fractions may come out a little too large.
_ROUNDING = 1e-9
_BISECTIONS = 50
# Smaller ones are out of reach by far; their numbers of queries need not be right.
_SMALLEST_RATE = 1e-15
_INTERVAL = 0.95


@dataclass(frozen=True)
class Rule:
    """What n calibration queries that missed a share R of their matches must satisfy.

    Attributes
    ----------
    promise : {"expected", "high_probability"}
        Hold the miss rate on average, or with a probability over the draw of the queries.
    miss_rate : float
        ε, what may be missed.
    confidence : float
        1 − δ, for "high_probability".

    Examples
    --------
    >>> Rule("expected", 0.01).queries_needed, Rule("high_probability", 0.01, 0.95).queries_needed
    (99, 299)
    """

    promise: Promise
    miss_rate: float
    confidence: float = 0.95

    @property
    def queries_needed(self) -> int:
        """The fewest queries that support the promise, if they miss nothing."""
        rate = max(self.miss_rate, _SMALLEST_RATE)
        if self.promise == "expected":
            return max(1, math.ceil(1 / rate - _ROUNDING) - 1)
        delta = max(1 - self.confidence, _SMALLEST_RATE)
        return max(1, math.ceil(math.log(delta) / math.log1p(-rate) - _ROUNDING))

    def holds(self, n_queries: Float64Array, missed: Float64Array) -> BoolArray:
        """Tell whether the promise holds for queries that missed a sum of shares, element-wise."""
        n, total = np.asarray(n_queries, dtype=np.float64), np.asarray(missed, dtype=np.float64)
        if self.promise == "expected":
            return np.asarray(total + 1 <= self.miss_rate * (n + 1) + _ROUNDING)
        return hoeffding_bentkus(n, total, self.miss_rate) <= 1 - self.confidence

    def bound(self, n_queries: int, missed: float) -> float:
        """Return the smallest miss rate for which the promise would hold on this evidence."""
        if self.promise == "expected":
            return (missed + 1) / (n_queries + 1)
        return upper_limit(n_queries, missed, self.confidence)

    def interval(self, n_queries: int, missed: float) -> tuple[float, float]:
        """Return a 95 % interval of the miss rate of the thresholds that the rule chose.

        The upper end allows for the choice. Thresholds whose miss rate is above r are stricter than
        the strictest λ whose miss rate is r, as misses fall with λ; if the rule chose one of those,
        the queries miss no more at this λ than the rule allows, T. At this one λ, which no query
        chose, that has a probability of at most what Hoeffding and Bentkus give for a sum of T at a
        miss rate of r. So T takes the place of what was missed. The lower end is that of fixed
        thresholds: chosen ones seem to miss less than they do, which only lowers it.

        Examples
        --------
        >>> low, high = Rule("expected", 0.05).interval(1000, 48.0)
        >>> round(low, 3), round(high, 3)
        (0.033, 0.069)
        """
        if n_queries == 0:
            return 0.0, 1.0
        one_sided = (1 + _INTERVAL) / 2
        most = max(missed, self._most_missed(n_queries))
        low = lower_limit(n_queries, missed, one_sided)
        return low, upper_limit(n_queries, most, one_sided)

    def _most_missed(self, n_queries: int) -> float:
        """Return the largest sum of shares missed with which the promise holds."""
        if self.promise == "expected":
            return self.miss_rate * (n_queries + 1) - 1
        low, high = 0.0, float(n_queries)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self.holds(np.asarray(n_queries), np.asarray(middle)):
                low = middle
            else:
                high = middle
        return low


def hoeffding_bentkus(
    n_queries: float | Float64Array, missed: float | Float64Array, miss_rate: float
) -> Float64Array:
    """Return the p-value of "the miss rate is above ε", for shares in [0, 1].

    The smaller of Hoeffding's bound exp(−n·h(R, ε)), h the relative entropy of two coins, and of
    Bentkus's e·P(Bin(n, ε) ≤ ⌈nR⌉) (Bates et al., "Distribution-free, risk-controlling prediction
    sets", 2021).

    Parameters
    ----------
    n_queries : float or ndarray
        n.
    missed : float or ndarray
        nR, the sum of the shares that were missed.
    miss_rate : float
        ε.

    Examples
    --------
    >>> round(float(hoeffding_bentkus(299, 0.0, 0.01)), 4)
    0.0495
    """
    n, total = np.asarray(n_queries, dtype=np.float64), np.asarray(missed, dtype=np.float64)
    mean = np.minimum(total / np.maximum(n, 1), miss_rate)
    entropy = special.rel_entr(mean, miss_rate) + special.rel_entr(1 - mean, 1 - miss_rate)
    at_most = special.bdtr(np.ceil(total - _ROUNDING), n.astype(np.int64), miss_rate)
    return np.asarray(np.minimum(np.exp(-n * entropy), math.e * at_most))


def upper_limit(n_queries: int, missed: float, confidence: float) -> float:
    """Return an upper confidence limit of the miss rate, by Hoeffding and Bentkus.

    Examples
    --------
    >>> round(upper_limit(299, 0.0, 0.95), 4)
    0.01
    """
    low, high = (missed / n_queries if n_queries else 0.0), 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if hoeffding_bentkus(n_queries, missed, middle) <= 1 - confidence:
            high = middle
        else:
            low = middle
    return high


def lower_limit(n_queries: int, missed: float, confidence: float) -> float:
    """Return a lower confidence limit of the miss rate: found shares are shares in [0, 1], too."""
    return 1 - upper_limit(n_queries, n_queries - missed, confidence)


Holds: TypeAlias = Callable[[Float64Array, Float64Array], BoolArray]
