"""Datasets of Ray Data as the input of joins: their rows, written once as files of Parquet."""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memvec.collection import Asked, check_out, checked_asked, input_paths, work_folder
from memvec.progress import is_silent

_READ_BYTES = 1 << 24


def check_asked(asked: Asked, sets: Sequence[Any], where: str) -> None:
    """Raise where nothing can be found in files, before a cluster is started for them."""
    checked_asked(asked, where)
    for given in sets:
        if not _is_dataset(given):
            input_paths(given, where)


def _is_dataset(given: Any) -> bool:
    data = sys.modules.get("ray.data")
    return data is not None and isinstance(given, data.Dataset)


def files_of(
    given: Any,
    out: str | os.PathLike[str],
    name: str,
    asked: Asked,
    run: Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]],
    where: str,
) -> Any:
    """Return files as they are given, or those that the rows of a dataset are written to.

    A dataset is written below `out`, and removed with the work. The time of a file follows from its
    content: a call that goes on finds the files that it knows, and another dataset is refused.

    Parameters
    ----------
    given : path, sequence of paths or ray.data.Dataset
        What is joined.
    out : str or path
        The folder of the pairs.
    name : {"rows", "a", "b"}
        Which set of rows it is: the one that is deduplicated, or one of two that are joined.
    asked : Asked
        Names the columns that are needed.
    run : callable
        Calls a function with several lists of arguments.
    where : str
        Who asks, for messages.
    """
    if not _is_dataset(given):
        return given
    folder = work_folder(check_out(out, where, name != "rows")) / f"dataset-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write(given, asked, folder)
    # Names begin alike, and go on with the number of the block.
    found = sorted(folder.glob("*.parquet"))
    files = [str(folder / f"rows-{number:06d}.parquet") for number in range(len(found))]
    run(_settle, [(str(old), new) for old, new in zip(found, files, strict=True)])
    return files


def _write(dataset: Any, asked: Asked, folder: Path) -> None:
    """Write the columns that are needed, in the order of the dataset."""
    if asked.field is not None:
        columns = dict.fromkeys([asked.field, asked.ids, asked.scores])
        dataset = dataset.select_columns([one for one in columns if one is not None])
    plain = dataset.map_batches(_plain, batch_format="pyarrow", batch_size=None)
    context, options = plain.context, plain.context.execution_options
    before = options.preserve_order, context.enable_progress_bars
    options.preserve_order = True
    context.enable_progress_bars = before[1] and not is_silent()
    try:
        plain.write_parquet(str(folder))
    finally:
        options.preserve_order, context.enable_progress_bars = before


def _plain(table: Any) -> Any:
    """Return a table whose tensors are lists, as readers without Ray know them."""
    import pyarrow as pa

    columns = [
        pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        if isinstance(column.type, pa.BaseExtensionType)
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _settle(old: str, new: str) -> None:
    """Give a file its name, and a time that follows from its content."""
    if os.path.exists(old):  # a worker that died may have done it
        os.replace(old, new)
    total = 0
    with open(new, "rb") as file:
        while content := file.read(_READ_BYTES):
            total = zlib.crc32(content, total)
    os.utime(new, (total, total))
