"""How much of the truth an answer leaves out, per query and per pair."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from memvec import checks
from memvec.evaluation._flat_rows import FlatRows, flat_rows
from memvec.types import BoolArray, Float64Array, IntArray

# No set of shares, all in [0, 1], has a larger standard deviation.
_LARGEST_DEVIATION = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Misses:
    """The misses of an answer; made by `count_misses`.

    Queries without a match have nothing to miss and do not count in either rate. If no query has a
    match, both rates are 0 and the interval is [0, 1].

    Attributes
    ----------
    matches : ndarray of shape (n_queries,)
        The number of matches of each query.
    missed : ndarray of shape (n_queries,)
        The number of matches that were not returned.
    extra : ndarray of shape (n_queries,)
        The number of returned ids that are not matches.
    """

    matches: IntArray
    missed: IntArray
    extra: IntArray

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.matches)

    @property
    def n_queries_with_matches(self) -> int:
        """The number of queries that have at least one match."""
        return int(np.count_nonzero(self.matches))

    @property
    def n_queries_without_matches(self) -> int:
        """The number of queries without a match, which do not count in the rates."""
        return self.n_queries - self.n_queries_with_matches

    @property
    def n_pairs(self) -> int:
        """The number of matches of all queries."""
        return int(self.matches.sum())

    @property
    def n_missed(self) -> int:
        """The number of matches of all queries that were not returned."""
        return int(self.missed.sum())

    @property
    def shares(self) -> Float64Array:
        """The share missed by each query that has a match, in the order of the queries."""
        asked = self.matches > 0
        return self.missed[asked] / self.matches[asked]

    @property
    def miss_rate(self) -> float:
        """The mean of `shares`."""
        return float(self.shares.mean()) if self.n_queries_with_matches else 0.0

    @property
    def pair_miss(self) -> float:
        """Missed pairs, divided by all pairs."""
        return self.n_missed / self.n_pairs if self.n_pairs else 0.0

    @property
    def standard_error(self) -> float:
        """Standard error of `miss_rate` over the draw of queries.

        With fewer than two queries that have matches, it cannot be estimated and is 0.5, the
        largest standard deviation of a share.
        """
        n = self.n_queries_with_matches
        return float(self.shares.std(ddof=1)) / math.sqrt(n) if n > 1 else _LARGEST_DEVIATION

    @property
    def pair_standard_error(self) -> float:
        """Standard error of `pair_miss` over the draw of queries.

        Pairs of one query are missed together, so queries are the units of the draw: the error of a
        ratio estimator, √(n/(n−1)·Σ(missedᵢ − p·matchesᵢ)²)/Σmatchesᵢ (Cochran, Sampling
        Techniques, chapter 6). With fewer than two queries that have matches it is 0.5.
        """
        n = self.n_queries_with_matches
        if n < 2:
            return _LARGEST_DEVIATION
        residuals = self.missed - self.pair_miss * self.matches
        return math.sqrt(n / (n - 1) * float(residuals @ residuals)) / self.n_pairs

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval of the miss rate: Wilson's, with queries as trials.

        Shares in [0, 1] of mean μ have variance at most μ(1 − μ), that of yes-or-no trials, so
        Wilson's interval is conservative. Unlike the mean ± standard errors, it does not shrink to
        nothing if no miss was seen. It is an approximation, good for about ten queries or more.

        Examples
        --------
        >>> from memvec.evaluation import count_misses
        >>> from memvec.matches import Matches
        >>> truth = Matches.from_rows([[7]] * 100)
        >>> low, high = count_misses(truth, truth).interval()
        >>> low, round(high, 3)
        (0.0, 0.037)
        """
        confidence = checks.miss_rate(confidence, "Misses.interval", "confidence")
        return _wilson(self.miss_rate, self.n_queries_with_matches, confidence)

    def __repr__(self) -> str:
        return (
            f"Misses(miss_rate={self.miss_rate:.4g}, standard_error={self.standard_error:.2g}, "
            f"pair_miss={self.pair_miss:.4g}, n_missed={self.n_missed}, n_pairs={self.n_pairs}, "
            f"n_queries={self.n_queries}, "
            f"n_queries_without_matches={self.n_queries_without_matches})"
        )


