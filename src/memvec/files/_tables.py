"""Tables of plain columns in Parquet files: written a batch at a time, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from memvec.files._parquet import arrow, open_parquet
from memvec.storage import disk

#: A column as pyarrow holds it; `take` picks rows of it.
Column: TypeAlias = Any
WriteBatch: TypeAlias = Callable[[Mapping[str, Any]], None]


@contextmanager
def writing_table(path: str | os.PathLike[str], columns: Mapping[str, str]) -> Iterator[WriteBatch]:
    """Write a Parquet file batch by batch; it appears once the block ends without an error.

    Parameters
    ----------
    path : str or path
        An existing file is replaced.
    columns : mapping of str to str
        The type of each column, as pyarrow names it: ``"int64"``, ``"string"``, ``"float32"``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing_table(f"{folder}/pairs.parquet", {"id": "int64"}) as write:
    ...         write({"id": [3, 4]})
    ...     read_column(f"{folder}/pairs.parquet", "id").to_pylist()
    [3, 4]
    """
    pyarrow, target = arrow("Writing Parquet files"), Path(path)
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in columns.items()])
    unfinished = target.with_name(f"{target.name}.tmp")
    try:
        with unfinished.open("wb") as file:
            with pyarrow.parquet.ParquetWriter(file, schema) as writer:
                yield lambda batch: writer.write_batch(
                    pyarrow.record_batch(
                        [pyarrow.array(batch[name], schema.field(name).type) for name in columns],
                        schema=schema,
                    )
                )
            disk.sync(file)
        disk.replace(unfinished, target)
        disk.sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            disk.remove_file(unfinished)
        raise


def read_column(path: str | os.PathLike[str], name: str) -> Column:
    """Return one column of a Parquet file, as pyarrow holds it."""
    with open_parquet(Path(path)) as file:
        return file.read(columns=[name]).column(0).combine_chunks()


def joined_columns(columns: Sequence[Column]) -> Column:
    """Return columns of one type, concatenated."""
    return arrow("Reading Parquet files").concat_arrays(columns)
