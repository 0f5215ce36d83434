"""Catalogs that somebody has edited: an error of memvec or an answer, and no other exception."""

import json
import os
import shutil
import sqlite3
import zlib
from dataclasses import fields
from functools import partial
from itertools import product

import numpy as np
import pytest

import memvec
from collection.exercise import refused
from collection.faults import make_template
from collection.test_links import snapshot
from collection.test_packing import packed
from memvec.collection import _catalog, _checksums, check_collection, repair_collection
from memvec.collection._packed_table import PackedTable
from memvec.collection._packing import compressed, uncompressed, unpacked_arrays
from memvec.errors import CorruptIndexError, InvalidValueError
from memvec.guarantee import CalibrationTable
from memvec.storage import open_folder, write_folder

VALUES = {
    "nothing": None,
    "text": "x",
    "no text": b"\xff\x00",
    "empty": "",
    "minus one": -1,
    "zero": 0,
    "one": 1,
    "two": 2,
    "large": 10**17,
    "largest": 2**63 - 1,
    "fraction": 0.5,
    "infinite": float("inf"),
    "deep": "[" * 100_000,
    "way out": "../../outside/thesis.tex",
    "other JSON": '{"i": [NaN, 1e999]}',
}


def columns():
    """Return the columns of all tables, as a new collection has them."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(_catalog._SCHEMA)
    names = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE rootpage")
    ]
    tables = {name: connection.execute(f"PRAGMA table_info({name})") for name in names}
    found = [(name, column) for name, rows in tables.items() for _, column, *_ in rows]
    connection.close()
    return found


COLUMNS = columns()


def forge(folder, act):
    """Change the catalog behind memvec's back; checksums are right afterwards, or absent."""
    (folder / "catalog.crc").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "catalog.sqlite", isolation_level=None)
    act(connection)
    connection.close()


def without_constraints(connection, table):
    """Let a table hold anything."""
    connection.execute(f"CREATE TABLE free AS SELECT * FROM {table}")
    connection.execute(f"DROP TABLE {table}")
    connection.execute(f"ALTER TABLE free RENAME TO {table}")


def put(table, column, value, everywhere, connection):
    """Put a value into one row, or into all."""
    where = "" if everywhere else f" WHERE rowid = (SELECT max(rowid) FROM {table})"
    without_constraints(connection, table)
    connection.execute(f"UPDATE {table} SET {column} = ?{where}", [value])
    if (table, column) != ("settings", "crc32"):
        connection.execute("UPDATE settings SET crc32 = NULL")
    if table == "items" and column != "crc32":
        connection.execute("UPDATE items SET crc32 = NULL")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A collection whose segments know each other's calibration."""
    folder = tmp_path_factory.mktemp("template") / "template.mv"
    make_template(folder)
    return folder


