"""The miss rate of live queries, bounded at all times at once."""

from __future__ import annotations

import math

import numpy as np

from memvec.types import Float64Array

_CONFIDENCE = 0.95
# Means that are tested: squares, as most of interest are near 0.
_MEANS: Float64Array = (np.arange(513) / 512) ** 2
# No bet risks more than this share.
_MOST_AT_RISK = 0.5


class LiveRate:
    """An interval for the mean of shares in [0, 1] that holds at all times at once.

    Each mean m is bet against twice: K⁺ₜ(m) = Πᵢ(1 + λᵢ(Xᵢ − m)) grows where shares are larger, and
    K⁻ₜ(m) = Πᵢ(1 − λᵢ(Xᵢ − m)) where they are smaller. At the true mean both are martingales, so
    that each ever reaches 2/δ with probability δ/2 at most (Ville); means where one did are out.
    The bets follow the shares seen before, λᵢ = √(2 ln(2/δ)/(σ̂²ᵢ₋₁ i ln(1 + i))), and are cut so
    that half of the wealth is at risk at most (Waudby-Smith and Ramdas, "Estimating means of
    bounded random variables by betting", 2024, sections 4.2 and 4.4). K⁺ falls with m and K⁻ rises,
    so what is left is an interval, and its ends are means that were tested.

    It assumes that the mean does not change. Where no mean is left, it has changed: the interval
    starts again, the n-th one with the share 1/(n(n + 1)) of δ, so that all of them together are
    wrong with probability δ at most. An interval for one number of queries, as Hoeffding's
    or Bentkus's, may be looked at once; this one as often as one likes, and at any moment.

    Examples
    --------
    >>> rate = LiveRate()
    >>> rate.add(np.tile([0.0, 0.0, 0.0, 0.0, 0.5], 200))
    >>> low, high = rate.interval
    >>> low < 0.1 < high < 0.2
    True
    """

    def __init__(self) -> None:
        self._n_starts = 0
        self._start()

    def _start(self) -> None:
        self._n_starts += 1
        self._log_above, self._log_below = np.zeros((2, len(_MEANS)))
        self._n, self._sum, self._squares = 0, 0.0, 0.0
        #: The ends of the interval.
        self.interval = (0.0, 1.0)

    @property
    def _error(self) -> float:
        """The probability that this interval ever misses a mean that does not change."""
        return (1 - _CONFIDENCE) / (self._n_starts * (self._n_starts + 1))

    def add(self, shares: Float64Array) -> None:
        """Take note of the shares that further queries missed."""
        for share in shares.tolist():
            self._bet_on(share)

    def _bet_on(self, share: float) -> None:
        bet = self._next_bet()
        with np.errstate(divide="ignore"):
            up = np.minimum(bet, _MOST_AT_RISK / _MEANS)
            down = np.minimum(bet, _MOST_AT_RISK / (1 - _MEANS))
        self._log_above += np.log1p(up * (share - _MEANS))
        self._log_below += np.log1p(-down * (share - _MEANS))
        self._n += 1
        self._sum += share
        self._squares += (share - self._mean) ** 2
        limit, (low, high) = math.log(2 / self._error), self.interval
        too_low = _MEANS[self._log_above >= limit].max(initial=low)
        too_high = _MEANS[self._log_below >= limit].min(initial=high)
        self.interval = float(too_low), float(too_high)
        if too_low >= too_high:
            self._start()

    @property
    def _mean(self) -> float:
        return (0.5 + self._sum) / (1 + self._n)

    def _next_bet(self) -> float:
        variance = (0.25 + self._squares) / (1 + self._n)
        number = self._n + 1
        spread = variance * number * math.log(1 + number)
        return math.sqrt(2 * math.log(2 / self._error) / spread)
