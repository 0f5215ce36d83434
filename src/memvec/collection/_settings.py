"""What a collection was created with."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from memvec import checks
from memvec.errors import (
    CorruptIndexError,
    UnknownVersionError,
)
from memvec.guarantee import Guarantee
from memvec.index import IndexConfig, config_of_device, with_present_names
from memvec.kernels import ROW_TYPES, check_dim
from memvec.metric import Metric, checked_metric, radius_of
from memvec.types import RowType

_WHERE = "memvec.open"
# As many waiting vectors as are scanned in less time than a search of 100,000 takes.
SEAL_AT = 10_000
# A vector is written to the catalog as one value, which SQLite limits to 10⁹ bytes; this is 64 MiB.
LARGEST_DIM = 1 << 24
_LARGEST_SETTING = 2**63 - 1


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
    guarantee : {"expected", "model", "high_probability", "exact"}
        What searches promise that name no level.
    confidence : float
        1 − δ of "high_probability".
    similarities : tuple of float
        Those that "high_probability" may be asked for; `similarity` where it is empty.
    metric : {"cosine", "euclidean"}
        What scores are.
    dtype : {"float32", "float16", "int8"}
        What rows are stored in.
    """

    dim: int
    similarity: float = 0.7
    miss_rate: float = 0.01
    config: IndexConfig = dataclasses.field(default_factory=IndexConfig)
    seal_at: int = SEAL_AT
    guarantee: Guarantee = "expected"
    confidence: float = 0.95
    similarities: tuple[float, ...] = ()
    metric: Metric = "cosine"
    dtype: RowType = "float32"

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.dim * np.dtype(self.dtype).itemsize

    @property
    def listed(self) -> tuple[float, ...]:
        """The similarities that "high_probability" may be asked for."""
        return self.similarities or (self.similarity,)

    def to_json(self) -> str:
        """Return the settings as text; an infinite ridge is written as JavaScript has it."""
        fields = dataclasses.asdict(self)
        if self.dtype == "float32":  # as it was written before there were others
            del fields["dtype"]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
            _refuse_unknown(fields, cls)
            fields["config"] = with_present_names(fields["config"])
            _refuse_unknown(fields["config"], IndexConfig)
            fields["config"] = _read_config(fields["config"])
            if fields.get("similarities") == []:  # which nobody can give
                del fields["similarities"]
            # As strictly as what a user gives: whoever edits a catalog is a user, too.
            return cls(**{name: _CHECKS[name](value, name) for name, value in fields.items()})
        except UnknownVersionError:
            raise
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise CorruptIndexError(
                f"The settings of the collection are damaged: {error}."
            ) from None


def _read_config(fields: dict[str, Any]) -> IndexConfig:
    """Return a configuration as it was saved."""
    config = IndexConfig(**fields)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(field.default, bool) and not isinstance(value, bool):
            raise TypeError(f"{field.name} is {value!r}")
        if isinstance(value, int) and value > _LARGEST_SETTING:
            raise ValueError(f"{field.name} is a number of {value.bit_length()} bits")
    return config


def _refuse_unknown(fields: dict[str, Any], kind: type[Any]) -> None:
    """Raise where a later version wrote a setting that is not known here."""
    known = {field.name for field in dataclasses.fields(kind)}
    for name in sorted(fields.keys() - known):
        raise UnknownVersionError(
            f"The collection has a setting {name!r}, which is unknown to this "
            f"version of memvec; a later version wrote it."
        )


def checked_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `memvec.open` that were given, each in its proper form."""
    given = {name: value for name, value in given.items() if value is not None}
    for name, check in _CHECKS.items():
        if name in given:
            given[name] = check(given[name], name)
    if {"dim", "dtype"} <= given.keys():
        check_dim(given["dim"], given["dtype"], _WHERE)
    return given


def created(given: dict[str, Any], device: str) -> Settings:
    """Return the settings of a new collection; on a device, segments have the codes it tests."""
    made = Settings(**given)
    config = made.config if device == "cpu" else config_of_device(made.config, made.dim, _WHERE)
    return dataclasses.replace(made, config=config)


def settle(stored: Settings, given: dict[str, Any], device: str = "cpu") -> Settings:
    """Return the settings of an existing collection if nothing else was asked for."""
    if device != "cpu" and stored.config.codes != "balanced":
        expected = "'cpu' for a collection without balanced codes"
        got = f'{device!r}; create one with device={device!r} or IndexConfig(codes="balanced")'
        raise checks.bad_value("device", _WHERE, expected, got)
    for name, value in given.items():
        kept = stored.listed if name == "similarities" else getattr(stored, name)
        # What is given may be what a device has made the stored one of.
        same = (
            name == "config"
            and device != "cpu"
            and config_of_device(value, stored.dim, _WHERE) == kept
        )
        if value != kept and not same:
            if name == "similarity" and stored.metric == "euclidean":
                name = "radius"
                kept, value = round(radius_of(stored.similarity), 9), round(radius_of(value), 9)
            expected = f"{kept!r}, as the collection was created with, or left out"
            raise checks.bad_value(name, _WHERE, expected, repr(value))
    return stored


def _dim(value: object, name: str) -> int:
    dim = checks.integer(value, name, _WHERE)
    if dim > LARGEST_DIM:
        expected = f"an integer of at most {LARGEST_DIM:,}"
        raise checks.bad_value(name, _WHERE, expected, dim)
    return dim


def _config(value: object, name: str) -> IndexConfig:
    if not isinstance(value, IndexConfig):
        raise checks.bad_type(name, _WHERE, "an IndexConfig", repr(value))
    return value


def _similarities(value: object, name: str) -> tuple[float, ...]:
    expected = "a sequence of at least one similarity"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise checks.bad_type(name, _WHERE, expected, repr(value))
    listed = tuple(sorted({checks.similarity(one, _WHERE, name) for one in value}))
    if not listed:
        raise checks.bad_value(name, _WHERE, expected, "none")
    return listed


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "dim": _dim,
    "similarity": lambda value, name: checks.similarity(value, _WHERE, name),
    "miss_rate": lambda value, name: checks.miss_rate(value, _WHERE, name),
    "guarantee": lambda value, name: checks.choice(value, name, _WHERE, get_args(Guarantee)),
    "confidence": lambda value, name: checks.miss_rate(value, _WHERE, name),
    "similarities": _similarities,
    "metric": lambda value, name: checked_metric(value, _WHERE),
    "dtype": lambda value, name: checks.choice(value, name, _WHERE, ROW_TYPES),
    "config": _config,
    "seal_at": lambda value, name: checks.integer(value, name, _WHERE, minimum=0),
}
