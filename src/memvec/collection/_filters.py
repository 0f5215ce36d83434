"""Filters on metadata, as parameterised SQL and as bitmaps of rows."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from memvec import checks
from memvec.cache import Cache
from memvec.collection._catalog import Catalog
from memvec.collection._naming import MovedError
from memvec.collection._segment import Segment
from memvec.collection._state import Part, State
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.types import BoolArray

# SQLite's own limits, a stack of 100 for its parser and 1,000 terms, are met by nobody with these.
_MOST_CONDITIONS = 200
_DEEPEST = 8
# What is kept of segments and filters, in bytes: a row is a byte.
_MOST_KEPT = 64 << 20
# Sequences that are no lists of values.
_TEXT = (str, bytes, bytearray, memoryview)
# Names that SQLite's paths cannot spell.
_UNSPEAKABLE = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')


class Condition(NamedTuple):
    """A condition on the column `metadata`; its value is 0 or 1, never NULL."""

    sql: str
    parameters: list[Any]


def compile_filter(where: object, caller: str) -> Condition:
    """Return the SQL of a filter; nothing of it but names of functions comes from the user."""
    compiled = _Compiler(caller).filter(where, depth=0)
    return Condition(f"({compiled.sql})", compiled.parameters)


class _Compiler:
    def __init__(self, caller: str) -> None:
        self._caller = caller
        self._n_conditions = 0

    def error(
        self, expected: str, got: object, kind: type[Exception] = InvalidValueError
    ) -> Exception:
        """Return what says how the filter must be."""
        return kind(checks.message("where", self._caller, expected, got))

    def filter(self, where: object, depth: int) -> Condition:
        """Compile a mapping of fields and of $and, $or, $not."""
        if not isinstance(where, Mapping):
            raise self.error("a mapping of fields to conditions", _shown(where), InvalidTypeError)
        if depth > _DEEPEST:
            raise self.error(f"at most {_DEEPEST} levels deep", "more")
        parts = [self._entry(name, value, depth) for name, value in where.items()]
        return _joined(parts, " AND ", "1")

    def _entry(self, name: object, value: object, depth: int) -> Condition:
        if not isinstance(name, str):
            raise self.error("a mapping of fields to conditions", _shown(name), InvalidTypeError)
        if name in ("$and", "$or"):
            if not isinstance(value, Sequence) or isinstance(value, _TEXT) or not value:
                raise self.error(f"a list of filters for {name!r}", _shown(value), InvalidTypeError)
            parts = [self.filter(part, depth + 1) for part in value]
            return _joined(parts, " AND " if name == "$and" else " OR ", "1")
        if name == "$not":
            return _negated(self.filter(value, depth + 1))
        if name.startswith("$") or _UNSPEAKABLE.search(name):
            expected = (
                "free of unknown operators, and of names with quotes or backslashes, control "
                "characters and lone surrogates"
            )
            raise self.error(expected, ascii(name))
        path = f'$."{name}"'
        if isinstance(value, Mapping):
            return self._operators(path, value, depth + 1)
        return self._comparison(path, "$eq", value)

    def _operators(self, path: str, conditions: Mapping[Any, Any], depth: int) -> Condition:
        """Compile what stands behind a field: all of its operators hold."""
        if depth > _DEEPEST:
            raise self.error(f"at most {_DEEPEST} levels deep", "more")
        if not conditions:
            raise self.error("made of operators, such as {'$gte': 2020}", "{}")
        parts = []
        for operator, value in conditions.items():
            if operator == "$not":
                if not isinstance(value, Mapping):
                    expected = "a mapping of operators for '$not', such as {'$gte': 2020}"
                    raise self.error(expected, _shown(value), InvalidTypeError)
                parts.append(_negated(self._operators(path, value, depth + 1)))
            else:
                parts.append(self._comparison(path, operator, value))
        return _joined(parts, " AND ", "1")

    def _comparison(self, path: str, operator: object, value: object) -> Condition:
        self._n_conditions += 1
        if self._n_conditions > _MOST_CONDITIONS:
            raise self.error(f"of at most {_MOST_CONDITIONS} conditions; use $in", "more")
        match operator:
            case "$eq" | "$ne":
                equal = self._among(path, [value])
                return equal if operator == "$eq" else _negated(equal)
            case "$in" | "$nin":
                if not isinstance(value, Sequence | set | frozenset) or isinstance(value, _TEXT):
                    raise self.error(f"a list for {operator!r}", _shown(value), InvalidTypeError)
                among = self._among(path, list(value))
                return among if operator == "$in" else _negated(among)
            case "$exists":
                if not isinstance(value, bool):
                    raise self.error("True or False for '$exists'", _shown(value), InvalidTypeError)
                there = Condition("json_type(metadata, ?) IS NOT NULL", [path])
                return there if value else _negated(there)
            case str() if operator in _ORDERS:
                return self._order(path, operator, value)
        known = "one of $eq $ne $gt $gte $lt $lte $in $nin $exists $and $or $not"
        raise self.error(f"made of operators, each {known}", _shown(operator))

    def _order(self, path: str, operator: str, value: object) -> Condition:
        kinds, text = self._plain(value)
        if kinds not in (_NUMBERS, _TEXTS):
            raise self.error(
                f"a number or a string for {operator!r}", _shown(value), InvalidTypeError
            )
        # SQLite reads the number asked for from JSON, too: both are rounded in the same way.
        sql = f"json_type(metadata, ?) IN {kinds} AND json_extract(metadata, ?) {_ORDERS[operator]}"
        return _known(f"{sql} json_extract(?, '$')", [path, path, text])

    def _among(self, path: str, values: list[Any]) -> Condition:
        """Compile equality with one of some values, numbers among numbers, texts among texts."""
        by_kind: dict[str, list[str]] = {}
        for value in values:
            kinds, text = self._plain(value)
            by_kind.setdefault(kinds, []).append(text)
        parts = []
        for kinds, texts in by_kind.items():
            sql, parameters = f"json_type(metadata, ?) IN {kinds}", [path]
            if kinds in (_NUMBERS, _TEXTS):
                sql += " AND json_extract(metadata, ?) IN (SELECT value FROM json_each(?))"
                parameters += [path, f"[{','.join(texts)}]"]
            parts.append(_known(sql, parameters))
        return _joined(parts, " OR ", "0")

    def _plain(self, value: object) -> tuple[str, str]:
        """Return the kinds of JSON that a value may equal, and the value as JSON."""
        expected = "compared with strings, finite numbers, booleans and None"
        match value:
            case None:
                return "('null')", "null"
            case bool():
                return ("('true')", "true") if value else ("('false')", "false")
            case str() if "\0" not in value:
                try:
                    value.encode()
                except UnicodeEncodeError:
                    raise self.error(expected, ascii(value)) from None
                return _TEXTS, json.dumps(value, ensure_ascii=False)
            case int():
                # Read back as a float where it has more than 64 bits; beyond floats, all are alike.
                if abs(value) > sys.float_info.max:
                    raise self.error(expected, _shown(value))
                return _NUMBERS, str(int(value))
            case float() if math.isfinite(value):
                return _NUMBERS, repr(float(value))
            case np.integer() | np.floating() | np.bool_():
                return self._plain(value.item())
        raise self.error(expected, _shown(value), InvalidTypeError)


def _shown(value: object) -> str:
    """Return what an error says of a value."""
    # Python spells out integers of at most so many digits, alone or within something else.
    limit = sys.get_int_max_str_digits()
    try:
        return repr(value)
    except ValueError:
        return f"{type(value).__name__} with an integer of more than {limit:,} digits"


_NUMBERS = "('integer', 'real')"
_TEXTS = "('text')"
_ORDERS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


def _known(sql: str, parameters: list[Any]) -> Condition:
    """Return a condition that is false where a field is missing, instead of unknown."""
    return Condition(f"coalesce({sql}, 0)", parameters)


def _negated(condition: Condition) -> Condition:
    return Condition(f"NOT ({condition.sql})", condition.parameters)


def _joined(parts: list[Condition], by: str, otherwise: str) -> Condition:
    if not parts:
        return Condition(otherwise, [])
    sql = by.join(f"({part.sql})" for part in parts)
    return Condition(sql, [value for part in parts for value in part.parameters])


class _Kept(NamedTuple):
    """What a filter lets pass of the rows of a part that are alive."""

    alive: BoolArray
    passing: BoolArray


_Name: TypeAlias = tuple[str, str, int]


class Bitmaps:
    """Which rows of each part pass which filter.

    Metadata never changes under a key, so the bitmap of a segment holds as long as the segment;
    that of the waiting rows holds for one number of changes.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._bitmaps: Cache[_Name, BoolArray] = Cache(_MOST_KEPT, lambda one: int(one.nbytes))
        # Of rows that are alive, which are told by their array and hold it.
        self._kept: Cache[tuple[_Name, int], _Kept] = Cache(
            _MOST_KEPT, lambda kept: int(kept.alive.nbytes + kept.passing.nbytes)
        )

    def passing(self, state: State, where: object, caller: str) -> list[BoolArray]:
        """Return which rows of each part pass and are alive.

        Raises
        ------
        MovedError
            If the catalog has forgotten some rows of the state, because they were replaced or
            deleted, and then sealed or compacted away.
        """
        if where is None:
            return [part.alive for part in state.parts]
        condition = compile_filter(where, caller)
        name = json.dumps([condition.sql, condition.parameters])
        return [self._passing(part, state.change, condition, name) for part in state.parts]

    def _passing(self, part: Part[Any], change: int, condition: Condition, name: str) -> BoolArray:
        """Return which rows of a part pass and are alive; the same array as long as both last."""
        if isinstance(part.rows, Segment):
            key = (name, "segment", part.rows.number)
        else:
            key = (name, "waiting", change)

        def made() -> _Kept:
            bitmap = self._bitmaps.get(key, lambda: _bitmap(self._catalog, part, condition))
            return _Kept(part.alive, part.alive & bitmap)

        return self._kept.get((key, id(part.alive)), made).passing


def _bitmap(catalog: Catalog, part: Part[Any], condition: Condition) -> BoolArray:
    bitmap = np.zeros(len(part.keys), dtype=bool)
    if len(bitmap):
        first, last = int(part.keys[0]), int(part.keys[-1])
        sql = f"SELECT key FROM items WHERE key BETWEEN ? AND ? AND {condition.sql}"
        with catalog.lock:
            if not _is_named(catalog, part):
                raise MovedError
            found = catalog.rows(sql, [first, last, *condition.parameters])
        keys = np.array([key for (key,) in found], dtype=np.int64)
        _, rows = part.find(keys)
        bitmap[rows] = True
    return bitmap


def _is_named(catalog: Catalog, part: Part[Any]) -> bool:
    """Tell whether the catalog has all items of a part: they go when it goes, and not before."""
    if isinstance(part.rows, Segment):
        sql, what = "SELECT 1 FROM segments WHERE segment = ?", part.rows.number
    else:
        sql, what = "SELECT 1 FROM waiting WHERE first_key = ?", int(part.keys[0])
    return bool(catalog.rows(sql, [what]))
