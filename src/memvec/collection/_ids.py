"""Checks of what comes with vectors: ids and metadata."""

from __future__ import annotations

import json
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from memvec import checks

Id: TypeAlias = int | str
Ids: TypeAlias = Sequence[Id] | np.ndarray[Any, Any]
Metadata: TypeAlias = dict[str, Any]
Rows: TypeAlias = Mapping[str, Any] | Iterable[Mapping[str, Any] | None]

LARGEST_ID = 2**63 - 1
# Limits to what one item may bring, in bytes of UTF-8. SQLite stores values of up to 10⁹ bytes.
LONGEST_ID = 1 << 16
LARGEST_METADATA = 1 << 26
# SQLite ends a string at its first NUL, and would take what differs behind it for equal.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def is_one_id(ids: object) -> TypeGuard[Id]:
    """Tell whether a bare id is given, and not a sequence of them."""
    return isinstance(ids, str | int | np.integer) and not isinstance(ids, bool)


def checked_ids(ids: object, where: str, *, n_rows: int | None = None) -> list[Id]:
    """Return ids as plain integers and strings, each once."""
    expected = "a sequence of integers or strings"
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise checks.bad_type("ids", where, expected, repr(ids))
    plain = [checked_id(value, where) for value in ids]
    if n_rows is not None and len(plain) != n_rows:
        raise checks.bad_value("ids", where, f"{n_rows}, one per vector", f"{len(plain)} ids")
    if len(set(plain)) < len(plain):
        [(twice, _)] = Counter(plain).most_common(1)
        raise checks.bad_value("ids", where, "free of repeated ids", f"{twice!r} twice")
    return plain


def checked_id(value: object, where: str) -> Id:
    """Return an id as a plain integer of 64 bits or as a string."""
    if isinstance(value, str):
        # A plain str even if it is numpy.str_, and one that SQLite compares to its end.
        with suppress(UnicodeEncodeError):
            if "\0" not in value:
                return _checked_length(value.encode(), where)
        expected = "text without NUL characters and lone surrogates"
        raise checks.bad_value("ids", where, expected, ascii(value))
    expected = "a sequence of integers or strings"
    if isinstance(value, bool | np.bool_):
        raise checks.bad_type("ids", where, expected, repr(value))
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise checks.bad_type("ids", where, expected, repr(value)) from None
    if not -LARGEST_ID - 1 <= number <= LARGEST_ID:
        # Python spells out integers of a limited number of digits.
        got = number if number.bit_length() < 1000 else f"one of {number.bit_length()} bits"
        raise checks.bad_value("ids", where, "integers of 64 bits", got)
    return number


def _checked_length(name: bytes, where: str) -> str:
    if len(name) > LONGEST_ID:
        expected = f"text of at most {LONGEST_ID:,} bytes"
        raise checks.bad_value("ids", where, expected, f"{len(name):,} bytes")
    return name.decode()


def checked_metadata(
    metadata: object,
    n_rows: int,
    where: str,
    *,
    first_row: int = 0,
) -> list[str]:
    """Return the metadata of each row as JSON; errors count rows from `first_row`."""
    if metadata is None:
        return ["{}"] * n_rows
    expected = f"a sequence of {n_rows} mappings or None, one per vector"
    if isinstance(metadata, str | bytes | Mapping) or not isinstance(metadata, Sequence):
        raise checks.bad_type("metadata", where, expected, type(metadata).__name__)
    if len(metadata) != n_rows:
        raise checks.bad_value("metadata", where, expected, len(metadata))
    return [_as_json(row, number, where) for number, row in enumerate(metadata, first_row)]


def _as_json(row: object, number: int, where: str) -> str:
    """Return one row's metadata as JSON that comes back equal, names in the order given."""
    if row is None:
        return "{}"
    expected = "mappings that come back equal from JSON, free of NUL characters"
    if not isinstance(row, Mapping):
        raise checks.bad_type("metadata", where, expected, f"{type(row).__name__} in row {number}")
    plain = dict(row)
    try:
        try:
            text = _dumped(plain)
        except TypeError:  # NumPy's values may be all that JSON has no words for
            plain = _without_numpy(plain)
            text = _dumped(plain)
        size = len(text.encode())
        equal = json.loads(text) == plain
    except TypeError as error:
        raise checks.bad_type("metadata", where, expected, f"{error} in row {number}") from None
    except (ValueError, RecursionError) as error:
        raise checks.bad_value("metadata", where, expected, f"{error} in row {number}") from None
    if size > LARGEST_METADATA:
        expected = f"at most {LARGEST_METADATA:,} bytes of JSON for each vector"
        raise checks.bad_value("metadata", where, expected, f"{size:,} bytes in row {number}")
    if not equal or _NUL.search(text):
        raise checks.bad_value("metadata", where, expected, f"{plain!r} in row {number}")
    return text


def _dumped(plain: Metadata) -> str:
    # As UTF-8 and not escaped, so that SQLite compares names byte by byte with those asked.
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)


def _without_numpy(value: Any) -> Any:
    """Return a value with Python's numbers and lists in place of NumPy's, however deep."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: _without_numpy(inner) for name, inner in value.items()}
    return [_without_numpy(inner) for inner in value] if isinstance(value, list) else value
