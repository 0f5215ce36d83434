"""What must be true of the arrays of a saved index before a compiled loop may use them.

Compiled loops do not look whether an index is in range: one that is not reads or writes foreign
memory. So every opening checks the shape of every array against all others, and every value that is
a place in another array. Numbers that are only multiplied and compared cannot do such harm.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from memvec.codes import CodeSpace, n_code_bytes
from memvec.guarantee import CalibrationTable
from memvec.index._config import IndexConfig
from memvec.index._design import IndexDesign
from memvec.index._encode import code_space
from memvec.kernels import BLOCK, N_STAGES, STAGES_BEFORE_FINE
from memvec.search import SHIFT_ARRAYS

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, np.dtype[Any]]]
_Form: TypeAlias = tuple[type[np.generic], tuple[int, ...]]

CALIBRATION = "calibration_"
# 1/‖row‖ of rows that are not stored as unit rows.
ROW_SCALES = "row_scales"
# The columns of the calibration table, which has a checksum of its own in the settings.
_COLUMNS = tuple(f"{CALIBRATION}{field.name}" for field in dataclasses.fields(CalibrationTable))
# Opening an index compares the checksums of all files but these. The first five hold nearly all
# bytes: the vectors, the codes and first words of each of them, and the memory vectors, up to one
# for every few vectors. None of their values is a place. A bit that flips in them can change what
# is found, as it can in the memory of the machine; `verify=True` reads them, too.
UNSUMMED = ("vectors", "codes", "fine_codes", "prefix", "unit_vectors", *_COLUMNS)

# Vectors are of norm 1 but for rounding.
_MOST_COSINE = 1.001


@dataclass(frozen=True)
class _Sizes:
    """How many there are of everything that arrays have rows for."""

    n_vectors: int
    dim: int
    tested_dim: int
    n_units: int
    n_tested: int
    n_groups: int
    n_slots: int
    n_pairs: int
    two_homes: bool

    @classmethod
    def of(cls, arrays: Arrays, design: IndexDesign) -> _Sizes:
        made = design.config
        two_homes = made.units_per_vector == 2
        return cls(
            n_vectors=design.n_vectors,
            dim=design.dim,
            tested_dim=design.dim if made.pca_dim is None else made.pca_dim,
            n_units=_length(arrays, "offsets") - 1,
            n_tested=_length(arrays, "unit_vectors"),
            n_groups=_length(arrays, "group_vectors"),
            n_slots=_length(arrays, "run_rows") if two_homes else design.n_vectors,
            n_pairs=_length(arrays, f"{CALIBRATION}queries") if has_table(arrays) else 0,
            two_homes=two_homes,
        )


def has_table(arrays: Arrays) -> bool:
    """Tell whether an index was saved with calibration queries."""
    return f"{CALIBRATION}queries" in arrays


def check_arrays(arrays: Arrays, design: IndexDesign) -> None:
    """Raise ValueError, with the array and what is wrong with it, unless all of this is true."""
    # First, since the sizes of others follow from the dimension.
    _check_form(arrays, "vectors", np.dtype(design.dtype).type, (design.n_vectors, design.dim))
    sizes = _Sizes.of(arrays, design)
    for name, (dtype, shape) in _forms(sizes, arrays, design).items():
        _check_form(arrays, name, dtype, shape)
    if (sizes.n_groups > 0) != (design.config.levels == 2):
        raise ValueError(f"there are {sizes.n_groups} groups, and {design.config.levels} levels.")
    _check_units(arrays, sizes)
    _check_runs(arrays, sizes)
    if has_table(arrays):
        _check_table(arrays, sizes)
    _check_numbers(arrays, sizes)


def _forms(sizes: _Sizes, arrays: Arrays, design: IndexDesign) -> dict[str, _Form]:
    """Return the type and the shape of every array that this index must have."""
    made = design.config
    forms: dict[str, _Form] = {
        "keys": (np.int64, (sizes.n_vectors,)),
        "offsets": (np.int64, (sizes.n_units + 1,)),
        "unit_vectors": (np.float32, (sizes.n_tested, sizes.tested_dim)),
        "means": (np.float64, (sizes.n_tested,)),
        "variances": (np.float64, (sizes.n_tested,)),
        "group_offsets": (np.int64, (sizes.n_groups + 1,)),
        "group_vectors": (np.float32, (sizes.n_groups, sizes.tested_dim)),
        "run_offsets": (np.int64, (sizes.n_units + 1,)),
        "run_rows": (np.int32, (sizes.n_slots if sizes.two_homes else 0,)),
        "null_cosines": (np.float32, (max(1, _length(arrays, "null_cosines")),)),
    }
    if design.dtype != "float32":
        forms[ROW_SCALES] = (np.float64, (sizes.n_vectors,))
    if made.projects:
        forms["projection_mean"] = (np.float32, (sizes.dim,))
    if made.turns:
        forms["projection_basis"] = (np.float32, (sizes.dim, sizes.tested_dim))
    if made.codes != "none":
        forms |= _code_forms(sizes, design)
    # Folders of centred vectors may have been written before there were shifts.
    if made.is_centred and any(name in arrays for name in SHIFT_ARRAYS):
        forms |= _shift_forms(sizes, forms["top_scales"])
    if has_table(arrays):
        forms |= _table_forms(sizes, 1 if made.codes == "none" else _n_stages(arrays, design))
    return forms


def _n_stages(arrays: Arrays, design: IndexDesign) -> int:
    """Return the stages that a calibration must have; one without fine codes may be older."""
    scores = _held(arrays, f"{CALIBRATION}scores")
    is_older = design.config.member_bits == 1 and scores.shape[1:] == (STAGES_BEFORE_FINE,)
    return STAGES_BEFORE_FINE if is_older else N_STAGES


def _code_forms(sizes: _Sizes, design: IndexDesign) -> dict[str, _Form]:
    made = design.config
    space = code_space(sizes.tested_dim, made)
    n_words = space.n_words
    n_unit_words = min(int(made.unit_words), n_words)
    n_prefix = min(int(made.member_words), n_words)
    n_top = sizes.n_groups or sizes.n_tested
    n_blocks = -(-n_top // BLOCK)
    n_top_words = n_words if sizes.n_groups else n_unit_words
    return _fine_forms(sizes, made) | {
        "flips": (np.float32, space.flips.shape),
        "top_blocks": (np.uint64, (n_blocks, n_top_words, BLOCK)),
        "top_scales": (np.float32, (n_blocks * BLOCK,)),
        "unit_runs": (np.uint64, (sizes.n_tested * n_unit_words if sizes.n_groups else 0,)),
        "unit_scales": (np.float32, (sizes.n_tested,)),
        "prefix": (np.uint64, (sizes.n_slots * n_prefix,)),
        "codes": (np.uint64, (sizes.n_vectors, n_words)),
        "code_scales": (np.float32, (sizes.n_vectors,)),
    }


def _shift_forms(sizes: _Sizes, of_top: _Form) -> dict[str, _Form]:
    return {
        "top_shifts": of_top,
        "unit_shifts": (np.float32, (sizes.n_tested,)),
        "run_scales": (np.float32, (sizes.n_units,)),
        "run_shifts": (np.float32, (sizes.n_units,)),
        "code_shifts": (np.float32, (sizes.n_vectors,)),
    }


def _fine_forms(sizes: _Sizes, made: IndexConfig) -> dict[str, _Form]:
    """Return the forms of fine codes, which are of vectors as they are stored."""
    bits = int(made.member_bits)
    if bits == 1:
        return {}
    flips = CodeSpace.random(sizes.dim, seed=made.seed).flips.shape
    return {
        "fine_flips": (np.float32, flips),
        "fine_codes": (np.uint8, (sizes.n_vectors, n_code_bytes(flips[1], bits))),
        "fine_scales": (np.float32, (sizes.n_vectors,)),
    }


def _table_forms(sizes: _Sizes, n_stages: int) -> dict[str, _Form]:
    forms: dict[str, _Form] = {
        "queries": (np.int64, (sizes.n_pairs,)),
        "cosines": (np.float64, (sizes.n_pairs,)),
        "ranks": (np.int64, (sizes.n_pairs,)),
        "keys": (np.int64, (sizes.n_pairs,)),
        "copies": (np.float32, (sizes.n_pairs,)),
        "scores": (np.float32, (sizes.n_pairs, n_stages)),
        "slopes": (np.float32, (sizes.n_pairs, n_stages)),
    }
    return {f"{CALIBRATION}{name}": form for name, form in forms.items()}


def _check_units(arrays: Arrays, sizes: _Sizes) -> None:
    """Check that units share out the rows and groups the units, and that keys are a permutation."""
    _check_ends(arrays, "offsets", sizes.n_vectors)
    _check_ends(arrays, "group_offsets", sizes.n_tested if sizes.n_groups else 0)
    # One unit more may hold what is visited without a test.
    if sizes.n_units - sizes.n_tested not in (0, 1) or not sizes.n_tested:
        raise ValueError(f"there are {sizes.n_units} units and {sizes.n_tested} memory vectors.")
    _check_range(arrays, "keys", 0, sizes.n_vectors)
    if _n_distinct(arrays["keys"], sizes) < sizes.n_vectors:
        raise ValueError("array 'keys' holds a key twice.")


def _n_distinct(rows: np.ndarray[Any, Any], sizes: _Sizes) -> int:
    """Return how many different rows there are among rows in range, without sorting them."""
    seen = np.zeros(sizes.n_vectors, dtype=bool)
    seen[rows] = True
    return int(np.count_nonzero(seen))


def _check_runs(arrays: Arrays, sizes: _Sizes) -> None:
    """Check that runs hold every row at home, in order, and at most once as a guest elsewhere."""
    _check_ends(arrays, "run_offsets", sizes.n_slots)
    if not sizes.two_homes:
        if not np.array_equal(arrays["run_offsets"], arrays["offsets"]):
            raise ValueError(
                "array 'run_offsets' differs from 'offsets' where each vector is in one unit."
            )
        return
    slots = arrays["run_rows"]
    _check_range(arrays, "run_rows", -sizes.n_vectors, sizes.n_vectors)
    units = np.arange(sizes.n_units)
    homes = np.repeat(units, np.diff(arrays["offsets"]))
    runs = np.repeat(units, np.diff(arrays["run_offsets"]))
    is_member = slots >= 0
    members, guests = slots[is_member], ~slots[~is_member]
    if not np.array_equal(members, np.arange(sizes.n_vectors)):
        raise ValueError("array 'run_rows' does not hold every row once, in order.")
    if not np.array_equal(runs[is_member], homes):
        raise ValueError("array 'run_rows' holds a row outside of its unit.")
    if _n_distinct(guests, sizes) < len(guests) or (runs[~is_member] == homes[guests]).any():
        raise ValueError("array 'run_rows' names a vector twice in a unit, or in its own unit.")


def _check_table(arrays: Arrays, sizes: _Sizes) -> None:
    """Check that the pairs of each query stand together, rising from rank 0, and name vectors."""
    if not sizes.n_pairs:
        raise ValueError("the calibration has no pairs.")
    queries, ranks = arrays[f"{CALIBRATION}queries"], arrays[f"{CALIBRATION}ranks"]
    _check_range(arrays, f"{CALIBRATION}queries", 0, np.iinfo(np.int64).max)
    if (queries[1:] < queries[:-1]).any():
        raise ValueError(f"array '{CALIBRATION}queries' is not in rising order.")
    # A pair may stand for several, so that ranks leave some out.
    begins = np.append(True, queries[1:] != queries[:-1])
    rises = np.append(True, ranks[1:] > ranks[:-1])
    if not np.where(begins, ranks == 0, rises).all():
        raise ValueError(f"array '{CALIBRATION}ranks' does not rise from 0 for each query.")
    _check_range(arrays, f"{CALIBRATION}keys", 0, sizes.n_vectors)
    _check_range(arrays, f"{CALIBRATION}cosines", -_MOST_COSINE, _MOST_COSINE)
    _check_range(arrays, f"{CALIBRATION}copies", 0, sizes.n_vectors + 1)


def _check_numbers(arrays: Arrays, sizes: _Sizes) -> None:
    """Check what scores are scaled and compared by; a stage without a test scores infinity."""
    for name, values in _finite(arrays, sizes):
        if not np.isfinite(values).all():
            raise ValueError(f"array '{name}' holds values that are not finite.")
    if (arrays["variances"] < 0).any():
        raise ValueError("array 'variances' holds a value below 0.")
    if ROW_SCALES in arrays and (arrays[ROW_SCALES] <= 0).any():
        raise ValueError(f"array '{ROW_SCALES}' holds a value that is not above 0.")
    if (np.diff(arrays["null_cosines"]) < 0).any():
        raise ValueError("array 'null_cosines' is not in rising order.")


def _finite(arrays: Arrays, sizes: _Sizes) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    names = ("means", "variances", "group_vectors", "null_cosines", ROW_SCALES)
    of_codes = ("flips", "unit_scales", "code_scales", "projection_mean", "projection_basis")
    of_table = (f"{CALIBRATION}{name}" for name in ("cosines", "copies", "slopes"))
    of_fine = ("fine_flips", "fine_scales")
    of_top = ("top_scales", "top_shifts")  # filled up with infinity to whole blocks
    for name in (*names, *of_codes, *of_fine, *SHIFT_ARRAYS, *of_table):
        if name in arrays and name not in of_top:
            yield name, arrays[name]
    for name in of_top:
        if name in arrays:
            yield name, arrays[name][: sizes.n_groups or sizes.n_tested]


def _length(arrays: Arrays, name: str) -> int:
    array = _held(arrays, name)
    if array.ndim == 0:
        raise ValueError(f"array '{name}' is a single number.")
    return len(array)


def _held(arrays: Arrays, name: str) -> np.ndarray[Any, Any]:
    if name not in arrays:
        raise ValueError(f"there is no array '{name}'.")
    return arrays[name]


def _check_form(arrays: Arrays, name: str, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    array = _held(arrays, name)
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"array '{name}' is of type {array.dtype.str} and shape {array.shape}, where "
            f"{np.dtype(dtype).str} and {shape} fit the others."
        )


def _check_ends(arrays: Arrays, name: str, last: int) -> None:
    """Check that offsets begin at 0, never fall, and end with all that there is."""
    ends = arrays[name]
    if ends[0] != 0 or ends[-1] != last or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"array '{name}' does not rise from 0 to {last}.")


def _check_range(arrays: Arrays, name: str, low: float, high: float) -> None:
    values = arrays[name]
    if len(values) and not (low <= values.min() and values.max() < high):
        raise ValueError(
            f"array '{name}' holds {values.min()} to {values.max()}, outside of [{low}, {high})."
        )
