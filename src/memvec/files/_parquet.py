"""Vectors in a column of lists of a Parquet file."""

from __future__ import annotations

import datetime
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, MissingExtraError
from memvec.files._records import Blocks, Fields, VectorArray, block_of, choose_fields


def parquet_blocks(path: Path, asked: Fields, block_rows: int) -> Blocks:
    """Yield the rows of a table: a column of lists, and those that hold ids and metadata."""
    with open_parquet(path) as file:
        name = _column_name(file.schema_arrow, path, asked)
        chosen = choose_fields(file.schema_arrow.names, name, asked, path)
        n_rows = min(file.metadata.num_rows, asked.rows)
        if n_rows == 0:
            raise FileFormatError(f"{path} holds no vectors: column '{name}' has no rows.")
        start, groups = _groups_from(file.metadata, asked.first)
        columns, dim = [name, *chosen.names], None
        for batch in file.iter_batches(block_rows, row_groups=groups, columns=columns):
            if start == n_rows:
                break
            skipped = min(max(asked.first - start, 0), len(batch))
            start += skipped
            batch = batch.slice(skipped, n_rows - start)
            if not len(batch):
                continue
            vectors = _block(batch.column(name), path, name, start, dim)
            values = {other: _plain(batch.column(other), path, other) for other in chosen.names}
            yield block_of(start, vectors, values, chosen, path)
            start, dim = start + len(vectors), vectors.shape[1]
        if start < n_rows:
            raise FileFormatError(f"{path} claims {n_rows} rows but has {start}.")


def _groups_from(metadata: Any, first: int) -> tuple[int, list[int]]:
    """Return the groups of rows that a row and those behind it are in, and where they begin."""
    start = 0
    for group in range(metadata.num_row_groups):
        n_rows = metadata.row_group(group).num_rows
        if start + n_rows > first:
            return start, list(range(group, metadata.num_row_groups))
        start += n_rows
    return start, []


def _plain(column: Any, path: Path, name: str) -> list[Any]:
    """Return the values of a column; times that Python's are too coarse for become text."""
    from pyarrow import types

    is_time = types.is_timestamp(column.type) or types.is_time64(column.type)
    try:
        if is_time and column.type.unit == "ns":
            return _nanoseconds(column)
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:
        raise FileFormatError(
            f"{path} holds values in column '{name}' ({column.type}) that Python cannot represent: "
            f"{error}."
        ) from None
    return values


def _nanoseconds(column: Any) -> list[Any]:
    """Return times, those that are no whole microseconds as text of nine digits."""
    import pyarrow

    coarse = (
        pyarrow.time64("us")
        if pyarrow.types.is_time64(column.type)
        else pyarrow.timestamp("us", column.type.tz)
    )
    counts = column.cast(pyarrow.int64()).to_pylist()
    micros = [None if count is None else count // 1000 for count in counts]
    times = pyarrow.array(micros, pyarrow.int64()).cast(coarse).to_pylist()
    return [
        _with_digits(time, count % 1000) if time is not None and count % 1000 else time
        for time, count in zip(times, counts, strict=True)
    ]


def _with_digits(time: datetime.datetime | datetime.time, nanoseconds: int) -> str:
    text = time.isoformat(timespec="microseconds")
    point = text.index(".") + len(".000000")
    return f"{text[:point]}{nanoseconds:03d}{text[point:]}"


def parquet_rows(path: Path) -> int:
    """Return how many rows a table has."""
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


def arrow(feature: str) -> Any:
    """Return pyarrow, with its Parquet; MissingExtraError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(feature, "pyarrow", "files") from None
    return pyarrow


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a table; what cannot be read is a FileFormatError."""
    pyarrow = arrow("Reading Parquet files")
    # Opened here, so that a missing file or a folder gets the builtin error and not pyarrow's.
    with path.open("rb") as raw:
        try:
            with pyarrow.parquet.ParquetFile(_source(raw, pyarrow)) as file:
                yield file
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise FileFormatError(f"{path} is not a readable Parquet file: {reason}.") from None


def _source(raw: BinaryIO, pyarrow: Any) -> Any:
    """Map a file: a column of a group of rows would be read whole, and that may be all of it."""
    if os.fstat(raw.fileno()).st_size == 0:  # a mapping cannot be empty
        return raw
    return pyarrow.BufferReader(mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ))


def _column_name(schema: Any, path: Path, asked: Fields) -> str:
    column = asked.vectors
    lists = [field.name for field in schema if _is_list(field.type)]
    if column is None and len(lists) == 1:
        return str(lists[0])
    held = ", ".join(f"{field.name} ({field.type})" for field in schema) or "nothing"
    if column is None:
        raise FileFormatError(
            f"{path} has {len(lists)} columns of lists, so 'field' must name one; it holds {held}."
        )
    if column not in schema.names:
        expected = f"a column of {path}, which holds {held}"
        raise checks.bad_value("field", asked.where, expected, repr(column))
    if column not in lists:
        raise FileFormatError(
            f"{path} holds no vectors in column '{column}': its type is "
            f"{schema.field(column).type}, not lists of real numbers."
        )
    return column


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list:
        return False
    return bool(types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _block(lists: Any, path: Path, name: str, first_row: int, dim: int | None) -> VectorArray:
    """Return one batch of lists as rows, all of dimension `dim` if that is already known."""
    if lists.null_count > 0:
        row = first_row + int(np.argmax(lists.is_null().to_numpy(zero_copy_only=False)))
        raise FileFormatError(f"{path} holds no vector in row {row} of column '{name}' (null).")
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    expected = int(lengths[0]) if dim is None else dim
    wrong = lengths != expected
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FileFormatError(
            f"{path} holds lists of different lengths in column '{name}': {expected} in the first "
            f"row, {lengths[row]} in row {first_row + row}."
        )
    if expected == 0:
        raise FileFormatError(f"{path} holds empty lists in column '{name}'.")
    values = lists.flatten()
    if values.null_count > 0:
        at = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        row = first_row + at // expected
        raise FileFormatError(f"{path} holds a null entry in row {row} of column '{name}'.")
    entries: VectorArray = values.to_numpy(zero_copy_only=False)
    return entries.reshape(-1, expected)
