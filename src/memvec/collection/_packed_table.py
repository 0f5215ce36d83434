"""A calibration table in a value of the catalog: what ranges need apart from the rest.

::

    header    what is asked of a table that nobody has read yet
    near      its rows from a cosine on, compressed: they bear on ranges
    far       the others, compressed: only searches for the k nearest read them

Of the far rows, which are most, queries, cosines and keys are kept. What the stages see of them
would take twice as much, and is found again in less time than it takes to unpack it. Tables packed
by older versions have one part with all columns, and no header.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias, TypeVar

import numpy as np

from memvec.collection._catalog import LARGEST_NUMBER
from memvec.collection._packing import compressed, uncompressed, unpacked_arrays
from memvec.errors import CorruptIndexError
from memvec.guarantee import STAGES, CalibrationTable, narrow_columns, wide_columns
from memvec.types import Float32Array, Float64Array, IntArray

# What begins a value, then: where the far rows begin, the most copies, how many strangers are
# known, the stages, and the bytes of the near part.
_MAGIC = b"mv-near\n"
_HEADER = struct.Struct("<8sddqqq")
# The order of the columns; copies may be missing.
_COLUMNS = (STAGES, "queries", "cosines", "ranks", "keys", "scores", "slopes", "copies")
_FAR_COLUMNS = ("queries", "keys")
# Returns what the stages see of far rows, by queries, keys and cosines: scores and slopes.
See: TypeAlias = Callable[[IntArray, IntArray, Float64Array], tuple[Float32Array, Float32Array]]
_Part = TypeVar("_Part")
# Of unit rows in float32: beyond 1 by rounding alone.
_LARGEST_COSINE = 1.001


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A table as the catalog has it: a tenth of its size, and unpacked where it is asked for.

    Attributes
    ----------
    blob : bytes
        The value.
    crc32 : int
        Its checksum.
    n_known : int
        How many strangers, the first ones, it tells of; those dead before it are none.
    n_stages : int
        Stages whose scores it has.
    most_copies : float
        The most matches that one of its rows stands for.
    least : float
        Rows from this cosine on are the near part; −∞ where there is no other.
    n_near : int
        Bytes of the near part.
    """

    blob: bytes
    crc32: int = 0
    n_known: int = 0
    n_stages: int = 0
    most_copies: float = 0.0
    least: float = -np.inf
    n_near: int = 0

    @classmethod
    def of(cls, table: CalibrationTable, least: float) -> PackedTable:
        """Pack a table; rows below a cosine bear on no range."""
        near = table.cosines >= least
        parts = _packed(table.rows(near)), _packed_far(table.rows(~near))
        told = (least, *_told(table), len(parts[0]))
        return cls.read(b"".join([_HEADER.pack(_MAGIC, *told), *parts]))

    @classmethod
    def read(cls, blob: bytes, crc32: int | None = None) -> PackedTable:
        """Return a table of the catalog, whose checksum may be known.

        Raises
        ------
        ValueError
            Where it cannot have been packed; what is compressed is looked at when it is asked for.
        """
        crc32 = zlib.crc32(blob) if crc32 is None else crc32
        if not blob.startswith(_MAGIC):
            most, known, stages = _told(_unpacked(blob))
            return cls(blob, crc32, known, stages, most)
        if len(blob) < _HEADER.size:
            raise ValueError("it ends before its parts do")
        _, least, most, known, stages, n_near = _HEADER.unpack_from(blob)
        if not (known >= 0 and stages >= 0 and 0 <= n_near <= len(blob) - _HEADER.size):
            raise ValueError("its header is invalid")
        if np.isnan([least, most]).any():
            raise ValueError("its header holds what is no number")
        return cls(blob, crc32, known, stages, most, least, n_near)

    @property
    def parts(self) -> bytes:
        """What is compressed: the near part, then the far one."""
        return self.blob[_HEADER.size :] if self.blob.startswith(_MAGIC) else self.blob

    def near(self) -> CalibrationTable:
        """Return the rows that bear on ranges, those of each query in falling order of cosine."""
        return self._read(lambda: self._near)

    def whole(self, see: See) -> CalibrationTable:
        """Return all rows, those of each query in falling order of cosine."""
        near = self.near()
        if not self.n_far_bytes:
            return near
        queries, keys, cosines = self._read(lambda: self._far)
        scores, slopes = see(queries, keys, cosines)
        ones = np.ones(len(queries), dtype=np.float32)
        far = CalibrationTable(queries, cosines, queries, keys, ones, scores, slopes)
        both = CalibrationTable.joined([near, far])
        # Near rows come first, so that those of each query fall.
        return both.rows(np.argsort(both.queries, kind="stable")).ranked()

    @property
    def broken(self) -> ValueError | None:
        """What is wrong with it, if anything."""
        try:
            _ = self._near, self._far
        except ValueError as error:
            return error
        return None

    @property
    def n_far_bytes(self) -> int:
        """Bytes of the far part."""
        return len(self.parts) - self.n_near if self.blob.startswith(_MAGIC) else 0

    def _read(self, part: Callable[[], _Part]) -> _Part:
        try:
            return part()
        except ValueError as error:
            raise CorruptIndexError(
                f"The collection is damaged: a calibration cannot be read: {error}. "
                "Check and repair it."
            ) from None

    @property
    def _near(self) -> CalibrationTable:
        table = _unpacked(self.parts[: len(self.parts) - self.n_far_bytes])
        most, known, stages = _told(table)
        if most > self.most_copies or known > self.n_known or stages != self.n_stages:
            raise ValueError("its header is of another table")
        return table

    @property
    def _far(self) -> tuple[IntArray, IntArray, Float64Array]:
        """Queries, keys and cosines."""
        if not self.n_far_bytes:
            none = np.empty(0, dtype=np.int64)
            return none, none, np.empty(0)
        queries, keys, cosines = _unpacked_far(self.parts[self.n_near :])
        if queries.max(initial=-1) >= self.n_known:
            raise ValueError("its header is of another table")
        return queries, keys, cosines


