"""The one family of threshold vectors along which promises are solved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from memvec.cache import Cache
from memvec.guarantee._bounds import Rule
from memvec.guarantee._cascade import Cascade, joint_shares
from memvec.guarantee._planting import Planting
from memvec.guarantee._table import CalibrationTable
from memvec.guarantee._thresholds import Thresholds
from memvec.lazy import special
from memvec.types import BoolArray, Float64Array

# A stage that hardly misses anything is still given this much where λ is 1, in standard deviations,
# and at each further knot of the curve this much more: there are no pairs to tell of its far end.
_LEAST_SLACK, _LEAST_STEP = 0.5, 0.1
# From there on, the pairs that are lost are halved so many times.
_HALVINGS = 5
# What is planted for the family is drawn apart from what is planted for the promise.
FOR_PROMISE, FOR_FAMILY = 0, 1
# Pairs this much below a similarity are spare, if so many queries have some.
SPARE_WIDTH = 0.1
_FEWEST_SPARE = 200
_MOST_KEPT = 4 << 20


@dataclass(frozen=True, eq=False)
class ThresholdFamily:
    """The slack of each stage, as a function of one number λ: a curve through knots, up to a limit.

    Where λ is 1, each stage alone loses its share of the pairs that may be lost, and half as many
    at each further knot. Outliers of units need far more slack than codes of members, so that the
    proportions between the stages change along the way. Beyond its ends the curve goes on straight.

    Attributes
    ----------
    shares : ndarray of shape (n_stages,)
        The part of each stage in the pairs that are lost; 0 for a stage that tests nothing.
    knots : ndarray of shape (n_knots, n_stages)
        The slack at λ = 0, 1, 2, …, rising; none at 0.
    most : ndarray of shape (n_stages,)
        The largest slack of each stage. Codes of single vectors have Gaussian noise, so there is a
        number of standard deviations that none needs, and their curve follows from one knot; a
        stage that tests units has no such limit.

    Examples
    --------
    >>> knots = np.array([[0.0, 0.0], [1.0, 2.0], [4.0, 3.0]])
    >>> family = ThresholdFamily(np.full(2, 0.5), knots, np.array([np.inf, 3.5]))
    >>> family.slack(1.5).tolist(), family.slack(3.0).tolist()
    ([2.5, 2.5], [7.0, 3.5])
    >>> family.levels(np.array([[2.5, 2.0], [-1.0, 4.0]])).tolist()
    [[1.5, 1.0], [-1.0, inf]]
    """

    shares: Float64Array
    knots: Float64Array
    most: Float64Array

    @classmethod
    def of_pairs(
        cls, pairs: CalibrationTable, shares: Float64Array, most: Float64Array, miss_rate: float
    ) -> ThresholdFamily:
        """Return the family through the slacks with which each stage alone loses its share.

        Parameters
        ----------
        pairs : CalibrationTable
            Pairs that would be matches at their own cosine.
        shares, most
            As above.
        miss_rate : float
            ε, of which each stage has its share where λ is 1.
        """
        needed = pairs.needed(pairs.cosines)
        steps = _LEAST_STEP * np.arange(_HALVINGS + 2)
        knots = np.tile(steps[:, np.newaxis], len(shares))
        for stage in np.flatnonzero(shares > 0).tolist():
            lost = shares[stage] * miss_rate * 0.5 ** np.arange(_HALVINGS + 1)
            slack = pairs.quantiles(needed[:, stage], lost)
            slack[0] = max(slack[0], _LEAST_SLACK)
            if np.isfinite(most[stage]):
                slack = slack[0] * special.ndtri(lost) / special.ndtri(lost[0])
            # What rises by a step at least is what still rises without the steps.
            knots[1:, stage] = np.maximum.accumulate(slack - steps[1:]) + steps[1:]
        return cls(shares, knots, most)

    @property
    def used(self) -> BoolArray:
        """Which stages test anything."""
        return self.shares > 0

    @property
    def rises(self) -> bool:
        """Whether there is a curve, and every stage has more slack at each further knot."""
        return len(self.knots) > 1 and bool((np.diff(self.knots, axis=0) > 0).all())

    def slack(self, value: float) -> Float64Array:
        """Return the slack of each stage at λ."""
        knot = int(np.clip(np.floor(value), 0, len(self.knots) - 2))
        low, high = self.knots[knot], self.knots[knot + 1]
        return np.asarray(np.minimum(low + (value - knot) * (high - low), self.most))

    def levels(self, slack: Float64Array) -> Float64Array:
        """Return the λ at which each stage has a given slack, shape (n, n_stages) like the slack.

        It is ∞ where none gives that much, and −∞ for stages that test nothing.
        """
        levels = np.full_like(slack, -np.inf)
        for stage in np.flatnonzero(self.used).tolist():
            knots, given = self.knots[:, stage], slack[:, stage]
            knot = np.clip(np.searchsorted(knots, given) - 1, 0, len(knots) - 2)
            low = knots[knot]
            level = knot + (given - low) / (knots[knot + 1] - low)
            levels[:, stage] = np.where(given > self.most[stage], np.inf, level)
        return levels

    def needed(
        self, pairs: CalibrationTable, at: float | Float64Array, besides: Thresholds | None = None
    ) -> Float64Array:
        """Return the λ that each pair needs to pass all stages, tested at a similarity.

        Where it passes a stage by other lines of thresholds, it needs none.
        """
        levels = self.levels(pairs.needed(at))
        if besides is not None:
            levels[besides.passes_stages(pairs.scores, pairs.slopes)] = -np.inf
        return np.asarray(levels.max(axis=1, initial=-np.inf))


class Families:
    """Chooses the family of thresholds for a similarity; what was chosen is kept.

    Parameters
    ----------
    cascades : sequence of Cascade
        What is searched, as one.
    table : CalibrationTable or None
        The matches of the calibration queries.
    planting : Planting
        What takes their place.
    planted : Cache
        The families of what is planted, by miss rate; they rest on no table.
    designed_for : float
        The similarity of the build.
    """

    def __init__(
        self,
        cascades: Sequence[Cascade],
        table: CalibrationTable | None,
        planting: Planting,
        planted: Cache[float, ThresholdFamily],
        designed_for: float,
    ) -> None:
        self._cascades, self._table = cascades, table
        self._planting, self._of_planted = planting, planted
        self._designed_for = designed_for
        self._kept: Cache[tuple[float, float], ThresholdFamily] = Cache(_MOST_KEPT)

    def at(self, similarity: float, miss_rate: float, natural: bool) -> ThresholdFamily:
        """Return how strict the stages are against each other, for natural or planted evidence.

        It comes from pairs just short of a match, or from planted ones: not from those that set λ
        there. Outliers of their units matter more the nearer matches are, so that units need more
        room against codes at similarities above the build's; what is planted does not tell.
        """
        if not natural or self._table is None:
            return self._planted(miss_rate)
        at = max(similarity, self._designed_for)
        return self._kept.get((at, miss_rate), lambda: self._chosen(at, miss_rate))

    def _chosen(self, at: float, miss_rate: float) -> ThresholdFamily:
        assert self._table is not None
        spare = self._table.just_below(at, SPARE_WIDTH)
        if spare.n_queries >= _FEWEST_SPARE:
            return self._through(spare, miss_rate)
        if at > self._designed_for:
            return self.at(self._designed_for, miss_rate, natural=True)
        return self._planted(miss_rate)

    def _planted(self, miss_rate: float) -> ThresholdFamily:
        """Return the family of what is planted at the similarity of the build, for any table."""

        def made() -> ThresholdFamily:
            rule = Rule("expected", miss_rate)
            spare = self._planting.table(self._designed_for, rule, FOR_FAMILY)
            return self._through(spare, miss_rate)

        return self._of_planted.get(miss_rate, made)

    def _through(self, spare: CalibrationTable, miss_rate: float) -> ThresholdFamily:
        shares = joint_shares(self._cascades)
        most = np.max([one.most_slack for one in self._cascades], axis=0)
        return ThresholdFamily.of_pairs(spare, shares, most, miss_rate)
