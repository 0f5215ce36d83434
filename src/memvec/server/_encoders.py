"""Vectors of texts and photographs, where the server has something that makes them."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.server._failures import ApiError
from memvec.types import Float32Array


class Encoder:
    """Makes vectors of texts or photographs.

    Parameters
    ----------
    named : str
        ``images`` for the descriptor of photographs that comes with memvec, the path of the
        configuration of an ONNX model (.toml or .json), or ``module:function``. Such a function is
        called with a text, or with the bytes of a photograph, and returns a vector.

    Attributes
    ----------
    takes : {"photo", "any"}
        What it makes vectors of.
    """

    def __init__(self, named: str) -> None:
        self._lock = threading.Lock()
        if ":" in named and not Path(named).exists():
            self.takes, self._function = "any", checks.function_named(named, "encoder", "serve")
        else:
            self.takes, self._function = "photo", _of_photos(named)

    def __call__(self, given: str | bytes) -> Float32Array:
        """Return the vector of a text, or of the bytes of a photograph."""
        if self.takes == "photo" and isinstance(given, str):
            text = "This server encodes photographs, not texts."
            raise ApiError(422, "no_text_encoder", text)
        with self._lock:  # models are used by one thread at a time
            made = np.asarray(self._function(given), dtype=np.float32)
        return made.reshape(-1)


def _of_photos(named: str) -> Callable[[Any], Any]:
    from memvec import images

    if named == "images":
        descriptor: Any = images.default_descriptor()
    elif Path(named).is_file():
        descriptor = images.OnnxDescriptor.read(named)
    else:
        raise InvalidValueError(
            "The encoder must be 'images', the configuration of an ONNX model or module:function. "
            f"Got {named!r} instead."
        )

    def describe(given: bytes) -> Any:
        # Photographs are read by path: the reader knows their formats and their limits.
        with tempfile.NamedTemporaryFile() as file:
            file.write(given)
            file.flush()
            found = images.describe_photos([file.name], descriptor, progress=False)
        if not len(found.vectors):
            reason = found.skipped[0].reason
            raise ApiError(422, "no_photo", f"The body cannot be read as a photograph: {reason}.")
        return found.vectors[0]

    return describe