def check_forged(template, place, act):
    """Whatever is done with a forged collection, it is refused or done; nothing outside changes."""
    outside = place / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "thesis.tex").write_bytes(b"theirs")
    folder = place / "forged.mv"
    for order in (["read", "check", "write"], ["repair", "read"]):
        shutil.copytree(template, folder)
        forge(folder, act)
        for step in order:
            refused(step, folder)
        shutil.rmtree(folder)
    assert list(snapshot(outside).values()) == [b"theirs"]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_forged_value_is_refused_or_harmless(template, quick_path, table, column):
    # Each column gets a few of the values, and all columns together all of them.
    first = COLUMNS.index((table, column))
    for number in range(3):
        value = list(VALUES.values())[(first + 5 * number) % len(VALUES)]
        check_forged(template, quick_path, partial(put, table, column, value, bool(number % 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_any_forged_value_is_refused_or_harmless(template, quick_path, table, column):
    for value, everywhere in product(VALUES.values(), [False, True]):
        check_forged(template, quick_path, partial(put, table, column, value, everywhere))


def settings_with(connection, **changed):
    """Change settings, their checksum as it must be."""
    [(text,)] = connection.execute("SELECT value FROM settings")
    fields = json.loads(text)
    for name, value in changed.items():
        inside = fields if name in fields else fields["config"]
        inside[name] = value
    forged = json.dumps(fields)
    crc32 = zlib.crc32(forged.encode())
    connection.execute("UPDATE settings SET value = ?, crc32 = ?", [forged, crc32])


SETTINGS = [
    {"dim": "4"},
    {"dim": 0},
    {"dim": 5},
    {"dim": 10**9},
    {"dim": 10**400},
    {"dim": None},
    {"dim": True},
    {"similarity": -0.5},
    {"similarity": float("nan")},
    {"similarity": None},
    {"miss_rate": 1e999},
    {"miss_rate": []},
    {"seal_at": -1},
    {"seal_at": 1e300},
    {"guarantee": "sure"},
    {"confidence": 2},
    {"similarities": "0.7"},
    {"similarities": [0.7, {}]},
    {"config": []},
    {"unit_size": -3},
    {"unit_size": 10**30},
    {"seed": 2**64},
    {"center": "yes"},
    {"ridge": "much"},
    {"codes": ["none"]},
]
REFUSED = [
    ("settings", "INSERT INTO settings SELECT * FROM settings", "does not hold one state"),
    ("state", "INSERT INTO state SELECT * FROM state", "does not hold one state"),
    ("state", "DELETE FROM state", "does not hold one state"),
    ("state", "UPDATE state SET next_key = 'x'", "the next key 'x'"),
    ("state", "UPDATE state SET next_segment = -1", "the next segment -1"),
    ("state", "UPDATE state SET change = 9223372036854775807", "its state is number 92233"),
    (
        "segments",
        "UPDATE segments SET n_rows = 5",
        r"vectors of dimension 4, but the catalog says 5 of 4",
    ),
    ("segments", "INSERT INTO segments VALUES (-5, 3)", "a key is not a number"),
    (
        "segment_files",
        "DELETE FROM segment_files WHERE file LIKE '%means%'",
        "differ by g000001/means.npy",
    ),
    ("waiting", "UPDATE waiting SET first_key = 3", "the key 3 has two vectors"),
    (
        "waiting",
        "INSERT INTO waiting SELECT 21, n_rows, crc32, vectors FROM waiting",
        "two vectors",
    ),
    ("table", "DROP TABLE waiting", "no such table"),
    ("table", "ALTER TABLE segments RENAME COLUMN n_rows TO rows", "no such column"),
    ("program", "CREATE VIEW more AS SELECT * FROM items", "it holds the view 'more'"),
    (
        "program",
        "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items; END",
        "it holds the trigger 't'",
    ),
    ("program", "CREATE VIRTUAL TABLE boxes USING rtree(i, a, b)", "it holds the table 'boxes'"),
]


def check_refused(folder, text):
    """Nobody opens it, nothing changes, and a check tells of it."""
    for log in folder.glob("catalog.sqlite-*"):
        log.unlink()
    before = kept(folder)
    for read_only in (True, False):
        with pytest.raises(CorruptIndexError, match=text):
            memvec.open(folder, read_only=read_only)
        assert kept(folder) == before
    assert not check_collection(folder).ok
    assert refused("repair", folder) in (True, False)


def kept(folder):
    """Return all names and contents, but for what SQLite makes to read."""
    return {name: held for name, held in snapshot(folder).items() if "sqlite-" not in name}


@pytest.mark.parametrize("changed", SETTINGS, ids=str)
def test_forged_settings_are_refused(folder, changed):
    forge(folder, partial(settings_with, **changed))
    check_refused(folder, "The settings of the collection are damaged|vectors of dimension|CRC-32")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"dim": ', "null", "[]", '{"config": 5}', "1" * 5000]
)
def test_settings_of_any_json_are_refused(folder, text):
    sql = "UPDATE settings SET value = ?, crc32 = NULL"
    forge(folder, lambda connection: connection.execute(sql, [text]))
    check_refused(folder, "The settings of the collection are damaged")


@pytest.mark.parametrize(("_", "sql", "text"), REFUSED)
def test_forged_catalog_is_refused(folder, _, sql, text):
    forge(folder, lambda connection: connection.execute(sql))
    check_refused(folder, text)


@pytest.mark.parametrize(
    "name",
    ["../../../outside.txt", "/etc/passwd", "items/../../../../outside.txt", "notes", ""],
)
def test_files_of_segments_lie_in_their_folder(folder, name):
    (folder.parent / "outside.txt").write_bytes(b"secret")
    secret = f"{zlib.crc32(b'secret'):08x}"

    def act(connection):
        values = [1, name, 6, "00000000"]
        connection.execute("INSERT INTO segment_files VALUES (?, ?, ?, ?)", values)

    forge(folder, act)
    check_refused(folder, "a file of a segment is said to be")
    assert secret not in str(check_collection(folder).problems)


def test_forged_waiting_vectors_are_refused_and_dropped(folder):
    blob = np.full((6, 4), np.nan, dtype="<f4").tobytes()
    sql = "UPDATE waiting SET vectors = ?, crc32 = ?"
    forge(folder, lambda one: one.execute(sql, [blob, f"{zlib.crc32(blob):08x}"]))
    with pytest.raises(CorruptIndexError, match="not all 6 vectors from key 20 on have norm 1"):
        memvec.open(folder)
    assert repair_collection(folder).n_lost == 5


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("UPDATE items SET metadata = '[1]' WHERE key = 4", "is not a JSON mapping"),
        ("UPDATE items SET metadata = CAST(x'5b' AS TEXT) WHERE key = 4", "is not a JSON mapping"),
        ("UPDATE items SET id = 0.5 WHERE key = 4", "the item of key 4 has no id"),
    ],
)
def test_forged_item_is_told_and_dropped(folder, sql, text):
    forge(folder, lambda connection: connection.execute(sql))
    with (
        memvec.open(folder, read_only=True) as collection,
        pytest.raises(CorruptIndexError, match=text),
    ):
        list(collection.items())
    assert not check_collection(folder).ok
    repair = repair_collection(folder)
    assert repair.actions[0].endswith("It was dropped.")
    assert repair.n_lost == 1
    assert check_collection(folder).ok


