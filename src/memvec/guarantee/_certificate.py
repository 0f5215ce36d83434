"""The statement that comes with every answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["model", "exact", "none"]

_STATEMENT: dict[Level, str] = {
    "model": "Misses at most {miss_rate:.2%} by the paper's law of the score, with each unit's "
    "norm and the data's effective dimension; this was not checked on this data.",
    "exact": "Misses nothing: every unit was visited.",
    "none": "No promise: thresholds or numbers of units were set by hand.",
}


@dataclass(frozen=True)
class Certificate:
    """What is promised about the matches that an answer misses.

    Attributes
    ----------
    level : {"model", "exact", "none"}
        On what the promise rests; "none" is no promise.
    miss_rate : float or None
        The share of matches that may be missed, ε.
    """

    level: Level
    miss_rate: float | None

    def __str__(self) -> str:
        return _STATEMENT[self.level].format(miss_rate=self.miss_rate)


__all__ = ["Certificate"]
