"""An index in a folder: written, and read again with everything checked."""

from __future__ import annotations

import dataclasses
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.codes import CodeSpace, FineCodes, Projection
from memvec.errors import CorruptIndexError
from memvec.guarantee import (
    CalibrationTable,
    Evidence,
    KeptRanges,
    NullLaw,
    SolvedPlans,
    narrow_columns,
    wide_columns,
)
from memvec.index._config import IndexConfig
from memvec.index._parts import IndexParts
from memvec.index._saved_settings import checked_evidence, saved_codes, saved_design
from memvec.index._validity import CALIBRATION, ROW_SCALES, UNSUMMED, check_arrays, has_table
from memvec.kernels import StoredRows
from memvec.search import (
    SHIFT_ARRAYS,
    Centring,
    CodeUnits,
    FloatUnits,
    Units,
    UnitSource,
)
from memvec.storage import (
    DESCRIPTOR,
    MANIFEST,
    FileSum,
    Kind,
    MappedFolder,
    check_kind,
    map_folder,
    write_folder,
)


def check_no_segment(path: str | os.PathLike[str], where: str) -> None:
    """Raise where a folder is a segment of a collection, or in one: it is not to be replaced."""
    folder = Path(path)
    if any((one / "items" / MANIFEST).exists() for one in (folder, folder.parent)):
        expected = "outside the segments of a collection"
        raise checks.bad_value("path", where, expected, folder)


def save_parts(parts: IndexParts, path: str | os.PathLike[str]) -> dict[str, FileSum]:
    """Write all arrays and settings to a folder, atomically; return what was written."""
    return write_folder(path, *contents_of(parts), where="Index.save")


def solve_ahead(parts: IndexParts, path: str | os.PathLike[str], sums: dict[str, FileSum]) -> None:
    """Solve the ranges that are asked for first, and keep them in the folder that was written."""
    promises, solved = parts.promises, SolvedPlans(Path(path).absolute())
    kept = KeptRanges(solved, promises.calibration, str(sums[MANIFEST]))
    dataclasses.replace(promises, kept=kept).solve_ahead()