@pytest.mark.parametrize(
    ("array", "change"),
    [
        ("items/keys", lambda keys: keys[::-1]),
        ("items/keys", lambda keys: keys - 1),
        ("items/keys", lambda keys: np.zeros_like(keys)),
        ("items/keys", lambda keys: keys.astype(np.float64)),
        ("items/places", lambda places: places + 1),
        ("items/places", lambda places: places - len(places)),
        ("items/places", lambda places: np.zeros_like(places)),
        ("items/places", lambda places: places[:-1]),
        ("items/places", lambda places: places.reshape(2, -1)),
    ],
)
def test_forged_keys_of_a_segment_are_refused(folder, array, change):
    """The arrays are written anew with right checksums in the manifest and in the catalog."""
    segment = folder / "segments" / "000001"
    where, name = segment / array.split("/")[0], array.split("/")[1]
    arrays, meta = open_folder(where)
    write_folder(where, {**arrays, name: np.ascontiguousarray(change(arrays[name]))}, meta)

    def act(connection):
        connection.execute("DELETE FROM segment_files WHERE segment = 1")
        for path in segment.rglob("*.*"):
            row = (1, path.relative_to(segment).as_posix(), *_checksums.sum_of(path))
            connection.execute("INSERT INTO segment_files VALUES (?, ?, ?, ?)", row)

    forge(folder, act)
    check_refused(folder, "000001 is damaged: ")


def test_item_of_two_vectors_is_beyond_repair(folder):
    """Which of the two it has, nothing says; so nothing is dropped."""
    sql = "INSERT INTO waiting SELECT 3, n_rows, crc32, vectors FROM waiting"
    forge(folder, lambda connection: connection.execute(sql))
    before = kept(folder)
    with pytest.raises(CorruptIndexError, match="the key 3 has two vectors"):
        repair_collection(folder)
    assert kept(folder) == before
    assert any("6 items have two vectors" in text for text in check_collection(folder).problems)


CALIBRATION = {
    "queries": lambda column: column + 10**9,
    "cosines": lambda column: column * np.nan,
    "ranks": lambda column: column - 100,
    "keys": lambda column: column.astype(np.float64),
    "copies": lambda column: column * np.inf,
    "scores": lambda column: np.repeat(column, 2, axis=1),
    "slopes": lambda column: column[:-1],
}


