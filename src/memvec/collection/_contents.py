"""What the catalog says of items, vectors and files, checked as it is read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memvec.collection._calibration import Blocks
from memvec.collection._catalog import LARGEST_NUMBER, Catalog
from memvec.collection._checksums import crc_text, item_sum
from memvec.collection._items import read_metadata
from memvec.collection._segment import FILE_NAME, Segment
from memvec.collection._settings import Settings
from memvec.errors import CorruptIndexError, damaged
from memvec.kernels import StoredRows, are_stored_rows
from memvec.storage import FileSum
from memvec.types import IntArray, RowType

# Items that are read at a time where all are.
_PAGE = 4096


def keys_in(catalog: Catalog, sql: str) -> IntArray:
    """Return the keys that a question asks for."""
    keys = [key for (key,) in catalog.rows(sql)]
    if not all(isinstance(key, int) and 0 <= key <= LARGEST_NUMBER for key in keys):
        raise damaged(catalog.path, "a key is not a number")
    return np.array(keys, dtype=np.int64)


def files_of_segments(catalog: Catalog) -> dict[int, dict[str, FileSum]]:
    """Return the size and checksum of each file of each segment, in the order of numbers."""
    numbers = keys_in(catalog, "SELECT segment FROM segments ORDER BY segment")
    files: dict[int, dict[str, FileSum]] = {number: {} for number in numbers.tolist()}
    sql = "SELECT segment, file, size, crc32 FROM segment_files JOIN segments USING (segment)"
    for row in catalog.rows(sql):
        match row:
            case (int(segment), str(file), int(size), str(crc32)) if (
                segment in files and size >= 0 and FILE_NAME.fullmatch(file)
            ):
                files[segment][file] = FileSum(size, crc32)
            case _:
                raise damaged(catalog.path, f"a file of a segment is said to be {row}")
    return files


def sizes_of_segments(catalog: Catalog) -> dict[int, object]:
    """Return how many vectors each segment is said to hold."""
    return dict(catalog.rows("SELECT segment, n_rows FROM segments"))


def wrong_extent(segment: Segment, n_rows: object, dim: int, dtype: RowType) -> Iterator[str]:
    """Yield where a segment is not as large as the catalog says, or of another type."""
    if segment.index.dtype != dtype:
        yield (
            f"{segment.folder} is damaged: its vectors are {segment.index.dtype}, and the catalog "
            f"says {dtype}."
        )
    if (len(segment), segment.index.dim) != (n_rows, dim):
        yield (
            f"{segment.folder} is damaged: it holds {len(segment)} vectors of dimension "
            f"{segment.index.dim}, but the catalog says {n_rows} of {dim}."
        )


def misfits(
    path: Path, segments: Sequence[Segment], tables: Blocks
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield segment and source of tables that tell of other segments, rows or stages, and so."""
    known = {segment.number: segment for segment in segments}
    own = [segment.index.calibration_table for segment in segments[:1]]
    stages = [table.scores.shape[1] for table in own if table is not None]
    stages += [table.n_stages for table in tables.values()]
    for (number, source), table in tables.items():
        if not (
            {number, source} <= known.keys()
            and table.n_known <= len(known[source].strangers)
            and table.most_copies <= len(known[number]) + 1
            and table.n_stages == stages[0]
        ):
            what = f"the calibration of segment {number} by {source}"
            yield (number, source), f"{path} is damaged: {what} does not belong to them."


def check_apart(catalog: Catalog, parts: list[IntArray]) -> None:
    """Raise where a key is held twice; the keys of each part rise.

    Parts whose ranges do not meet, as is usual, are not compared.
    """
    parts = sorted((keys for keys in parts if len(keys)), key=lambda keys: int(keys[0]))
    for number, keys in enumerate(parts):
        for later in parts[number + 1 :]:
            if later[0] > keys[-1]:
                break
            held_twice = np.intersect1d(keys, later, assume_unique=True)
            if len(held_twice):
                raise damaged(catalog.path, f"the key {held_twice[0]} has two vectors")


def read_waiting(
    catalog: Catalog, settings: Settings, after: int
) -> Iterator[tuple[StoredRows, IntArray]]:
    """Yield the waiting vectors of larger keys than one, and their keys, blob by blob."""
    for first_key, n_rows, blob, wrong in _blobs(catalog, settings, after):
        if wrong:
            raise CorruptIndexError(wrong)
        if first_key <= after:
            raise damaged(catalog.path, f"the key {first_key} has two vectors that wait")
        after = first_key + n_rows - 1
        yield StoredRows.read(_unpacked(blob, settings)), np.arange(first_key, after + 1)


