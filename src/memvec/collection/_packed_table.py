"""A calibration table in a value of the catalog: what ranges need apart from the rest.

::

    header    what is asked of a table that nobody has read yet
    near      its rows from a cosine on, compressed: they bear on ranges
    far       the others, compressed: only searches for the k nearest read them

Tables packed by older versions have one part, and no header.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass, fields

import numpy as np

from memvec.collection._catalog import LARGEST_NUMBER
from memvec.collection._packing import compressed, uncompressed, unpacked_arrays
from memvec.errors import CorruptIndexError
from memvec.guarantee import STAGES, CalibrationTable, narrow_columns, wide_columns

# What begins a value, then: where the far rows begin, the most copies, how many strangers are
# known, the stages, and the bytes of the near part.
_MAGIC = b"mv-near\n"
_HEADER = struct.Struct("<8sddqqq")
# The order of the columns; copies may be missing.
_COLUMNS = (STAGES, "queries", "cosines", "ranks", "keys", "scores", "slopes", "copies")
# Of unit rows in float32: beyond 1 by rounding alone.
_LARGEST_COSINE = 1.001


@dataclass(frozen=True, eq=False)
class PackedTable:
    """A table as the catalog has it: a third of its size, and unpacked where it is asked for.

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
        parts = [_packed(table.rows(some)) for some in (near, ~near)]
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

    @property
    def table(self) -> CalibrationTable:
        """All rows, those of each query in falling order of the cosine."""
        return self.rows_from(-np.inf)

    def rows_from(self, least: float) -> CalibrationTable:
        """Return the rows from a cosine on."""
        try:
            table = self._checked(least)
        except ValueError as error:
            raise CorruptIndexError(
                f"The collection is damaged: a calibration cannot be read: {error}. "
                "Check and repair it."
            ) from None
        return table.rows(table.cosines >= least)

    @property
    def broken(self) -> ValueError | None:
        """What is wrong with it, if anything."""
        try:
            self._checked(-np.inf)
        except ValueError as error:
            return error
        return None

    def _checked(self, least: float) -> CalibrationTable:
        """Return the rows from a cosine on, and maybe others, as the header says."""
        table = self._part(least)
        most, known, stages = _told(table)
        if most > self.most_copies or known > self.n_known or stages != self.n_stages:
            raise ValueError("its header is of another table")
        return table

    def _part(self, least: float) -> CalibrationTable:
        if not self.blob.startswith(_MAGIC):
            return _unpacked(self.blob)
        near = _unpacked(self.parts[: self.n_near])
        if least >= self.least:
            return near
        far = _unpacked(self.parts[self.n_near :])
        if near.n_stages != far.n_stages:
            raise ValueError("its parts have different stages")
        both = {
            field.name: np.concatenate([getattr(part, field.name) for part in (near, far)])
            for field in fields(CalibrationTable)
        }
        # Near rows come first, so that those of each query fall again.
        return CalibrationTable(**both).rows(np.argsort(both["queries"], kind="stable"))


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
    numbers = np.concatenate([table.queries, table.ranks, table.keys])
    if numbers.dtype != np.int64 or ((numbers < 0) | (numbers > LARGEST_NUMBER)).any():
        raise ValueError("its queries, ranks or keys are invalid")
    if not (np.abs(table.cosines) <= _LARGEST_COSINE).all():
        raise ValueError("its cosines are invalid")
    if not (np.isfinite(table.copies).all() and table.scores.ndim == 2):
        raise ValueError("its scores are invalid")