@pytest.mark.parametrize("name", CALIBRATION)
def test_forged_calibration_is_refused(folder, name):
    def act(connection):
        rows = connection.execute("SELECT segment, source, rows FROM calibration").fetchall()
        assert rows
        for segment, source, blob in rows:
            table = PackedTable.read(blob).near()
            names = [field.name for field in fields(CalibrationTable)]
            columns = [getattr(table, column) for column in names]  # as older versions pack them
            place = names.index(name)
            columns[place] = CALIBRATION[name](columns[place])
            if name == "scores":
                columns[place + 1] = CALIBRATION[name](columns[place + 1])
            forged = compressed(packed(*columns))
            row = [forged, f"{zlib.crc32(forged):08x}", segment, source]
            sql = "UPDATE calibration SET rows = ?, crc32 = ? WHERE segment = ? AND source = ?"
            connection.execute(sql, row)

    forge(folder, act)
    with pytest.raises(CorruptIndexError, match="calibration"):
        memvec.open(folder)
    assert not check_collection(folder).ok
    repair = repair_collection(folder)
    assert all(text.endswith("It was made again.") for text in repair.actions)
    assert repair.n_lost == 0
    assert check_collection(folder).ok
    memvec.open(folder).close()


NARROW = [
    lambda columns: columns[:-2],
    lambda columns: [*columns, columns[-1], columns[-1]],
    lambda columns: [columns[0][:-1], *columns[1:]],
    lambda columns: [columns[0], columns[1].astype(np.float32), *columns[2:]],
    lambda columns: [*columns[:3], columns[3] - 100, *columns[4:]],
    lambda columns: [*columns[:2], columns[2][:-1], *columns[3:]],
]


def forge_tables(folder, change):
    """Put in the place of each table what a function makes of it."""

    def act(connection):
        rows = connection.execute("SELECT segment, source, rows FROM calibration").fetchall()
        assert rows
        for segment, source, blob in rows:
            forged = change(PackedTable.read(blob))
            row = [forged, f"{zlib.crc32(forged):08x}", segment, source]
            sql = "UPDATE calibration SET rows = ?, crc32 = ? WHERE segment = ? AND source = ?"
            connection.execute(sql, row)

    forge(folder, act)


def parts_of(packed_table):
    """Return header, near part and far part of a table as it is packed."""
    start = len(packed_table.blob) - len(packed_table.parts)
    stop = start + packed_table.n_near
    return packed_table.blob[:start], packed_table.blob[start:stop], packed_table.blob[stop:]


@pytest.mark.parametrize("change", NARROW)
def test_forged_table_of_an_older_version_is_refused(folder, change):
    def older(table):
        return compressed(packed(*change(unpacked_arrays(uncompressed(parts_of(table)[1])))))

    forge_tables(folder, older)
    with pytest.raises(CorruptIndexError, match="calibration"):
        memvec.open(folder)


def refused_by_searches(folder):
    """Tell that a collection opens, refuses what needs its evidence, and can be repaired."""
    with (
        memvec.open(folder, read_only=True) as collection,
        pytest.raises(CorruptIndexError, match="a calibration cannot be read"),
    ):
        collection.search(np.eye(collection.dim)[:1], 3)
    report = check_collection(folder)
    assert any("the calibration of segment" in text for text in report.problems)
    repair = repair_collection(folder)
    assert repair.actions
    assert all(text.endswith("It was made again.") for text in repair.actions)
    assert check_collection(folder).ok
    with memvec.open(folder, read_only=True) as collection:
        collection.search(np.eye(collection.dim)[:1], 3)


FAR = [
    lambda columns: columns[:-1],
    lambda columns: [*columns, columns[-1]],
    lambda columns: [columns[0][:-1], *columns[1:]],
    lambda columns: [columns[0] - 100, *columns[1:]],
    lambda columns: [columns[0], columns[1].astype(np.float32), columns[2]],
    lambda columns: [columns[0], columns[1], np.full_like(columns[2], 255)],
    lambda columns: [columns[0], columns[1], columns[2][:, :3]],
    lambda columns: [columns[0] + 1000, *columns[1:]],
]


