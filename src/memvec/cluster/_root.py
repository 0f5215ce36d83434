"""The folder of a sharded collection: how many shards, what they hold, which id goes where."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from memvec import checks
from memvec.collection import Settings
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    UnknownVersionError,
    damaged,
)
from memvec.storage import disk

#: The last file that is written to a new folder.
ROOT = "cluster.json"
_FORMAT = 1
# Keys of shards have room for so many: 10¹⁵ of them, and 10¹¹ for each shard.
MOST_SHARDS = 4096
#: How ids are placed. Another rule gets another name.
PLACEMENT = "blake2b-64/1"
_PERSON = b"memvec-shard-1"


def shard_of(name: int | str, n_shards: int) -> int:
    """Return the shard of an id, by the placement "blake2b-64/1".

    BLAKE2b of 8 bytes, with the personalisation ``memvec-shard-1``, of the letter ``i`` and the
    decimal digits of an integer, or of the letter ``s`` and a string in UTF-8; read as an unsigned
    little-endian integer, modulo the number of shards.

    Examples
    --------
    >>> [shard_of(name, 4) for name in (0, 1, 2, "0")]
    [1, 3, 3, 0]
    """
    text = f"i{name}" if isinstance(name, int) else f"s{name}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=_PERSON).digest()
    return int.from_bytes(digest, "little") % n_shards


class Root(NamedTuple):
    """What a sharded collection was created with."""

    folder: Path
    n_shards: int
    settings: Settings

    def shard_folder(self, number: int) -> Path:
        """Return where a shard lies."""
        return self.folder / f"shard-{number:04d}"

    def write(self) -> None:
        """Write the file that makes the folder a sharded collection."""
        content = {
            "format": _FORMAT,
            "placement": PLACEMENT,
            "shards": self.n_shards,
            "settings": self.settings.to_json(),
        }
        text = json.dumps({**content, "crc32": _sum(content)}, indent=1)
        unfinished = self.folder / f"{ROOT}.tmp"
        with disk.refusals(self.folder):
            unfinished.unlink(missing_ok=True)
            with disk.create_file(unfinished) as file:
                disk.write(file, text.encode())
                disk.sync(file)
            disk.replace(unfinished, self.folder / ROOT)
            disk.sync_folder(self.folder)


def _sum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def read_root(folder: Path) -> Root | None:
    """Return what a folder holds; None where there is nothing, or nothing finished."""
    path = folder / ROOT
    if not path.exists():
        if folder.exists() and not folder.is_dir():
            raise CorruptIndexError(f"{folder} is not a sharded collection: it is not a folder.")
        return None
    try:
        content = json.loads(path.read_bytes())
        saved = content.pop("crc32")
        found = _sum(content)
    except (ValueError, AttributeError, KeyError, TypeError):
        raise damaged(path, "it is no description of a sharded collection") from None
    if found != saved:
        raise damaged(path, f"its checksum (CRC-32) is {found}, saved was {saved}")
    if (content["format"], content["placement"]) != (_FORMAT, PLACEMENT):
        what = f"format {content['format']!r} and placement {content['placement']!r}"
        raise UnknownVersionError(f"{path} has {what}, which this memvec does not know.")
    return Root(folder, content["shards"], Settings.from_json(content["settings"]))


def checked_shards(shards: object, where: str) -> int:
    """Return a number of shards."""
    number = checks.integer(shards, "shards", where)
    if number > MOST_SHARDS:
        raise checks.bad_value("shards", where, f"an integer of at most {MOST_SHARDS:,}", number)
    return number


def make_folder(folder: Path) -> None:
    """Make the folder of a new sharded collection; it may exist, with shards or nothing in it."""
    if not folder.exists():
        if not folder.parent.is_dir():
            text = f"A collection cannot be created at {folder}: its parent folder does not exist."
            raise IndexNotFoundError(text)
        with disk.refusals(folder):
            disk.make_folder(folder)
            disk.sync_folder(folder.parent)
    for name in sorted(os.listdir(folder)):
        if not (name.startswith("shard-") or name == f"{ROOT}.tmp"):
            text = f"{folder} holds {name!r}. To create shards, name a new or empty folder."
            raise CorruptIndexError(text)


def not_found(folder: Path) -> IndexNotFoundError:
    """Return the error of a folder that holds no sharded collection."""
    return IndexNotFoundError(
        errno.ENOENT,
        f"There is no sharded collection at {folder}. To create one, give 'dim' and 'shards'",
    )
