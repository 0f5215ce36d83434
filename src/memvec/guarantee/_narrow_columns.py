"""The calibration table as it is saved: in the narrowest types that hold it, which halves it.

Nothing is rounded. A stage that has tested no pair, and copies that are all one, are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from memvec.guarantee._table import CalibrationTable
from memvec.kernels import N_STAGES

Column: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Which stages are saved, one flag each; tables that were saved without flags have wide columns.
STAGES = "stages"
_INTEGERS = ("queries", "ranks", "keys")
# What a stage that tests no pair has seen.
_UNSEEN = {"scores": np.float32(np.inf), "slopes": np.float32(0.0)}


def narrow_columns(table: CalibrationTable) -> dict[str, Column]:
    """Return the columns of a table by name, as they are saved."""
    held = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    for name in _INTEGERS:
        held[name] = _narrow(held[name])
    held["cosines"] = held["cosines"].astype(np.float32)
    if (held["copies"] == 1).all():
        del held["copies"]
    seen = (table.scores != np.inf).any(axis=0) | (table.slopes != 0).any(axis=0)
    for name in _UNSEEN:
        held[name] = np.ascontiguousarray(held[name][:, seen])
    return {STAGES: seen.astype(np.uint8), **held}


def wide_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns that were saved, as a table has them.

    Raises
    ------
    ValueError
        Where a column cannot have been saved so.
    """
    if STAGES not in columns:
        return dict(columns)
    seen = columns[STAGES] != 0
    if seen.ndim != 1 or len(seen) > N_STAGES:
        raise ValueError(f"the stages of the calibration are of shape {seen.shape}.")
    held = {name: _of_kind(columns, name, "i").astype(np.int64) for name in _INTEGERS}
    held["cosines"] = _of_kind(columns, "cosines", "f").astype(np.float64)
    ones = np.ones(len(held["cosines"]), dtype=np.float32)
    held["copies"] = columns.get("copies", ones)
    for name, unseen in _UNSEEN.items():
        held[name] = _of_all_stages(_column(columns, name), name, seen, unseen)
    return held


def _narrow(numbers: Column) -> Column:
    most = numbers.max(initial=0)
    types = (np.int16, np.int32, np.int64)
    return numbers.astype(next(each for each in types if most <= np.iinfo(each).max))


def _of_kind(columns: Mapping[str, Column], name: str, kind: str) -> Column:
    column = _column(columns, name)
    if column.dtype.kind != kind or column.ndim != 1:
        raise ValueError(
            f"the {name} of the calibration are of type {column.dtype.str} "
            f"and shape {column.shape}."
        )
    return column


def _of_all_stages(column: Column, name: str, seen: Column, unseen: np.float32) -> Column:
    n_seen = np.count_nonzero(seen)
    if column.ndim != 2 or column.shape[1] != n_seen:
        raise ValueError(
            f"the {name} of the calibration are of shape {column.shape}, for {n_seen} stages."
        )
    if seen.all():
        return column
    wide = np.full((len(column), len(seen)), unseen, dtype=column.dtype)
    wide[:, seen] = column
    return wide


def _column(columns: Mapping[str, Column], name: str) -> Column:
    if (column := columns.get(name)) is None:
        raise ValueError(f"there are no {name} of the calibration.")
    return column