def _unpacked(blob: bytes, settings: Settings) -> np.ndarray[Any, Any]:
    dtype = np.dtype(settings.dtype).newbyteorder("<")
    return np.frombuffer(bytearray(blob), dtype=dtype).reshape(-1, settings.dim)


def broken_blobs(catalog: Catalog, settings: Settings) -> Iterator[tuple[int, str]]:
    """Yield the first key of each blob that is damaged, and what is wrong."""
    for first_key, _, _, wrong in _blobs(catalog, settings, -1):
        if wrong:
            yield first_key, wrong


def _blobs(
    catalog: Catalog, settings: Settings, after: int
) -> Iterator[tuple[int, int, bytes, str]]:
    """Yield first key, number of rows and content of each blob of larger keys, each read once.

    The last is what is wrong with it, or empty.
    """
    # A flipped bit may have made the blob a text of the same bytes, or nothing.
    blob_of = "ifnull(CAST(vectors AS BLOB), x'')"
    sql = f"SELECT n_rows, crc32, {blob_of} FROM waiting WHERE first_key = ?"
    first_keys = keys_in(catalog, "SELECT first_key FROM waiting ORDER BY first_key")
    for first_key in first_keys[first_keys > after].tolist():
        # Listed, and yet not found: its number is damaged.
        [(n_rows, saved, blob), *_] = catalog.rows(sql, [first_key]) or [(0, "none", b"")]
        what = f"{n_rows} vectors from key {first_key} on"
        wrong = _wrong_with(blob, n_rows, saved, settings, what)
        yield first_key, n_rows, blob, wrong and f"{catalog.path} is damaged: {wrong}."


def _wrong_with(blob: bytes, n_rows: object, saved: object, settings: Settings, what: str) -> str:
    """Return what is wrong with waiting vectors, if anything."""
    found = crc_text(zlib.crc32(blob))
    is_whole = isinstance(n_rows, int) and 0 < len(blob) == settings.row_bytes * n_rows
    if found != saved or not is_whole:
        return f"the checksum (CRC-32) of the {what} is {found}, saved was {saved}"
    whole = are_stored_rows(_unpacked(blob, settings))
    return "" if whole else f"not all {what} have norm 1"


def waiting_keys(catalog: Catalog, settings: Settings) -> IntArray:
    """Return the keys of all waiting vectors."""
    # By their length, since their number may be damaged, and be any.
    sizes = "SELECT ifnull(length(CAST(vectors AS BLOB)), 0) FROM waiting ORDER BY first_key"
    firsts = keys_in(catalog, "SELECT first_key FROM waiting ORDER BY first_key").tolist()
    keys = [
        np.arange(first, first + size // settings.row_bytes)
        for first, (size,) in zip(firsts, catalog.rows(sizes), strict=True)
    ]
    return np.concatenate([np.empty(0, dtype=np.int64), *keys])


def item_keys(catalog: Catalog) -> IntArray:
    """Return the keys of all items, deleted or not."""
    return keys_in(catalog, "SELECT key FROM items ORDER BY key")


def broken_items(catalog: Catalog) -> Iterator[tuple[int, str, bool]]:
    """Yield the key of each item that is not what was written, what is wrong, and if it is usable.

    Where only its checksum is wrong, an item is something that could have been written.
    """
    sql = "SELECT key, id, metadata, deleted, crc32 FROM items WHERE key >= ? ORDER BY key LIMIT ?"
    first = 0
    while page := catalog.rows(sql, [first, _PAGE]):
        for key, name, metadata, deleted, crc32 in page:
            wrong = _wrong_with_item(catalog, key, name, metadata, deleted)
            found = item_sum(key, name, metadata)
            if wrong:
                yield key, wrong, False
            elif crc32 is not None and found != crc32:
                yield (
                    key,
                    f"{catalog.path} is damaged: the checksum (CRC-32) of the item {name!r} "
                    f"is {crc_text(found)}, saved was {crc_text(crc32)}.",
                    True,
                )
        following = page[-1][0] + 1
        if following <= first:  # of a damaged tree: the same page would come again, for ever
            raise damaged(catalog.path, "its items are out of order")
        first = following


def _wrong_with_item(
    catalog: Catalog, key: object, name: object, metadata: object, deleted: object
) -> str:
    """Return why an item cannot be used, if so."""
    if not isinstance(key, int) or key > LARGEST_NUMBER:
        raise damaged(catalog.path, "a key is not a number")
    if not isinstance(name, int | str) or deleted not in (0, 1):
        return (
            f"{catalog.path} is damaged: the item of key {key} has the id {name!r}, and is "
            f"deleted: {deleted!r}."
        )
    try:
        read_metadata(catalog, key, metadata)
    except CorruptIndexError as error:
        return str(error)
    return ""
