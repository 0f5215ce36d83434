"""A collection: each file, and each value of its catalog, damaged by chance and on purpose."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import memvec
from collection.exercise import answers, look_around, write
from collection.faults import VECTORS, make_template
from fuzz import ANY_ANSWER, CHANGED, RIGHT, Trial, damage
from fuzz.damage import Rng
from memvec.collection import check_collection, repair_collection
from memvec.errors import MemvecError
from memvec.storage import open_folder, write_folder

Connection = sqlite3.Connection
# What tells SQLite's files in the folder: a flip in the log after a crash reads as a shorter log.
_CATALOG = "catalog.sqlite"


@dataclass(frozen=True)
class Subject:
    """A collection as its writer left it, by closing or by dying, and what it answers."""

    name: str
    folder: Path
    expected: Any

    def ask(self, folder: Path, *, then: str) -> str:
        """Read everything and compare, then do something else, which may be refused as well."""
        refusal, found = _attempt(read, folder)
        after, _ = _attempt(_AFTERWARDS[then], folder)
        if then == "repair" and after is None:
            # What was repaired is whole; settings that somebody forged may still be refused.
            assert check_collection(folder).ok
            _attempt(read, folder)
        if refusal is not None:
            raise refusal
        return RIGHT if found == self.expected else CHANGED


def read(folder: Path) -> Any:
    """Return what a reader finds."""
    with memvec.open(folder, read_only=True) as collection:
        found = answers(collection)
        look_around(collection)
        return found


_AFTERWARDS: dict[str, Callable[[Path], object]] = {
    "check": check_collection,
    "repair": repair_collection,
    "write": write,
}


def _attempt(act: Callable[[Path], Any], folder: Path) -> tuple[MemvecError | None, Any]:
    try:
        return None, act(folder)
    except MemvecError as error:
        return error, None


@functools.cache
def subject(name: str, workshop: Path) -> Subject:
    """Make a collection of two segments, waiting vectors and deleted ones."""
    folder = workshop / "whole" / name
    folder.parent.mkdir(exist_ok=True)
    if name == "closed":
        make_template(folder)
    else:
        _make_dead(folder)
    copy = shutil.copytree(folder, workshop / "whole" / f"{name}-copy")
    return Subject(name, folder, read(copy))


def _make_dead(folder: Path) -> None:
    """Make a collection whose writer died: its log is full, and nothing has a checksum."""
    open_one = folder.with_name("open")
    make_template(open_one)
    with memvec.open(open_one) as collection:
        collection.add(VECTORS[45:48], ids=["a", "b", "c"])
        collection.delete(["b"])
        shutil.copytree(open_one, folder)


def trials(workshop: Path, seed: int, count: int) -> Iterator[Trial]:
    """Yield so many trials, the kinds in turn and everything else at random."""
    makers = [
        *(_accident, _forged_value, _link, _accident, _forged_keys),
        *(_forged_blob, _accident, _swap, _forged_value, _prepared),
    ]
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        chosen = subject("dead" if rng.random() < 0.2 else "closed", workshop)
        then = str(rng.choice(list(_AFTERWARDS)))
        yield makers[number % len(makers)](chosen, functools.partial(chosen.ask, then=then), rng)


Ask = Callable[[Path], str]


def _accident(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    what = str(rng.choice(list(damage.ACCIDENTS), p=np.array([6, 3, 2, 1, 1, 1, 1]) / 15))
    files = [path for path in damage.files_below(chosen.folder) if path.stat().st_size]
    name = files[int(rng.integers(len(files)))].relative_to(chosen.folder)
    if rng.random() < 0.3:
        name = Path(_CATALOG)

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        damage.ACCIDENTS[what](folder / name, rng)

    unsummed = chosen.name == "dead" and name.name.startswith(_CATALOG)
    kind = f"{what}, after a crash" if unsummed else what
    more = {"accepts": ANY_ANSWER} if unsummed else {}
    return Trial(kind, f"{chosen.name}: {what}: {name}", make, ask, **more)


def _swap(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    names = [path.relative_to(chosen.folder) for path in damage.files_below(chosen.folder)]
    one, other = rng.choice(len(names), 2, replace=False)

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        damage.swap(folder / names[one], folder / names[other])

    where = f"{chosen.name}: {names[one]}, {names[other]}"
    if chosen.name == "dead" and _CATALOG in where:  # another file is no log, or an empty one
        return Trial("two files swapped, after a crash", where, make, ask, ANY_ANSWER)
    return Trial("two files swapped", where, make, ask)


def _link(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    """Put a link in place of a file or folder, to the same content elsewhere or to nothing."""
    paths = sorted(chosen.folder.rglob("*"))
    name = paths[int(rng.integers(len(paths)))].relative_to(chosen.folder)
    if rng.random() < 0.3:
        name = Path(str(rng.choice(["segments", "segments/000001", "lost", f"{_CATALOG}-wal"])))
    empty = bool(rng.random() < 0.3)

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        if (folder / name).exists():
            damage.link_away(folder / name, outside / "linked")
        else:
            (folder / name).symlink_to(outside)
        if empty:
            (folder / name).unlink()
            (folder / name).symlink_to(outside / "nowhere")

    where = f"{chosen.name}: {name}{', leading nowhere' if empty else ''}"
    return Trial("link inside", where, make, ask)


_VALUES = [None, "x", b"\xff\x00", "", -1, 0, 1, 2, 3, 20, 10**17, 2**63 - 1, 0.5, float("inf")]
_TEXTS = ["[" * 50_000, "../../outside/keys.npy", "items/../../../../outside/keys.npy", '{"a": 1}']


def _forged_value(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    """Put a value where it does not belong; checksums are right or absent."""
    columns = _columns(chosen.folder)
    table, column = columns[int(rng.integers(len(columns)))]
    values = [*_VALUES, *_TEXTS]
    value = values[int(rng.integers(len(values)))]
    everywhere = "" if rng.random() < 0.3 else f" WHERE rowid = (SELECT max(rowid) FROM {table})"

    def act(connection: Connection) -> None:
        connection.execute(f"CREATE TABLE free AS SELECT * FROM {table}")
        connection.execute(f"DROP TABLE {table}")
        connection.execute(f"ALTER TABLE free RENAME TO {table}")
        connection.execute(f"UPDATE {table} SET {column} = ?{everywhere}", [value])
        connection.execute("UPDATE items SET crc32 = NULL")
        connection.execute("UPDATE settings SET crc32 = NULL")

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        forge(folder, act)

    name = f"{chosen.name}: {table}.{column} = {value!r:.40}"
    return Trial("forged value in the catalog", name, make, ask, ANY_ANSWER)


@functools.cache
def _columns(folder: Path) -> list[tuple[str, str]]:
    copy = shutil.copytree(folder, folder.with_name(f"{folder.name}-columns"))
    connection = sqlite3.connect(copy / _CATALOG)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = [
        (table, column)
        for (table,) in tables
        for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")
    ]
    connection.close()
    return found


def _forged_blob(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    """Change some bytes of vectors that wait or of calibration, and sum them anew."""
    columns = _columns(chosen.folder)
    blobs = [
        one for one in columns if one[1] in ("vectors", "rows") and (one[0], "crc32") in columns
    ]
    table, column = blobs[int(rng.integers(len(blobs)))]
    n_bytes = int(rng.choice([1, 1, 4, 200]))

    def act(connection: Connection) -> None:
        [(blob,)] = connection.execute(f"SELECT {column} FROM {table} LIMIT 1")
        forged = bytearray(blob)
        for _ in range(n_bytes):
            forged[int(rng.integers(len(forged)))] ^= 1 << int(rng.integers(8))
        crc32 = f"{zlib.crc32(forged):08x}"
        where = f"WHERE {column} = ?"
        connection.execute(
            f"UPDATE {table} SET {column} = ?, crc32 = ? {where}", [bytes(forged), crc32, blob]
        )

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        forge(folder, act)

    name = f"{chosen.name}: {n_bytes} bits of {table}.{column}"
    return Trial("forged vectors or calibration in the catalog", name, make, ask, ANY_ANSWER)


def forge(folder: Path, act: Callable[[Connection], None]) -> None:
    """Change the catalog behind memvec's back."""
    (folder / "catalog.crc").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / _CATALOG, isolation_level=None)
    act(connection)
    connection.close()


