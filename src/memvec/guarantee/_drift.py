"""Whether the matches of live queries need more slack than those of the calibration queries."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

import numpy as np

from memvec.types import Float64Array, IntArray

#: The chance that queries like the calibration queries ever raise an alarm.
FALSE_ALARMS = 0.01
# Scores are counted on a fixed grid: hundredths of a standard deviation, from −40 to 40.
_CELLS, _CELLS_EACH = 8192, 100.0
# Bets against small p-values: 1 + ε(1/2 − p), and κ·p^(κ − 1).
_LINEAR = np.array([0.5, 1.0])
_POWER = 0.8
# Scores that are compared with each other, and bet on, at a time.
_AT_ONCE = 128
# The mean of p-values is so many standard deviations low in one of six tests by chance, and in most
# of those of a doubled miss rate.
_SUSPICIOUS = 1.0
# What is not bet at once, and how fast it follows: half of it within so many scores.
_HELD_BACK, _HALVED_WITHIN = 0.5, 1500.0


@dataclass(frozen=True)
class Drift:
    """What the watch of live queries says.

    Attributes
    ----------
    n_queries : int
        Queries watched so far that had a match to look at; one that comes again counts once.
    p_value : float or None
        The chance of so much evidence of drift, at any time, among queries like the calibration
        queries; None before the first query was looked at.
    alarmed : bool
        Whether it was 0.01 or less at any time.
    n_questions : int
        The questions that are watched (a similarity with a miss rate and a level is one).
    n_unwatched : int
        Questions that are not, as there are too many.
    """

    n_queries: int = 0
    p_value: float | None = None
    alarmed: bool = False
    n_questions: int = 0
    n_unwatched: int = 0


class DriftWatch:
    """A conformal test martingale: bets that live scores exceed those of calibration queries.

    The score of a query is the slack λ that one of its matches needs, drawn at random among those
    that need less than the slack which was solved. Its p-value against the reference and all live
    scores before it is

        p_t = (#{earlier scores > s_t} + U_t · #{scores = s_t, itself included}) / t.

    *The p-values are independent and uniform* if all scores are exchangeable, whatever their law
    and however many are equal: given which scores there are among the first t, each order of them
    is as likely as another, so that p_t is uniform and independent of p_1 … p_(t−1) (Vovk,
    Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005). Scores are rounded to a
    fixed grid before, which makes further ties and breaks no symmetry; so counts are all that is
    kept, and memory does not grow.

    *The wealth is a martingale.* Each bet f has ∫f = 1 and multiplies what was put on it by f(p_t).
    Half is bet at once, in equal parts; the rest is held back and put on the same bets little by
    little, at times fixed beforehand, so that a late drift is seen, too. A sum of
    martingales is one, and by Ville's inequality the wealth ever reaches 1/δ with probability at
    most δ. Bets grow on small p-values alone: queries that need less slack raise no alarm.

    *The limit λ.* The calibration queries that set λ are those above it, not where the others are:
    given λ, the scores below it of queries with one match each are independent draws of one law,
    and live scores below it are draws of the same. Where queries have several matches this holds
    but for the one query in n whose share decides.

    Parameters
    ----------
    reference : ndarray of shape (n_queries,)
        The scores of the calibration queries.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> watch = DriftWatch(rng.normal(size=2000))
    >>> watch.saw(rng.normal(size=1000), rng.random(1000))
    >>> watch.highest < 200
    True
    >>> watch.saw(rng.normal(loc=0.5, size=1000), rng.random(1000))
    >>> watch.highest > 200
    True
    """

    def __init__(self, reference: Float64Array) -> None:
        self._counts = np.bincount(_cells(reference), minlength=_CELLS)
        self._n_scores = len(reference)
        self._held_back = 1.0
        self._staked = np.zeros(len(_LINEAR) + 1)
        self._lock = threading.Lock()
        #: Live scores so far.
        self.n_queries = 0
        #: The largest wealth so far; its inverse is a p-value.
        self.highest = 1.0
        #: Whether the last scores were rather large: then it pays to look at more queries. Which
        #: are looked at may follow from what was seen, as long as not from their own scores.
        self.suspicious = False

    def saw(self, scores: Float64Array, uniforms: Float64Array) -> None:
        """Take note of the scores of further queries.

        Parameters
        ----------
        scores : ndarray of shape (n_queries,)
            In the order they came.
        uniforms : ndarray of shape (n_queries,)
            U, in [0, 1), drawn apart from the scores.
        """
        if not len(scores):
            return
        cells = _cells(scores)
        with self._lock:
            total = 0.0
            for start in range(0, len(cells), _AT_ONCE):
                stop = start + _AT_ONCE
                total += self._bet_on(cells[start:stop], uniforms[start:stop])
            low = 0.5 - total / len(cells)
            self.suspicious = low * math.sqrt(12 * len(cells)) > _SUSPICIOUS

    def _bet_on(self, cells: IntArray, uniforms: Float64Array) -> float:
        """Bet on some scores, and return the sum of their p-values."""
        self._stake()
        p_values = self._p_values(cells, uniforms)
        wealth = self._staked * np.cumprod(_bets(p_values), axis=0)
        self._staked = wealth[-1]
        reached = self._held_back + wealth.sum(axis=1)
        self.highest = max(self.highest, float(reached.max()))
        np.add.at(self._counts, cells, 1)
        self._n_scores += len(cells)
        self.n_queries += len(cells)
        return float(p_values.sum())

    def _stake(self) -> None:
        """Bet more of what was held back."""
        left = _HELD_BACK * _HALVED_WITHIN / (_HALVED_WITHIN + self.n_queries)
        self._staked += (self._held_back - left) / len(self._staked)
        self._held_back = left

    def _p_values(self, cells: IntArray, uniforms: Float64Array) -> Float64Array:
        """Return the p-value of each score against all before it."""
        above = np.append(np.cumsum(self._counts[::-1])[::-1], 0)
        earlier = np.tri(len(cells), k=-1, dtype=bool)
        n_larger = above[cells + 1] + (earlier & np.greater.outer(cells, cells).T).sum(axis=1)
        n_equal = self._counts[cells] + (earlier & np.equal.outer(cells, cells)).sum(axis=1) + 1
        n_scores = self._n_scores + 1 + np.arange(len(cells))
        return np.asarray((n_larger + uniforms * n_equal) / n_scores)


def _cells(scores: Float64Array) -> IntArray:
    places = np.floor(np.clip(scores, -40.0, 40.0) * _CELLS_EACH).astype(np.int64)
    return np.clip(places + _CELLS // 2, 0, _CELLS - 1)


def _bets(p_values: Float64Array) -> Float64Array:
    """Return what each bet is multiplied by, shape (n_scores, n_bets)."""
    linear = 1 + np.outer(0.5 - p_values, _LINEAR)
    power = _POWER * np.maximum(p_values, np.finfo(float).tiny) ** (_POWER - 1)
    return np.column_stack([linear, power])


def drift_level(number: int) -> float:
    """Return the chance of a false alarm that the watch started as the n-th has, from 1.

    As 1/(n(n + 1)) adds up to 1, all watches together alarm falsely with probability 0.01 at most.

    Examples
    --------
    >>> round(1 / drift_level(1)), round(1 / drift_level(2))
    (200, 600)
    """
    return FALSE_ALARMS / (number * (number + 1))


def drift_p_value(number: int, highest: float) -> float:
    """Return the p-value of the n-th watch among all of them."""
    return min(1.0, FALSE_ALARMS / drift_level(number) / max(highest, 1.0))
