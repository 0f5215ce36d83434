"""What the promise of a collection rests on: the reserve of each segment, against all segments.

A segment keeps some of its vectors out of its units. They are as strange to the units of every
segment as tomorrow's queries, so they are the calibration queries of the whole. What they find in
their own segment lies with it; what they find in the others is in the catalog, written by the
transaction that names the later of the two.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from memvec.collection._catalog import Catalog
from memvec.collection._checksums import crc_text
from memvec.collection._segment import Segment
from memvec.errors import CorruptIndexError
from memvec.guarantee import CalibrationTable

# Reserves are calibration queries of the whole until there are so many.
_MOST_QUERIES = 2000

Blocks = Mapping[tuple[int, int], CalibrationTable]


def tables_between(
    made: Segment, others: Sequence[Segment]
) -> Iterator[tuple[int, int, CalibrationTable]]:
    """Yield what a new segment and the others find in each other: (segment, source, table).

    The queries of `source` are its reserve; keys are those of items.
    """
    asked = 0
    for other in others:
        if len(other.reserve):
            asked += len(other.reserve)
            yield made.number, other.number, _found(made, other)
    if not len(made.reserve) or asked >= _MOST_QUERIES:
        return
    for other in others:
        yield other.number, made.number, _found(other, made)


def _found(segment: Segment, source: Segment) -> CalibrationTable:
    table = segment.index.calibration_rows(source.vectors(source.reserve))
    return replace(table, keys=segment.keys[table.keys])


def write_tables(catalog: Catalog, tables: Iterable[tuple[int, int, CalibrationTable]]) -> None:
    """Write tables, inside a transaction."""
    for segment, source, table in tables:
        blob = _packed(table)
        row = [segment, source, crc_text(zlib.crc32(blob)), blob]
        catalog.execute("INSERT INTO calibration VALUES (?, ?, ?, ?)", row)


def read_tables(catalog: Catalog, known: Blocks) -> dict[tuple[int, int], CalibrationTable]:
    """Return all tables, by segment and source; those that are known are not read again."""
    tables = {}
    for key in _names(catalog):
        if key in known:
            tables[key] = known[key]
            continue
        found = _read(catalog, key)
        if isinstance(found, str):
            raise CorruptIndexError(found)
        tables[key] = found
    return tables


def broken_tables(catalog: Catalog) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield segment and source of each table that is damaged, and what is wrong."""
    for key in _names(catalog):
        found = _read(catalog, key)
        if isinstance(found, str):
            yield key, found


def _names(catalog: Catalog) -> list[tuple[int, int]]:
    rows = catalog.rows("SELECT segment, source FROM calibration")
    if not all(isinstance(number, int) for row in rows for number in row):
        raise CorruptIndexError(f"{catalog.path} is damaged: a segment of its calibration is none.")
    return [(segment, source) for segment, source in rows]


def _read(catalog: Catalog, key: tuple[int, int]) -> CalibrationTable | str:
    """Return a table, or what is wrong with it."""
    # A flipped bit may have made the blob a text of the same bytes, or nothing.
    blob_of = "ifnull(CAST(rows AS BLOB), x'')"
    sql = f"SELECT crc32, {blob_of} FROM calibration WHERE segment = ? AND source = ?"
    what = f"{catalog.path} is damaged: the calibration of segment {key[0]} by {key[1]}"
    stored = catalog.rows(sql, key)
    if not stored:  # listed, and yet not found: its number is damaged
        return f"{what} is not found."
    saved, blob = stored[0]
    found = crc_text(zlib.crc32(blob))
    if found != saved:
        return f"{what} has checksum (CRC-32) {found}, saved was {saved}."
    try:
        return _unpacked(blob)
    except (ValueError, TypeError, EOFError, MemoryError) as error:
        return f"{what} cannot be read: {error}"


def joint_table(segments: Sequence[Segment], blocks: Blocks) -> CalibrationTable | None:
    """Return the rows of all queries that were asked of every segment; None if there are none."""
    tables, first = [], 0
    for source in segments:
        own = source.index.calibration_table
        found = [
            own if segment is source else blocks.get((segment.number, source.number))
            for segment in segments
        ]
        if own is None or any(table is None for table in found):
            continue
        for segment, table in zip(segments, found, strict=True):
            assert table is not None
            keys = source.keys[table.keys] if segment is source else table.keys
            tables.append(replace(table, queries=table.queries + first, keys=keys))
        first += len(source.reserve)
    return CalibrationTable.merged(tables) if tables else None


def _packed(table: CalibrationTable) -> bytes:
    stream = io.BytesIO()
    for field in fields(table):
        np.save(stream, getattr(table, field.name), allow_pickle=False)
    return stream.getvalue()


def _unpacked(blob: bytes) -> CalibrationTable:
    stream = io.BytesIO(blob)
    columns = [np.load(stream, allow_pickle=False) for _ in fields(CalibrationTable)]
    if not all(column.dtype.kind in "if" for column in columns):
        raise ValueError("its columns are not of numbers")
    return CalibrationTable(*columns)


__all__ = [
    "Blocks",
    "broken_tables",
    "joint_table",
    "read_tables",
    "tables_between",
    "write_tables",
]
