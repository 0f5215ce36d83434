"""After damage: keep what is proven whole, rebuild what can be derived, drop the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memvec.collection._calibration import broken_tables
from memvec.collection._catalog import Catalog
from memvec.collection._checksums import (
    CHECKSUM,
    FileSum,
    check_catalog,
    check_sum,
    forget_catalog,
    note_catalog,
)
from memvec.collection._lock import LOCK, WriterLock
from memvec.collection._sealing import name_segment
from memvec.collection._segment import Segment, remove_segment, segment_folder
from memvec.collection._settings import Settings
from memvec.collection._state import broken_blobs, files_of_segments
from memvec.collection._verify import existing_collection, segment_problems, unmatched
from memvec.errors import CorruptIndexError
from memvec.types import Float32Array, IntArray

# What a segment can be rebuilt from: codes and memory vectors follow from the vectors.
_ORIGINALS = (r"g\d+/vectors\.npy", r"items/g\d+/keys\.npy", r"items/g\d+/places\.npy")


@dataclass(frozen=True)
class Repair:
    """What a repair did.

    Attributes
    ----------
    actions : tuple of str
        One sentence each; none if nothing had to be done.
    n_lost : int
        Items that could not be kept.
    """

    actions: tuple[str, ...]
    n_lost: int


def repair_collection(path: str | os.PathLike[str]) -> Repair:
    """Make a damaged collection usable again, and say what was done.

    Segments whose vectors are whole are rebuilt from them; other segments, and waiting vectors
    whose checksum is wrong, are dropped together with their items. A catalog that SQLite cannot
    read is beyond repair.

    Parameters
    ----------
    path : str or path
        The folder; nobody may have it open to write.

    Examples
    --------
    >>> import tempfile, memvec
    >>> from memvec.collection import repair_collection
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memvec.open(folder + "/whole.mv", dim=2).close()
    ...     repair_collection(folder + "/whole.mv")
    Repair(actions=(), n_lost=0)
    """
    folder = existing_collection(path, "repair_collection")
    actions = list(_repaired_lock(folder))
    lock = WriterLock(folder)
    try:
        return _repaired(folder, actions)
    finally:
        lock.release()


def _repaired_lock(folder: Path) -> Iterator[str]:
    if (folder / LOCK).is_file() and (folder / LOCK).stat().st_size:
        (folder / LOCK).unlink()
        yield f"{folder / LOCK} was not empty, and was replaced."


def _repaired(folder: Path, actions: list[str]) -> Repair:
    try:
        check_catalog(folder)
    except CorruptIndexError as error:
        actions.append(f"{error} It was kept, as SQLite can read it; {CHECKSUM} was made anew.")
    catalog = Catalog.open_to_write(folder)
    try:
        if not catalog.check_format():
            raise CorruptIndexError(f"{catalog.path} is beyond repair: it is empty.")
        _refuse_unreadable(catalog)
        forget_catalog(folder)
        before = _n_items(catalog)
        replaced: list[Path] = []
        # In one transaction: no crash leaves items whose vectors were dropped already.
        with catalog.transaction():
            actions += _repairs(catalog, folder, catalog.settings(), replaced)
        for where in replaced:
            if where.exists():
                remove_segment(where)
        n_lost = before - _n_items(catalog)
        quiet = catalog.empty_log()
    finally:
        catalog.close()
    if quiet:
        note_catalog(folder)
    return Repair(tuple(actions), n_lost)


def _n_items(catalog: Catalog) -> int:
    [(n_items,)] = catalog.rows("SELECT count(*) FROM items WHERE deleted = 0")
    return int(n_items)


def _refuse_unreadable(catalog: Catalog) -> None:
    [(text,), *_] = catalog.rows("PRAGMA integrity_check")
    if text != "ok":
        raise CorruptIndexError(f"{catalog.path} is beyond repair: {text}. Restore it from a copy.")


def _repairs(
    catalog: Catalog, folder: Path, settings: Settings, replaced: list[Path]
) -> Iterator[str]:
    """Repair part after part inside a transaction, and yield what was done."""
    for first_key, text in list(broken_blobs(catalog, settings.dim)):
        catalog.execute("DELETE FROM waiting WHERE first_key = ?", [first_key])
        yield f"{text} They were dropped."
    for tables, text in list(broken_tables(catalog)):
        catalog.execute("DELETE FROM calibration WHERE segment = ? AND source = ?", tables)
        yield f"{text} It was dropped; compact() calibrates anew."
    for number, files in files_of_segments(catalog).items():
        for text in segment_problems(folder, number, files):
            done = _replace_segment(catalog, folder, number, files, settings)
            replaced.append(segment_folder(folder, number))
            yield f"{text} {done}"
            break
    yield from _matched(catalog, folder, settings)


def _replace_segment(
    catalog: Catalog, folder: Path, number: int, files: dict[str, FileSum], settings: Settings
) -> str:
    """Rebuild a damaged segment, or drop it."""
    where = segment_folder(folder, number)
    originals = _originals(where, files)
    [(fresh,)] = catalog.rows("SELECT next_segment FROM state")
    target = segment_folder(folder, fresh)
    if target.exists():
        remove_segment(target)
    n_rows, made = 0, dict[str, FileSum]()
    if originals is not None:
        n_rows = len(originals[1])
        made = Segment.write(target, *originals, settings, None)
    name_segment(catalog, fresh, n_rows, made, [number])
    if n_rows:
        return f"The segment was rebuilt from its {n_rows} vectors."
    return "The segment was dropped."


def _originals(where: Path, files: dict[str, FileSum]) -> tuple[Float32Array, IntArray] | None:
    """Return the vectors and keys of a segment by row, if their files are whole."""
    arrays = []
    for pattern in _ORIGINALS:
        try:
            [name] = [name for name in files if re.fullmatch(pattern, name)]
            check_sum(where / name, files[name])
            arrays.append(np.load(where / name, allow_pickle=False))
        except (ValueError, OSError):  # CorruptIndexError is a ValueError
            return None
    vectors, keys, places = arrays
    return np.ascontiguousarray(vectors[places]), keys


def _matched(catalog: Catalog, folder: Path, settings: Settings) -> Iterator[str]:
    """Drop items that have no vector any more, and vectors that have no item."""
    without_vector, without_item = unmatched(catalog, folder, settings)
    if len(without_vector):
        keys = ((key,) for key in without_vector.tolist())
        catalog.execute_many("DELETE FROM items WHERE key = ?", keys)
        yield f"{len(without_vector)} items without a vector were dropped."
    if len(without_item):
        rows = [(key, "", "{}", 1) for key in without_item.tolist()]
        catalog.execute_many("INSERT INTO items VALUES (?, ?, ?, ?)", rows)
        yield f"{len(without_item)} vectors without an item were marked as deleted."


__all__ = ["Repair", "repair_collection"]