@pytest.mark.parametrize(
    ("change", "part"), [*((one, 1) for one in NARROW), *((one, 2) for one in FAR)]
)
def test_forged_part_of_a_table_is_refused_when_it_is_read(folder, change, part):
    def forged(table):
        parts = [*parts_of(table)]
        parts[part] = compressed(packed(*change(unpacked_arrays(uncompressed(parts[part])))))
        start = len(parts[0]) - 8  # the header ends with the size of the near part
        parts[0] = parts[0][:start] + len(parts[1]).to_bytes(8, "little")
        return b"".join(parts)

    forge_tables(folder, forged)
    refused_by_searches(folder)


def test_far_rows_of_no_segment_are_refused(folder):
    def forged(table):
        header, near, far = parts_of(table)
        columns = unpacked_arrays(uncompressed(far))
        columns[1][:] = 30_000
        return b"".join([header, near, compressed(packed(*columns))])

    forge_tables(folder, forged)
    with (
        memvec.open(folder, read_only=True) as collection,
        pytest.raises(CorruptIndexError, match="has no such rows"),
    ):
        collection.search(np.eye(collection.dim)[:1], 3)


@pytest.mark.parametrize(("place", "number"), [(24, 0), (32, 17)])
def test_header_of_another_table_is_refused(folder, place, number):
    """At these places are how many strangers are known, and the number of stages."""

    def forged(table):
        return table.blob[:place] + number.to_bytes(8, "little") + table.blob[place + 8 :]

    forge_tables(folder, forged)
    if place == 24:
        refused_by_searches(folder)
    else:
        with pytest.raises(CorruptIndexError, match="calibration"):
            memvec.open(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda blob: blob[:20],
        lambda blob: blob[:24] + b"\xff" * 8 + blob[32:],
        lambda blob: blob[:40] + (len(blob) * 2).to_bytes(8, "little") + blob[48:],
        lambda blob: blob[:8] + np.float64(np.nan).tobytes() + blob[16:],
    ],
)
def test_header_that_cannot_be_is_refused(folder, change):
    forge_tables(folder, lambda table: change(table.blob))
    with pytest.raises(CorruptIndexError, match="calibration of segment"):
        memvec.open(folder)
    assert not check_collection(folder).ok


def test_items_without_vectors_keep_segments_from_being_removed(folder):
    """A catalog that has lost its segments is not whole: what it does not name is no orphan."""
    with memvec.open(folder, read_only=True) as collection:
        before = len(list(collection))

    def forget(connection):
        for table in ("segments", "segment_files", "calibration"):
            connection.execute(f"DELETE FROM {table}")

    forge(folder, forget)
    held = sorted(os.listdir(folder / "segments"))
    for read_only in (False, True):
        with pytest.raises(CorruptIndexError, match=r"it has \d+ items and \d+ vectors"):
            memvec.open(folder, read_only=read_only)
    assert sorted(os.listdir(folder / "segments")) == held
    repair = repair_collection(folder)
    assert 0 < repair.n_lost <= before
    assert set(os.listdir(folder / "lost")) >= set(held)


def test_marks_of_deletion_that_are_none_are_refused(folder):
    forge(folder, lambda one: one.execute("UPDATE items SET deleted = 2 WHERE key = 0"))
    with pytest.raises(CorruptIndexError, match="that are not deleted"):
        memvec.open(folder)


def test_numbers_that_could_not_be_opened_again_are_not_committed(folder):
    forge(folder, lambda one: one.execute("UPDATE state SET next_key = 1000000000000000"))
    with memvec.open(folder) as collection:
        before = len(collection)
        with pytest.raises(CorruptIndexError):
            collection.add(np.ones((1, collection.dim)))
    with memvec.open(folder) as collection:
        assert len(collection) == before


def test_index_is_not_saved_over_a_segment(folder):
    index = memvec.Index.build(np.eye(4))
    segment = folder / "segments" / sorted(os.listdir(folder / "segments"))[0]
    for path in (segment, segment / "items"):
        with pytest.raises(InvalidValueError, match="outside the segments of a collection"):
            index.save(path)
    assert check_collection(folder).ok