def contents_of(parts: IndexParts) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all arrays and settings of an index, as they are saved."""
    cascade = parts.units.cascade
    units = cascade.units
    arrays = _fields(units)
    arrays["vectors"] = units.vectors.data
    if not units.vectors.is_plain:
        arrays[ROW_SCALES] = units.vectors.scales
    projection = arrays.pop("projection")
    if projection is not None:
        arrays["projection_mean"] = projection.mean
        if projection.basis is not None:
            arrays["projection_basis"] = projection.basis
    design = {
        **_fields(parts.design),
        "config": _as_json(parts.design.config),
        "similarities": list(parts.design.similarities),
    }
    if parts.design.dtype == "float32":  # as it was written before there were others
        del design["dtype"]
    meta: dict[str, Any] = {"design": design}
    if isinstance(cascade, CodeUnits):
        arrays |= {name: getattr(cascade, name) for name in _CODE_ARRAYS}
        if cascade.centring:
            arrays |= _fields(cascade.centring)
        arrays["flips"] = cascade.space.flips
        if len(cascade.fine):
            arrays |= {
                name: getattr(cascade.fine, name.removeprefix(_FINE)) for name in FINE_ARRAYS
            }
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
        arrays |= {f"{CALIBRATION}{name}": column for name, column in narrow_columns(table).items()}
    return arrays, meta


_FINE = "fine_"
FINE_ARRAYS = ("fine_flips", "fine_codes", "fine_scales")
_CODE_ARRAYS = (
    "top_blocks",
    "top_scales",
    "unit_runs",
    "unit_scales",
    "prefix",
    "codes",
    "code_scales",
)


def load_parts(path: str | os.PathLike[str], *, verify: bool) -> tuple[IndexParts, MappedFolder]:
    """Read what `save_parts` wrote; arrays are memory-mapped. Return the folder, too.

    Whatever a folder holds, this returns parts that searches cannot stumble over, or raises an
    error of memvec: everything is checked before anything is made of it.
    """
    try:
        folder = map_folder(path, verify=verify, unsummed=UNSUMMED)
    except CorruptIndexError:
        check_kind(Path(path), Kind.INDEX)
        raise
    if DESCRIPTOR in folder.meta:
        check_kind(Path(path), Kind.INDEX)
    try:
        parts = assembled(folder.arrays, folder.meta)
    except (ArithmeticError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        reason = f"{error}" if isinstance(error, ValueError) else f"{error!r}"
        raise CorruptIndexError(
            f"The folder {os.fspath(path)!r} does not hold a complete index: {reason}"
        ) from error
    # The manifest has the checksums of all files.
    content = str(FileSum.of(io.BytesIO(folder.files[MANIFEST].content.tobytes())))
    solved = SolvedPlans(Path(path).absolute())
    return dataclasses.replace(parts, folder=(solved, content)), folder


def assembled(arrays: dict[str, Any], meta: dict[str, Any]) -> IndexParts:
    """Return the index that arrays and settings make, everything checked."""
    design = saved_design(meta.get("design"))
    has_codes = design.config.codes != "none"
    codes = saved_codes(meta.get("codes"), design.config, design.dim) if has_codes else None
    settings = checked_evidence(meta.get("evidence"))
    arrays = _with_wide_columns(arrays)
    check_arrays(arrays, design)
    projection = None
    if design.config.projects:
        basis = arrays["projection_basis"] if design.config.turns else None
        projection = Projection(arrays["projection_mean"], basis)
    vectors = StoredRows.read(arrays["vectors"], arrays.get(ROW_SCALES))
    names = {field.name for field in dataclasses.fields(Units)} - {"projection", "vectors"}
    held = {name: arrays[name] for name in names}
    units = Units(projection=projection, vectors=vectors, **held)
    cascade: CodeUnits | FloatUnits
    if codes is None:
        cascade = FloatUnits.of_units(units, design.similarity, design.effective_dim)
    else:
        flips, dim = arrays["flips"], units.unit_vectors.shape[1]
        cascade = CodeUnits(
            similarity=design.similarity,
            units=units,
            space=CodeSpace(dim, flips, codes.steps, codes.top, codes.gain),
            prefix_scale=codes.prefix_scale,
            own_scales=codes.own_scales,
            centring=_centring_of(arrays) if design.config.is_centred else Centring(),
            fine=_fine_of(arrays, int(design.config.member_bits)),
            **{name: arrays[name] for name in _CODE_ARRAYS},
        )
    evidence = _evidence_of(arrays, settings)
    if evidence.state != (found := units.fingerprint):
        raise ValueError(f"the calibration belongs to an index {evidence.state!r}, not {found!r}.")
    return IndexParts(design, UnitSource(cascade), evidence)


def _centring_of(arrays: dict[str, Any]) -> Centring:
    return Centring(**{name: arrays[name] for name in SHIFT_ARRAYS if name in arrays})


def _fine_of(arrays: dict[str, Any], bits: int) -> FineCodes:
    if bits == 1:
        return FineCodes.none()
    held = {name.removeprefix(_FINE): arrays[name] for name in FINE_ARRAYS}
    return FineCodes(bits=bits, **held)


def _with_wide_columns(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays with the calibration as it is read, however it was saved."""
    columns = {
        name.removeprefix(CALIBRATION): array
        for name, array in arrays.items()
        if name.startswith(CALIBRATION)
    }
    others = {name: array for name, array in arrays.items() if not name.startswith(CALIBRATION)}
    wide = wide_columns(columns).items()
    return others | {f"{CALIBRATION}{name}": column for name, column in wide}


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
    table = None if table is None else table.with_all_stages()
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
