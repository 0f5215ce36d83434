"""Whether the arrays of a segment belong together."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from memvec.errors import CorruptIndexError, damaged
from memvec.types import IntArray

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]


def check_arrays(
    folder: Path, named: Set[str], files: Set[str], stored: Arrays, items: Arrays
) -> None:
    """Raise where arrays do not belong together, or are not those that the catalog names.

    Parameters
    ----------
    folder : Path
        The segment.
    named, files : set of str
        Its files, by the catalog and by its manifests.
    stored, items : mapping of str to ndarray
        The arrays of its index, and of the folder of items in it.
    """
    if not {"vectors", "keys"} <= stored.keys() or not {"keys", "places"} <= items.keys():
        raise CorruptIndexError(f"{folder} is not a segment: it lacks vectors or their keys.")
    if named != files:
        [name, *_] = sorted(named ^ files)
        raise damaged(folder, f"its files and the catalog differ by {name}")
    rows, keys, places = stored["keys"], items["keys"], items["places"]
    if not (_are_numbers(rows, keys, places) and _rise(keys) and _undo_each_other(rows, places)):
        raise damaged(folder, "its keys do not belong to its vectors")
    if len(rows) != len(stored["vectors"]) or len(rows) != len(keys):
        raise damaged(folder, "it has not as many keys as vectors")


def _are_numbers(*arrays: IntArray) -> bool:
    return all(array.dtype == np.int64 and array.ndim == 1 for array in arrays)


def _rise(keys: IntArray) -> bool:
    return not len(keys) or bool(keys[0] >= 0 and (keys[1:] > keys[:-1]).all())


def _undo_each_other(rows: IntArray, places: IntArray) -> bool:
    """Return whether each of two arrays of row numbers is the other's inverse."""
    if len(rows) != len(places):
        return False
    inside = all(((one >= 0) & (one < len(rows))).all() for one in (rows, places))
    return inside and bool((places[rows] == np.arange(len(rows))).all())
