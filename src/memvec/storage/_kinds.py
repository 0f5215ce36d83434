"""What a folder is, told by the files in it, and what opens it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from memvec import checks
from memvec.errors import CorruptIndexError, FileFormatError, UnknownVersionError
from memvec.storage import _disk
from memvec.storage._manifest import MANIFEST, read_manifest

# The files that tell a kind from the others: each is the last that is written to a new folder.
CATALOG = "catalog.sqlite"
DESCRIPTOR = "descriptor"
SHARDS = "cluster.json"


class Kind(Enum):
    """A kind of folder: its name in messages, and what opens it.

    ========== =========== =========================================
    kind       usual name  told by
    ========== =========== =========================================
    INDEX      ``.index``  ``manifest.json``
    COLLECTION ``.mv``     ``catalog.sqlite``
    SHARDS                 ``cluster.json``
    LIBRARY    ``.photos`` ``descriptor/manifest.json``
    DESCRIPTOR             ``manifest.json`` that names a descriptor
    ========== =========== =========================================
    """

    INDEX = (
        "a saved index",
        "memvec.Index.open opens it in Python, and `memvec check` checks it",
    )
    COLLECTION = (
        "a collection",
        "memvec.open opens it in Python, and `memvec range` searches it",
    )
    SHARDS = (
        "a sharded collection",
        "memvec.cluster.open opens it in Python, and `memvec check` checks it",
    )
    LIBRARY = (
        "a library of photographs",
        "memvec.images.PhotoLibrary.open opens it in Python, and `memvec images` on the "
        "command line",
    )
    DESCRIPTOR = (
        "a descriptor of photographs",
        "memvec.images.open_descriptor opens it in Python, and `memvec images index "
        "--descriptor` uses it",
    )

    def __init__(self, title: str, openers: str) -> None:
        self.title = title
        self.openers = openers


def kind_of(path: Path) -> Kind | None:
    """Return what kind of folder is at a path; None where it is none, or there is nothing.

    Only names and a manifest are read: a folder of a kind may be damaged.

    Examples
    --------
    >>> import tempfile
    >>> from memvec.storage import write_folder
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     _ = write_folder(f"{parent}/saved", {}, {})
    ...     kind_of(Path(parent, "saved")), kind_of(Path(parent))
    (<Kind.INDEX: ('a saved index', ...)>, None)
    """
    if _disk.is_file(path / CATALOG):
        return Kind.COLLECTION
    if _disk.is_file(path / SHARDS):
        return Kind.SHARDS
    if _disk.is_file(path / DESCRIPTOR / MANIFEST):
        return Kind.LIBRARY
    if not _disk.is_file(path / MANIFEST):
        return None
    try:
        return Kind.DESCRIPTOR if DESCRIPTOR in read_manifest(path).meta else Kind.INDEX
    except UnknownVersionError:
        return Kind.INDEX
    except FileFormatError:  # damaged, or a file of that name that somebody else made
        return None


def check_kind(path: Path, wanted: Kind) -> None:
    """Raise where a folder is of another kind than the one wanted, and say what opens it."""
    found = kind_of(path)
    if found not in (None, wanted):
        raise CorruptIndexError(
            f"{path} is not {wanted.title} but {found.title}: {found.openers}."
        ) from None


def check_free(path: Path, wanted: Kind, where: str) -> None:
    """Raise where a folder is of another kind than the one that is to be written there."""
    found = kind_of(path)
    if found not in (None, wanted):
        expected = f"a new path, an empty folder or {wanted.title}"
        raise checks.bad_value("path", where, expected, f"{path}, {found.title},")
