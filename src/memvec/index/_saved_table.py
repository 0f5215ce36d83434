"""The calibration table as it is saved: in the narrowest types that hold it, which halves it.

Nothing is rounded. A stage that has tested no pair, and copies that are all one, are left out.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np

from memvec.guarantee import CalibrationTable
from memvec.kernels import N_STAGES

Arrays: TypeAlias = dict[str, np.ndarray[Any, np.dtype[Any]]]

_INTEGERS = ("queries", "ranks", "keys")
# What a stage that tests no pair has seen.
_UNSEEN = {"scores": np.float32(np.inf), "slopes": np.float32(0.0)}
# Which stages are saved, one flag each; folders written before there were flags have all.
_STAGES = "calibration_stages"


def narrow_columns(table: CalibrationTable) -> Arrays:
    """Return the arrays that are saved of a table."""
    held = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    for name in _INTEGERS:
        held[name] = _narrow(held[name])
    held["cosines"] = held["cosines"].astype(np.float32)
    if (held["copies"] == 1).all():
        del held["copies"]
    seen = (table.scores != np.inf).any(axis=0) | (table.slopes != 0).any(axis=0)
    for name in _UNSEEN:
        held[name] = np.ascontiguousarray(held[name][:, seen])
    arrays = {f"calibration_{name}": column for name, column in held.items()}
    return arrays | {_STAGES: seen.astype(np.uint8)}


def wide_columns(arrays: Arrays) -> Arrays:
    """Return arrays of an index with the columns of its table as loops take them.

    Raises
    ------
    ValueError
        Where a column cannot have been saved so.
    """
    if _STAGES not in arrays:
        return arrays
    held = dict(arrays)
    seen = held.pop(_STAGES) != 0
    if seen.ndim != 1 or len(seen) > N_STAGES:
        raise ValueError(f"array '{_STAGES}' is of shape {seen.shape}.")
    for name in _INTEGERS:
        held[f"calibration_{name}"] = _widened(held, name, "i", np.int64)
    held["calibration_cosines"] = _widened(held, "cosines", "f", np.float64)
    if "calibration_copies" not in held:
        held["calibration_copies"] = np.ones(len(held["calibration_cosines"]), dtype=np.float32)
    for name, unseen in _UNSEEN.items():
        column = _column(held, name)
        if column.ndim != 2 or column.shape[1] != np.count_nonzero(seen):
            raise ValueError(
                f"array 'calibration_{name}' is of shape {column.shape}, "
                f"where {np.count_nonzero(seen)} stages were saved."
            )
        if not seen.all():
            wide = np.full((len(column), len(seen)), unseen, dtype=column.dtype)
            wide[:, seen] = column
            held[f"calibration_{name}"] = wide
    return held


def _narrow(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    most = numbers.max(initial=0)
    types = (np.int16, np.int32, np.int64)
    return numbers.astype(next(each for each in types if most <= np.iinfo(each).max))


def _widened(arrays: Arrays, name: str, kind: str, dtype: type[np.generic]) -> np.ndarray[Any, Any]:
    column = _column(arrays, name)
    if column.dtype.kind != kind or column.ndim != 1:
        raise ValueError(
            f"array 'calibration_{name}' is of type {column.dtype.str} and shape {column.shape}."
        )
    return column.astype(dtype)


def _column(arrays: Arrays, name: str) -> np.ndarray[Any, Any]:
    if (column := arrays.get(f"calibration_{name}")) is None:
        raise ValueError(f"there is no array 'calibration_{name}'.")
    return column
