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
    for _, text in broken_tables(catalog, known):
        raise CorruptIndexError(text)
    return {
        key: known[key] if key in known else _unpacked(blob)
        for key, _, blob in _stored(catalog, known)
    }


def _stored(catalog: Catalog, known: Blocks) -> Iterator[tuple[tuple[int, int], str, bytes]]:
    """Yield segment and source, checksum and content of each table; of known ones no content."""
    for key in catalog.rows("SELECT segment, source FROM calibration"):
        if key in known:
            yield key, "", b""
        else:
            sql = "SELECT crc32, rows FROM calibration WHERE segment = ? AND source = ?"
            [(saved, blob)] = catalog.rows(sql, key)
            yield key, saved, blob


def broken_tables(
    catalog: Catalog, known: Blocks | None = None
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield segment and source of each table that is damaged, and what is wrong."""
    for (segment, source), saved, blob in _stored(catalog, known or {}):
        if known and (segment, source) in known:
            continue
        found = crc_text(zlib.crc32(blob))
        what = f"{catalog.path} is damaged: the calibration of segment {segment} by {source}"
        if found != saved:
            yield (segment, source), f"{what} has checksum (CRC-32) {found}, saved was {saved}."
            continue
        try:
            _unpacked(blob)
        except (ValueError, EOFError) as error:
            yield (segment, source), f"{what} cannot be read: {error}"


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
    return CalibrationTable(*columns)


__all__ = [
    "Blocks",
    "broken_tables",
    "joint_table",
    "read_tables",
    "tables_between",
    "write_tables",
]
