"""Rows of a file that are more than vectors: with ids and metadata."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import FileFormatError, InvalidValueError

VectorArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]

WHERE = "read_blocks"
# Stands for every field that holds neither the vectors nor the ids.
ALL = "*"
# The names that `memvec export` gives, taken where no others are given.
_ID_NAMES = ("id", "ids")
_METADATA_NAME = "metadata"


@dataclass(frozen=True, eq=False)
class VectorBlock:
    """Consecutive rows of a file.

    Attributes
    ----------
    first_row : int
        The number of the first of them in the file.
    vectors : ndarray of shape (n_rows, dim)
        In the type they are stored in.
    ids : list of int or str, or None
        None where the file names none.
    metadata : list of dict, or None
        None where the file holds none.
    """

    first_row: int
    vectors: VectorArray
    ids: list[Any] | None = None
    metadata: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.vectors)


Blocks: TypeAlias = Iterator[VectorBlock]


class Fields(NamedTuple):
    """The names asked for: of the vectors, of the ids, of everything that is metadata."""

    vectors: str | None
    ids: str | None
    metadata: tuple[str, ...] | None


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
    others = [name for name in held if name != vectors]
    ids = asked.ids
    if ids is None:
        ids = next((name for name in _ID_NAMES if name in others), None)
    else:
        _check_held(ids, "ids", others, source)
    if asked.metadata is None:
        objects = _METADATA_NAME in others
        return Chosen(ids, (_METADATA_NAME,) if objects else (), objects)
    if ALL in asked.metadata:
        return Chosen(ids, tuple(name for name in others if name != ids), objects=False)
    for name in asked.metadata:
        _check_held(name, "metadata", others, source)
    return Chosen(ids, asked.metadata, objects=False)


def _check_held(name: str, parameter: str, held: Sequence[str], source: object) -> None:
    if name not in held:
        names = ", ".join(held) or "nothing besides vectors"
        expected = f"the name of a field of {source}, which holds {names}"
        raise InvalidValueError(checks.message(parameter, WHERE, expected, repr(name)))


def metadata_of(
    columns: Mapping[str, Sequence[Any]],
    chosen: Chosen,
    n_rows: int,
    first_row: int,
    source: object,
) -> list[dict[str, Any]] | None:
    """Return one dictionary a row from columns; what is null is left out."""
    if not chosen.metadata:
        return None
    if chosen.objects:
        [name] = chosen.metadata
        return [
            parsed_object(value, f"row {first_row + row}", source)
            for row, value in enumerate(columns[name])
        ]
    return [
        {
            name: json_value(columns[name][row])
            for name in chosen.metadata
            if columns[name][row] is not None
        }
        for row in range(n_rows)
    ]


def parsed_object(value: object, place: str, source: object) -> dict[str, Any]:
    """Return metadata that is an object, or the JSON of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise FileFormatError(
                f"{source} holds no JSON as metadata in {place}: {error}."
            ) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FileFormatError(
            f"{source} holds metadata in {place} that is no object but {type(value).__name__}."
        )
    return value


def json_value(value: Any) -> Any:
    """Return a value of a column as JSON has it: dates become text."""
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    return value


__all__ = [
    "ALL",
    "WHERE",
    "Blocks",
    "Chosen",
    "Fields",
    "VectorBlock",
    "choose_fields",
    "json_value",
    "metadata_of",
    "parsed_object",
]
