"""The settings that were saved with an index, checked one by one: anything may stand in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from memvec import checks
from memvec.guarantee import Guarantee
from memvec.index._config import IndexConfig, with_present_names
from memvec.index._design import IndexDesign
from memvec.index._units import MOST_VECTORS
from memvec.kernels import ROW_TYPES, check_dim
from memvec.metric import checked_metric

_WHERE = "the manifest"
_FLAGS = ("normalised", "symmetric", "center", "whiten")
# What the design step leaves no "auto" of.
_DECIDED = (
    *("construction", "assignment", "unit_size", "levels", "group_size", "units_per_vector"),
    *("codes", "unit_words", "member_words", "member_bits"),
)
# Levels of a query's magnitude take two bits; the paper's queries take one.
_TOPS = (1, 3)
# What float32 holds with room to multiply. So many steps let every entry of a binary query reach
# the top level.
_LARGEST = 1e30
_SOURCES = ("reserve", "queries", None)


def saved_design(settings: object) -> IndexDesign:
    """Return the design that was saved; InvalidValueError or InvalidTypeError where it is none."""
    held = dict(_mapping(settings, "design"))
    dim = checks.integer(held.get("dim"), "dim", _WHERE)
    time = held.get("expected_microseconds")
    held |= {
        "similarity": checks.similarity(held.get("similarity"), _WHERE),
        "miss_rate": checks.miss_rate(held.get("miss_rate"), _WHERE),
        "n_vectors": _number_of_vectors(held.get("n_vectors")),
        "dim": dim,
        "effective_dim": _positive(held.get("effective_dim"), "effective_dim", high=float(dim)),
        "config": _saved_config(held.get("config"), dim),
        "expected_microseconds": None
        if time is None
        else checks.real(time, "expected_microseconds", _WHERE, low=0.0, high=_LARGEST),
        "guarantee": checks.choice(held.get("guarantee"), "guarantee", _WHERE, get_args(Guarantee)),
        "confidence": checks.miss_rate(held.get("confidence"), _WHERE, "confidence"),
        "similarities": _similarities(held.get("similarities")),
        "metric": checked_metric(held.get("metric", "cosine"), _WHERE),
        "dtype": checks.choice(held.get("dtype", "float32"), "dtype", _WHERE, ROW_TYPES),
    }
    _check_names(held, IndexDesign, "design")
    check_dim(dim, held["dtype"], _WHERE)
    return IndexDesign(**held)


def _saved_config(settings: object, dim: int) -> IndexConfig:
    # Folders written before there were fine codes do not name their bits.
    held = {"member_bits": 1} | with_present_names(_mapping(settings, "config"))
    _check_names(held, IndexConfig, "config")
    if held.get("ridge") == "inf":  # JSON has no number for it
        held["ridge"] = float("inf")
    for name in _FLAGS:
        _check_flag(held.get(name), name)
    for name in _DECIDED:
        if held.get(name, "auto") in ("auto", None):
            raise checks.bad_value(name, _WHERE, "decided", held.get(name))
    for name in ("iterations", "seed"):
        checks.integer(held.get(name), name, _WHERE, minimum=0)
    config = IndexConfig(**held)
    if config.pca_dim is not None and config.pca_dim > dim:
        raise checks.bad_value("pca_dim", _WHERE, f"at most the dimension, {dim}", config.pca_dim)
    return config


def _number_of_vectors(value: object) -> int:
    n_vectors = checks.integer(value, "n_vectors", _WHERE)
    if n_vectors > MOST_VECTORS:
        raise checks.bad_value("n_vectors", _WHERE, f"at most {MOST_VECTORS}", n_vectors)
    return n_vectors


def _similarities(values: object) -> tuple[float, ...]:
    if not isinstance(values, list) or not values:
        raise checks.bad_type("similarities", _WHERE, "a list of similarities", repr(values))
    return tuple(checks.similarity(value, _WHERE, "similarities") for value in values)


@dataclass(frozen=True)
class SavedCodes:
    """What was saved of a space of codes besides arrays; see `CodeSpace` and `CodeUnits`."""

    prefix_scale: float
    steps: float
    top: int
    gain: float
    own_scales: bool


def saved_codes(settings: object, config: IndexConfig, dim: int) -> SavedCodes:
    """Return the settings that were saved of the codes of vectors of a dimension."""
    held = _mapping(settings, "codes")
    _check_names(held, SavedCodes, "codes")
    top, own = held.get("top"), held.get("own_scales")
    balanced = config.balanced_bits(config.pca_dim or dim)
    tops = _TOPS if balanced is None else (-balanced,)
    if type(top) is not int or top not in tops:
        raise checks.bad_value("top", _WHERE, f"one of {tops}", repr(top))
    _check_flag(own, "own_scales")
    if own != config.own_scales:
        raise checks.bad_value("own_scales", _WHERE, f"{not own} for codes {config.codes!r}", own)
    return SavedCodes(
        prefix_scale=checks.real(
            held.get("prefix_scale"), "prefix_scale", _WHERE, low=0.0, high=_LARGEST
        ),
        steps=_positive(held.get("steps"), "steps"),
        top=top,
        gain=_positive(held.get("gain"), "gain"),
        own_scales=bool(own),
    )


def checked_evidence(settings: object) -> dict[str, Any]:
    """Return what was saved about the evidence."""
    held = dict(_mapping(settings, "evidence"))
    held["floor"] = checks.real(held.get("floor"), "floor", _WHERE, low=0.0, high=1.0)
    held["left_out"] = checks.integer(held.get("left_out"), "left_out", _WHERE, minimum=0)
    held["null_dimension"] = _positive(held.get("null_dimension"), "null_dimension")
    if held.get("source") not in _SOURCES:
        raise checks.bad_value("source", _WHERE, f"one of {_SOURCES}", repr(held.get("source")))
    for name in ("calibrated", "state"):
        if not isinstance(held.get(name), str):
            raise checks.bad_type(name, _WHERE, "a text", repr(held.get(name)))
    return held


def _mapping(settings: object, name: str) -> dict[str, Any]:
    """Return settings that must be an object of JSON."""
    if not isinstance(settings, dict):
        raise checks.bad_type(name, _WHERE, "a mapping", repr(settings))
    return settings


def _positive(value: object, name: str, high: float = _LARGEST) -> float:
    return checks.real(value, name, _WHERE, low=0.0, low_open=True, high=high)


def _check_flag(value: object, name: str) -> None:
    if not isinstance(value, bool):
        raise checks.bad_type(name, _WHERE, "True or False", repr(value))


def _check_names(held: Mapping[str, Any], kind: type, name: str) -> None:
    known = {field.name for field in dataclasses.fields(kind)}
    strange = sorted(held.keys() - known)
    if strange:
        raise checks.bad_value(name, _WHERE, f"of {sorted(known)}", repr(strange[0]))
