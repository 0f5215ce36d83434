"""An index in a pickle: by the folder that holds it, or with everything in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from memvec.errors import CorruptIndexError
from memvec.index._files import assembled, contents_of, load_parts
from memvec.index._parts import IndexParts
from memvec.storage import MANIFEST


def is_index(folder: Path) -> bool:
    """Tell whether there is an index in a folder still."""
    return (folder / MANIFEST).is_file()


def state_of(parts: IndexParts) -> tuple[str, str]:
    """Return what tells an index from others that may take its place in a folder."""
    return parts.evidence.state, parts.evidence.calibrated


def opened_again(folder: str, state: tuple[str, str]) -> IndexParts:
    """Return what a folder holds, if it is what was pickled."""
    parts, _ = load_parts(folder, verify=False)
    if state_of(parts) != state:
        raise CorruptIndexError(
            f"{folder} holds a different index than when it was pickled: it was replaced since."
        )
    return parts


def by_value(parts: IndexParts) -> tuple[dict[str, Any], str]:
    """Return the arrays and settings of an index, to be pickled."""
    arrays, meta = contents_of(parts)
    return {name: np.asarray(array) for name, array in arrays.items()}, json.dumps(meta)


def of_value(arrays: dict[str, Any], meta: str) -> IndexParts:
    """Return an index from what `by_value` gave."""
    return assembled(arrays, json.loads(meta))
