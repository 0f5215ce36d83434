"""The catalog: what a flip in it does, forks, settings of later versions, logs, who waits."""

import json
import os
import shutil
import sqlite3
import threading

import numpy as np
import pytest

import memvec
from collection.faults import VECTORS, make_template
from memvec.collection import _catalog, _check, check_collection
from memvec.errors import CorruptIndexError, LockedError, UnknownVersionError


@pytest.fixture
def folder(quick_path):
    copy = quick_path / "some.mv"
    make_template(copy)
    return copy


def seen(folder):
    """Return what a user sees who reads everything."""
    with memvec.open(folder, read_only=True) as collection:
        items = [(item.id, item.vector.tolist(), item.metadata) for item in collection.items()]
        best = collection.search(VECTORS[:3], k=5, guarantee="exact")
        return items, best.ids.tolist(), collection.settings


@pytest.mark.parametrize("n_flips", [60, pytest.param(1500, marks=pytest.mark.slow)])
def test_flip_in_the_catalog_after_a_crash_is_found(folder, n_flips):
    """As after a crash, no checksum of the whole catalog is there; most flips hit unused bytes."""
    (folder / "catalog.crc").unlink()
    catalog, expected = folder / "catalog.sqlite", seen(folder)
    content, rng = catalog.read_bytes(), np.random.default_rng(n_flips)
    # The rest of a page is zeros where nothing was written.
    written = np.flatnonzero(np.frombuffer(content, dtype=np.uint8))
    for position in rng.choice(written, n_flips):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        for log in folder.glob("catalog.sqlite-*"):
            log.unlink()
        catalog.write_bytes(damaged)
        try:
            whole = check_collection(folder).ok
        except UnknownVersionError:
            continue
        if whole:
            assert seen(folder) == expected, position


def test_flip_is_found_after_the_next_writer_closed(folder):
    (folder / "catalog.crc").unlink()
    catalog = folder / "catalog.sqlite"
    content = catalog.read_bytes()
    catalog.write_bytes(content.replace(b'{"i": 4}', b'{"i": 5}'))
    memvec.open(folder).close()
    assert (folder / "catalog.crc").exists()
    [problem] = check_collection(folder).problems
    assert "the checksum (CRC-32) of the item 24 is" in problem


def test_settings_that_are_not_what_was_written_are_damage(folder):
    (folder / "catalog.crc").unlink()
    with sqlite3.connect(folder / "catalog.sqlite") as connection:
        connection.execute("UPDATE settings SET value = replace(value, '0.7', '0.5')")
    connection.close()
    text = r"checksum \(CRC-32\) of the settings is \w{8}, saved was \w{8}"
    with pytest.raises(CorruptIndexError, match=text):
        memvec.open(folder)
    assert "of the settings is" in check_collection(folder).problems[0]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("UPDATE state SET change = 'x'", "its state is number 'x'"),
        ("UPDATE segment_files SET file = CAST(file AS BLOB)", "a file of a segment is said to be"),
    ],
)
def test_values_of_the_wrong_kind_are_damage(folder, sql, text):
    with memvec.open(folder) as collection:
        collection._store.catalog.execute(sql)
    with pytest.raises(CorruptIndexError, match=text):
        memvec.open(folder)


@pytest.mark.parametrize("inside", ["settings", "config"])
def test_setting_of_a_later_version_is_not_damage(folder, inside):
    with memvec.open(folder) as collection:
        catalog = collection._store.catalog
        [(text,)] = catalog.rows("SELECT value FROM settings")
        settings = json.loads(text)
        (settings if inside == "settings" else settings["config"])["colour"] = "red"
        catalog.execute("UPDATE settings SET value = ?, crc32 = NULL", [json.dumps(settings)])
    for read_only in (False, True):
        with pytest.raises(UnknownVersionError, match="setting 'colour', which is unknown to"):
            memvec.open(folder, read_only=read_only)
    with pytest.raises(UnknownVersionError, match="colour"):
        check_collection(folder)


