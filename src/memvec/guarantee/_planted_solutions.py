"""What was solved on planted evidence: it rests on what is searched, and on no calibration query.

Deletes, filters and new rows change the matches of calibration queries. What is planted stays, and
to plant it takes most of the time that a range is solved in: so a process solves it once for what
is searched.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from memvec.cache import Cache
from memvec.guarantee._bounds import Rule
from memvec.guarantee._family import ThresholdFamily

# What is kept of each kind, in bytes: a thousand or more.
_MOST_KEPT = 4 << 20


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
