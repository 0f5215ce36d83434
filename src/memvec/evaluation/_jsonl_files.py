"""JSON Lines: one object a line, with a vector, and perhaps an id and metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from memvec.errors import FileFormatError
from memvec.evaluation._records import (
    Blocks,
    Chosen,
    Fields,
    VectorArray,
    VectorBlock,
    choose_fields,
    parsed_object,
)

_VECTOR_NAME = "vector"


class _Line(NamedTuple):
    """A line that is not empty, by its number from 1."""

    number: int
    values: dict[str, Any]


def jsonl_blocks(lines: Iterable[bytes], source: object, asked: Fields, block_rows: int) -> Blocks:
    """Yield the rows of lines of JSON; the first line says which fields there are."""
    parsed = (_parsed(line, number, source) for number, line in enumerate(lines, 1) if line.strip())
    name = asked.vectors or _VECTOR_NAME
    chosen: Chosen | None = None
    dim = start = 0
    while some := list(islice(parsed, block_rows)):
        if chosen is None:
            first = some[0].values
            chosen = choose_fields(list(first), name, asked, source)
            dim = len(_vector(some[0], name, source))
        yield VectorBlock(
            start,
            _vectors(some, name, dim, source),
            None if chosen.ids is None else [_field(line, chosen.ids, source) for line in some],
            [_metadata(line, name, chosen, asked, source) for line in some]
            if chosen.metadata
            else None,
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
            f"{source} holds something else than numbers as '{name}' in line {wrong.number}."
        )
    return _narrowed(rows)


def _is_numbers(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _narrowed(rows: VectorArray) -> VectorArray:
    """Return float32 where that loses nothing, as of vectors that were float32 when written."""
    with np.errstate(over="ignore"):
        narrow = rows.astype(np.float32)
    return narrow if np.array_equal(narrow, rows) else rows


def _metadata(
    line: _Line, vectors: str, chosen: Chosen, asked: Fields, source: object
) -> dict[str, Any]:
    if chosen.objects:
        [name] = chosen.metadata
        return parsed_object(line.values.get(name), f"line {line.number}", source)
    if asked.metadata is not None and chosen.metadata != asked.metadata:  # all there are
        return {k: v for k, v in line.values.items() if k not in (vectors, chosen.ids)}
    return {name: line.values[name] for name in chosen.metadata if name in line.values}


__all__ = ["jsonl_blocks"]