def in_a_fork(act):
    """Return the text of the error that an act raises in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
            text = "no error"
        except LockedError as error:
            text = str(error)
        except BaseException as error:
            text = repr(error)
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "act",
    [
        lambda collection: collection.add(VECTORS[40:41]),
        lambda collection: collection.delete([1]),
        lambda collection: collection.seal(),
        lambda collection: collection.compact(),
        lambda collection: collection.get([1]),
        lambda collection: collection.search(VECTORS[0], k=1),
        lambda collection: collection.check(),
        lambda collection: memvec.open(collection._store.folder, read_only=True),
    ],
)
def test_forked_child_is_refused(folder, act):
    with memvec.open(folder) as collection:
        # A thread of the parent has the lock while it forks; it would never be released.
        held, go_on = threading.Event(), threading.Event()

        def hold():
            with collection._store.catalog.lock:
                held.set()
                go_on.wait()

        thread = threading.Thread(target=hold)
        if act.__code__.co_names[0] in ("add", "delete", "seal", "compact"):
            thread.start()
            held.wait()
        text = in_a_fork(lambda: act(collection))
        go_on.set()
        assert f"was opened by process {os.getpid()}, of which this is a fork" in text
        assert in_a_fork(collection.close) == "no error"
        collection.add(VECTORS[40:41])
        assert collection.check().ok
        with pytest.raises(LockedError, match="open for writing elsewhere"):
            memvec.open(folder)


@pytest.mark.parametrize("log", [None, b"", b"frames"])
def test_empty_log_is_none_where_sqlite_cannot_share_it(folder, monkeypatch, log):
    """As in a folder that may not be written, where readers left an empty log behind."""
    connect = _catalog._connect

    def refused(path, mode):
        if mode == "ro":
            raise sqlite3.OperationalError("unable to open database file")
        return connect(path, mode)

    for left in folder.glob("catalog.sqlite-*"):
        left.unlink()
    if log is not None:
        (folder / "catalog.sqlite-wal").write_bytes(log)
    monkeypatch.setattr(_catalog, "_connect", refused)
    if log:
        with pytest.raises(CorruptIndexError, match="unable to open"):
            memvec.open(folder, read_only=True)
    else:
        with memvec.open(folder, read_only=True) as reader:
            assert len(list(reader.items())) == 23


@pytest.mark.parametrize("read_only", [False, True])
def test_nobody_waits_for_a_check(folder, monkeypatch, read_only):
    began, go_on, found = threading.Event(), threading.Event(), []
    examined = _check.examined

    def slowly(*arguments):
        began.set()
        assert go_on.wait(10)
        return examined(*arguments)

    monkeypatch.setattr(_check, "examined", slowly)
    with memvec.open(folder, read_only=read_only) as collection:
        thread = threading.Thread(target=lambda: found.append(collection.check()))
        thread.start()
        assert began.wait(10)
        assert collection.search(VECTORS[0], k=1).ids[0, 0] == 0
        if not read_only:
            collection.add(VECTORS[40:41])
            collection.compact()  # and what is gone now is not damage
        go_on.set()
        thread.join()
    assert found[0].ok, found[0].problems


def test_segments_that_go_during_a_check_are_not_damage(folder, monkeypatch):
    examined, compacted = _check.examined, []

    def compacting(*arguments):
        if not compacted:
            compacted.append(True)
            with memvec.open(folder) as collection:
                collection.compact()
        return examined(*arguments)

    monkeypatch.setattr(_check, "examined", compacting)
    checked = check_collection(folder)
    assert (checked.ok, checked.n_files > 0) == (True, True)


def test_segment_that_the_catalog_does_not_find_again_is_damage(folder, monkeypatch):
    """As after a flip in the number by which it is looked up; a check ends all the same."""
    shutil.rmtree(folder / "segments/000001")
    rows = _catalog.Catalog.rows

    def unfound(self, sql, parameters=()):
        return [] if "SELECT 1 FROM segments" in sql else rows(self, sql, parameters)

    monkeypatch.setattr(_catalog.Catalog, "rows", unfound)
    assert "is missing" in check_collection(folder).problems[0]


@pytest.mark.parametrize(
    ("table", "text"), [("calibration", "is not found"), ("waiting", "from key 20 on is 00000000")]
)
def test_rows_that_the_catalog_does_not_find_again_are_damage(folder, monkeypatch, table, text):
    rows = _catalog.Catalog.rows

    def unfound(self, sql, parameters=()):
        hidden = "AS BLOB" in sql and f"FROM {table} WHERE" in sql
        return [] if hidden else rows(self, sql, parameters)

    monkeypatch.setattr(_catalog.Catalog, "rows", unfound)
    assert text in check_collection(folder).problems[0]
    with pytest.raises(CorruptIndexError, match=text):
        memvec.open(folder)


def test_keys_that_are_no_numbers_are_damage(folder, monkeypatch):
    rows = _catalog.Catalog.rows

    def without(self, sql, parameters=()):
        if sql.startswith("SELECT segment FROM segments"):
            return [(None,)]
        return rows(self, sql, parameters)

    monkeypatch.setattr(_catalog.Catalog, "rows", without)
    assert "a key is not a number" in check_collection(folder).problems[0]
