"""Numbers in JSON: as texts, which hold every bit of them, and infinity, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from memvec.types import Float64Array


def texts_of(numbers: Iterable[float]) -> list[str]:
    """Return numbers as texts."""
    return [float(one).hex() for one in numbers]


def numbers_of(texts: Any, shape: tuple[int, ...]) -> Float64Array:
    """Return the numbers of texts, or of lists of texts, of a shape."""
    flat = [float.fromhex(text) for text in np.array(texts, dtype=object).ravel()]
    numbers = np.array(flat).reshape(shape)
    if np.isnan(numbers).any():
        raise ValueError("not a number")
    return numbers
