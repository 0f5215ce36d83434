"""An index as a whole: made from vectors, written to a folder, read from it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import CodeSpace, Projection
from memvec.errors import CorruptIndexError, InvalidValueError
from memvec.guarantee import CalibrationTable, Certificate, NullLaw
from memvec.index._bounded import BoundedSearch
from memvec.index._calibration import Calibration
from memvec.index._cascades import CodeCascade, FloatCascade
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._design import IndexDesign, design_index
from memvec.index._encode import encode_units
from memvec.index._evidence import Evidence, fingerprint, gather_evidence, reserve_size
from memvec.index._promises import Guarantee, Promises, Request
from memvec.index._saved_settings import checked_evidence, mapping, saved_codes, saved_design
from memvec.index._units import Units, build_units
from memvec.index._validity import UNSUMMED, check_arrays, has_table
from memvec.storage import open_folder, write_folder
from memvec.types import Float32Array, IntArray


@dataclass(frozen=True)
class BuildPromise:
    """What a build is asked to promise."""

    similarity: float
    miss_rate: float
    guarantee: Guarantee
    confidence: float
    similarities: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class IndexParts:
    """Everything that an index is made of."""

    design: IndexDesign
    cascade: CodeCascade | FloatCascade
    evidence: Evidence

    @cached_property
    def calibration(self) -> Calibration:
        """What solves for thresholds."""
        made = self.design
        return Calibration(
            (self.cascade,), self.evidence, made.similarity, made.similarities, made.config.seed
        )

    @cached_property
    def promises(self) -> Promises:
        """What searches may ask for."""
        made = self.design
        default = Request(made.miss_rate, made.guarantee, made.confidence, explicit=False)
        return Promises(self.calibration, default)

    @cached_property
    def bounded(self) -> BoundedSearch:
        """The search that misses nothing."""
        return BoundedSearch(self.cascade)

    def with_evidence(self, evidence: Evidence) -> IndexParts:
        """Return the same index, calibrated on something else."""
        made = dataclasses.replace(self, evidence=evidence)
        if "bounded" in self.__dict__:  # it does not depend on evidence, and takes long to make
            made.__dict__["bounded"] = self.bounded
        return made

    def complete(self, similarity: float | None) -> Certificate:
        """Return the certificate of a search that misses nothing."""
        state = self.evidence.state
        return Certificate("exact", similarity, 0.0, bound=0.0, state=state, complete=True)


def build_parts(
    rows: Float32Array,
    promise: BuildPromise,
    queries: Float32Array | None,
    held_out: IntArray | None,
    config: IndexConfig,
    costs: MachineCosts,
    progress: bool | None,
) -> IndexParts:
    """Design, assign, encode and calibrate; `rows` and `queries` are unit rows."""
    reserve = _drawn_reserve(rows, queries, config) if held_out is None else held_out
    projection = _fit_projection(rows, reserve, config)
    tested = rows if projection is None else projection.apply(rows)
    chosen = design_index(tested, promise.similarity, promise.miss_rate, config, costs)
    design = dataclasses.replace(
        chosen,
        dim=rows.shape[1],
        guarantee=promise.guarantee,
        confidence=promise.confidence,
        similarities=promise.similarities,
    )
    made = design.config
    units, tested = build_units(rows, reserve, projection, tested, made, progress)
    cascade: CodeCascade | FloatCascade
    if made.codes == "none":
        cascade = FloatCascade.of_units(units, promise.similarity, design.effective_dim)
    else:
        cascade = encode_units(units, tested, promise.similarity, made, progress)
    evidence = gather_evidence(
        cascade, queries, len(reserve), promise.similarity, made.seed, progress
    )
    return IndexParts(design, cascade, evidence)


def _drawn_reserve(
    rows: Float32Array, queries: Float32Array | None, config: IndexConfig
) -> IntArray:
    """Return the vectors that are kept out of the units, drawn at random."""
    rng = np.random.default_rng([config.seed, 1])
    size = _reserve_size(rows, queries, config)
    return np.sort(rng.choice(len(rows), size, replace=False))


def _reserve_size(rows: Float32Array, queries: Float32Array | None, config: IndexConfig) -> int:
    """Return how many vectors are kept out of the units: none where queries are given."""
    if config.reserve != "auto":
        if config.reserve >= len(rows):
            expected = f"less than the {len(rows)} vectors"
            raise InvalidValueError(
                checks.message("reserve", "IndexConfig", expected, config.reserve)
            )
        return config.reserve
    return reserve_size(*rows.shape) if queries is None else 0


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


def check_no_segment(path: str | os.PathLike[str], where: str) -> None:
    """Raise where a folder is a segment of a collection, or in one: it is not to be replaced."""
    folder = Path(path)
    if any((one / "items" / "manifest.json").exists() for one in (folder, folder.parent)):
        expected = "outside the segments of a collection"
        raise InvalidValueError(checks.message("path", where, expected, folder))


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
        "design": {
            **_fields(parts.design),
            "config": _as_json(parts.design.config),
            "similarities": list(parts.design.similarities),
        },
    }
    if isinstance(cascade, CodeCascade):
        arrays |= {name: getattr(cascade, name) for name in _CODE_ARRAYS}
        arrays["flips"] = cascade.space.flips
        meta["codes"] = {
            "prefix_scale": cascade.prefix_scale,
            "steps": cascade.space.steps,
            "top": cascade.space.top,
            "gain": cascade.space.gain,
            "own_scales": cascade.own_scales,
        }
    evidence = _fields(parts.evidence)
    table, law = evidence.pop("table"), evidence.pop("null_law")
    arrays["null_cosines"] = law.cosines
    meta["evidence"] = evidence | {"null_dimension": law.dimension, "table": None}
    if table is not None:
        meta["evidence"]["table"] = table.checksum
        arrays |= {f"calibration_{name}": array for name, array in _fields(table).items()}
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
    """Read what `save_parts` wrote; arrays are memory-mapped.

    Whatever a folder holds, this returns parts that searches cannot stumble over, or raises an
    error of memvec: everything is checked before anything is made of it.
    """
    arrays, meta = open_folder(path, verify=verify, unsummed=UNSUMMED)
    try:
        return _assembled(arrays, meta)
    except (ArithmeticError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = f"{error}" if isinstance(error, ValueError) else f"{error!r}"
        raise CorruptIndexError(
            f"The folder {os.fspath(path)!r} does not hold a whole index: {reason}"
        ) from error


def _assembled(arrays: dict[str, Any], meta: dict[str, Any]) -> IndexParts:
    _complete(arrays, meta)
    design = saved_design(meta.get("design"))
    has_codes = design.config.codes != "none"
    codes = saved_codes(meta.get("codes"), design.config) if has_codes else None
    settings = checked_evidence(meta.get("evidence"))
    check_arrays(arrays, design)
    projection = None
    if design.config.projects:
        basis = arrays["projection_basis"] if design.config.turns else None
        projection = Projection(arrays["projection_mean"], basis)
    names = [field.name for field in dataclasses.fields(Units) if field.name != "projection"]
    units = Units(projection=projection, **{name: arrays[name] for name in names})
    cascade: CodeCascade | FloatCascade
    if codes is None:
        cascade = FloatCascade.of_units(units, design.similarity, design.effective_dim)
    else:
        flips, dim = arrays["flips"], units.unit_vectors.shape[1]
        cascade = CodeCascade(
            similarity=design.similarity,
            units=units,
            space=CodeSpace(dim, flips, codes.steps, codes.top, codes.gain),
            prefix_scale=codes.prefix_scale,
            own_scales=codes.own_scales,
            **{name: arrays[name] for name in _CODE_ARRAYS},
        )
    evidence = _evidence_of(arrays, settings)
    if evidence.state != (found := fingerprint(units)):
        raise ValueError(f"the calibration belongs to an index {evidence.state!r}, not {found!r}.")
    return IndexParts(design, cascade, evidence)


def _complete(arrays: dict[str, Any], meta: dict[str, Any]) -> None:
    """Add what was not written when there was nothing to choose."""
    config = mapping(mapping(meta.get("design"), "design").get("config"), "config")
    if config.setdefault("homes", 1) == 1:
        # Runs are units; before vectors could have two homes, none were written.
        arrays.setdefault("run_offsets", arrays["offsets"])
        arrays.setdefault("run_rows", np.empty(0, dtype=np.int32))
    if "member_words" not in config:
        # Before first words could be chosen, their number was not written.
        n_slots = max(1, arrays["run_rows"].size or arrays["keys"].size)
        config["member_words"] = arrays["prefix"].size // n_slots if "codes" in meta else 1


def _evidence_of(arrays: dict[str, Any], settings: dict[str, Any]) -> Evidence:
    saved, table = settings.pop("table"), None
    if has_table(arrays):
        names = [field.name for field in dataclasses.fields(CalibrationTable)]
        table = CalibrationTable(**{name: arrays[f"calibration_{name}"] for name in names})
    # All promises rest on it: it must be the one that belongs to these settings.
    found = None if table is None else table.checksum
    if found != saved:
        raise ValueError(
            f"the checksum (CRC-32) of the calibration is {found!r}, saved was {saved!r}."
        )
    law = NullLaw(arrays["null_cosines"], settings.pop("null_dimension"))
    return Evidence(table=table, null_law=law, **settings)


def _as_json(config: IndexConfig) -> dict[str, Any]:
    """Return the settings; an infinite ridge, which JSON has no number for, becomes a string."""
    settings = _fields(config)
    if np.isinf(config.ridge):
        settings["ridge"] = "inf"
    return settings


def _fields(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are."""
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


__all__ = ["IndexParts", "build_parts", "check_no_segment", "load_parts", "save_parts"]
