"""An index as a whole: made from vectors, written to a folder, read from it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from memvec.codes import CodeSpace, Projection
from memvec.errors import CorruptIndexError
from memvec.guarantee import CalibrationTable
from memvec.index._calibration import Calibration, build_table, reserve_size
from memvec.index._cascades import Cascade, CodeCascade, FloatCascade
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._design import IndexDesign, design_index
from memvec.index._encode import encode_units
from memvec.index._units import Units, build_units
from memvec.storage import open_folder, write_folder
from memvec.types import Float32Array, IntArray


@dataclass(frozen=True, eq=False)
class IndexParts:
    """Everything that an index is made of."""

    design: IndexDesign
    cascade: Cascade
    calibration: Calibration


def build_parts(
    rows: Float32Array,
    similarity: float,
    miss_rate: float,
    config: IndexConfig,
    costs: MachineCosts,
    progress: bool | None,
) -> IndexParts:
    """Design, assign, encode and calibrate; `rows` are unit rows."""
    wanted = config.reserve
    size = reserve_size(*rows.shape) if wanted == "auto" else min(wanted, len(rows) - 1)
    rng = np.random.default_rng([config.seed, 1])
    reserve = np.sort(rng.choice(len(rows), size, replace=False))
    projection = _fit_projection(rows, reserve, config)
    tested = rows if projection is None else projection.apply(rows)
    design = design_index(tested, similarity, miss_rate, config, costs)
    design = dataclasses.replace(design, dim=rows.shape[1])
    made = design.config
    units, tested = build_units(rows, reserve, projection, tested, made, progress)
    cascade: Cascade
    if made.codes == "none":
        cascade = FloatCascade.of_units(units, similarity, design.effective_dim)
    else:
        cascade = encode_units(units, tested, made, progress)
    table = None
    if size:
        own = np.arange(len(rows) - size, len(rows))
        table = build_table(cascade, units.vectors[own], own, similarity, progress)
    return IndexParts(design, cascade, Calibration(cascade, table, similarity, made.seed))


def _fit_projection(
    rows: Float32Array, reserve: IntArray, config: IndexConfig
) -> Projection | None:
    """Fit the projection, on rows that are not calibrated on."""
    if not config.projects:
        return None
    seen = rows if len(reserve) == 0 else np.delete(rows, reserve, axis=0)
    return Projection.fit(
        seen, config.pca_dim, center=config.center, whiten=config.whiten, seed=config.seed
    )


def save_parts(parts: IndexParts, path: str | os.PathLike[str]) -> None:
    """Write all arrays and settings to a folder, atomically."""
    units, cascade = parts.cascade.units, parts.cascade
    arrays = _fields(units)
    projection = arrays.pop("projection")
    if projection is not None:
        arrays["projection_mean"] = projection.mean
        if projection.basis is not None:
            arrays["projection_basis"] = projection.basis
    meta: dict[str, Any] = {
        "design": {**_fields(parts.design), "config": _as_json(parts.design.config)},
    }
    if isinstance(cascade, CodeCascade):
        arrays |= {name: getattr(cascade, name) for name in _CODE_ARRAYS}
        arrays["flips"] = cascade.space.flips
        meta["codes"] = {
            "prefix_scale": cascade.prefix_scale,
            "steps": cascade.space.steps,
            "top": cascade.space.top,
            "gain": cascade.space.gain,
        }
    if parts.calibration.table is not None:
        table = _fields(parts.calibration.table)
        arrays |= {f"calibration_{name}": array for name, array in table.items()}
    write_folder(path, arrays, meta, where="Index.save")


_CODE_ARRAYS = (
    "top_blocks",
    "top_scales",
    "unit_runs",
    "unit_scales",
    "prefix",
    "codes",
    "code_scales",
)


def load_parts(path: str | os.PathLike[str], *, verify: bool) -> IndexParts:
    """Read what `save_parts` wrote; arrays are memory-mapped."""
    arrays, meta = open_folder(path, verify=verify)
    try:
        return _assembled(arrays, meta)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptIndexError(
            f"The folder {os.fspath(path)!r} does not hold a whole index: {error!r}."
        ) from error


def _assembled(arrays: dict[str, Any], meta: dict[str, Any]) -> IndexParts:
    settings = dict(meta["design"])
    config = dict(settings["config"])
    config["ridge"] = float(config["ridge"])
    design = IndexDesign(**{**settings, "config": IndexConfig(**config)})
    projection = None
    if "projection_mean" in arrays:
        projection = Projection(arrays["projection_mean"], arrays.get("projection_basis"))
    names = [field.name for field in dataclasses.fields(Units) if field.name != "projection"]
    units = Units(projection=projection, **{name: arrays[name] for name in names})
    cascade: Cascade
    if "codes" in meta:
        codes = dict(meta["codes"])
        prefix_scale = codes.pop("prefix_scale")
        cascade = CodeCascade(
            units=units,
            space=CodeSpace(units.unit_vectors.shape[1], arrays["flips"], **codes),
            prefix_scale=prefix_scale,
            **{name: arrays[name] for name in _CODE_ARRAYS},
        )
    else:
        cascade = FloatCascade.of_units(units, design.similarity, design.effective_dim)
    table = None
    if "calibration_queries" in arrays:
        names = [field.name for field in dataclasses.fields(CalibrationTable)]
        table = CalibrationTable(**{name: arrays[f"calibration_{name}"] for name in names})
    return IndexParts(
        design, cascade, Calibration(cascade, table, design.similarity, design.config.seed)
    )


def _as_json(config: IndexConfig) -> dict[str, Any]:
    """Return the settings; an infinite ridge, which JSON has no number for, becomes a string."""
    settings = _fields(config)
    if np.isinf(config.ridge):
        settings["ridge"] = "inf"
    return settings


def _fields(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are."""
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


__all__ = ["IndexParts", "build_parts", "load_parts", "save_parts"]
