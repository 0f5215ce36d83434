"""Between Qdrant's points and memvec's items: ids, payloads, filters."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from memvec.server._failures import ApiError

# Where a payload is kept whole if filters must reach into it.
_WHOLE = "_payload"
_RANGES = {"gt": "$gt", "gte": "$gte", "lt": "$lt", "lte": "$lte"}
_LARGEST_ID = 2**63 - 1


def unsupported(what: str) -> ApiError:
    """Return the error of a part of Qdrant's API that is not spoken here."""
    return ApiError(501, "not_supported", f"memvec does not support {what} of the API of Qdrant.")


def point_id(given: Any) -> int | str:
    """Return the id of an item: an integer, or a UUID in its usual spelling."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= _LARGEST_ID:
        return given
    if isinstance(given, str):
        try:
            return str(uuid.UUID(given))
        except ValueError:
            pass
    text = f"{given!r} is not a valid point ID: an unsigned integer or a UUID."
    raise ApiError(400, "invalid_value", text[:300])


def metadata_of(payload: Any) -> dict[str, Any]:
    """Return what is stored for a payload: its nested fields, too, by names with dots.

    Examples
    --------
    >>> metadata_of({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2, '_payload': {'a': 1, 'b': {'c': 2}}}
    """
    if payload is None:
        return {}
    if not isinstance(payload, dict):
        raise ApiError(400, "invalid_value", "A payload must be an object.")
    nested = any(isinstance(value, dict) for value in payload.values()) or _WHOLE in payload
    return {**dict(_flat(payload)), _WHOLE: payload} if nested else payload


def payload_of(metadata: dict[str, Any], wanted: Any = True) -> dict[str, Any] | None:
    """Return the payload that was stored, or some of its fields."""
    payload: dict[str, Any] = metadata.get(_WHOLE, metadata)
    if wanted is True:
        return payload
    if wanted in (False, None):
        return None
    if isinstance(wanted, dict) and "exclude" in wanted:
        left_out = _names(wanted["exclude"])
        return {name: one for name, one in payload.items() if name not in left_out}
    named = _names(wanted.get("include", []) if isinstance(wanted, dict) else wanted)
    return {name: one for name, one in payload.items() if name in named}


def _names(given: Any) -> list[str]:
    """Return the names of fields, or refuse what is none."""
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ApiError(400, "invalid_value", "The fields of a payload are named in a list.")
    return given


def _flat(payload: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in payload.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def where_of(given: Any) -> dict[str, Any] | None:
    """Return a filter of Qdrant as memvec has it.

    Examples
    --------
    >>> where_of({"must": [{"key": "year", "range": {"gte": 2020}}],
    ...           "must_not": [{"key": "tag", "match": {"any": ["a", "b"]}}]})
    {'$and': [{'year': {'$gte': 2020}}, {'$not': {'tag': {'$in': ['a', 'b']}}}]}
    """
    if not given:
        return None
    if not isinstance(given, dict) or set(given) - {"must", "should", "must_not"}:
        raise unsupported("this filter")
    must = [_condition(one) for one in _listed(given.get("must"))]
    must += [{"$not": _condition(one)} for one in _listed(given.get("must_not"))]
    should = [_condition(one) for one in _listed(given.get("should"))]
    if should:
        must.append({"$or": should})
    return {"$and": must} if must else None


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


def _condition(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise unsupported("this filter")
    if "is_null" in given:
        return {_key(given["is_null"]): {"$eq": None}}
    if "is_empty" in given:
        return {_key(given["is_empty"]): {"$exists": False}}
    if "key" in given:
        return {_key(given): _comparison(given)}
    return where_of(given) or {}


def _key(given: Any) -> str:
    """Return the field that a condition is about."""
    if not isinstance(given, dict) or not isinstance(given.get("key"), str):
        raise ApiError(400, "invalid_value", "A condition names its field: {'key': NAME}.")
    key: str = given["key"]
    return key


def _comparison(given: dict[str, Any]) -> dict[str, Any]:
    match, limits = given.get("match"), given.get("range")
    if isinstance(match, dict):
        for name, operator in (("value", "$eq"), ("any", "$in"), ("except", "$nin")):
            if name in match:
                return {operator: match[name]}
    if isinstance(limits, dict):
        given_limits = {name: one for name, one in limits.items() if one is not None}
        numbers = all(isinstance(one, int | float) for one in given_limits.values())
        if numbers and set(given_limits) <= set(_RANGES):
            return {_RANGES[name]: one for name, one in given_limits.items()}
    names = ", ".join(name for name, one in given.items() if name != "key" and one is not None)
    raise unsupported(f"the condition {names!r}")
