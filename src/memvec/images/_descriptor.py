"""What all descriptors of photographs have in common, and how they are saved and opened."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from memvec import checks
from memvec.errors import CorruptIndexError
from memvec.images._onnx import OnnxDescriptor
from memvec.images._photo import Pixels
from memvec.images._triangulation import Triangulation
from memvec.images._vlad import Vlad
from memvec.storage import (
    DESCRIPTOR,
    Kind,
    check_free,
    check_kind,
    kind_of,
    open_folder,
    write_folder,
)
from memvec.types import Float32Array

_SHIPPED = Path(__file__).parent / DESCRIPTOR
# Raised when the same model and file would give another vector than before.
_REVISION = 1


class ImageDescriptor(Protocol):
    """Turns a photograph into a vector: `Triangulation`, `Vlad`, `OnnxDescriptor`."""

    kind: ClassVar[str]

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""

    def describe(self, pixels: Pixels) -> Float32Array:
        """Return the vector of a photograph, RGB of shape (height, width, 3), of norm 1."""

    def arrays(self) -> dict[str, Any]:
        """Return the arrays to save."""

    def settings(self) -> dict[str, Any]:
        """Return the settings to save."""


_KINDS: dict[str, Any] = {cls.kind: cls for cls in (Triangulation, Vlad, OnnxDescriptor)}


def save_descriptor(descriptor: ImageDescriptor, path: str | os.PathLike[str]) -> None:
    """Write a fitted descriptor to a folder, replacing one that is there: plain arrays, no pickle.

    Examples
    --------
    >>> import tempfile
    >>> rows = np.random.default_rng(0).standard_normal((600, 8))
    >>> descriptor = Triangulation.fit([rows], n_words=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_descriptor(descriptor, f"{folder}/model")
    ...     open_descriptor(f"{folder}/model")
    Triangulation(4 words, dimension 24, sum, power 1)
    """
    meta = {DESCRIPTOR: descriptor.kind, "settings": descriptor.settings()}
    check_free(Path(path), Kind.DESCRIPTOR, "save_descriptor")
    write_folder(path, descriptor.arrays(), meta, where="save_descriptor")


def open_descriptor(path: str | os.PathLike[str]) -> ImageDescriptor:
    """Open a descriptor that `save_descriptor` wrote, and compare all checksums.

    The path may also be a library of photographs, whose descriptor is opened.
    """
    folder = checks.path(path, "path", "open_descriptor")
    if kind_of(folder) is Kind.LIBRARY:
        folder /= DESCRIPTOR
    check_kind(folder, Kind.DESCRIPTOR)
    arrays, meta = open_folder(folder, verify=True)
    kind = meta.get(DESCRIPTOR)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CorruptIndexError(f"{path} is not a descriptor of photographs, but {kind!r}.")
    try:
        restored: ImageDescriptor = _KINDS[kind].restored(arrays, meta["settings"])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CorruptIndexError(f"{path} is not a complete descriptor: {error!r}.") from None
    return restored


def default_descriptor() -> Triangulation:
    """Return the descriptor that ships with memvec, chosen for finding near-copies.

    φ_Δ of 8 words with the power law, on photographs of at most 480 pixels a side. It was learned
    from eight photographs in the public domain or under CC0 (`tools/make_descriptor.py`).

    Examples
    --------
    >>> default_descriptor()
    Triangulation(8 words, dimension 896, sum, power 0.5)
    """
    model = open_descriptor(_SHIPPED)
    assert isinstance(model, Triangulation)
    return model


def fingerprint(descriptor: ImageDescriptor) -> str:
    """Return a digest of what a descriptor was made with and learned."""
    digest = hashlib.sha256()
    facts = {
        "kind": descriptor.kind,
        "settings": descriptor.settings(),
        "revision": _REVISION,
    }
    digest.update(json.dumps(facts, sort_keys=True).encode())
    for name, array in sorted(_plain(descriptor.arrays()).items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _plain(arrays: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.asarray(array) for name, array in arrays.items()}


def software() -> str:
    """Return the versions of what decodes photographs, finds keypoints and runs models.

    Another version may give another vector, nearly the same.
    """
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for package in ("pillow", "opencv-python-headless", "opencv-python", "onnxruntime"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
