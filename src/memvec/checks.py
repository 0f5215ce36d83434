"""Input checks, all with one message template.

    The 'k' parameter of Index.search must be an integer >= 1. Got 0 instead.

Every check takes the value, the parameter's name and the callable it belongs to, and returns the
value in the form the code works with.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, SupportsIndex, TypeAlias, TypeVar, cast

import numpy as np

from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.types import Float32Array, Float64Array, FloatArray

Choice = TypeVar("Choice", bound=str)
AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

# Rows are normalised block by block so that a float64 copy of a large array never exists whole.
_NORMALISE_BLOCK_ROWS = 1024

# A float32 row counts as a unit row when its norm is this near to 1: rounding moves it by 1e-7.
UNIT_NORM_TOLERANCE = 1e-6
# A norm that was summed in any order is this near to 1 only where that of the fixed order is as
# near as it must be: then nothing depends on the order.
SURELY_UNIT = UNIT_NORM_TOLERANCE - 1e-9
# Rows that are said to have norm 1: float16 moves the norm of a row by less than this.
_NORM_GIVEN = 1e-3
_FLOAT32 = np.dtype(np.float32)
# As DLPack numbers devices: memory, and memory that a card can read.
_DLPACK_MEMORY = (1, 3)


def message(name: str, where: str, expected: str, got: object) -> str:
    """Return the one sentence that every rejected argument gets."""
    return f"The '{name}' parameter of {where} must be {expected}. Got {got} instead."


def counted(number: int, one: str, more: str | None = None) -> str:
    """Return a number with its noun, for messages and reprs.

    Examples
    --------
    >>> counted(1, "match", "matches"), counted(2000, "pair")
    ('1 match', '2,000 pairs')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def bad_value(name: str, where: str, expected: str, got: object) -> InvalidValueError:
    """Return the error of an argument whose value cannot be used."""
    return InvalidValueError(message(name, where, expected, got))


def bad_type(name: str, where: str, expected: str, got: object) -> InvalidTypeError:
    """Return the error of an argument that is something else than is expected."""
    return InvalidTypeError(message(name, where, expected, got))


def path(value: object, name: str, where: str, expected: str = "a path") -> Path:
    """Return `value` as a Path."""
    if not isinstance(value, str | os.PathLike):
        raise bad_type(name, where, expected, repr(value))
    if "\0" in (text := os.fsdecode(value)):
        raise bad_value(name, where, f"{expected} without NUL characters", repr(value))
    return Path(text)


