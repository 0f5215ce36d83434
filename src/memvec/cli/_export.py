"""``memvec export``: a collection as one file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click
import numpy as np

import memvec
from memvec import Collection
from memvec.cli._options import STDIN, collection_argument, where_option
from memvec.cli._output import echo, echo_json, json_text
from memvec.collection import Item
from memvec.errors import MissingExtraError
from memvec.progress import progress_bar

_ROWS_AT_ONCE = 1024

Items = Iterator[Item]


def _target(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value != STDIN and Path(value).suffix.lower() not in _WRITERS:
        known = ", ".join(_WRITERS)
        raise click.BadParameter(f"{value!r} is not -, and does not end in one of {known}.")
    return value


@click.command()
@collection_argument
@click.argument("target", callback=_target, metavar="FILE")
@where_option
def export(collection: str, target: str, where: dict[str, Any] | None) -> None:
    """Write all items to FILE, in the order they were added.

    The suffix of FILE selects the format: .jsonl (or -, standard output) holds ids, vectors and
    metadata; .parquet the same, with the metadata as JSON; .npy vectors only. Vectors are written
    as they are stored, with norm 1, and `memvec add` reads all formats back. FILE appears when it
    is complete.

    \b
    Example:
      memvec export synsets.mv synsets.parquet
      memvec export synsets.mv - --where '{"year": 2020}' | head -1
    """  # noqa: D301 - click wants the character itself, not its name
    with memvec.open(collection, read_only=True) as opened:
        n_items = len(opened)
        if target == STDIN:
            for item in opened.items(where):
                echo_json(_record(item))
            return
        with progress_bar(target, n_items) as advance:
            n_written = _write(opened, Path(target), where, advance)
    echo(f"Wrote {n_written:,} items into {target}.", err=True)


def _write(
    collection: Collection,
    target: Path,
    where: dict[str, Any] | None,
    advance: Callable[[int], None],
) -> int:
    partial = target.with_name(f"{target.name}.partial")
    n_written = 0

    def counted() -> Items:
        nonlocal n_written
        for item in collection.items(where):
            yield item
            n_written += 1
            advance(1)

    try:
        _WRITERS[target.suffix.lower()](partial, counted(), collection)
        os.replace(partial, target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise click.FileError(str(target), hint=str(error.strerror)) from None
        raise
    return n_written


def _record(item: Item) -> dict[str, Any]:
    return {"id": item.id, "vector": item.vector.tolist(), "metadata": item.metadata}


def _write_jsonl(path: Path, items: Items, collection: Collection) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json_text(_record(item))}\n" for item in items)


def _write_npy(path: Path, items: Items, collection: Collection) -> None:
    """Write vectors, block by block: the number of rows is filled in at the end."""
    with path.open("wb") as file:
        rows = 0
        _write_header(file, rows, collection.dim)
        for block in _blocks(items):
            file.write(np.stack([item.vector for item in block]).astype("<f4").tobytes())
            rows += len(block)
        file.seek(0)
        _write_header(file, rows, collection.dim)


def _write_header(file: Any, rows: int, dim: int) -> None:
    # NumPy pads headers so that the number of rows may grow in place.
    described = {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)}
    np.lib.format.write_array_header_1_0(file, described)


def _write_parquet(path: Path, items: Items, collection: Collection) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("Writing Parquet files", "pyarrow", "files") from None
    blocks = _blocks(items)
    first = next(blocks, [])
    kind = type(first[0].id) if first else str
    schema = pa.schema(
        [
            ("id", pa.int64() if kind is int else pa.string()),
            ("vector", pa.list_(pa.float32(), collection.dim)),
            ("metadata", pa.string()),
        ]
    )
    with pq.ParquetWriter(path, schema) as writer:
        for block in chain([first] if first else [], blocks):
            _check_kind(block, kind)
            flat = np.concatenate([item.vector for item in block])
            texts = [json.dumps(item.metadata, ensure_ascii=False) for item in block]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat), collection.dim)
            ids = pa.array([item.id for item in block], schema.field("id").type)
            writer.write_batch(pa.record_batch([ids, vectors, pa.array(texts)], schema=schema))


def _check_kind(block: list[Item], kind: type) -> None:
    if any(type(item.id) is not kind for item in block):
        raise click.UsageError(
            "A column holds ids of one kind, and there are integers and texts: export to .jsonl."
        )


def _blocks(items: Items) -> Iterator[list[Item]]:
    while block := list(islice(items, _ROWS_AT_ONCE)):
        yield block


_WRITERS = {".jsonl": _write_jsonl, ".npy": _write_npy, ".parquet": _write_parquet}
