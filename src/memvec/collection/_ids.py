"""Checks of what comes with vectors: ids and metadata."""

from __future__ import annotations

import json
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from memvec import checks
from memvec.errors import InvalidTypeError, InvalidValueError

Id: TypeAlias = int | str
Ids: TypeAlias = Sequence[Id] | np.ndarray[Any, Any]
Metadata: TypeAlias = dict[str, Any]

LARGEST_ID = 2**63 - 1
# Limits to what one item may bring, in bytes of UTF-8. SQLite stores values of up to 10⁹ bytes.
LONGEST_ID = 1 << 16
LARGEST_METADATA = 1 << 26
# SQLite ends a string at its first NUL, and would take what differs behind it for equal.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def checked_ids(ids: Ids | None, where: str, *, n_rows: int | None = None) -> list[Id]:
    """Return ids as plain integers and strings, each once."""
    expected = "a sequence of integers or strings"
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise InvalidTypeError(checks.message("ids", where, expected, repr(ids)))
    plain = [checked_id(value, where) for value in ids]
    if n_rows is not None and len(plain) != n_rows:
        got = f"{len(plain)} ids"
        raise InvalidValueError(checks.message("ids", where, f"{n_rows}, one a vector", got))
    if len(set(plain)) < len(plain):
        [(twice, _)] = Counter(plain).most_common(1)
        got = f"{twice!r} twice"
        raise InvalidValueError(checks.message("ids", where, "free of repeated ids", got))
    return plain


def checked_id(value: object, where: str) -> Id:
    """Return an id as a plain integer of 64 bits or as a string."""
    if isinstance(value, str):
        # A plain str even if it is numpy.str_, and one that SQLite compares to its end.
        with suppress(UnicodeEncodeError):
            if "\0" not in value:
                return _checked_length(value.encode(), where)
        expected = "text without NUL characters and lone surrogates"
        raise InvalidValueError(checks.message("ids", where, expected, ascii(value)))
    expected = "a sequence of integers or strings"
    if isinstance(value, bool | np.bool_):
        raise InvalidTypeError(checks.message("ids", where, expected, repr(value)))
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidTypeError(checks.message("ids", where, expected, repr(value))) from None
    if not -LARGEST_ID - 1 <= number <= LARGEST_ID:
        # Python spells out integers of a limited number of digits.
        got = number if number.bit_length() < 1000 else f"one of {number.bit_length()} bits"
        raise InvalidValueError(checks.message("ids", where, "integers of 64 bits", got))
    return number


def _checked_length(name: bytes, where: str) -> str:
    if len(name) > LONGEST_ID:
        expected = f"text of at most {LONGEST_ID:,} bytes"
        raise InvalidValueError(checks.message("ids", where, expected, f"{len(name):,} bytes"))
    return name.decode()


def checked_metadata(
    metadata: Sequence[Mapping[str, Any] | None] | None,
    n_rows: int,
    where: str,
    *,
    first_row: int = 0,
) -> list[str]:
    """Return the metadata of each row as JSON; errors count rows from `first_row`."""
    if metadata is None:
        return ["{}"] * n_rows
    expected = f"a sequence of {n_rows} mappings or None, one a vector"
    if isinstance(metadata, str | bytes | Mapping) or not isinstance(metadata, Sequence):
        got = type(metadata).__name__
        raise InvalidTypeError(checks.message("metadata", where, expected, got))
    if len(metadata) != n_rows:
        raise InvalidValueError(checks.message("metadata", where, expected, len(metadata)))
    return [_as_json(row, number, where) for number, row in enumerate(metadata, first_row)]


def _as_json(row: object, number: int, where: str) -> str:
    """Return one row's metadata as JSON that comes back equal, names in the order given."""
    if row is None:
        return "{}"
    expected = "mappings that come back equal from JSON, free of NUL characters"
    if not isinstance(row, Mapping):
        got = f"{type(row).__name__} in row {number}"
        raise InvalidTypeError(checks.message("metadata", where, expected, got))
    plain = dict(row)
    try:
        # As UTF-8 and not escaped, so that SQLite compares names byte by byte with those asked.
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
        equal = json.loads(text) == plain
    except TypeError as error:
        got = f"{error} in row {number}"
        raise InvalidTypeError(checks.message("metadata", where, expected, got)) from None
    except (ValueError, RecursionError) as error:
        got = f"{error} in row {number}"
        raise InvalidValueError(checks.message("metadata", where, expected, got)) from None
    if size > LARGEST_METADATA:
        expected = f"at most {LARGEST_METADATA:,} bytes of JSON for each vector"
        got = f"{size:,} bytes in row {number}"
        raise InvalidValueError(checks.message("metadata", where, expected, got))
    if not equal or _NUL.search(text):
        got = f"{plain!r} in row {number}"
        raise InvalidValueError(checks.message("metadata", where, expected, got))
    return text