def function_named(named: str, name: str, where: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names."""
    module, _, attribute = named.partition(":")
    expected = "module:function, which returns a vector"
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise bad_value(name, where, expected, f"{named!r} ({error})") from None
    if not callable(found):
        raise bad_value(name, where, expected, f"{named!r}, which cannot be called,")
    return cast(Callable[..., Any], found)


def integer(value: object, name: str, where: str, *, minimum: int = 1) -> int:
    """Return `value` as an int, at least `minimum`."""
    if type(value) is int and value >= minimum:
        return value
    expected = f"an integer >= {minimum}"
    if isinstance(value, bool | np.bool_):
        raise bad_type(name, where, expected, repr(value))
    try:
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise bad_type(name, where, expected, repr(value)) from None
    if number < minimum:
        raise bad_value(name, where, expected, number)
    return number


def threads(value: int | None, where: str) -> int | None:
    """Return a number of threads; None leaves it to the machine."""
    return None if value is None else integer(value, "threads", where)


def real(
    value: object,
    name: str,
    where: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return `value` as a float inside the interval; NaN is always refused."""
    if type(value) is float and low < value < high:
        # As nearly always: searches of one query should not wait for the words of an error.
        return value
    expected = f"a number {_interval(low, high, low_open, high_open)}".rstrip()
    if isinstance(value, bool | str | bytes | np.bool_):
        raise bad_type(name, where, expected, repr(value))
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise bad_type(name, where, expected, repr(value)) from None
    except OverflowError:
        raise bad_value(name, where, expected, "an integer beyond the range of floats") from None
    above = number > low if low_open else number >= low
    below = number < high if high_open else number <= high
    if not (above and below):
        raise bad_value(name, where, expected, number)
    return number


def _interval(low: float, high: float, low_open: bool, high_open: bool) -> str:
    if math.isinf(low) and math.isinf(high):
        return ""
    left = "(" if low_open or math.isinf(low) else "["
    right = ")" if high_open or math.isinf(high) else "]"
    return f"in {left}{low:g}, {high:g}{right}"


def similarity(value: object, where: str, name: str = "similarity") -> float:
    """Return a cosine to search above: in (0, 1]."""
    return real(value, name, where, low=0.0, high=1.0, low_open=True)


def miss_rate(value: object, where: str, name: str = "miss_rate") -> float:
    """Return a share of matches that may be missed: in (0, 1)."""
    return real(value, name, where, low=0.0, high=1.0, low_open=True, high_open=True)


def choice(value: Choice, name: str, where: str, options: tuple[Choice, ...]) -> Choice:
    """Return `value` if it is one of `options`."""
    if value not in options:
        expected = "one of " + ", ".join(repr(option) for option in options)
        raise bad_value(name, where, expected, repr(value))
    return value


def generator(seed: object, where: str) -> np.random.Generator:
    """Return a NumPy random generator from a seed (an integer >= 0) or from a generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(integer(seed, "seed", where, minimum=0))


def matrix(value: object, name: str, where: str, *, dim: int | None = None) -> FloatArray:
    """Return `value` as a 2-D float array, at least one row and one column, copying only to cast.

    Accepted: NumPy arrays, anything with ``__array__`` or ``__dlpack__``, nested lists,
    and columns whose entries are rows of one length, as pandas, Polars and Arrow hold them; of
    bfloat16, float16, float32, float64 and integers.
    """
    array = numbers(value, name, where)
    if array.ndim != 2:
        raise bad_value(name, where, "two-dimensional, one vector per row", f"shape {array.shape}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise bad_value(name, where, "at least one row of one dimension", f"shape {array.shape}")
    if dim is not None and array.shape[1] != dim:
        raise bad_value(name, where, f"of dimension {dim}", f"dimension {array.shape[1]}")
    return array


def numbers(value: object, name: str, where: str) -> FloatArray:
    """Return `value` as a float array of any shape, copying only to cast; see `matrix`."""
    expected = "an array of real numbers"
    if isinstance(value, Iterator):
        got = f"a {type(value).__name__}; Collection.add takes vectors block by block,"
        raise bad_type(name, where, expected, got)
    try:
        array = _as_array(value)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise bad_type(name, where, expected, f"{type(value).__name__} ({error})") from None
    # Before it is lost without a word: a plain array has no mask.
    _refuse_masked(array, value, name, where)
    array = np.asarray(array)
    if array.dtype.kind == "O" and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # a frame of one column, of rows
    if array.dtype.kind == "O" and array.ndim == 1 and len(array):
        array = _stacked(array, name, where)
    if array.dtype.kind == "f":
        return cast(FloatArray, array)
    if array.dtype.kind in "iu":
        return array.astype(np.float32 if array.dtype.itemsize <= 2 else np.float64)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    raise bad_type(name, where, expected, f"dtype {array.dtype}")


def _as_array(value: Any) -> AnyArray:
    """Return `value` as an array of whatever it holds, not copied where that can be."""
    if hasattr(value, "__dlpack__"):
        if str(getattr(value, "dtype", "")) == "torch.bfloat16":
            # NumPy has no such numbers, and PyTorch gives them away by no protocol.
            value = value.float()
        value = _in_memory(value)
        if not hasattr(value, "__array__"):
            return np.from_dlpack(value)
    # First where both are offered: DLPack has no columns of lists, nor bfloat16 for NumPy.
    return np.asanyarray(value)


def _in_memory(value: Any) -> Any:
    """Return a tensor that lies on a card as its library copies it from there."""
    device = getattr(value, "__dlpack_device__", None)
    if device is None or int(device()[0]) in _DLPACK_MEMORY:
        return value
    for copied in ("cpu", "get"):  # as PyTorch and CuPy call it; JAX has __array__ for it
        if hasattr(value, copied):
            return getattr(value, copied)()
    return value


def _stacked(column: AnyArray, name: str, where: str) -> AnyArray:
    """Return a column whose entries are rows, as pandas, Polars and Arrow hold them, as one array.

    A column of anything else is returned as it is.
    """
    try:
        rows = [np.asanyarray(row) for row in column]
    except (TypeError, ValueError, RuntimeError) as error:
        raise bad_type(name, where, "an array of real numbers", f"a row ({error})") from None
    if all(row.ndim == 0 for row in rows):
        return column
    for number, row in enumerate(rows):
        if row.shape != rows[0].shape or row.ndim != 1:
            got = f"shape {rows[0].shape} in row 0 and {row.shape} in row {number}"
            got = f"None in row {number}" if column[number] is None else got
            raise bad_value(name, where, "rows of one length", got)
    stacked = np.stack(rows)
    _refuse_masked(stacked, rows, name, where)
    return stacked


def _refuse_masked(array: AnyArray, value: object, name: str, where: str) -> None:
    """Raise where an entry of an array, or of one of the arrays in a list, is masked."""
    parts = value if isinstance(value, list | tuple) else (array,)
    if not any(isinstance(part, np.ma.MaskedArray) for part in parts):
        return
    masks = np.array([np.ma.getmaskarray(part) for part in parts]).reshape(array.shape)
    if masks.any():
        row = int(np.argwhere(masks)[0, 0]) if masks.ndim > 1 else 0
        got = f"{np.count_nonzero(masks)} of them, the first in row {row}"
        raise bad_value(name, where, "free of masked entries", got)


def unit_rows(
    value: object,
    name: str,
    where: str,
    *,
    dim: int | None = None,
    first_row: int = 0,
    copy: bool = True,
    scale: bool = True,
) -> Float32Array:
    """Return the rows of `value` scaled to norm 1, as a C-contiguous float32 array.

    Zero, NaN and infinite rows have no direction and are refused with the number of the first,
    counted from `first_row` where `value` is a block of something larger. With ``copy=False``, an
    array that holds such rows already is returned itself. With ``scale=False``, rows of another
    norm are refused.
    """
    array = matrix(value, name, where, dim=dim)
    if not copy and _has_unit_rows(array):
        return cast(Float32Array, array)
    rows = np.empty(array.shape, dtype=np.float32)
    for start in range(0, array.shape[0], _NORMALISE_BLOCK_ROWS):
        stop = start + _NORMALISE_BLOCK_ROWS
        norms = _normalise_block(
            array[start:stop], rows[start:stop], first_row + start, name, where
        )
        if not scale:
            _refuse_other_norms(norms, first_row + start, name, where)
    return rows


def _has_unit_rows(array: FloatArray) -> bool:
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        return False
    for start in range(0, len(array), _NORMALISE_BLOCK_ROWS):
        block = array[start : start + _NORMALISE_BLOCK_ROWS].astype(np.float64)
        squares = np.einsum("ij,ij->i", block, block)
        if not (np.abs(np.sqrt(squares) - 1.0) <= SURELY_UNIT).all():
            return False
    return True


def unit_queries(
    value: object, name: str, where: str, *, dim: int, scale: bool = True
) -> Float32Array:
    """Return one query, shape (dim,), or several, shape (n_queries, dim), as unit rows.

    An array of no queries, shape ``(0, dim)``, is accepted: it has no answers. With
    ``scale=False``, rows of another norm are refused.
    """
    # Not of a subclass, which may hide something: a masked array hides entries.
    is_row = type(value) is np.ndarray and value.dtype == _FLOAT32 and value.shape == (dim,)
    if is_row and _is_unit_row(cast(Float32Array, value)):
        # One unit row, as services send them: what follows would keep it as it is, in 20 µs.
        row = cast(Float32Array, value).reshape(1, dim)
        # Kernels would be compiled a second time for rows that are marked read-only.
        return row if row.flags.carray else row.copy()
    array = numbers(value, name, where)
    if array.ndim == 1:
        array = array[np.newaxis, :]
    if array.shape == (0, dim):
        return np.empty((0, dim), dtype=np.float32)
    return unit_rows(array, name, where, dim=dim, scale=scale)


def _is_unit_row(row: Float32Array) -> bool:
    """Tell that a row surely has norm 1: float64, as the order of a float32 sum would matter."""
    wide = row.astype(np.float64)
    return abs(float(wide.dot(wide)) - 1.0) <= SURELY_UNIT


def _refuse_other_norms(norms: Float64Array, first_row: int, name: str, where: str) -> None:
    other = np.abs(norms - 1.0) > _NORM_GIVEN
    if other.any():
        row = int(np.argmax(other))
        expected = (
            "rows of norm 1 where metric is 'euclidean' (scale them, if your model allows it, "
            "or use metric='cosine')"
        )
        raise bad_value(name, where, expected, f"norm {norms[row]:.4g} in row {first_row + row}")


def _normalise_block(
    block: FloatArray, out: Float32Array, first_row: int, name: str, where: str
) -> Float64Array:
    """Write unit rows to `out`; return the norms that they had."""
    wide = block.astype(np.float64, order="C")
    peak = np.abs(wide).max(axis=1)
    usable = np.isfinite(peak) & (peak > 0)
    if not usable.all():
        row = int(np.argmin(usable))
        got = f"{row_problem(float(peak[row]))} in row {first_row + row}"
        raise bad_value(name, where, "free of zero, NaN and infinite rows", got)
    # Dividing by the largest entry first keeps the squares away from overflow and underflow.
    wide /= peak[:, np.newaxis]
    # Entry after entry, so that they are the same on every machine: a sum would be taken in parts
    # as wide as the machine's registers.
    norms: Float64Array = np.sqrt(np.cumsum(wide * wide, axis=1)[:, -1])
    out[:] = wide / norms[:, np.newaxis]
    with np.errstate(over="ignore"):
        norms *= peak
    if block.dtype == np.float32:
        # Rows that are unit rows already stay as they are, bit by bit: normalising is idempotent.
        ready = np.abs(norms - 1.0) <= UNIT_NORM_TOLERANCE
        out[ready] = block[ready]
    return norms


def row_problem(peak: float) -> str:
    """Return what is wrong with a row without a direction, by its largest magnitude."""
    if math.isnan(peak):
        return "NaN"
    return "only zeros" if peak == 0 else "an infinite value"


__all__ = [
    "bad_type",
    "bad_value",
    "choice",
    "generator",
    "integer",
    "matrix",
    "message",
    "miss_rate",
    "numbers",
    "path",
    "real",
    "row_problem",
    "similarity",
    "unit_queries",
    "unit_rows",
]
