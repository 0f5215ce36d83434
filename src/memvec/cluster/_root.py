"""The folder of a sharded collection: how many shards, what they hold, which id goes where."""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from memvec import checks
from memvec.collection import Settings, checked_id
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InvalidTypeError,
    InvalidValueError,
    UnknownVersionError,
    damaged,
)
from memvec.storage import SHARDS, Kind, check_kind, disk

#: The last file that is written to a new folder.
ROOT = SHARDS
_FORMAT = 2
#: In the folder of each shard: which shard of which root it is.
CLAIM = "shard.json"
_SHARD = re.compile(r"shard-([0-9]{4,})")
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
    where, expected = "memvec.cluster.shard_of", "an id: an integer of 64 bits, or text"
    try:
        plain = checked_id(name, where)
    except InvalidTypeError:
        raise checks.bad_type("name", where, expected, repr(name)) from None
    except InvalidValueError:
        raise checks.bad_value("name", where, expected, ascii(name)) from None
    return place_of(plain, checks.integer(n_shards, "n_shards", where))


def place_of(name: int | str, n_shards: int) -> int:
    """Return the shard of an id that was checked."""
    text = f"i{name}" if isinstance(name, int) else f"s{name}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=_PERSON).digest()
    return int.from_bytes(digest, "little") % n_shards


class Root(NamedTuple):
    """What a sharded collection was created with.

    Attributes
    ----------
    folder : Path
        Holds the folders of the shards.
    n_shards : int
        How many there are.
    settings : Settings
        Of every shard.
    name : str
        Drawn when it was created; each shard has it, too, so that no other takes its place.
    """

    folder: Path
    n_shards: int
    settings: Settings
    name: str

    @classmethod
    def new(cls, folder: Path, n_shards: int, settings: Settings) -> Root:
        """Return that of a collection to be created."""
        return cls(folder, n_shards, settings, uuid.uuid4().hex)

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
            "root": self.name,
        }
        _write(self.folder / ROOT, {**content, "crc32": _sum(content)})

    def claim(self, number: int) -> None:
        """Write to the folder of a shard which one it is."""
        _write(self.shard_folder(number) / CLAIM, self._claim(number))

    def check_claim(self, number: int) -> None:
        """Raise where the folder of a shard is that of another one, or of another collection."""
        path = self.shard_folder(number) / CLAIM
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError):
            raise damaged(path, "it is missing, or does not tell a shard") from None
        if found != self._claim(number):
            told = found if isinstance(found, dict) else {}
            of = "of this collection" if told.get("root") == self.name else "of another collection"
            reason = f"it is shard {told.get('shard')!r} {of}, where {number} belongs"
            raise damaged(path.parent, reason)

    def _claim(self, number: int) -> dict[str, Any]:
        return {"root": self.name, "shard": number}


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write a file of JSON, whole or not at all."""
    unfinished = path.with_name(f"{path.name}.tmp")
    with disk.refusals(path.parent):
        unfinished.unlink(missing_ok=True)
        with disk.create_file(unfinished) as file:
            disk.write(file, json.dumps(content, indent=1).encode())
            disk.sync(file)
        disk.replace(unfinished, path)
        disk.sync_folder(path.parent)


def _sum(content: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def read_root(folder: Path) -> Root | None:
    """Return what a folder holds; None where there is nothing, or nothing finished."""
    path = folder / ROOT
    if not path.exists():
        if folder.exists() and not folder.is_dir():
            raise CorruptIndexError(f"{folder} is not a sharded collection: it is not a folder.")
        check_kind(folder, Kind.SHARDS)
        return None
    try:
        content = json.loads(path.read_bytes())
        saved = content.pop("crc32")
        found = _sum(content)
    except (ValueError, AttributeError, KeyError, TypeError):
        raise damaged(path, "it does not describe a sharded collection") from None
    if found != saved:
        raise damaged(path, f"its checksum (CRC-32) is {found}, saved was {saved}")
    known = content.get("format"), content.get("placement")
    if known != (_FORMAT, PLACEMENT):
        what = f"format {known[0]!r} and placement {known[1]!r}"
        raise UnknownVersionError(
            f"{path} has {what}, which is unknown to this version of memvec. Each folder "
            "shard-NNNN beside it is a collection: read them with memvec.open, and add their "
            "items to a new one."
        )
    root = _told(folder, content)
    # A root that names fewer shards than there are would answer for these alone.
    if beyond := sorted(n for n in _numbers(folder) if n >= root.n_shards):
        reason = f"it names {root.n_shards} shards, and there is {root.shard_folder(beyond[0])}"
        raise damaged(path, reason)
    return root


def _told(folder: Path, content: dict[str, Any]) -> Root:
    """Return what a description tells, which may have been written by anyone."""
    path, shards, name = folder / ROOT, content.get("shards"), content.get("root")
    if type(shards) is not int or not 1 <= shards <= MOST_SHARDS:
        raise damaged(path, f"it names {shards!r} shards")
    if not isinstance(name, str):
        raise damaged(path, f"it is called {name!r}")
    try:
        return Root(folder, shards, Settings.from_json(content["settings"]), name)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, f"its settings cannot be read ({error!r})") from None


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the folders of shards that there are."""
    found = map(_SHARD.fullmatch, os.listdir(folder))
    return [int(one[1]) for one in found if one is not None]


def checked_shards(shards: object, where: str) -> int:
    """Return a number of shards."""
    number = checks.integer(shards, "shards", where)
    if number > MOST_SHARDS:
        raise checks.bad_value("shards", where, f"an integer of at most {MOST_SHARDS:,}", number)
    return number


def make_folder(folder: Path, n_shards: int) -> None:
    """Make the folder of a new sharded collection; it may exist, with its shards or nothing."""
    if not folder.exists():
        if not folder.parent.is_dir():
            text = f"A collection cannot be created at {folder}: its parent folder does not exist."
            raise IndexNotFoundError(text)
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)
    for name in sorted(os.listdir(folder)):
        shard = _SHARD.fullmatch(name)
        if name != f"{ROOT}.tmp" and (shard is None or int(shard[1]) >= n_shards):
            text = f"{folder} holds {name!r}. To create shards, name a new or empty folder."
            raise CorruptIndexError(text)


def not_found(folder: Path) -> IndexNotFoundError:
    """Return the error of a folder that holds no sharded collection."""
    return IndexNotFoundError(
        f"There is no sharded collection at {folder}. To create one, give 'dim' and 'shards', and "
        "no read_only=True."
    )
