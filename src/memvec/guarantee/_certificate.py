"""The statement that comes with every answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["expected", "model", "exact", "none"]

_STATEMENT: dict[Level, str] = {
    "expected": "Misses at most {miss_rate:.2%} of a query's matches on average, for queries like "
    "the {queries:,} that {source} ({matches:,} matches).",
    "model": "Misses at most {miss_rate:.2%} by the paper's law of the score; this was not checked "
    "on this data.",
    "exact": "Misses nothing: every unit was visited.",
    "none": "No promise: thresholds or numbers of units were set by hand.",
}
_SOURCE = {
    True: "were planted around stored vectors",
    False: "were held out of the units",
}


@dataclass(frozen=True)
class Certificate:
    """What is promised about the matches that an answer misses.

    Attributes
    ----------
    level : {"expected", "model", "exact", "none"}
        On what the promise rests: calibration queries, the paper's law, a visit of every unit;
        "none" is no promise.
    miss_rate : float or None
        The share of matches that may be missed, ε.
    n_queries, n_matches : int
        The calibration queries with matches, and their matches.
    planted : bool
        Whether those queries were made from stored vectors, because too few of the vectors held
        out have matches at the similarity.
    """

    level: Level
    miss_rate: float | None
    n_queries: int = 0
    n_matches: int = 0
    planted: bool = False

    def __str__(self) -> str:
        return _STATEMENT[self.level].format(
            miss_rate=self.miss_rate,
            queries=self.n_queries,
            matches=self.n_matches,
            source=_SOURCE[self.planted],
        )


__all__ = ["Certificate", "Level"]
