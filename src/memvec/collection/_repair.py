"""After damage: keep what is proven whole, rebuild what can be derived, drop the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np

from memvec.collection import _contents as contents
from memvec.collection._calibration import broken_tables, read_tables, write_missing_tables
from memvec.collection._catalog import Catalog
from memvec.collection._check import examined, existing_collection, unmatched, used_numbers
from memvec.collection._checksums import (
    CHECKSUM,
    check_catalog,
    forget_catalog,
    item_sum,
    note_catalog,
)
from memvec.collection._folder import LOST, check_all, unnamed_segments, unused_number
from memvec.collection._lock import LOCK, WriterLock
from memvec.collection._plain import has_folder
from memvec.collection._salvage import Originals
from memvec.collection._sealing import name_segment
from memvec.collection._segment import Segment, remove_segment, segment_folder
from memvec.collection._settings import Settings
from memvec.errors import CorruptIndexError
from memvec.storage import disk

_DROPPED = f"The segment was dropped; what is left of it is in {LOST}."


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
    with disk.refusals(folder):
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
        actions.append(f"{error} It was kept, as SQLite can read it; {CHECKSUM} was made again.")
    with closing(Catalog.open_to_write(folder)) as catalog:
        if not catalog.check_format():
            raise CorruptIndexError(f"{catalog.path} is beyond repair: it is empty.")
        _refuse_unreadable(catalog)
        before = _n_items(catalog)
        done = _Done([], [], [])
        try:
            # In one transaction: no crash leaves items whose vectors were dropped already.
            actions += catalog.transact(lambda: _all_repairs(catalog, folder, done))
        except BaseException:
            done.undo()
            raise
        done.tidy()
        n_lost = before - _n_items(catalog)
        quiet = catalog.empty_log()
    if quiet:
        note_catalog(folder)
    return Repair(tuple(actions), n_lost)


@dataclass(frozen=True)
class _Done:
    """Folders of segments: those made, those that they replace, those that are lost."""

    made: list[Path]
    replaced: list[Path]
    lost: list[tuple[Path, Path]]

    def lose(self, where: Path, lost: Path) -> None:
        """Put aside what is left of a segment.

        Before the commit, since what it gives up is an orphan, which the next writer removes; what
        is of no use to anybody may be missing as well.
        """
        if not has_folder(where):
            return
        if not has_folder(lost):
            disk.make_folder(lost)
        target = _unused(lost / where.name)
        disk.replace(where, target)
        self.lost.append((where, target))

    def undo(self) -> None:
        """Put everything back where nothing was committed."""
        for where, target in self.lost:
            with suppress(OSError):
                disk.replace(target, where)
        for where in self.made:
            with suppress(OSError):
                remove_segment(where)

    def tidy(self) -> None:
        """Clean up after the commit; what cannot be removed now, the next writer removes."""
        for where in self.replaced:
            with suppress(OSError):
                remove_segment(where)


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
    lost: list[Path] = []
    before = _n_items(catalog)
    unnamed = unnamed_segments(folder, contents.files_of_segments(catalog))
    actions = list(_repairs(catalog, folder, catalog.settings(), done, lost))
    if not lost and _n_items(catalog) < before:
        # No segment was dropped, and yet vectors are missing: what no catalog names may hold them.
        lost += unnamed
    forget_catalog(folder)
    for where in lost:
        done.lose(where, folder / LOST)
    return actions


def _repairs(
    catalog: Catalog, folder: Path, settings: Settings, done: _Done, lost: list[Path]
) -> Iterator[str]:
    """Repair part after part inside a transaction, and yield what was done."""
    waiting = contents.waiting_keys(catalog, settings)
    sealed = np.setdiff1d(contents.item_keys(catalog), waiting)
    sources = Originals(folder, contents.files_of_segments(catalog), sealed)
    for first_key, text in list(contents.broken_blobs(catalog, settings)):
        catalog.execute("DELETE FROM waiting WHERE first_key = ?", [first_key])
        yield f"{text} They were dropped."
    for tables, text in list(broken_tables(catalog)):
        yield _drop_tables(catalog, tables, text)
    yield from _accepted_items(catalog)
    for number, files in sources.files.items():
        problems, _ = examined(folder, number, files)
        if problems:
            made = _rebuilt(catalog, sources, number, settings, done)
            if not made:
                _drop_segment(catalog, number)
                lost.append(segment_folder(folder, number))
            yield f"{problems[0]} {made or _DROPPED}"
    yield from _matched(catalog, folder, settings)
    for text in list(used_numbers(catalog)):
        _skip_used_numbers(catalog)
        yield f"{text} The numbers in use are skipped."
    _calibrate_anew(catalog, folder)


def _drop_tables(catalog: Catalog, tables: tuple[int, int], text: str) -> str:
    catalog.execute("DELETE FROM calibration WHERE segment = ? AND source = ?", tables)
    return f"{text} It was made again."


def _accepted_items(catalog: Catalog) -> Iterator[str]:
    """Take items as they are: which part of one is damaged, its checksum does not say."""
    for key, text, usable in list(contents.broken_items(catalog)):
        if not usable:
            catalog.execute("DELETE FROM items WHERE key = ?", [key])
            yield f"{text} It was dropped."
            continue
        [(name, metadata)] = catalog.rows("SELECT id, metadata FROM items WHERE key = ?", [key])
        catalog.execute(
            "UPDATE items SET crc32 = ? WHERE key = ?", [item_sum(key, name, metadata), key]
        )
        yield f"{text} It was kept as it is: check its metadata."


def _skip_used_numbers(catalog: Catalog) -> None:
    catalog.execute("""
        UPDATE state SET
            next_key = max(next_key, (SELECT ifnull(max(key), -1) + 1 FROM items)),
            next_segment = max(next_segment, (SELECT ifnull(max(segment), 0) + 1 FROM segments))
    """)


def _rebuilt(
    catalog: Catalog, sources: Originals, number: int, settings: Settings, done: _Done
) -> str:
    """Rebuild a damaged segment where its vectors are whole, and say so."""
    originals = sources.of(number, settings.dtype)
    if originals is None:
        return ""
    fresh = unused_number(catalog, sources.folder)
    target = segment_folder(sources.folder, fresh)
    done.made.append(target)
    made = Segment.write(target, *originals, settings, None)
    name_segment(catalog, fresh, len(originals[1]), made, [number])
    done.replaced.append(segment_folder(sources.folder, number))
    return f"The segment was rebuilt from its {len(originals[1])} vectors."


def _drop_segment(catalog: Catalog, number: int) -> None:
    name_segment(catalog, catalog.numbers().next_segment, 0, {}, [number])


def _matched(catalog: Catalog, folder: Path, settings: Settings) -> Iterator[str]:
    """Drop items that have no vector any more, and vectors that have no item."""
    segments = _opened_segments(catalog, folder)
    sizes = contents.sizes_of_segments(catalog)
    for segment in segments:
        own = segment.index.dim, segment.index.dtype
        for text in contents.wrong_extent(segment, sizes[segment.number], *own):
            row = [len(segment), segment.number]
            catalog.execute("UPDATE segments SET n_rows = ? WHERE segment = ?", row)
            yield f"{text} The catalog was corrected."
    for tables, text in contents.misfits(catalog.path, segments, read_tables(catalog, {})):
        yield _drop_tables(catalog, tables, text)
    waiting = contents.waiting_keys(catalog, settings)
    # Which of two vectors an item has, nothing says: that is beyond repair.
    contents.check_apart(catalog, [waiting, *(segment.keys for segment in segments)])
    vectors = np.concatenate([waiting, *(segment.keys for segment in segments)])
    without_vector, without_item = unmatched(contents.item_keys(catalog), vectors)
    if len(without_vector):
        keys = ((key,) for key in without_vector.tolist())
        catalog.execute_many("DELETE FROM items WHERE key = ?", keys)
        yield f"{len(without_vector)} items without a vector were dropped."
    if len(without_item):
        rows = [(key, "", "{}", 1) for key in without_item.tolist()]
        sql = "INSERT INTO items (key, id, metadata, deleted) VALUES (?, ?, ?, ?)"
        catalog.execute_many(sql, rows)
        yield f"{len(without_item)} vectors without an item were marked as deleted."


def _opened_segments(catalog: Catalog, folder: Path) -> list[Segment]:
    return [
        Segment.open(segment_folder(folder, number), number, files)
        for number, files in contents.files_of_segments(catalog).items()
    ]


def _calibrate_anew(catalog: Catalog, folder: Path) -> None:
    """Let segments that are new to each other find what the promise rests on."""
    dead = [key for (key,) in catalog.rows("SELECT key FROM items WHERE deleted = 1")]
    segments = _opened_segments(catalog, folder)
    living = [(one, ~np.isin(one.keys, dead)) for one in segments]
    write_missing_tables(catalog, living, max(_n_items(catalog), 1))
