"""JSON Lines: one object a line, with a vector, and perhaps an id and metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from memvec.errors import FileFormatError
from memvec.files._records import (
    ALL,
    METADATA_NAME,
    Blocks,
    Fields,
    VectorArray,
    VectorBlock,
    choose_fields,
    given_values,
    id_name,
    parsed_object,
)

_VECTOR_NAME = "vector"


class _Line(NamedTuple):
    """A line that is not empty, by its number from 1."""

    number: int
    values: dict[str, Any]


def jsonl_blocks(lines: Iterable[bytes], source: object, asked: Fields, block_rows: int) -> Blocks:
    """Yield the rows of lines of JSON; each has its own fields, and all or none have ids."""
    parsed = (_parsed(line, number, source) for number, line in enumerate(lines, 1) if line.strip())
    name = asked.vectors or _VECTOR_NAME
    first: _Line | None = None
    start = 0
    rows = islice(parsed, asked.rows)
    while some := list(islice(rows, block_rows)):
        if first is None:
            first = some[0]
            # A name that no line of the first block has is mistyped.
            choose_fields(list(chain(*(line.values for line in some))), name, asked, source)
        yield VectorBlock(
            start,
            _vectors(some, name, len(_vector(first, name, source)), source),
            _ids(some, first, name, asked, source),
            _metadata(some, name, asked, source),
        )
        start += len(some)


def _parsed(line: bytes, number: int, source: object) -> _Line:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{source} holds no JSON in line {number}: {error}.") from None
    if not isinstance(values, dict):
        raise FileFormatError(f"{source} holds no object in line {number}.")
    return _Line(number, values)


def _field(line: _Line, name: str, source: object) -> Any:
    if name not in line.values:
        held = ", ".join(line.values) or "nothing"
        raise FileFormatError(f"{source} has no '{name}' in line {line.number}; it holds {held}.")
    return line.values[name]


def _vector(line: _Line, name: str, source: object) -> list[Any]:
    value = _field(line, name, source)
    if not isinstance(value, list) or not value:
        raise FileFormatError(
            f"{source} holds no list of numbers as '{name}' in line {line.number}."
        )
    return value


def _vectors(lines: list[_Line], name: str, dim: int, source: object) -> VectorArray:
    for line in lines:
        length = len(_vector(line, name, source))
        if length != dim:
            raise FileFormatError(
                f"{source} holds vectors of different lengths: {dim} in the first line, "
                f"{length} in line {line.number}."
            )
    try:
        rows = np.array([line.values[name] for line in lines])
    except (ValueError, OverflowError):
        rows = np.array([None])  # lists within lists
    if rows.dtype.kind not in "fiu" or rows.ndim != 2:
        [wrong, *_] = [line for line in lines if not _is_numbers(line.values[name])] or lines
        raise FileFormatError(
            f"{source} holds values other than numbers as '{name}' in line {wrong.number}."
        )
    return _narrowed(rows)


def _is_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _narrowed(rows: VectorArray) -> VectorArray:
    """Return float32 where that loses nothing, as of vectors that were float32 when written."""
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    return narrow if np.array_equal(narrow, rows) else rows


def _ids(
    lines: list[_Line], first: _Line, vectors: str, asked: Fields, source: object
) -> list[Any] | None:
    """Return the id of each line, or None where no line has one."""
    usual = id_name(first.values, vectors, asked)
    if usual is not None:
        names = [id_name(line.values, vectors, asked) or usual for line in lines]
        return [_field(line, name, source) for line, name in zip(lines, names, strict=True)]
    for line in lines:
        name = id_name(line.values, vectors, asked)
        if name is not None:
            raise FileFormatError(
                f"{source} has '{name}' in line {line.number} and no id in line {first.number}; "
                "all lines need ids, or none."
            )
    return None


def _metadata(
    lines: list[_Line], vectors: str, asked: Fields, source: object
) -> list[dict[str, Any]] | None:
    """Return the metadata of each line, empty where it has none; None where no line has any."""
    if asked.metadata is None:
        if asked.vectors_only or not any(METADATA_NAME in line.values for line in lines):
            return None
        return [
            parsed_object(line.values.get(METADATA_NAME), f"line {line.number}", source)
            for line in lines
        ]
    return [_values(line, vectors, asked, source) for line in lines]


def _values(line: _Line, vectors: str, asked: Fields, source: object) -> dict[str, Any]:
    names = asked.metadata or ()
    if ALL in names:
        ids = id_name(line.values, vectors, asked)
        names = tuple(name for name in line.values if name not in (vectors, ids))
    held = {name: line.values[name] for name in names if name in line.values}
    return given_values(held, f"line {line.number}", source)
