"""Reading everything again, to see that it is what was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memvec import checks
from memvec.collection._calibration import broken_tables
from memvec.collection._catalog import CATALOG, Catalog
from memvec.collection._checksums import FileSum, check_catalog, check_sum
from memvec.collection._lock import check_lock
from memvec.collection._segment import Segment, segment_folder
from memvec.collection._settings import Settings
from memvec.collection._state import State, broken_blobs, files_of_segments, load_state
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InvalidTypeError,
    MemvecError,
)
from memvec.types import IntArray


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes
    ----------
    problems : tuple of str
        What is damaged, each with its file; none if everything is as it was written.
    n_files : int
        Files of segments that were read.
    n_bytes : int
        Their size.
    """

    problems: tuple[str, ...]
    n_files: int
    n_bytes: int

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems


def verify_catalog(catalog: Catalog, folder: Path, known: State | None = None) -> Verification:
    """Read everything that the state committed now consists of, or the one that a reader holds.

    Segments of a `known` state that were compacted away since are read from what holds them.
    """
    opened = {part.rows.number: part.rows for part in known.segments} if known else {}
    problems: list[str] = []
    saved: dict[int, dict[str, FileSum]] = {}
    with catalog.snapshot():
        try:
            problems += [f"{catalog.path}: {text}." for text in _integrity(catalog)]
            settings = catalog.settings()
            problems += [text for _, text in broken_blobs(catalog, settings.dim)]
            problems += [text for _, text in broken_tables(catalog)]
            saved = files_of_segments(catalog)
            for number in saved:
                found = list(segment_problems(folder, number, saved[number]))
                if found and number in opened and not _is_named(folder, number):
                    opened[number].check()
                    found = []
                problems += found
            if not problems:
                problems += _lost_items(catalog, folder, settings, known)
        except (MemvecError, OSError) as error:
            problems.append(str(error))
    sizes = [file.size for files in saved.values() for file in files.values()]
    return Verification(tuple(problems), len(sizes), sum(sizes))


def verify_collection(path: str | os.PathLike[str]) -> Verification:
    """Verify a collection that may be too damaged to be opened.

    Parameters
    ----------
    path : str or path
        The folder. It is only read, and others may read and write it meanwhile.

    Examples
    --------
    >>> import tempfile, memvec
    >>> from memvec.collection import verify_collection
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memvec.open(folder + "/whole.mv", dim=2).close()
    ...     verify_collection(folder + "/whole.mv").ok
    True
    """
    folder = existing_collection(path, "verify_collection")
    try:
        check_lock(folder)
        check_catalog(folder)
        catalog = Catalog.open_to_read(folder)
    except (CorruptIndexError, OSError) as error:
        return Verification((str(error),), 0, 0)
    try:
        if not catalog.check_format():
            raise CorruptIndexError(f"{catalog.path} is damaged: it is empty.")
        return verify_catalog(catalog, folder)
    except CorruptIndexError as error:
        return Verification((str(error),), 0, 0)
    finally:
        catalog.close()


def existing_collection(path: object, where: str) -> Path:
    """Return the folder of a collection, damaged or not."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidTypeError(checks.message("path", where, "a path", repr(path)))
    folder = Path(path)
    if not (folder / CATALOG).is_file():
        raise IndexNotFoundError(f"There is no collection at {folder}: it holds no {CATALOG}.")
    return folder


def _integrity(catalog: Catalog) -> Iterator[str]:
    """Yield what SQLite finds wrong with its own file."""
    for (text,) in catalog.rows("PRAGMA integrity_check"):
        if text != "ok":
            yield text


def segment_problems(folder: Path, number: int, files: dict[str, FileSum]) -> Iterator[str]:
    """Yield what is wrong with the files of a segment."""
    where = segment_folder(folder, number)
    whole = True
    for name, saved in files.items():
        try:
            check_sum(where / name, saved)
        except (CorruptIndexError, OSError) as error:
            whole = False
            yield str(error)
    if whole:
        try:
            Segment.open(where, number, files)
        except (CorruptIndexError, OSError) as error:
            yield str(error)


def _is_named(folder: Path, number: int) -> bool:
    """Return whether a segment belongs to what is committed now, whatever state is held."""
    catalog = Catalog.open_to_read(folder)
    try:
        return bool(catalog.rows("SELECT 1 FROM segments WHERE segment = ?", [number]))
    finally:
        catalog.close()


def _lost_items(
    catalog: Catalog, folder: Path, settings: Settings, known: State | None
) -> Iterator[str]:
    """Yield items without vectors, and vectors without items."""
    without_vector, without_item = unmatched(catalog, folder, settings, known)
    if len(without_vector):
        yield f"{catalog.path}: {len(without_vector)} items have no vector."
    if len(without_item):
        yield f"{catalog.path}: {len(without_item)} vectors belong to no item."


def unmatched(
    catalog: Catalog, folder: Path, settings: Settings, known: State | None = None
) -> tuple[IntArray, IntArray]:
    """Return keys of items that have no vector, and of vectors that have no item."""
    state = load_state(catalog, folder, settings.dim, known)
    rows = catalog.rows("SELECT key FROM items")
    items = np.array([key for (key,) in rows], dtype=np.int64)
    vectors = np.concatenate([part.keys for part in state.parts])
    return np.setdiff1d(items, vectors), np.setdiff1d(vectors, items)


__all__ = [
    "Verification",
    "existing_collection",
    "segment_problems",
    "unmatched",
    "verify_catalog",
    "verify_collection",
]