def _told(table: CalibrationTable) -> tuple[float, int, int]:
    """Return the most copies, how many strangers are known, and the number of stages."""
    # All strangers that were asked have a nearest row at least, and the last comes last.
    last = int(table.queries.max(initial=-1))
    return float(table.copies.max(initial=0)), last + 1, table.n_stages


def _packed(table: CalibrationTable) -> bytes:
    stream, columns = io.BytesIO(), narrow_columns(table)
    for name in _COLUMNS:
        if name in columns:
            # Stage by stage: columns of the like compress better.
            np.save(stream, np.asfortranarray(columns[name]), allow_pickle=False)
    return compressed(stream.getvalue())


def _packed_far(table: CalibrationTable) -> bytes:
    stream, columns = io.BytesIO(), narrow_columns(table)
    for name in _FAR_COLUMNS:
        np.save(stream, columns[name], allow_pickle=False)
    # First bytes first, which are alike.
    cosines = columns["cosines"].view(np.uint8).reshape(-1, columns["cosines"].itemsize)
    np.save(stream, np.asfortranarray(cosines), allow_pickle=False)
    return compressed(stream.getvalue())


def _unpacked_far(blob: bytes) -> tuple[IntArray, IntArray, Float64Array]:
    arrays = unpacked_arrays(uncompressed(blob))
    kinds = [(array.dtype.kind, array.ndim) for array in arrays]
    if kinds != [("i", 1), ("i", 1), ("u", 2)] or len({len(one) for one in arrays}) > 1:
        raise ValueError("its far columns are invalid")
    if arrays[2].shape[1] != np.dtype(np.float32).itemsize:
        raise ValueError("its far cosines are invalid")
    queries, keys = (array.astype(np.int64) for array in arrays[:2])
    cosines = np.ascontiguousarray(arrays[2]).view(np.float32)[:, 0].astype(np.float64)
    _check_numbers(np.concatenate([queries, keys]), cosines)
    return queries, keys, cosines


def _unpacked(blob: bytes) -> CalibrationTable:
    arrays = unpacked_arrays(uncompressed(blob))
    # Tables packed by older versions begin with another column, and have all as they are read.
    is_narrow = bool(arrays) and arrays[0].dtype == np.uint8
    names = _COLUMNS if is_narrow else tuple(field.name for field in fields(CalibrationTable))
    if not len(names) - is_narrow <= len(arrays) <= len(names):
        raise ValueError(f"it has {len(arrays)} columns")
    table = CalibrationTable(**wide_columns(dict(zip(names, arrays, strict=False))))
    _check_columns(table)
    return table.with_all_stages()


def _check_columns(table: CalibrationTable) -> None:
    """Raise where a column cannot have been written: compiled loops take them as they are."""
    _check_numbers(np.concatenate([table.queries, table.ranks, table.keys]), table.cosines)
    if not (np.isfinite(table.copies).all() and table.scores.ndim == 2):
        raise ValueError("its scores are invalid")


def _check_numbers(numbers: IntArray, cosines: Float64Array) -> None:
    if numbers.dtype != np.int64 or ((numbers < 0) | (numbers > LARGEST_NUMBER)).any():
        raise ValueError("its queries, ranks or keys are invalid")
    if not (np.abs(cosines) <= _LARGEST_COSINE).all():
        raise ValueError("its cosines are invalid")
