"""What a collection was created with."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memvec import checks
from memvec.errors import CorruptIndexError, InvalidTypeError, InvalidValueError
from memvec.index import IndexConfig

_WHERE = "memvec.open"
# As many waiting vectors as are scanned in less time than a search of 100,000 takes.
SEAL_AT = 10_000


@dataclass(frozen=True)
class Settings:
    """What holds for a collection as long as it lives.

    Attributes
    ----------
    dim : int
        Dimension of the vectors.
    similarity : float
        α₀, the cosine that segments are designed for and that searches take by default.
    miss_rate : float
        ε, the share of matches that searches may miss by default.
    config : IndexConfig
        How segments are built.
    seal_at : int
        So many waiting vectors become a segment by themselves; 0 leaves it to ``seal()``.
    """

    dim: int
    similarity: float = 0.7
    miss_rate: float = 0.01
    config: IndexConfig = dataclasses.field(default_factory=IndexConfig)
    seal_at: int = SEAL_AT

    def to_json(self) -> str:
        """Return the settings as text; an infinite ridge is written as JavaScript has it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
            return cls(**{**fields, "config": IndexConfig(**fields["config"])})
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptIndexError(
                f"The settings of the collection are damaged: {error}."
            ) from None


def checked_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `memvec.open` that were given, each in its proper form."""
    given = {name: value for name, value in given.items() if value is not None}
    for name, check in _CHECKS.items():
        if name in given:
            given[name] = check(given[name], name)
    return given


def settle(stored: Settings, given: dict[str, Any]) -> Settings:
    """Return the settings of an existing collection if nothing else was asked for."""
    for name, value in given.items():
        kept = getattr(stored, name)
        if value != kept:
            expected = f"{kept!r}, as the collection was created with, or left out"
            raise InvalidValueError(checks.message(name, _WHERE, expected, repr(value)))
    return stored


def _config(value: object, name: str) -> IndexConfig:
    if not isinstance(value, IndexConfig):
        raise InvalidTypeError(checks.message(name, _WHERE, "an IndexConfig", repr(value)))
    return value


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "dim": lambda value, name: checks.integer(value, name, _WHERE),
    "similarity": lambda value, name: checks.similarity(value, _WHERE, name),
    "miss_rate": lambda value, name: checks.miss_rate(value, _WHERE, name),
    "config": _config,
    "seal_at": lambda value, name: checks.integer(value, name, _WHERE, minimum=0),
}

__all__ = ["SEAL_AT", "Settings", "checked_settings", "settle"]
