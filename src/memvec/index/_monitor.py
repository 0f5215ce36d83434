"""How an operator sees a promise being kept: queries checked in the shadow, and drift."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass

import numpy as np

from memvec.errors import DriftWarning
from memvec.evaluation import Misses, Ranges, count_misses, exact_range
from memvec.guarantee import Drift, DriftWatch, lower_limit, upper_limit
from memvec.index._cascades import Cascade
from memvec.index._evidence import best_unit_scores
from memvec.index._found import Found
from memvec.index._results import Hits
from memvec.kernels import MATCH_SLACK
from memvec.types import BoolArray, Float32Array, IntArray

# One query in so many is watched for drift: its best unit score costs about a search.
_WATCHED = 64
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Verification:
    """A comparison of answers with the exhaustive search.

    Attributes
    ----------
    n_queries, n_with_matches : int
        Queries compared, and those of them that have matches.
    n_matches, n_missed : int
        Matches of all queries, and how many were not returned.
    miss_rate : float
        The mean share missed by queries with matches.
    pair_miss : float
        The share of all matches missed.
    interval : tuple of float
        A 95 % interval of the miss rate of such queries, by Hoeffding and Bentkus: it holds for
        any number of queries.
    asked : float
        The miss rate that was asked for.
    """

    n_queries: int
    n_with_matches: int
    n_matches: int
    n_missed: int
    miss_rate: float
    pair_miss: float
    interval: tuple[float, float]
    asked: float

    @classmethod
    def of(cls, misses: Misses, asked: float) -> Verification:
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
        )

    def with_more(self, other: Verification) -> Verification:
        """Return the summary of both, which asked for the same."""
        n = self.n_with_matches + other.n_with_matches
        total = self.miss_rate * self.n_with_matches + other.miss_rate * other.n_with_matches
        n_matches, n_missed = self.n_matches + other.n_matches, self.n_missed + other.n_missed
        return Verification(
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
        """Whether the miss rate asked for is not below the interval."""
        return self.interval[0] <= self.asked

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"Missed {self.n_missed:,} of {self.n_matches:,} matches of {self.n_queries:,} "
            f"queries: {self.miss_rate:.2%} of a query's matches on average "
            f"(95 % interval {low:.2%} to {high:.2%}); {self.asked:.2%} were allowed."
        )


@dataclass(frozen=True)
class Health:
    """What was seen of the queries of this process.

    Attributes
    ----------
    n_queries : int
        Queries answered with a promise.
    shadows : dict
        What was compared with the exhaustive search, by similarity and miss rate asked for. The
        interval of a tally is for a look at it, not for looking until it says what one likes.
    drift : Drift or None
        Whether they look like the calibration queries; None without calibration queries.
    """

    n_queries: int
    shadows: dict[tuple[float, float], Verification]
    drift: Drift | None

    @property
    def shadow(self) -> Verification:
        """The tally of the question that was compared most often."""
        nothing = Verification(0, 0, 0, 0, 0.0, 0.0, (0.0, 1.0), 0.0)
        return max(self.shadows.values(), key=lambda one: one.n_queries, default=nothing)

    def __str__(self) -> str:
        lines = [f"{self.n_queries:,} queries answered."]
        for (similarity, _), seen in sorted(self.shadows.items()):
            lines.append(f"In the shadow, above {similarity:g}: {seen}")
        if self.drift is not None and self.drift.p_value is not None:
            differ = "differ" if self.drift.alarmed else "do not differ"
            lines.append(
                f"Recent queries {differ} from the calibration queries "
                f"(p = {self.drift.p_value:.2g})."
            )
        return "\n".join(lines)


def interval_of(n_queries: int, missed: float) -> tuple[float, float]:
    """Return a 95 % interval of the miss rate, both of its ends by Hoeffding and Bentkus."""
    if n_queries == 0:
        return 0.0, 1.0
    one_sided = (1 + _CONFIDENCE) / 2
    return lower_limit(n_queries, missed, one_sided), upper_limit(n_queries, missed, one_sided)


class Monitor:
    """Counts queries, compares some with the exhaustive search, and watches for drift."""

    def __init__(self, cascade: Cascade, reference: Float32Array) -> None:
        self._cascade = cascade
        self._watch = DriftWatch(reference) if len(reference) else None
        self._lock = threading.Lock()
        self._n_queries = 0
        #: Whether recent queries were found to differ from the calibration queries.
        self.drifted = False
        self._owed = 0.0
        self._tallies: dict[tuple[float, float], Verification] = {}

    def saw(self, queries: Float32Array, found: Found, *, watched: bool) -> None:
        """Count queries, and look at one in 64 of those that are watched for drift.

        Copies of stored vectors, as in a search of the data for itself, are not looked at: units
        know them, and calibration leaves them out, too.
        """
        n_queries = len(queries)
        with self._lock:
            first = -self._n_queries % _WATCHED
            self._n_queries += n_queries
        if first >= n_queries or not watched or self._watch is None:
            return
        some = np.arange(first, n_queries, _WATCHED)
        scores = best_unit_scores(self._cascade, queries[some[~_are_copies(found, some)]])
        if self._watch.saw(scores):
            self.drifted = True
            message = (
                "Recent queries differ from those the index was calibrated on "
                f"(p = {self._watch.state.p_value:.1g}): its promise may not hold for them. "
                "Build again with queries=, or measure with verify()."
            )
            warnings.warn(message, DriftWarning, stacklevel=4)

    def shadow(
        self, queries: Float32Array, hits: Hits, similarity: float, share: float, asked: float
    ) -> None:
        """Compare this share of the queries with the exhaustive search."""
        with self._lock:
            # Every query owes its share; whole ones are paid, evenly over time.
            before = self._owed
            owed = before + share * (1 + np.arange(len(queries)))
            chosen = np.flatnonzero(np.floor(owed) > np.floor(owed - share))
            self._owed = float(before + share * len(queries)) % 1.0
        if not len(chosen):
            return
        misses = compare(self._cascade, queries[chosen], hits, chosen, similarity)
        with self._lock:
            key, seen = (similarity, asked), Verification.of(misses, asked)
            self._tallies[key] = (
                self._tallies[key].with_more(seen) if key in self._tallies else seen
            )

    @property
    def health(self) -> Health:
        """What was seen so far."""
        with self._lock:
            drift = None if self._watch is None else self._watch.state
            return Health(self._n_queries, dict(self._tallies), drift)


def _are_copies(found: Found, queries: IntArray) -> BoolArray:
    """Tell which queries found themselves; the best hit comes first."""
    starts, stops = found.offsets[queries], found.offsets[queries + 1]
    copies = np.zeros(len(queries), dtype=bool)
    some = stops > starts
    copies[some] = found.scores[starts[some]] >= 1 - MATCH_SLACK
    return copies


def compare(
    cascade: Cascade,
    queries: Float32Array,
    hits: Hits,
    chosen: np.ndarray,
    similarity: float,
    progress: bool | None = False,
) -> Misses:
    """Return what the chosen rows of an answer miss of the exhaustive one."""
    units = cascade.units
    truth = exact_range(units.vectors, queries, similarity, progress=progress)
    rows = [hits[int(row)].ids for row in chosen]
    exact = [units.keys[row.ids] for row in truth]
    return count_misses(Ranges.from_rows(exact), Ranges.from_rows(rows))


__all__ = ["Health", "Monitor", "Verification", "compare", "interval_of"]
