"""How strict the stages of a search are against each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memvec.cache import Cache
from memvec.guarantee import CalibrationTable, Rule, ThresholdFamily
from memvec.index._cascades import Cascade
from memvec.index._planting import Planting

# What is planted for the family is drawn apart from what is planted for the promise.
FOR_PROMISE, FOR_FAMILY = 0, 1
# Pairs this much below a similarity are spare, if so many queries have some.
SPARE_WIDTH = 0.1
_FEWEST_SPARE = 200
_MOST_KEPT = 4 << 20


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
    designed_for : float
        The similarity of the build.
    """

    def __init__(
        self,
        cascades: Sequence[Cascade],
        table: CalibrationTable | None,
        planting: Planting,
        designed_for: float,
    ) -> None:
        self._cascades, self._table = cascades, table
        self._planting, self._designed_for = planting, designed_for
        self._kept: Cache[tuple[float, float, bool], ThresholdFamily] = Cache(_MOST_KEPT)

    def at(self, similarity: float, miss_rate: float, natural: bool) -> ThresholdFamily:
        """Return how strict the stages are against each other, for natural or planted evidence.

        It comes from pairs just short of a match, or from planted ones: not from those that set λ
        there. Outliers of their units matter more the nearer matches are, so that units need more
        room against codes at similarities above the build's; what is planted does not tell.
        """
        at = max(similarity, self._designed_for) if natural else self._designed_for
        key = (at, miss_rate, natural)
        return self._kept.get(key, lambda: self._chosen(at, miss_rate, natural))

    def _chosen(self, at: float, miss_rate: float, natural: bool) -> ThresholdFamily:
        spare = None
        if natural and self._table is not None:
            spare = self._table.just_below(at, SPARE_WIDTH)
        if spare is None or spare.n_queries < _FEWEST_SPARE:
            if at > self._designed_for:
                return self.at(self._designed_for, miss_rate, natural)
            spare = self._planting.table(at, Rule("expected", miss_rate), FOR_FAMILY)
        shares = self._cascades[0].stage_shares
        most = np.max([one.most_slack for one in self._cascades], axis=0)
        return ThresholdFamily.of_pairs(spare, shares, most, miss_rate)


__all__ = ["FOR_FAMILY", "FOR_PROMISE", "SPARE_WIDTH", "Families"]
