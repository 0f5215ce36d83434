"""What a build is given, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from memvec import checks
from memvec.index._config import IndexConfig
from memvec.index._units import MOST_VECTORS
from memvec.types import ArrayLike, Float32Array, IntArray


def check_number(n_vectors: int, where: str) -> None:
    """Raise where an index would have more vectors than its files name."""
    if n_vectors > MOST_VECTORS:
        expected = f"at most {MOST_VECTORS} rows; split the data over several indexes"
        raise checks.bad_value("vectors", where, expected, n_vectors)


def checked_rows(
    held_out: ArrayLike, queries: Float32Array | None, n_rows: int, where: str
) -> IntArray:
    """Return the rows that are kept out of the units, as they were given."""
    if queries is not None:
        expected = "left out where 'queries' is given"
        raise checks.bad_value("held_out", where, expected, "both")
    expected = f"distinct rows of the {n_rows} vectors, and not all of them"
    rows = checked_ids(held_out, n_rows, where, "held_out", expected)
    if len(np.unique(rows)) < len(rows) or len(rows) >= n_rows:
        got = f"{len(rows)} rows, {len(np.unique(rows))} of them distinct"
        raise checks.bad_value("held_out", where, expected, got)
    return rows


def checked_ids(
    value: ArrayLike, n_rows: int, where: str, name: str = "ids", expected: str | None = None
) -> IntArray:
    """Return numbers of rows."""
    rows = np.asarray(value)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    expected = expected or f"rows of the {n_rows} vectors"
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        got = f"an array of {rows.dtype} and shape {rows.shape}"
        raise checks.bad_type(name, where, expected, got)
    if rows.min() < 0 or rows.max() >= n_rows:
        got = f"a row {rows.min() if rows.min() < 0 else rows.max()}"
        raise checks.bad_value(name, where, expected, got)
    return rows.astype(np.int64)


def checked_config(config: IndexConfig | None, dim: int, where: str) -> IndexConfig:
    """Return a configuration that goes with the dimension."""
    if config is None:
        return IndexConfig()
    if not isinstance(config, IndexConfig):
        raise checks.bad_type("config", where, "an IndexConfig", repr(config))
    if config.pca_dim is not None and config.pca_dim > dim:
        expected = f"at most the dimension, {dim}"
        raise checks.bad_value("pca_dim", "IndexConfig", expected, config.pca_dim)
    return config


def config_of_device(config: IndexConfig, dim: int, where: str) -> IndexConfig:
    """Return a configuration for a device that compares whole balanced codes, and nothing else."""
    if config.codes not in ("auto", "balanced"):
        expected = "one with codes 'auto' or 'balanced' for a device"
        raise checks.bad_value("config", where, expected, f"codes {config.codes!r}")
    balanced = dataclasses.replace(config, codes="balanced")
    words = balanced.n_code_words(dim if config.pca_dim is None else config.pca_dim)
    chosen: dict[str, Any] = {"unit_words": words, "member_words": words, "member_bits": 1}
    chosen |= {"levels": 1, "units_per_vector": 1, "center": False}
    left_open = {name: value for name, value in chosen.items() if getattr(config, name) == "auto"}
    return dataclasses.replace(balanced, **left_open)


def checked_similarities(
    values: Sequence[float] | None, similarity: float, where: str
) -> tuple[float, ...]:
    """Return the similarities of "high_probability", rising."""
    if values is None:
        return (similarity,)
    if isinstance(values, int | float | np.number):
        values = [float(values)]
    listed = tuple(sorted({checks.similarity(value, where, "similarities") for value in values}))
    if not listed:
        expected = "at least one similarity, or left out"
        raise checks.bad_value("similarities", where, expected, "none")
    return listed
