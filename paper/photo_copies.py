"""Altered copies of photographs: every photograph becomes a group of four, as objects do in UKB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memvec.errors import FileFormatError

N_COPIES = 3
# Each copy is turned by up to so many degrees, cut to a share of each side, and saved anew.
_MOST_DEGREES = 5.0
_SIDES = (0.65, 0.85)
_QUALITIES = (20, 51)


def with_copies(paths: Sequence[str], folder: Path) -> list[str]:
    """Return each photograph followed by its copies, which are made in a folder unless there."""
    folder.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
    for number, path in enumerate(paths):
        found.append(path)
        for copy in range(N_COPIES):
            made = folder / f"{number:05d}-{copy}.jpg"
            if not made.is_file():
                rng = np.random.default_rng([number, copy])
                part = made.with_suffix(".part")
                altered = _altered(_opened(path), rng)
                altered.save(part, format="JPEG", quality=int(rng.integers(*_QUALITIES)))
                part.replace(made)
            found.append(str(made))
    return found


def _opened(path: str) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as photo:
            return photo.convert("RGB")
    except OSError as error:
        raise FileFormatError(f"{path} cannot be described: {error}") from error


def _altered(photo: Any, rng: np.random.Generator) -> Any:
    """Return a photograph turned a little and cut to a window at a random place."""
    turned = photo.rotate(rng.uniform(-_MOST_DEGREES, _MOST_DEGREES), resample=2)
    share = rng.uniform(*_SIDES)
    width, height = (int(share * side) for side in turned.size)
    left = int(rng.integers(turned.width - width + 1))
    top = int(rng.integers(turned.height - height + 1))
    return turned.crop((left, top, left + width, top + height))


__all__ = ["N_COPIES", "with_copies"]
