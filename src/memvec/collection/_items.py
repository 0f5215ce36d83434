"""Questions to the catalog about items."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from memvec import checks
from memvec.collection._catalog import Catalog
from memvec.collection._checksums import crc_text, item_sum
from memvec.collection._ids import LARGEST_ID, Id, Metadata
from memvec.errors import CorruptIndexError, damaged
from memvec.kernels import StoredRows, blocks
from memvec.types import Float32Array, IntArray

# Rows of one blob of waiting vectors: 1.5 MiB at 384 dimensions.
_BLOB_ROWS = 1024
# Of very long vectors there are fewer: SQLite limits a value to 10⁹ bytes.
_BLOB_BYTES = 1 << 26
# Ids, or keys, in one question, as one value: at their longest they take 400 MB in JSON.
_ASKED_AT_ONCE = 1000


class Item(NamedTuple):
    """An item of a collection.

    Attributes
    ----------
    id : int or str
    vector : ndarray of shape (dim,)
        As it is stored: float32, norm 1.
    metadata : dict
    """

    id: Id
    vector: Float32Array
    metadata: Metadata


def keys_of(catalog: Catalog, ids: Sequence[Id]) -> dict[Id, int]:
    """Return the keys of those ids that are there."""
    # One parameter whatever their number: SQLite takes a limited number of them.
    sql = """
        SELECT items.id, items.key FROM json_each(?) AS wanted
        JOIN items ON items.id = wanted.value WHERE items.deleted = 0
    """
    found: dict[Id, int] = {}
    for start, stop in blocks(len(ids), _ASKED_AT_ONCE):
        wanted = json.dumps(ids[start:stop], ensure_ascii=False)
        found |= catalog.rows(sql, [wanted])
    return found


def ids_of(catalog: Catalog, keys: IntArray) -> dict[int, Id]:
    """Return the ids of keys, deleted or not; some may be gone for good."""
    sql = """
        SELECT items.key, items.id FROM json_each(?) AS wanted
        JOIN items ON items.key = wanted.value
    """
    found: dict[int, Id] = {}
    for wanted in _asked(keys):
        found |= catalog.rows(sql, [wanted])
    for key, name in found.items():
        _check_id(catalog, key, name)
    return found


def records_of(catalog: Catalog, keys: IntArray) -> dict[int, tuple[Id, Metadata]]:
    """Return ids and metadata of keys, deleted or not; some may be gone for good."""
    sql = """
        SELECT items.key, items.id, items.metadata FROM json_each(?) AS wanted
        JOIN items ON items.key = wanted.value
    """
    return {
        key: (_check_id(catalog, key, name), read_metadata(catalog, key, metadata))
        for wanted in _asked(keys)
        for key, name, metadata in catalog.rows(sql, [wanted])
    }


def _asked(keys: IntArray) -> Iterator[str]:
    """Yield keys as questions name them."""
    for start, stop in blocks(len(keys), _ASKED_AT_ONCE):
        yield str(keys[start:stop].tolist())  # integers: as JSON has them, in a fifth of the time


def _check_id(catalog: Catalog, key: int, name: object) -> Id:
    if not isinstance(name, int | str):
        raise damaged(catalog.path, f"the item of key {key} has no id")
    return name


def read_metadata(catalog: Catalog, key: int, text: object) -> Metadata:
    """Return the metadata of an item."""
    with suppress(ValueError, RecursionError):
        metadata = json.loads(text) if isinstance(text, str) else None
        if isinstance(metadata, dict):
            return metadata
    raise damaged(catalog.path, f"the metadata of the item of key {key} is not a JSON mapping")


def insert_items(
    catalog: Catalog,
    rows: StoredRows,
    ids: Sequence[Id],
    metadata: Sequence[str],
    after: int,
    where: str,
) -> IntArray:
    """Write items and their vectors, inside a transaction; return their keys, all after one."""
    first = _next_key(catalog, after)
    keys = np.arange(first, first + len(rows))
    try:
        catalog.execute_many(
            "INSERT INTO items (key, id, metadata, crc32) VALUES (?, ?, ?, ?)",
            ((*item, item_sum(*item)) for item in zip(keys.tolist(), ids, metadata, strict=True)),
        )
    except CorruptIndexError as error:
        if not isinstance(error.__cause__, sqlite3.IntegrityError):
            raise
        # Ids of this call that were written before the one that failed are not the culprits.
        existing = keys_of(catalog, ids)
        known = next((name for name in ids if existing.get(name, first) < first), None)
        if known is None:
            raise
        expected = "ids that are new; upsert replaces items"
        raise checks.bad_value("ids", where, expected, repr(known)) from None
    data = rows.data.astype(rows.data.dtype.newbyteorder("<"), copy=False)
    n_rows = max(min(_BLOB_ROWS, _BLOB_BYTES // (data.itemsize * data.shape[1])), 1)
    for start, stop in blocks(len(rows), n_rows):
        blob = data[start:stop].tobytes()
        values = [first + start, stop - start, crc_text(zlib.crc32(blob)), blob]
        catalog.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", values)
    catalog.execute("UPDATE state SET next_key = ?", [first + len(rows)])
    return keys


def _next_key(catalog: Catalog, after: int = -1) -> int:
    """Return a key that no item and no vector has, whatever the catalog says is next."""
    largest = catalog.number("SELECT ifnull(max(key), -1) FROM items")
    return max(catalog.numbers().next_key, 1 + largest, 1 + after)


def mark_deleted(catalog: Catalog, keys: Sequence[int]) -> None:
    """Delete items, inside a transaction."""
    catalog.execute_many("UPDATE items SET deleted = 1 WHERE key = ?", ((key,) for key in keys))


def largest_integer(catalog: Catalog) -> int:
    """Return the largest id that is an integer; -1 where there is none."""
    # Every text comes after every integer, in the index too.
    sql = "SELECT id FROM items WHERE deleted = 0 AND id < '' ORDER BY id DESC LIMIT 1"
    largest: list[tuple[Any, ...]] = catalog.rows(sql)
    if not largest:
        return -1
    [(found,)] = largest
    if not isinstance(found, int):
        raise damaged(catalog.path, f"an id is {found!r}, neither an integer nor a text")
    return found


def fresh_ids(catalog: Catalog, n_rows: int, where: str) -> list[Id]:
    """Return integers above every integer id there is, as long as 64 bits hold them."""
    first = max(_next_key(catalog), largest_integer(catalog) + 1)
    check_fresh(first, n_rows, where)
    return list(range(first, first + n_rows))


def check_fresh(first: int, n_rows: int, where: str) -> None:
    """Raise where 64 bits do not hold so many integers from one on."""
    if first + n_rows - 1 > LARGEST_ID:
        expected = f"given where fewer than {n_rows} integers of 64 bits are above all others"
        raise checks.bad_value("ids", where, expected, f"none after {first - 1}")
