"""How an operator sees a promise being kept: measurements, and what is known of live queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from memvec.evaluation import FlatRows, Misses, count_misses, missed_pairs
from memvec.guarantee._bounds import lower_limit, upper_limit
from memvec.guarantee._certificate import Level
from memvec.guarantee._drift import Drift
from memvec.guarantee._live import LiveRate
from memvec.guarantee._profile import MissProfile
from memvec.matches import Matches
from memvec.metric import Metric, limit_text

_CONFIDENCE = 0.95


class Asked(NamedTuple):
    """A question that live queries are compared for."""

    similarity: float
    miss_rate: float
    level: Level


@dataclass(frozen=True)
class Measurement:
    """A comparison of answers with an exhaustive search.

    Attributes
    ----------
    n_queries, n_with_matches : int
        Number of queries compared, and of those with matches.
    n_matches, n_missed : int
        Number of matches of all queries, and of those not returned.
    miss_rate : float
        The share of its matches that a query misses, averaged over queries with matches.
    pair_miss : float
        The share of all matches missed.
    interval : tuple of float
        A 95 % confidence interval for the miss rate of such queries. For a measurement, it is that
        of Hoeffding and Bentkus; for live queries, it holds at all times at once
        (:class:`memvec.guarantee.LiveRate`).
    asked : float
        The miss rate that was asked for.
    profile : MissProfile or None
        What the mean hides: the share of queries that miss everything, the worst tenth, and the
        share missed at each similarity. None for live queries.
    """

    n_queries: int
    n_with_matches: int
    n_matches: int
    n_missed: int
    miss_rate: float
    pair_miss: float
    interval: tuple[float, float]
    asked: float
    profile: MissProfile | None = None

    @classmethod
    def of_answer(cls, truth: Matches, answer: FlatRows, asked: float) -> Measurement:
        """Compare an answer with the truth."""
        misses = count_misses(truth, answer)
        queries = np.repeat(np.arange(misses.n_queries), misses.matches)
        missed = missed_pairs(truth, answer)
        return cls.of(misses, asked, MissProfile.of_pairs(queries, truth.scores, missed))

    @classmethod
    def of(cls, misses: Misses, asked: float, profile: MissProfile | None = None) -> Measurement:
        """Return the summary of what was missed."""
        n, total = misses.n_queries_with_matches, float(misses.shares.sum())
        return cls(
            misses.n_queries,
            n,
            misses.n_pairs,
            misses.n_missed,
            misses.miss_rate,
            misses.pair_miss,
            interval_of(n, total),
            asked,
            profile,
        )

    def with_more(self, other: Measurement) -> Measurement:
        """Return the measurement of both sets of queries."""
        n = self.n_with_matches + other.n_with_matches
        total = self.miss_rate * self.n_with_matches + other.miss_rate * other.n_with_matches
        n_matches, n_missed = self.n_matches + other.n_matches, self.n_missed + other.n_missed
        return Measurement(
            self.n_queries + other.n_queries,
            n,
            n_matches,
            n_missed,
            total / n if n else 0.0,
            n_missed / n_matches if n_matches else 0.0,
            interval_of(n, total),
            self.asked,
        )

    @property
    def kept(self) -> bool:
        """Whether the miss rate asked for is not contradicted: it is not below the interval."""
        return self.interval[0] <= self.asked

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"Missed {self.n_missed:,} of {self.n_matches:,} matches of {self.n_queries:,} "
            f"queries: {100 * self.miss_rate:.2f} % of a query's matches on average (95 % interval "
            f"{100 * low:.2f} % to {100 * high:.2f} %); {100 * self.asked:g} % was allowed."
        )


def interval_of(n_queries: int, missed: float) -> tuple[float, float]:
    """Return a 95 % interval of the miss rate, both of its ends by Hoeffding and Bentkus."""
    if n_queries == 0:
        return 0.0, 1.0
    one_sided = (1 + _CONFIDENCE) / 2
    return lower_limit(n_queries, missed, one_sided), upper_limit(n_queries, missed, one_sided)


class LiveTally:
    """What live queries of one question missed."""

    def __init__(self, asked: float) -> None:
        self._asked = asked
        self._rate = LiveRate()
        self._n_queries = self._n_with_matches = self._n_matches = self._n_missed = 0
        self._shares = 0.0

    def add(self, misses: Misses) -> None:
        """Count further queries."""
        shares = misses.shares
        self._rate.add(shares)
        self._n_queries += misses.n_queries
        self._n_with_matches += len(shares)
        self._n_matches += misses.n_pairs
        self._n_missed += misses.n_missed
        self._shares += float(shares.sum())

    @property
    def seen(self) -> Measurement:
        """The summary so far, with an interval that holds at all times at once."""
        return Measurement(
            self._n_queries,
            self._n_with_matches,
            self._n_matches,
            self._n_missed,
            self._shares / max(1, self._n_with_matches),
            self._n_missed / max(1, self._n_matches),
            self._rate.interval,
            self._asked,
        )


@dataclass(frozen=True)
class Health:
    """The queries of this process since the last calibration, and how well the promise held.

    Attributes
    ----------
    n_queries : int
        Number of queries answered with a promise.
    shadows : dict
        Comparisons with an exhaustive search, by similarity, miss rate and level.
    drift : Drift
        Whether the matches of these queries are harder to find than those of the calibration
        queries.
    n_recent : int
        Number of distinct recent queries that `recalibrate` can use.
    metric : {"cosine", "euclidean"}
        Whether ranges are given as cosines or as distances.
    """

    n_queries: int
    shadows: dict[Asked, Measurement]
    drift: Drift
    n_recent: int = 0
    metric: Metric = "cosine"

    def in_metric(self, metric: Metric) -> Health:
        """Return the same, stated in a metric."""
        return self if metric == self.metric else replace(self, metric=metric)

    @property
    def shadow(self) -> Measurement:
        """The comparison with the most queries."""
        nothing = Measurement(0, 0, 0, 0, 0.0, 0.0, (0.0, 1.0), 0.0)
        return max(self.shadows.values(), key=lambda one: one.n_queries, default=nothing)

    def __str__(self) -> str:
        lines = [f"{self.n_queries:,} queries answered."]
        for (similarity, *_), seen in sorted(self.shadows.items()):
            above = limit_text(self.metric, similarity)
            lines.append(f"Compared with the exhaustive search, {above}: {seen}")
            if not seen.kept:
                lines.append("  The miss rate is above the one promised: call recalibrate().")
        lines += self._about_drift()
        lines.append(f"{self.n_recent:,} distinct recent queries are kept for recalibration.")
        return "\n".join(lines)

    def _about_drift(self) -> list[str]:
        if self.drift.p_value is None:
            return []
        sign = "are" if self.drift.alarmed else "do not seem"
        lines = [
            f"Matches of recent queries {sign} harder to find than those of calibration queries "
            f"({self.drift.n_queries:,} looked at, p = {self.drift.p_value:.2g})."
        ]
        if self.drift.n_unwatched:
            lines.append(
                f"{self.drift.n_unwatched:,} more combinations of similarity, miss rate and level "
                "are not watched for drift."
            )
        return lines
