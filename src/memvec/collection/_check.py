"""Reading everything again, to see that it is what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memvec import checks
from memvec.collection import _contents as contents
from memvec.collection._calibration import Blocks, broken_tables, read_tables
from memvec.collection._catalog import Catalog
from memvec.collection._checksums import check_catalog, check_sum
from memvec.collection._folder import check_all
from memvec.collection._lock import check_lock
from memvec.collection._segment import Segment, segment_folder
from memvec.collection._settings import Settings
from memvec.collection._state import State
from memvec.collection._store import Store
from memvec.errors import CorruptIndexError, IndexNotFoundError, damaged
from memvec.storage import CATALOG, CheckReport, FileSum, Kind, check_kind, disk
from memvec.types import IntArray


def check_store(store: Store) -> CheckReport:
    """Read everything that the state committed now consists of, or the one that a reader holds.

    Nobody waits for it: a writer's state is read by a connection of its own, and files are read
    without any lock. Segments that were compacted away since are read from what holds them.
    """
    with disk.refusals(store.folder):
        if not store.catalog.holds_state:
            return _checked_now(store.folder, store.state)
        with store.catalog.snapshot():
            known, saved = store.state, _Saved.of(store.catalog)
        return saved.checked(store.folder, known) or _checked_now(store.folder, known)


def check_collection(path: str | os.PathLike[str]) -> CheckReport:
    """Check a collection that may be too damaged to be opened.

    Parameters
    ----------
    path : str or path
        The folder. It is only read, and others may read and write it meanwhile.

    Examples
    --------
    >>> import tempfile, memvec
    >>> from memvec.collection import check_collection
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memvec.open(folder + "/whole.mv", dim=2).close()
    ...     check_collection(folder + "/whole.mv").ok
    True
    """
    folder = existing_collection(path, "check_collection")
    with disk.refusals(folder):
        try:
            check_all(folder)
            check_lock(folder)
            check_catalog(folder)
            return _checked_now(folder, None)
        except CorruptIndexError as error:
            return CheckReport((str(error),), 0, 0)


def _checked_now(folder: Path, known: State | None) -> CheckReport:
    """Check what is committed now; what a writer replaces meanwhile is not damage."""
    while True:
        with closing(Catalog.open_to_read(folder)) as catalog:
            if not catalog.check_format():
                raise damaged(catalog.path, "it is empty")
            with catalog.snapshot():
                saved = _Saved.of(catalog)
        found = saved.checked(folder, known)
        if found is not None:
            return found


@dataclass(frozen=True)
class _Saved:
    """What the catalog says, and what is wrong with the catalog itself."""

    path: Path
    change: int
    problems: list[str]
    files: dict[int, dict[str, FileSum]]
    sizes: dict[int, object]
    tables: Blocks
    settings: Settings
    items: IntArray
    waiting: IntArray

    @classmethod
    def of(cls, catalog: Catalog) -> _Saved:
        """Read the catalog; the caller sees to it that all of it belongs to one state."""
        none = np.empty(0, dtype=np.int64)
        problems = []
        try:
            problems += [f"{catalog.path}: {text}." for text in _integrity(catalog)]
            settings = catalog.settings()
            problems += [text for _, text in contents.broken_blobs(catalog, settings)]
            problems += [text for _, text in broken_tables(catalog)]
            problems += [text for _, text, _ in contents.broken_items(catalog)]
            problems += used_numbers(catalog)
            # By an index, as every opening does: some damage there passes the check of SQLite.
            catalog.number("SELECT count(*) FROM items WHERE deleted = 0")
            change = catalog.change()
            files, sizes = contents.files_of_segments(catalog), contents.sizes_of_segments(catalog)
            items, waiting = contents.item_keys(catalog), contents.waiting_keys(catalog, settings)
            tables = {} if problems else read_tables(catalog, {})
            held = files, sizes, tables, settings, items, waiting
        except CorruptIndexError as error:
            problems.append(str(error))
            change, held = -1, ({}, {}, {}, Settings(dim=1), none, none)
        return cls(catalog.path, change, problems, *held)

    def checked(self, folder: Path, known: State | None) -> CheckReport | None:
        """Read all segments; None where one of them is neither held nor committed any more."""
        opened = {part.rows.number: part.rows for part in known.segments} if known else {}
        problems, keys, segments = list(self.problems), [self.waiting], []
        for number, files in self.files.items():
            found, segment = examined(folder, number, files)
            if found and _is_gone(folder, number, self.change):
                if number not in opened:
                    return None
                segment = opened[number]
                found = list(_problems_of_held(segment))
            problems += found
            if segment is not None:
                problems += contents.wrong_extent(
                    segment, self.sizes[number], self.settings.dim, self.settings.dtype
                )
                keys.append(segment.keys)
                segments.append(segment)
        if not problems:
            problems += self._lost_items(np.concatenate(keys))
            problems += [text for _, text in contents.misfits(self.path, segments, self.tables)]
        sizes = [file.size for files in self.files.values() for file in files.values()]
        return CheckReport(tuple(problems), len(sizes), sum(sizes))

    def _lost_items(self, vectors: IntArray) -> Iterator[str]:
        """Yield items without vectors, and vectors without items."""
        n_twice = len(vectors) - len(np.unique(vectors))
        if n_twice:
            yield f"{self.path}: {n_twice} items have two vectors."
        without_vector, without_item = unmatched(self.items, vectors)
        if len(without_vector):
            yield f"{self.path}: {len(without_vector)} items have no vector."
        if len(without_item):
            yield f"{self.path}: {len(without_item)} vectors belong to no item."


def existing_collection(path: object, where: str) -> Path:
    """Return the folder of a collection, damaged or not."""
    folder = checks.path(path, "path", where)
    if not os.path.lexists(folder / CATALOG):
        check_kind(folder, Kind.COLLECTION)
        raise IndexNotFoundError(f"There is no collection at {folder}: it holds no {CATALOG}.")
    return folder


def _integrity(catalog: Catalog) -> Iterator[str]:
    """Yield what SQLite finds wrong with its own file."""
    for (text,) in catalog.rows("PRAGMA integrity_check"):
        if text != "ok":
            yield text


def used_numbers(catalog: Catalog) -> Iterator[str]:
    """Yield which numbers that were used already would be given again."""
    _, next_key, next_segment = catalog.numbers()
    key = catalog.number("SELECT ifnull(max(key), -1) FROM items")
    segment = catalog.number("SELECT ifnull(max(segment), -1) FROM segments")
    for what, last, following in (("key", key, next_key), ("segment", segment, next_segment)):
        if following <= last:
            yield (
                f"{catalog.path} is damaged: the next {what} is {following}, and {last} is in use."
            )


def examined(
    folder: Path, number: int, files: dict[str, FileSum]
) -> tuple[list[str], Segment | None]:
    """Return what is wrong with the files of a segment, or the segment.

    Only damage is returned: where the system refuses to open or read a file, this raises.
    """
    where = segment_folder(folder, number)
    problems = []
    for name, saved in files.items():
        try:
            check_sum(where / name, saved)
        except (CorruptIndexError, FileNotFoundError) as error:
            problems.append(str(error))
    if not problems:
        try:
            return [], Segment.open(where, number, files)
        except (CorruptIndexError, FileNotFoundError) as error:
            problems.append(str(error))
    return problems, None


def _problems_of_held(segment: Segment) -> Iterator[str]:
    try:
        segment.check()
    except CorruptIndexError as error:
        yield str(error)


def _is_gone(folder: Path, number: int, change: int) -> bool:
    """Return whether a segment was replaced since a state was read."""
    with closing(Catalog.open_to_read(folder)) as catalog:
        # Where nothing was committed since, a catalog that does not find it is damaged.
        if catalog.change() == change:
            return False
        return not catalog.rows("SELECT 1 FROM segments WHERE segment = ?", [number])


def unmatched(items: IntArray, vectors: IntArray) -> tuple[IntArray, IntArray]:
    """Return keys of items that have no vector, and of vectors that have no item."""
    return np.setdiff1d(items, vectors), np.setdiff1d(vectors, items)
