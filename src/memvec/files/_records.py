"""Rows of a file that are more than vectors: with ids and metadata."""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError

VectorArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

WHERE = "read_blocks"
# Stands for every field that holds neither the vectors nor the ids.
ALL = "*"
# The names that `memvec export` gives, taken where no others are given.
_ID_NAMES = ("id", "ids")
METADATA_NAME = "metadata"


@dataclass(frozen=True, eq=False)
class VectorBlock:
    """Consecutive rows of a file.

    Attributes
    ----------
    first_row : int
        The number of the first row in the file.
    vectors : ndarray of shape (n_rows, dim)
        The vectors, in the type of the file.
    ids : list of int or str, or None
        The ids; None if the file has none.
    metadata : list of dict, or None
        The metadata; None if the file has none.
    """

    first_row: int
    vectors: VectorArray
    ids: list[Any] | None = None
    metadata: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def part(self, start: int, stop: int | None = None) -> VectorBlock:
        """Return some of the rows, counted from the first of the block."""
        return VectorBlock(
            self.first_row + start,
            self.vectors[start:stop],
            None if self.ids is None else self.ids[start:stop],
            None if self.metadata is None else self.metadata[start:stop],
        )


Blocks: TypeAlias = Iterator[VectorBlock]


class Fields(NamedTuple):
    """What is asked of a file: the names of the vectors, of the ids, of all that is metadata."""

    vectors: str | None = None
    ids: str | None = None
    metadata: tuple[str, ...] | None = None
    # The first so many rows; all where there are fewer.
    rows: int = sys.maxsize
    # Rows before this one are left out.
    first: int = 0
    vectors_only: bool = False
    # The function that errors name.
    where: str = WHERE


class Chosen(NamedTuple):
    """The fields of one file that hold ids and metadata."""

    ids: str | None
    metadata: tuple[str, ...]
    # Whether the metadata is one field that holds whole objects.
    objects: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys([*([self.ids] if self.ids else []), *self.metadata]))


def choose_fields(held: Sequence[str], vectors: str, asked: Fields, source: object) -> Chosen:
    """Return which fields of a file to read beside its vectors."""
    if asked.vectors_only:
        return Chosen(None, (), objects=False)
    others = [name for name in held if name != vectors]
    ids = id_name(others, vectors, asked)
    if ids is not None:
        _check_held(ids, "ids", others, source)
    if asked.metadata is None:
        objects = METADATA_NAME in others
        return Chosen(ids, (METADATA_NAME,) if objects else (), objects)
    if ALL in asked.metadata:
        return Chosen(ids, tuple(name for name in others if name != ids), objects=False)
    for name in asked.metadata:
        _check_held(name, "metadata", others, source)
    return Chosen(ids, asked.metadata, objects=False)


def id_name(held: Collection[str], vectors: str, asked: Fields) -> str | None:
    """Return the field of the ids: that asked for, or else one of the usual names, if there."""
    if asked.ids is not None or asked.vectors_only:
        return asked.ids
    return next((name for name in _ID_NAMES if name in held and name != vectors), None)


def _check_held(name: str, parameter: str, held: Sequence[str], source: object) -> None:
    if name not in held:
        names = ", ".join(dict.fromkeys(held)) or "nothing besides vectors"
        expected = f"the name of a field of {source}, which holds {names}"
        raise checks.bad_value(parameter, WHERE, expected, repr(name))


def block_of(
    first_row: int,
    vectors: VectorArray,
    columns: Mapping[str, list[Any]],
    chosen: Chosen,
    source: object,
) -> VectorBlock:
    """Return a block of vectors and of the columns beside them."""
    ids = None if chosen.ids is None else columns[chosen.ids]
    metadata = _metadata(columns, chosen, len(vectors), first_row, source)
    return VectorBlock(first_row, vectors, ids, metadata)


def _metadata(
    columns: Mapping[str, list[Any]], chosen: Chosen, n_rows: int, first_row: int, source: object
) -> list[dict[str, Any]] | None:
    """Return one dictionary a row from columns; what is null or NaN is left out."""
    if not chosen.metadata:
        return None
    if chosen.objects:
        [name] = chosen.metadata
        return [
            parsed_object(value, f"row {first_row + row}", source)
            for row, value in enumerate(columns[name])
        ]
    return [
        given_values(
            {name: columns[name][row] for name in chosen.metadata}, f"row {first_row + row}", source
        )
        for row in range(n_rows)
    ]


def given_values(row: Mapping[str, Any], place: str, source: object) -> dict[str, Any]:
    """Return the values of a row as JSON has them, without those that are null or NaN."""
    return {
        name: json_value(value, f"as '{name}' in {place}", source)
        for name, value in row.items()
        if not _is_missing(value)
    }


def _is_missing(value: object) -> bool:
    # NaN is how arrays of numbers say that there is none; JSON has no other word for it than null.
    return value is None or (isinstance(value, float) and math.isnan(value))


def parsed_object(value: object, place: str, source: object) -> dict[str, Any]:
    """Return metadata that is an object, or the JSON of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise FileFormatError(
                f"{source} has metadata in {place} that is not JSON: {error}."
            ) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FileFormatError(
            f"{source} has metadata in {place} that is not an object but {type(value).__name__}."
        )
    return value


def json_value(value: Any, place: str, source: object) -> Any:
    """Return a value of a column as JSON has it: dates become text, what is within them too."""
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [json_value(each, place, source) for each in value]
    if isinstance(value, dict):
        return {name: json_value(each, place, source) for name, each in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    got = str(value) if isinstance(value, float) else f"a value of the type {type(value).__name__}"
    raise FileFormatError(
        f"{source} holds {got} {place}. Metadata is what JSON holds: text, finite numbers, true, "
        "false, lists and objects; dates become text. Make it text or a number first, or leave it "
        "out."
    )
