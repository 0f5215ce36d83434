"""Arrays and settings of an index that are not what an index saves, drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzz import ANY_ANSWER, REFUSED, RIGHT_OR_REFUSED
from fuzz.damage import Rng

Arrays = dict[str, np.ndarray]
Meta = dict[str, Any]

# Arrays whose values are places in other arrays, or ids.
INDEXES = (
    "keys",
    "offsets",
    "run_offsets",
    "run_rows",
    "group_offsets",
    "calibration_keys",
    "calibration_queries",
    "calibration_ranks",
)


def place_out_of_range(arrays: Arrays, meta: Meta, rng: Rng) -> str:
    """Set some places to what no array of the index has room for."""
    name, array = _drawn(arrays, rng, INDEXES[:-2])
    limits = np.iinfo(array.dtype)
    beyond = len(arrays["vectors"]) + int(rng.integers(1000))
    # −1 − row stands for the guest of that row.
    below = -1 - beyond if name == "run_rows" else -1 - int(rng.integers(1000))
    value = [beyond, below, limits.min, limits.max][int(rng.integers(4))]
    _set_some(array, value, rng)
    return f"{name} holds {value}"


def other_place(arrays: Arrays, meta: Meta, rng: Rng) -> str:
    """Set some places to others that there are, or shuffle them."""
    name, array = _drawn(arrays, rng, INDEXES)
    way = int(rng.integers(4))
    if way == 0:
        _set_some(array, int(rng.integers(len(arrays["vectors"]))), rng)
    elif way == 1:
        rng.shuffle(array)
    elif way == 2:
        array[:] = array[::-1].copy()
    else:
        array[:] = np.roll(array, 1)
    return f"{name}: {['set', 'shuffled', 'reversed', 'rolled'][way]}"


def other_shape(arrays: Arrays, meta: Meta, rng: Rng) -> str:
    """Lengthen, shorten or turn an array, or leave it out."""
    name, array = _drawn(arrays, rng, None)
    changed: list[np.ndarray | None] = [
        array[:-1],
        array[1:],
        array[:0],
        np.concatenate([array, array[-1:]]),
        np.concatenate([array] * 3),
        array[np.newaxis],
        np.array(array.flat[0]),
        None,
    ]
    if array.ndim > 1:
        changed += [array[:, :-1], array.T, array.reshape(-1), np.concatenate([array, array], 1)]
    way = int(rng.integers(len(changed)))
    new = changed[way]
    if new is None:
        del arrays[name]
    else:
        arrays[name] = np.ascontiguousarray(new) if new.ndim else new
    return f"{name} of shape {array.shape} becomes {None if new is None else new.shape}"


def other_type(arrays: Arrays, meta: Meta, rng: Rng) -> str:
    """Give an array another type of numbers."""
    name, array = _drawn(arrays, rng, None)
    others = [np.float64, np.float16, np.int64, np.int32, np.uint8, ">f4", ">i8", "S3", bool, "c8"]
    others = [np.dtype(other) for other in others if np.dtype(other) != array.dtype]
    new = others[int(rng.integers(len(others)))]
    arrays[name] = np.zeros(array.shape, new) if new.kind == "S" else array.astype(new)
    return f"{name} of type {array.dtype} becomes {new}"


def strange_number(arrays: Arrays, meta: Meta, rng: Rng) -> str:
    """Set some numbers to what arithmetic stumbles over."""
    names = [name for name, array in arrays.items() if array.dtype.kind == "f" and array.size]
    name, array = _drawn(arrays, rng, names)
    value = float(rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 3e38, 1e-45]))
    _set_some(array, value, rng)
    return f"{name} holds {value}"


def strange_setting(arrays: Arrays, meta: Meta, rng: Rng) -> str:
    """Replace one setting, or a block of them, or leave it out, or add another."""
    places = list(_places(meta))
    holder, key = places[int(rng.integers(len(places)))]
    way = int(rng.integers(10))
    if way == 0:
        del holder[key]
        return f"{key} is left out"
    if way == 1 and isinstance(holder, dict):
        holder["colour"] = "red"
        return f"a setting beside {key}"
    strange = [None, "x", "", -1, 0, 1, 2, 10**30, -(10**30), 1e308, 1e-320, 0.5, 7.5, [], {}, True]
    strange += [[[[]]], {"a": {"b": 1}}, "auto", "inf", "nan", "1", ["x"], "\x1b[31m", 65, 4096]
    holder[key] = strange[int(rng.integers(len(strange)))]
    return f"{key} = {holder[key]!r}"


def _places(meta: Meta) -> Any:
    for key, value in meta.items():
        yield meta, key
        if isinstance(value, dict):
            yield from _places(value)


def _drawn(arrays: Arrays, rng: Rng, names: Any) -> tuple[str, np.ndarray]:
    held = [name for name in names or arrays if name in arrays and arrays[name].size]
    name = held[int(rng.integers(len(held)))]
    return name, arrays[name]


def _set_some(array: np.ndarray, value: float, rng: Rng) -> None:
    if array.dtype.kind in "iu":
        value = min(max(int(value), np.iinfo(array.dtype).min), np.iinfo(array.dtype).max)
    n_set = 1 if rng.random() < 0.7 else array.size
    array.reshape(-1)[rng.choice(array.size, n_set, replace=False)] = value


@dataclass(frozen=True)
class Forgery:
    """A way to forge, and what may come of it."""

    forge: Callable[[Arrays, Meta, Rng], str]
    accepts: frozenset[str] = RIGHT_OR_REFUSED


# What is in range and of the right shape cannot be told from what an index may hold: then an answer
# may change, and that is all.
FORGERIES = {
    "place out of range": Forgery(place_out_of_range, frozenset({REFUSED})),
    "other place": Forgery(other_place, ANY_ANSWER),
    "other shape": Forgery(other_shape),
    "other type": Forgery(other_type),
    "strange number": Forgery(strange_number, ANY_ANSWER),
    "strange setting": Forgery(strange_setting, ANY_ANSWER),
}
