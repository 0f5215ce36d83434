"""What was solved on planted evidence: it rests on what is searched, and on no calibration query.

Deletes, filters and new rows change the matches of calibration queries. What is planted stays, and
to plant it takes most of the time that a range is solved in: so it is solved once for what is
searched, and kept with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from memvec.cache import Cache
from memvec.guarantee._bounds import Rule
from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._hex import numbers_of, texts_of

# What is kept of each kind, in bytes: a thousand or more.
_MOST_KEPT = 4 << 20
# More cells and families than there are of one miss rate.
_MOST_READ = 1000


@dataclass(frozen=True, eq=False)
class PlantedSolutions:
    """λ of planted cells, by their lower ends and rules; and families of thresholds.

    Attributes
    ----------
    values : Cache
        λ by cell and rule.
    families : Cache
        The family of what is planted at the similarity of the build, by miss rate.
    """

    values: Cache[tuple[float, Rule], float] = field(default_factory=lambda: Cache(_MOST_KEPT))
    families: Cache[float, ThresholdFamily] = field(default_factory=lambda: Cache(_MOST_KEPT))

    def to_json(self, miss_rate: float) -> dict[str, Any]:
        """Return what was solved for one miss rate, as JSON holds it; empty if nothing was."""
        rule = Rule("expected", miss_rate)
        values = {cell: value for (cell, of_rule), value in self.values.items if of_rule == rule}
        family = dict(self.families.items).get(miss_rate)
        if not values or family is None:
            return {}
        return {
            "cells": texts_of(values),
            "values": texts_of(values.values()),
            "family": [texts_of(row) for row in (family.shares, family.most, *family.knots)],
        }

    def add_json(self, stored: dict[str, Any], miss_rate: float, n_stages: int) -> None:
        """Add what was solved for one miss rate by whichever process.

        Raises
        ------
        ValueError, TypeError, KeyError, AttributeError or OverflowError
            Where it cannot have been.
        """
        cells = numbers_of(stored["cells"], (len(stored["cells"]),))
        values = numbers_of(stored["values"], (len(cells),))
        shares, most, *knots = numbers_of(stored["family"], (len(stored["family"]), n_stages))
        family = ThresholdFamily(shares, np.array(knots), most)
        fits = len(cells) <= _MOST_READ and bool((np.abs(cells) <= 1).all())
        if not fits or not family.rises or (values == -np.inf).any():
            raise ValueError("not what planted evidence gives")
        rule = Rule("expected", miss_rate)
        self.families.get(miss_rate, lambda: family)
        for cell, value in zip(cells.tolist(), values.tolist(), strict=True):
            self.values.get((cell, rule), partial(float, value))
