"""Unit rows as they are stored: in float32, or in units of their own in fewer bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast, get_args

import numpy as np

from memvec import checks
from memvec.kernels._bits import widened
from memvec.kernels._compile import kernel
from memvec.kernels._scores import row_scale, score_pairs
from memvec.types import Float32Array, Float64Array, IntArray, RowType

ROW_TYPES: tuple[RowType, ...] = get_args(RowType)
# The largest magnitude of each row of small entries.
_PEAKS = {"float16": np.float32(1), "int8": np.float32(127)}
# How far the square of the norm of a float32 row may be from 1: rounding moves it by 1e-7.
_NORM_TOLERANCE = 1e-4
# Entries of int8 whose products int32 can add up, whatever they are.
MOST_INT8_ENTRIES = 1 << 16
_NO_SCALES: Float64Array = np.empty(0)
_BLOCK_ROWS = 4096
_INT8, _HALF, _UINT16 = np.dtype(np.int8), np.dtype(np.float16), np.dtype(np.uint16)

AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@kernel
def _fill_scales(rows, scales):
    for i in range(rows.shape[0]):
        scales[i] = row_scale(rows[i])


@kernel
def _fill_shares(rows, largest, shares):
    """Fill each row divided by its largest magnitude, times what that becomes, in float32."""
    for i in range(rows.shape[0]):
        peak = np.float32(0.0)
        for j in range(rows.shape[1]):
            peak = max(peak, abs(rows[i, j]))
        for j in range(rows.shape[1]):
            shares[i, j] = (rows[i, j] / peak) * largest


@kernel
def _fill_unit_rows(rows, scales, unit_rows):
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            unit_rows[i, j] = np.float32(np.float64(widened(rows[i, j])) * scales[i])


@kernel
def _fill_rounded(rows, unit_rows):
    """Do both, one after the other."""
    scales = np.empty(rows.shape[0])
    _fill_scales(rows, scales)
    _fill_unit_rows(rows, scales, unit_rows)


class RowBlocks(ABC):
    """Unit rows for those who read them in blocks: an item is float32, the whole need not be."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and their dimension."""

    @abstractmethod
    def __getitem__(self, which: Any) -> Float32Array:
        """Return some rows as an array."""

    @abstractmethod
    def some(self, which: Any) -> RowBlocks:
        """Return some rows, held as these are."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def unit_rows(self) -> UnitRows:
        """The rows: an array where they are held as one."""
        return self


@dataclass(frozen=True, eq=False)
class StoredRows(RowBlocks):
    """Unit rows as they are stored, and as what they stand for: an item of it is float32.

    A row of float32 is stored as it is. Otherwise its entries are divided by the largest magnitude
    among them, times 127 for int8, and rounded to the nearest, ties to even; all in float32. What
    is stored stands for the direction it has: the unit row is ``data[i] * scales[i]``, in float64
    and then rounded to float32. Stored again, such a row gives the same bytes: unit rows in float32
    are all that has to pass between rooms.

    The canonical score of two rows is (x·y) · (s · s′): the product of what is stored, in the order
    of `canonical_score`, times the product of the scales, all in float64.

    Attributes
    ----------
    data : ndarray of shape (n_rows, dim)
        float32, float16 or int8.
    scales : ndarray of shape (n_rows,)
        s = 1/‖row‖, float64; empty for float32.
    """

    data: AnyArray
    scales: Float64Array

    @classmethod
    def of(cls, rows: Float32Array, dtype: RowType = "float32") -> StoredRows:
        """Store unit rows."""
        if dtype == "float32":
            return cls(rows, _NO_SCALES)
        return cls.read(stored_data(rows, dtype))

    @classmethod
    def read(cls, data: AnyArray, scales: Float64Array | None = None) -> StoredRows:
        """Return rows that were stored; scales that are not known are computed."""
        if data.dtype == np.float32:
            return cls(data, _NO_SCALES)
        if scales is None:
            scales = np.empty(len(data))
            _fill_scales(_plain(data), scales)
        return cls(data, scales)

    @classmethod
    def checked(
        cls, value: object, name: str, where: str, dtype: RowType, *, scale: bool = True
    ) -> StoredRows:
        """Store what a user gives, block by block: a float32 copy never exists whole.

        Rows that are stored already are returned themselves.
        """
        if isinstance(value, StoredRows):
            if value.dtype != "float32":
                return value
            value = value.data
        if dtype == "float32":
            return cls.of(checks.unit_rows(value, name, where, copy=False, scale=scale))
        array = checks.matrix(value, name, where)
        check_dim(array.shape[1], dtype, where)
        data = np.empty(array.shape, dtype)
        for start in range(0, len(array), _BLOCK_ROWS):
            block = array[start : start + _BLOCK_ROWS]
            rows = checks.unit_rows(block, name, where, first_row=start, copy=False, scale=scale)
            data[start : start + _BLOCK_ROWS] = stored_data(rows, dtype)
        return cls.read(data)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows there are, and their dimension."""
        return cast(tuple[int, int], self.data.shape)

    @cached_property
    def dtype(self) -> RowType:
        """What a row is stored in."""
        return cast(RowType, self.data.dtype.name)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the rows are stored as unit rows, in float32."""
        return bool(self.data.dtype == np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their scales."""
        return self.data.nbytes + self.scales.nbytes

    def __getitem__(self, which: Any) -> Float32Array:
        """Return some rows as unit rows, a copy unless they are stored so."""
        data = self.data[which]
        if self.is_plain:
            return cast(Float32Array, data)
        unit_rows = np.empty(data.shape, dtype=np.float32)
        shape = (-1, data.shape[-1])
        scales = np.ascontiguousarray(self.scales[which]).reshape(-1)
        plain = np.ascontiguousarray(_plain(data)).reshape(shape)
        _fill_unit_rows(plain, scales, unit_rows.reshape(shape))
        return unit_rows

    def some(self, which: Any) -> StoredRows:
        """Return some rows as they are stored."""
        return StoredRows(self.data[which], _NO_SCALES if self.is_plain else self.scales[which])

    def like(self, unit_rows: Float32Array) -> StoredRows:
        """Return unit rows, stored like these."""
        return StoredRows.of(unit_rows, self.dtype)

    def queries(self, unit_rows: Float32Array) -> AnyArray:
        """Return unit rows as kernels compare them with these."""
        if self.is_plain:
            return unit_rows
        return _plain(stored_data(unit_rows, self.dtype))

    def room(self, n_rows: int) -> StoredRows:
        """Return room for so many rows, to be filled by `put`."""
        data = np.empty((n_rows, self.shape[1]), self.data.dtype)
        return StoredRows(data, _NO_SCALES if self.is_plain else np.empty(n_rows))

    def put(self, first: int, rows: StoredRows) -> None:
        """Put rows that are stored alike in the place of others, from one of them on."""
        self.data[first : first + len(rows)] = rows.data
        self.scales[first : first + len(rows)] = rows.scales

    def products(self, vector: AnyArray) -> AnyArray:
        """Return the inner products of all unit rows with a vector."""
        if self.is_plain:
            return np.asarray(self.data @ vector)
        starts = range(0, len(self), _BLOCK_ROWS)
        return np.concatenate([self[start : start + _BLOCK_ROWS] @ vector for start in starts])

    def own_scores(self, left: IntArray, right: IntArray) -> Float64Array:
        """Return the canonical scores of pairs of these rows."""
        return canonical_score_pairs(self, self, left, right)

    @property
    def unit_rows(self) -> UnitRows:
        """The rows for those who read them in blocks: an array where they are stored as one."""
        return self.data if self.is_plain else self

    @property
    def for_kernel(self) -> tuple[AnyArray, Float64Array]:
        """The rows as kernels take them, and their scales."""
        return _plain(self.data), self.scales


