"""What the strangers of a segment find in the others: tables in the catalog.

A segment keeps some of its vectors out of its units. They are as strange to the units of every
segment as tomorrow's queries, so they can be calibration queries of the whole. What they find in
their own segment lies with it; what they find in the others is in the catalog, written by the
transaction that names the later of the two.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from memvec.collection._catalog import Catalog
from memvec.collection._checksums import crc_text
from memvec.collection._packed_table import PackedTable
from memvec.collection._segment import Segment
from memvec.errors import CorruptIndexError
from memvec.guarantee import CalibrationTable, lowest_cosine
from memvec.types import BoolArray, IntArray

# Strangers that are asked of a new segment, and the new ones of all others: the lowest of so many
# living rows. So sealing costs in proportion to what is sealed. More than a sample holds: a fifth
# of a collection may be deleted before its sample shrinks.
_ASKED = 2500

Blocks = Mapping[tuple[int, int], PackedTable]
Sealed = tuple[Segment, BoolArray]


def tables_between(
    made: Sealed,
    others: Sequence[Sealed],
    n_items: int,
    known: Container[tuple[int, int]] = (),
) -> Iterator[tuple[int, int, PackedTable]]:
    """Yield what a new segment and the others find in each other: (segment, source, table).

    A query is numbered by its place among the strangers of `source`; keys are those of items.

    Parameters
    ----------
    made, others
        Segments, and which of their rows are alive.
    n_items : int
        Living rows of the collection.
    known : container of (int, int), optional
        Pairs of segment and source that are not asked for.
    """
    for other in others:
        for segment, source in ((made, other), (other, made)):
            numbers = segment[0].number, source[0].number
            table = None if numbers in known else _found(*segment, *source, n_items)
            # All of it was read: two large segments in memory at once are one too many.
            segment[0].forget_pages()
            if table is not None:
                yield *numbers, PackedTable.of(table, least_near(segment[0]))


def least_near(segment: Segment) -> float:
    """Return the cosine from which on rows bear on ranges."""
    return lowest_cosine(segment.index.design.similarity)


def write_missing_tables(catalog: Catalog, segments: Sequence[Sealed], n_items: int) -> None:
    """Write the tables between segments that are not there, inside a transaction."""
    known = set(_names(catalog))
    for last, made in enumerate(segments):
        write_tables(catalog, tables_between(made, segments[:last], n_items, known))


def _found(
    segment: Segment, living: BoolArray, source: Segment, alive: BoolArray, n_items: int
) -> CalibrationTable | None:
    """Return what living strangers of lowest priority find in a segment; None without any."""
    places = asked_strangers(segment, living, source, alive, n_items)
    if not len(places):
        return None
    table = segment.index.calibration_rows(source.vectors(source.strangers[places]))
    return replace(table, queries=places[table.queries], keys=segment.keys[table.keys])


def asked_strangers(
    segment: Segment,
    living: BoolArray,
    source: Segment,
    alive: BoolArray,
    n_items: int,
    n_asked: int = _ASKED,
) -> IntArray:
    """Return the places of living strangers of lowest priority, which a segment is asked for."""
    # No sample goes beyond the cutoff of a segment.
    limit = min(n_asked / n_items, segment.cutoff(living))
    low = np.logical_and.accumulate(source.stranger_priorities < limit)
    return np.flatnonzero(low & alive[source.strangers])


def write_tables(catalog: Catalog, tables: Iterable[tuple[int, int, PackedTable]]) -> None:
    """Write tables, inside a transaction."""
    for segment, source, table in tables:
        row = [segment, source, crc_text(table.crc32), table.blob]
        catalog.execute("INSERT INTO calibration VALUES (?, ?, ?, ?)", row)


def read_tables(catalog: Catalog, known: Blocks) -> dict[tuple[int, int], PackedTable]:
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
        elif wrong := found.broken:
            yield key, _unreadable(catalog, key, wrong)


def _names(catalog: Catalog) -> list[tuple[int, int]]:
    rows = catalog.rows("SELECT segment, source FROM calibration")
    if not all(isinstance(number, int) for row in rows for number in row):
        raise CorruptIndexError(
            f"{catalog.path} is damaged: its calibration names an unknown segment."
        )
    return [(segment, source) for segment, source in rows]


def _read(catalog: Catalog, key: tuple[int, int]) -> PackedTable | str:
    """Return a table, or what is wrong with it."""
    # A flipped bit may have made the blob a text of the same bytes, or nothing.
    blob_of = "ifnull(CAST(rows AS BLOB), x'')"
    sql = f"SELECT crc32, {blob_of} FROM calibration WHERE segment = ? AND source = ?"
    what = _damaged(catalog, key)
    stored = catalog.rows(sql, key)
    if not stored:  # listed, and yet not found: its number is damaged
        return f"{what} is not found."
    saved, blob = stored[0]
    crc32 = zlib.crc32(blob)
    if crc_text(crc32) != saved:
        return f"{what} has checksum (CRC-32) {crc_text(crc32)}, saved was {saved}."
    try:
        return PackedTable.read(blob, crc32)
    except ValueError as error:
        return _unreadable(catalog, key, error)


def _damaged(catalog: Catalog, key: tuple[int, int]) -> str:
    return f"{catalog.path} is damaged: the calibration of segment {key[0]} by {key[1]}"


def _unreadable(catalog: Catalog, key: tuple[int, int], why: ValueError) -> str:
    return f"{_damaged(catalog, key)} cannot be read: {why}."
