"""After damage: keep what is proven whole, rebuild what can be derived, drop the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np

from memvec.collection._calibration import broken_tables
from memvec.collection._catalog import Catalog
from memvec.collection._checksums import (
    CHECKSUM,
    check_catalog,
    forget_catalog,
    item_sum,
    note_catalog,
)
from memvec.collection._folder import LOST, check_all, unused_number
from memvec.collection._lock import LOCK, WriterLock
from memvec.collection._originals import Originals
from memvec.collection._plain import has_folder
from memvec.collection._refusals import refusals
from memvec.collection._sealing import name_segment
from memvec.collection._segment import Segment, remove_segment, segment_folder
from memvec.collection._settings import Settings
from memvec.collection._state import (
    broken_blobs,
    broken_items,
    files_of_segments,
    item_keys,
    waiting_keys,
)
from memvec.collection._verify import examined, existing_collection, unmatched, used_numbers
from memvec.errors import CorruptIndexError
from memvec.storage import disk
from memvec.types import IntArray


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
    whose checksum is wrong, are dropped together with their items. The files of dropped segments
    go to the folder ``lost`` in the collection, which may be removed. A catalog that SQLite cannot
    read is beyond repair. Only what is missing, or not what was saved, is damage: where the system
    refuses to open or read a file, this raises and changes nothing.

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
    with refusals(folder):
        check_all(folder)
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
        before = _n_items(catalog)
        done = _Done([], [], [])
        try:
            # In one transaction: no crash leaves items whose vectors were dropped already.
            actions += catalog.transact(lambda: _all_repairs(catalog, folder, done))
        except BaseException:
            for where in done.made:
                with suppress(OSError):
                    remove_segment(where)
            raise
        done.tidy(folder)
        n_lost = before - _n_items(catalog)
        quiet = catalog.empty_log()
    finally:
        catalog.close()
    if quiet:
        note_catalog(folder)
    return Repair(tuple(actions), n_lost)


@dataclass(frozen=True)
class _Done:
    """Folders of segments: those made, those that they replace, those that are lost."""

    made: list[Path]
    replaced: list[Path]
    lost: list[Path]

    def tidy(self, folder: Path) -> None:
        """Clean up after the commit."""
        for where in self.replaced:
            remove_segment(where)
        for where in self.lost:
            if where.exists():
                disk.replace(where, _unused(folder / LOST / where.name))


def _unused(path: Path) -> Path:
    """Return a path at which nothing is, this one if possible."""
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(one for one in chain([path], names) if not os.path.lexists(one))


def _n_items(catalog: Catalog) -> int:
    [(n_items,)] = catalog.rows("SELECT count(*) FROM items WHERE deleted = 0")
    return int(n_items)


def _refuse_unreadable(catalog: Catalog) -> None:
    [(text,), *_] = catalog.rows("PRAGMA integrity_check")
    if text != "ok":
        raise CorruptIndexError(f"{catalog.path} is beyond repair: {text}. Restore it from a copy.")


def _all_repairs(catalog: Catalog, folder: Path, done: _Done) -> list[str]:
    """Repair everything inside a transaction, and return what was done."""
    actions = list(_repairs(catalog, folder, catalog.settings(), done))
    if done.lost and not has_folder(folder / LOST):
        # Before the commit: what it gives up would be removed as an orphan on a full disk.
        disk.make_folder(folder / LOST)
    forget_catalog(folder)
    return actions


def _repairs(catalog: Catalog, folder: Path, settings: Settings, done: _Done) -> Iterator[str]:
    """Repair part after part inside a transaction, and yield what was done."""
    sources = Originals(folder, files_of_segments(catalog), _sealed_keys(catalog, settings))
    for first_key, text in list(broken_blobs(catalog, settings.dim)):
        catalog.execute("DELETE FROM waiting WHERE first_key = ?", [first_key])
        yield f"{text} They were dropped."
    for tables, text in list(broken_tables(catalog)):
        catalog.execute("DELETE FROM calibration WHERE segment = ? AND source = ?", tables)
        yield f"{text} It was dropped; compact() calibrates anew."
    yield from _accepted_items(catalog)
    for text in list(used_numbers(catalog)):
        _skip_used_numbers(catalog)
        yield f"{text} The numbers in use are skipped."
    for number, files in sources.files.items():
        problems, _ = examined(folder, number, files)
        if problems:
            what = _replace_segment(catalog, sources, number, settings, done)
            yield f"{problems[0]} {what}"
    yield from _matched(catalog, folder, settings)


def _sealed_keys(catalog: Catalog, settings: Settings) -> IntArray:
    """Return the keys of items that do not wait."""
    return np.setdiff1d(item_keys(catalog), waiting_keys(catalog, settings.dim))


def _accepted_items(catalog: Catalog) -> Iterator[str]:
    """Take items as they are: which part of one is damaged, its checksum does not say."""
    for key, text in list(broken_items(catalog)):
        [(name, metadata)] = catalog.rows("SELECT id, metadata FROM items WHERE key = ?", [key])
        catalog.execute(
            "UPDATE items SET crc32 = ? WHERE key = ?", [item_sum(key, name, metadata), key]
        )
        yield f"{text} It was kept as it is: look at its metadata."


def _skip_used_numbers(catalog: Catalog) -> None:
    catalog.execute("""
        UPDATE state SET
            next_key = max(next_key, (SELECT ifnull(max(key), -1) + 1 FROM items)),
            next_segment = max(next_segment, (SELECT ifnull(max(segment), 0) + 1 FROM segments))
    """)


def _replace_segment(
    catalog: Catalog, sources: Originals, number: int, settings: Settings, done: _Done
) -> str:
    """Rebuild a damaged segment, or drop it."""
    originals = sources.of(number)
    fresh = unused_number(catalog, sources.folder)
    where = segment_folder(sources.folder, number)
    target = segment_folder(sources.folder, fresh)
    if originals is None:
        name_segment(catalog, fresh, 0, {}, [number])
        done.lost.append(where)
        return f"The segment was dropped; what is left of it is in {LOST}."
    done.made.append(target)
    made = Segment.write(target, *originals, settings, None)
    name_segment(catalog, fresh, len(originals[1]), made, [number])
    done.replaced.append(where)
    return f"The segment was rebuilt from its {len(originals[1])} vectors."


def _matched(catalog: Catalog, folder: Path, settings: Settings) -> Iterator[str]:
    """Drop items that have no vector any more, and vectors that have no item."""
    segments = [
        Segment.open(segment_folder(folder, number), number, files)
        for number, files in files_of_segments(catalog).items()
    ]
    waiting = waiting_keys(catalog, settings.dim)
    vectors = np.concatenate([waiting, *(segment.keys for segment in segments)])
    without_vector, without_item = unmatched(item_keys(catalog), vectors)
    if len(without_vector):
        keys = ((key,) for key in without_vector.tolist())
        catalog.execute_many("DELETE FROM items WHERE key = ?", keys)
        yield f"{len(without_vector)} items without a vector were dropped."
    if len(without_item):
        rows = [(key, "", "{}", 1) for key in without_item.tolist()]
        sql = "INSERT INTO items (key, id, metadata, deleted) VALUES (?, ?, ?, ?)"
        catalog.execute_many(sql, rows)
        yield f"{len(without_item)} vectors without an item were marked as deleted."


__all__ = ["Repair", "repair_collection"]
