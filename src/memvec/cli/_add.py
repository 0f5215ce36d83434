"""``memvec add``: files into a collection, once each however often it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import memvec
from memvec import Collection
from memvec.cli._options import (
    COUNT,
    STDIN,
    Id,
    blocks_of,
    collection_argument,
    field_options,
    file_argument,
    json_option,
    named_rows,
    option,
    unit_rows,
)
from memvec.cli._output import echo, echo_json
from memvec.errors import InvalidValueError
from memvec.files import VectorBlock, count_rows
from memvec.progress import progress_bar
from memvec.types import Float32Array

# Two reads of one file give equal rows; files that hold the same in float32 and float64, nearly.
_SAME = 1e-6


@dataclass
class _Counts:
    added: int = 0
    replaced: int = 0
    unchanged: int = 0


@dataclass(frozen=True)
class _Rows:
    """Rows of one block, ready to be added."""

    vectors: Float32Array
    ids: list[Id]
    metadata: Sequence[dict[str, Any]] | None

    def taken(self, chosen: list[int]) -> _Rows:
        """Return some of the rows."""
        metadata = None if self.metadata is None else [self.metadata[row] for row in chosen]
        return _Rows(self.vectors[chosen], [self.ids[row] for row in chosen], metadata)


@click.command()
@collection_argument
@file_argument("files", nargs=-1, required=True, metavar="FILE...")
@field_options
@option(
    "--first-id",
    int,
    "First of consecutive ids for the rows. Without it, rows of a FILE without ids are named "
    "NAME:ROW, after the file name.",
)
@click.option("--replace", is_flag=True, help="Replace items that have the same ids.")
@option("--batch", COUNT, "Rows per commit to disk.", 1000)
@json_option
def add(
    collection: str,
    files: tuple[str, ...],
    field: str | None,
    ids: str | None,
    metadata: tuple[str, ...],
    first_id: int | None,
    replace: bool,
    batch: int,
    as_json: bool,
) -> None:
    """Add the vectors of each FILE, with their ids and metadata.

    A FILE is an .npy, .npz, .fvecs, .bvecs, .ivecs, .hdf5, .h5, .parquet, .jsonl or .ndjson; - is
    standard input, as JSON Lines. It is read block by block, so it may be larger than memory.

    Each batch is on disk before the next is read. After an interruption, run the same command
    again: rows that are stored with the same id, vector and metadata are skipped. A row whose id
    belongs to another item is an error, unless --replace is given.

    \b
    Example:
      memvec add synsets.mv synsets.parquet --ids name --metadata year --metadata tag
      memvec add synsets.mv part1.npy part2.npy
      embed texts | memvec add synsets.mv -
    """  # noqa: D301 - click wants the character itself, not its name
    if first_id is not None and len(files) > 1:
        raise click.UsageError("--first-id numbers the rows of one FILE: give one.")
    if first_id is not None and ids is not None:
        raise click.UsageError("Give --ids or --first-id, not both.")
    counts = _Counts()
    with memvec.open(collection) as opened:
        named: dict[str, str] = {}
        for path in files:
            total = None if path == STDIN else count_rows(path, field=field)
            # What comes through a pipe has no known length, and no bar.
            with progress_bar(path, total or 0, None if total else False) as advance:
                for block in blocks_of(path, field, ids, metadata, batch):
                    if block.ids is None and first_id is None:
                        _check_name(path, named)
                    rows = _ready(opened, block, path, first_id)
                    with named_rows(block, path):
                        _write(opened, rows, path, counts, replace=replace)
                    advance(len(block))
        n_items = len(opened)
    if as_json:
        echo_json({"collection": collection, **asdict(counts), "items": n_items})
        return
    there = f", {counts.unchanged:,} were there already" if counts.unchanged else ""
    replaced = f", {counts.replaced:,} replaced" if counts.replaced else ""
    echo(f"Added {counts.added:,} items{replaced}{there}; {collection} holds {n_items:,}.")


def _check_name(path: str, named: dict[str, str]) -> None:
    """Raise where rows of two files would have the same ids, NAME:ROW; `named` is taken down."""
    other = named.setdefault(Path(path).name, path)
    if Path(other).resolve() != Path(path).resolve():
        raise click.BadParameter(
            f"{other} and {path} have the same name, and their rows would have the same ids "
            "(NAME:ROW). Give --ids, rename one, or add each with its own --first-id.",
            param_hint="'FILE...'",
        )


def _ready(collection: Collection, block: VectorBlock, path: str, first_id: int | None) -> _Rows:
    ids = block.ids
    if ids is None and first_id is None and path == STDIN:
        raise click.UsageError("Lines of standard input need an 'id', or give --first-id.")
    if ids is None or first_id is not None:
        rows = range(block.first_row, block.first_row + len(block))
        name = Path(path).name
        ids = [f"{name}:{row}" if first_id is None else first_id + row for row in rows]
    return _Rows(unit_rows(block, path, collection), ids, block.metadata)


def _write(
    collection: Collection, rows: _Rows, path: str, counts: _Counts, *, replace: bool
) -> None:
    try:
        collection.add(rows.vectors, rows.ids, rows.metadata)
        counts.added += len(rows.ids)
        return
    except InvalidValueError:
        existing = [row for row, name in enumerate(rows.ids) if name in collection]
        if not existing or len(set(rows.ids)) < len(rows.ids):
            raise
    same, other = _compared(collection, rows, existing)
    if other and not replace:
        name = rows.ids[other[0]]
        raise click.UsageError(
            f"{path}: the id {name!r} belongs to another item; --replace would replace it."
        )
    kept = set(same)
    left = rows.taken([row for row in range(len(rows.ids)) if row not in kept])
    if left.ids:
        collection.upsert(left.vectors, left.ids, left.metadata)
    counts.unchanged += len(same)
    counts.replaced += len(other)
    counts.added += len(left.ids) - len(other)


def _compared(
    collection: Collection, rows: _Rows, existing: list[int]
) -> tuple[list[int], list[int]]:
    """Return which of the rows whose id exists are there as they are, and which are not."""
    same, other = list[int](), list[int]()
    items = collection.get([rows.ids[row] for row in existing])
    for row, item in zip(existing, items, strict=True):
        metadata = {} if rows.metadata is None else rows.metadata[row]
        equal = item.metadata == metadata and np.allclose(
            item.vector, rows.vectors[row], rtol=0, atol=_SAME
        )
        (same if equal else other).append(row)
    return same, other
