"""From waiting vectors and old segments to new segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from memvec.collection._calibration import tables_between, write_tables
from memvec.collection._catalog import Catalog
from memvec.collection._folder import unused_number
from memvec.collection._memory import give_back_memory
from memvec.collection._packed_table import PackedTable
from memvec.collection._scratch import scratch_rows
from memvec.collection._segment import Segment, remove_segment, segment_folder
from memvec.collection._settings import SEAL_AT
from memvec.collection._state import Part, State
from memvec.collection._store import Store
from memvec.errors import MemvecError
from memvec.kernels import StoredRows
from memvec.storage import FileSum
from memvec.types import IntArray

# So many segments of one size are merged into one of the next.
FAN_OUT = 10


def rewrite(
    store: Store, segments: Sequence[Part[Segment]], *, waiting: bool, progress: bool | None
) -> int:
    """Make one segment of some segments and, if asked, of all that waits; return its rows.

    Deleted rows are left behind. Until the commit, the new files are an orphan that the next
    writer removes; after it, the old ones are. Items may be added and deleted meanwhile.
    """
    before = store.state
    sources: list[Part[Any]] = [*segments, *([before.waiting] if waiting else [])]
    keys = np.sort(_concatenated([part.keys[part.alive] for part in sources]))
    purged = _concatenated([part.keys[~part.alive] for part in sources])
    number = unused_number(store.catalog, store.folder)
    folder = segment_folder(store.folder, number)
    files: dict[str, FileSum] = {}
    n_bytes = 4 * store.settings.dim * len(keys)
    try:
        if len(keys):
            with _vectors(store, before, segments, keys, folder.with_suffix(".rows")) as vectors:
                files = Segment.write(folder, vectors, keys, store.settings, progress)
            give_back_memory(n_bytes)
        made = Segment.open(folder, number, files, store.device) if len(keys) else None
        tables = [] if made is None else _tables(before, made, segments)
        give_back_memory(n_bytes)
        with store.catalog.lock:
            last = before.waiting.keys[-1] if waiting and len(before.waiting.keys) else -1
            _commit(store.catalog, number, len(keys), files, segments, int(last), purged, tables)
            store.publish(_after(store.state, made, segments, int(last), tables))
        if made is not None:
            made.forget_pages()
    except BaseException:
        with suppress(OSError, MemvecError):
            if not store.catalog.rows("SELECT 1 FROM segments WHERE segment = ?", [number]):
                remove_segment(folder)
        raise
    for part in segments:
        with suppress(OSError):  # in use (Windows): the next writer removes it
            remove_segment(part.rows.folder)
    return len(keys)


def _vectors(
    store: Store, before: State, segments: Sequence[Part[Segment]], keys: IntArray, scratch: Path
) -> AbstractContextManager[StoredRows]:
    """Return the vectors of a new segment: where they wait, or collected in a file."""
    waiting = before.waiting
    if not segments and len(keys) == len(waiting.keys):
        return nullcontext(waiting.rows.rows)
    return scratch_rows(scratch, before, keys, store.settings)


def _tables(
    before: State, made: Segment, gone: Sequence[Part[Segment]]
) -> list[tuple[int, int, PackedTable]]:
    """Return what a new segment and those that stay find in each other."""
    numbers = {part.rows.number for part in gone}
    others = [
        (part.rows, part.alive) for part in before.segments if part.rows.number not in numbers
    ]
    everything = np.ones(len(made), dtype=bool)
    return list(tables_between((made, everything), others, before.n_items))


def _concatenated(arrays: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def _commit(
    catalog: Catalog,
    number: int,
    n_rows: int,
    files: Mapping[str, FileSum],
    old: Sequence[Part[Segment]],
    last: int,
    purged: IntArray,
    tables: Sequence[tuple[int, int, PackedTable]],
) -> None:
    """Name the new segment in place of what it was made of."""

    def work() -> None:
        name_segment(catalog, number, n_rows, files, [part.rows.number for part in old])
        write_tables(catalog, tables)
        catalog.execute("DELETE FROM waiting WHERE first_key <= ?", [last])
        catalog.execute_many("DELETE FROM items WHERE key = ?", ((k,) for k in purged.tolist()))

    catalog.transact(work)


def name_segment(
    catalog: Catalog, number: int, n_rows: int, files: Mapping[str, FileSum], old: Sequence[int]
) -> None:
    """Put a segment in place of others, inside a transaction; one of no rows is not named."""
    if n_rows:
        catalog.execute("INSERT INTO segments VALUES (?, ?)", [number, n_rows])
        catalog.execute_many(
            "INSERT INTO segment_files VALUES (?, ?, ?, ?)",
            [(number, name, *saved) for name, saved in files.items()],
        )
    catalog.execute("UPDATE state SET next_segment = ?", [number + 1])
    numbers = [(one,) for one in old]
    for table in ("segments", "segment_files", "calibration"):
        catalog.execute_many(f"DELETE FROM {table} WHERE segment = ?", numbers)
    catalog.execute_many("DELETE FROM calibration WHERE source = ?", numbers)


def _after(
    now: State,
    made: Segment | None,
    old: Sequence[Part[Segment]],
    last: int,
    tables: Sequence[tuple[int, int, PackedTable]],
) -> State:
    """Return the state after the commit; what was deleted since the building began stays so."""
    gone = {part.rows.number for part in old}
    calibration = {key: one for key, one in now.calibration.items() if not gone & set(key)}
    calibration |= {(segment, source): table for segment, source, table in tables}
    segments = [part for part in now.segments if part.rows.number not in gone]
    if made is not None:
        dead = _concatenated([part.keys[~part.alive] for part in now.parts])
        segments.append(Part(made, ~np.isin(made.keys, dead)))
    waiting = now.waiting
    if last >= 0:
        waiting = Part(waiting.rows.after(last), waiting.alive[waiting.keys > last])
    return replace(now, segments=tuple(segments), waiting=waiting, calibration=calibration)


def due_to_merge(store: Store) -> list[Part[Segment]]:
    """Return the segments of the smallest size that there are too many of."""
    base = store.settings.seal_at or SEAL_AT
    sizes: dict[int, list[Part[Segment]]] = {}
    for part in store.state.segments:
        sizes.setdefault(_size_class(part.n_alive, base), []).append(part)
    due = [parts for _, parts in sorted(sizes.items()) if len(parts) >= FAN_OUT]
    return due[0] if due else []


def _size_class(n_rows: int, base: int) -> int:
    """Return the k, negative ones too, where base·FAN_OUT^k ≤ n_rows < base·FAN_OUT^(k+1).

    Few rows that are sealed by hand are so not merged with many, again and again.
    """
    size = 0
    while n_rows >= base * FAN_OUT ** (size + 1):
        size += 1
    while max(n_rows, 1) * FAN_OUT**-size < base:
        size -= 1
    return size