def _wilson(share: float, n: int, confidence: float) -> tuple[float, float]:
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    spread = share * (1 - share) / n + z * z / (4 * n * n)
    half = z / (1 + z * z / n) * math.sqrt(max(spread, 0.0))
    # At the ends the sum is exact on paper; rounding must not push the bound past what was seen.
    return max(0.0, min(centre - half, share)), min(1.0, max(centre + half, share))


def count_misses(truth: FlatRows, answer: FlatRows) -> Misses:
    """Compare the true matches with the ids returned.

    Parameters
    ----------
    truth, answer : objects with offsets and ids
        Flat rows, such as `Matches` or the hits of an index, in any order within a row.

    Examples
    --------
    One query has 1 match, which is missed; another has 9, all found. The mean over the two queries
    is a half, while only 1 pair of 10 is missing:

    >>> from memvec.matches import Matches
    >>> truth = Matches.from_rows([[4], [0, 1, 2, 3, 5, 6, 7, 8, 9]])
    >>> misses = count_misses(truth, Matches.from_rows([[], [0, 1, 2, 3, 5, 6, 7, 8, 9]]))
    >>> misses.miss_rate, misses.pair_miss
    (0.5, 0.1)
    """
    return _count(truth, answer, "count_misses")


def missed_pairs(truth: FlatRows, answer: FlatRows) -> BoolArray:
    """Return which pairs of the truth were not returned, in their order.

    Examples
    --------
    >>> from memvec.matches import Matches
    >>> missed_pairs(Matches.from_rows([[1, 2], [3, 4]]), Matches.from_rows([[2], [4, 3]])).tolist()
    [True, False, False, False]
    """
    where = "missed_pairs"
    found, _ = _common(*flat_rows(truth, "truth", where), *flat_rows(answer, "answer", where))
    return ~found


def miss_rate(truth: FlatRows, answer: FlatRows) -> float:
    """Return the share of matches not returned, averaged over the queries that have a match.

    It is 0 if no query has one; `count_misses` distinguishes these cases and gives standard errors.

    Examples
    --------
    >>> from memvec.matches import Matches
    >>> miss_rate(Matches.from_rows([[1, 2], [3], []]), Matches.from_rows([[2], [3], [9]]))
    0.25
    """
    return _count(truth, answer, "miss_rate").miss_rate


def pair_miss(truth: FlatRows, answer: FlatRows) -> float:
    """Return missed pairs divided by all pairs; 0 if there is no pair.

    Examples
    --------
    >>> from memvec.matches import Matches
    >>> pair_miss(Matches.from_rows([[1, 2], [3, 4]]), Matches.from_rows([[2], [4, 3]]))
    0.25
    """
    return _count(truth, answer, "pair_miss").pair_miss


def _count(truth: FlatRows, answer: FlatRows, where: str) -> Misses:
    true_query, true_id = flat_rows(truth, "truth", where)
    query, ids = flat_rows(answer, "answer", where)
    n_queries, n_answered = len(truth.offsets) - 1, len(answer.offsets) - 1
    if n_answered != n_queries:
        expected = f"rows for the {n_queries} queries of the truth"
        raise checks.bad_value("answer", where, expected, n_answered)
    found, correct = _common(true_query, true_id, query, ids)
    return Misses(
        np.bincount(true_query, minlength=n_queries),
        np.bincount(true_query[~found], minlength=n_queries),
        np.bincount(query[~correct], minlength=n_queries),
    )


def _common(
    left_query: IntArray, left_id: IntArray, right_query: IntArray, right_id: IntArray
) -> tuple[BoolArray, BoolArray]:
    """Return which pairs of each side are on the other side too."""
    # Ids may be any int64, so they are numbered first: a pair then fits one integer.
    names, number = np.unique(np.concatenate([left_id, right_id]), return_inverse=True)
    pairs = np.concatenate([left_query, right_query]) * len(names) + number
    left, right = pairs[: len(left_id)], pairs[len(left_id) :]
    return np.isin(left, right), np.isin(right, left)