# Unit rows whose blocks are float32 arrays, and that may not be one themselves.
UnitRows: TypeAlias = Float32Array | RowBlocks


def some_rows(rows: UnitRows, which: Any) -> UnitRows:
    """Return some unit rows, as they are held."""
    return rows.some(which) if isinstance(rows, RowBlocks) else rows[which]


def checked_unit_rows(value: object, name: str, where: str) -> UnitRows:
    """Return rows of norm 1: blocks of them, or those of an array, copied only if need be."""
    if isinstance(value, RowBlocks):
        return value.unit_rows
    return checks.unit_rows(value, name, where, copy=False)


def check_dim(dim: int, dtype: RowType, where: str) -> None:
    """Raise where rows of a dimension cannot be stored."""
    if dtype == "int8" and dim > MOST_INT8_ENTRIES:
        expected = f"'float32' or 'float16' for more than {MOST_INT8_ENTRIES:,} dimensions"
        raise checks.bad_value("dtype", where, expected, f"'int8' for {dim:,}")


def stored_data(rows: Float32Array, dtype: RowType) -> AnyArray:
    """Return unit rows as they are stored in float16 or int8; see `StoredRows`."""
    shares = np.empty_like(rows)
    _fill_shares(rows, _PEAKS[dtype], shares)
    if dtype == "float16":
        return shares.astype(_HALF)
    return np.rint(shares, out=shares).astype(_INT8)


def rounded_rows(rows: Float32Array, dtype: RowType) -> Float32Array:
    """Return what unit rows stand for once they are stored."""
    if dtype == "float32":
        return rows
    unit_rows = np.empty_like(rows)
    _fill_rounded(_plain(stored_data(rows, dtype)), unit_rows)
    return unit_rows


def are_stored_rows(data: AnyArray) -> bool:
    """Tell whether all rows are such as are stored: none is zero, NaN or of another scale."""
    if data.dtype == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", data, data)
        return bool((np.abs(squares - 1) <= _NORM_TOLERANCE).all())
    # Not np.abs: int8 has no 128.
    highest, lowest = (some.astype(np.float32) for some in (data.max(axis=1), data.min(axis=1)))
    return bool((np.maximum(highest, -lowest) == _PEAKS[data.dtype.name]).all())


def canonical_score_pairs(
    left: Float32Array | StoredRows,
    right: Float32Array | StoredRows,
    left_rows: IntArray,
    right_rows: IntArray,
) -> Float64Array:
    """Return the canonical scores of the pairs ``(left[left_rows[i]], right[right_rows[i]])``.

    Both are stored alike; arrays are rows of float32.
    """
    sides = (
        each if isinstance(each, StoredRows) else StoredRows.of(each) for each in (left, right)
    )
    scores = np.empty(len(left_rows), dtype=np.float64)
    # The rows of np.nonzero lie two apart; for such arrays a kernel would be compiled once more.
    rows = np.ascontiguousarray(left_rows), np.ascontiguousarray(right_rows)
    score_pairs(*(array for side in sides for array in side.for_kernel), *rows, scores)
    return scores


def _plain(data: AnyArray) -> AnyArray:
    """Return rows as kernels take them: halves by their bits."""
    return data.view(_UINT16) if data.dtype.char == "e" else data