def _forged_keys(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    """Change which item a row is, or where it lies, and give all files the right checksums."""
    name = str(rng.choice(["keys", "places"]))
    what = str(rng.choice(list(_FORGED)))

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        segment = folder / "segments" / "000001"
        arrays, meta = open_folder(segment / "items")
        forged = np.ascontiguousarray(_FORGED[what](np.array(arrays[name]), rng))
        write_folder(segment / "items", {**arrays, name: forged}, meta)
        forge(folder, functools.partial(_sign, segment))

    where = f"{chosen.name}: {name}: {what}"
    return Trial("forged keys, checksums right", where, make, ask, ANY_ANSWER)


_FORGED: dict[str, Callable[[Any, Rng], Any]] = {
    "shuffled": lambda array, rng: rng.permutation(array),
    "one changed": lambda array, rng: np.where(np.arange(len(array)) == 3, 10**6, array),
    "one negative": lambda array, rng: np.where(np.arange(len(array)) == 3, -1, array),
    "one twice": lambda array, rng: np.where(np.arange(len(array)) == 3, array[4], array),
    "shifted": lambda array, rng: array + int(rng.integers(1, 30)),
    "shorter": lambda array, rng: array[:-1],
    "longer": lambda array, rng: np.append(array, array[-1] + 1),
    "of floats": lambda array, rng: array.astype(np.float64),
    "of bytes": lambda array, rng: array.astype(np.uint8),
    "a matrix": lambda array, rng: array.reshape(2, -1),
    "empty": lambda array, rng: array[:0],
}


def _sign(segment: Path, connection: Connection) -> None:
    """Let the catalog name the files of a segment as they are."""
    number = int(segment.name)
    connection.execute("DELETE FROM segment_files WHERE segment = ?", [number])
    for path in damage.files_below(segment):
        content = path.read_bytes()
        row = (number, path.relative_to(segment).as_posix(), len(content))
        crc32 = f"{zlib.crc32(content):08x}"
        connection.execute("INSERT INTO segment_files VALUES (?, ?, ?, ?)", [*row, crc32])


def _prepared(chosen: Subject, ask: Ask, rng: Rng) -> Trial:
    """Put something of others where a writer will make or remove something."""
    names = ["000003", "000003.rows", "000004/items", "000009/g000001", "stray", "1", "0000001"]
    name = str(rng.choice([*(f"segments/{name}" for name in names), "catalog.crc.tmp", "lost"]))
    what = str(rng.choice(["link", "hard link", "pipe", "folder of links"]))

    def make(folder: Path, outside: Path) -> None:
        shutil.copytree(chosen.folder, folder)
        (folder / name).parent.mkdir(exist_ok=True)
        if what == "link":
            (folder / name).symlink_to(outside)
        elif what == "hard link":
            (folder / name).hardlink_to(outside / "notes.txt")
        elif what == "pipe":
            os.mkfifo(folder / name)
        else:
            (folder / name).mkdir()
            (folder / name / "g000001").symlink_to(outside / "g000001")
            (folder / name / "manifest.json").symlink_to(outside / "manifest.json")

    return Trial("something prepared for a writer", f"{chosen.name}: {what} {name}", make, ask)
