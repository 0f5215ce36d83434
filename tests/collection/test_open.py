"""Creating, opening, locking, reading beside a writer; and refusing what is no collection."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import memvec
from memvec.collection import _contents
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InvalidTypeError,
    InvalidValueError,
    LockedError,
    StorageError,
    UnknownVersionError,
)

DIM = 8
OWN = ["catalog.crc", "catalog.sqlite", "segments", "writer.lock"]


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_settings_are_kept(path):
    config = memvec.IndexConfig(construction="ridge", ridge=float("inf"), unit_size=5)
    options = {"dim": 3, "similarity": 0.8, "miss_rate": 0.1, "config": config, "seal_at": 50}
    memvec.open(path, **options).close()
    with memvec.open(path) as collection:
        for name, value in options.items():
            assert getattr(collection.settings, name) == value
    memvec.open(path, **options).close()
    assert sorted(os.listdir(path)) == OWN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dim", 4),
        ("similarity", 0.5),
        ("miss_rate", 0.5),
        ("guarantee", "exact"),
        ("confidence", 0.5),
        ("similarities", [0.5]),
        ("seal_at", 1),
    ],
)
def test_other_settings_than_those_of_the_creation_are_refused(path, name, value):
    memvec.open(path, dim=3).close()
    memvec.open(path, guarantee="expected", confidence=0.95, similarities=[0.7]).close()
    before = content(path)
    text = f"The '{name}' parameter of memvec.open must be .*, as the collection was created with"
    with pytest.raises(InvalidValueError, match=text):
        memvec.open(path, **{name: value})
    assert content(path) == before


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"dim": 0}, InvalidValueError, "'dim' parameter of memvec.open must be an integer >= 1"),
        ({"dim": 2, "similarity": 2}, InvalidValueError, "'similarity' parameter of memvec.open"),
        ({"dim": 2, "miss_rate": 0}, InvalidValueError, "'miss_rate' parameter of memvec.open"),
        ({"dim": 2, "config": {}}, InvalidTypeError, "must be an IndexConfig. Got {}"),
        ({"dim": 2, "guarantee": "sure"}, InvalidValueError, "'guarantee' .* must be one of"),
        ({"dim": 2, "confidence": 1}, InvalidValueError, "'confidence' parameter of memvec.open"),
        ({"dim": 2, "similarities": 0.7}, InvalidTypeError, "a sequence of at least one.*Got 0.7"),
        ({"dim": 2, "similarities": "ab"}, InvalidTypeError, "a sequence of at least.*Got 'ab'"),
        ({"dim": 2, "similarities": []}, InvalidValueError, "at least one similarity. Got none"),
        ({"dim": 2, "similarities": [2]}, InvalidValueError, "'similarities' parameter of memvec"),
        ({"dim": 2, "seal_at": -1}, InvalidValueError, "must be an integer >= 0. Got -1"),
    ],
)
def test_wrong_settings_create_nothing(path, options, error, text):
    with pytest.raises(error, match=text):
        memvec.open(path, **options)
    assert not path.exists()


def test_path_must_be_a_path():
    with pytest.raises(InvalidTypeError, match="'path' parameter of memvec.open must be a path"):
        memvec.open(5)


def test_missing_collection_is_not_created_without_a_dimension(path, quick_path):
    for options in ({}, {"read_only": True}, {"read_only": True, "dim": 3}):
        with pytest.raises(IndexNotFoundError, match="There is no collection at .*give 'dim'"):
            memvec.open(path, **options)
    with pytest.raises(IndexNotFoundError, match="There is no collection at"):
        memvec.open(quick_path)  # an empty folder
    with pytest.raises(IndexNotFoundError, match="its parent folder does not exist"):
        memvec.open(path / "deep", dim=3)
    assert os.listdir(quick_path) == []


def test_collection_can_be_created_in_an_empty_folder(tmp_path):
    with memvec.open(tmp_path, dim=3) as collection:
        assert len(collection) == 0


@pytest.mark.parametrize("read_only", [False, True])
def test_folder_of_something_else_is_refused(tmp_path, read_only):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CorruptIndexError, match=r"it holds 'thesis.tex' and no file catalog.sq"):
        memvec.open(tmp_path, dim=3, read_only=read_only)
    with pytest.raises(CorruptIndexError, match=r"it is not a folder"):
        memvec.open(tmp_path / "thesis.tex", dim=3, read_only=read_only)
    assert os.listdir(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("read_only", [False, True])
def test_other_databases_are_refused(tmp_path, read_only):
    file = tmp_path / "catalog.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE recipes (name)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(CorruptIndexError, match=r"is not the catalog of a collection"):
        memvec.open(tmp_path, dim=3, read_only=read_only)
    assert file.read_bytes() == before
    file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(CorruptIndexError, match=r"is damaged: file is not a database"):
        memvec.open(tmp_path, dim=3, read_only=read_only)


def test_catalog_that_is_a_folder_is_refused(tmp_path):
    (tmp_path / "catalog.sqlite").mkdir()
    with pytest.raises(CorruptIndexError, match=r"catalog.sqlite is a folder, not a file"):
        memvec.open(tmp_path, dim=3)


@pytest.mark.parametrize("read_only", [False, True])
def test_newer_format_version_is_refused(path, read_only):
    memvec.open(path, dim=3).close()
    (path / "catalog.crc").unlink()
    connection = sqlite3.connect(path / "catalog.sqlite")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = content(path)
    with pytest.raises(UnknownVersionError, match=r"is of format version 2; this memvec reads ver"):
        memvec.open(path, read_only=read_only)
    after = content(path)
    assert {file: after[file] for file in before} == before


def test_second_writer_is_refused_at_once(path):
    with memvec.open(path, dim=DIM):
        text = "is open for writing elsewhere; open it with read_only=True"
        with pytest.raises(LockedError, match=text):
            memvec.open(path)
        program = f"import memvec; memvec.open({str(path)!r})"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert f"LockedError: [Errno 11] {path} is open for" in done.stderr
    memvec.open(path).close()


def test_reader_cannot_write(path, vectors):
    memvec.open(path, dim=DIM).close()
    with memvec.open(path, read_only=True) as reader:
        assert reader.read_only
        for change in (
            lambda: reader.add(vectors),
            lambda: reader.upsert(vectors[:1], ids=[1]),
            lambda: reader.delete([1]),
            reader.seal,
            reader.compact,
        ):
            with pytest.raises(StorageError, match="was opened with read_only=True"):
                change()


def test_closed_collection_says_so(path, vectors):
    collection = memvec.open(path, dim=DIM)
    collection.close()
    collection.close()
    for call in (
        lambda: collection.add(vectors),
        lambda: collection.count(vectors),
        lambda: collection.search(vectors, k=1),
        lambda: collection.stats(),
        lambda: len(collection),
        lambda: list(collection),
    ):
        with pytest.raises(InvalidValueError, match=r"The collection in .*things.mv was closed"):
            call()
    assert repr(collection).startswith("Collection(0 items")


def test_reader_keeps_its_state_until_refresh(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:100])
        with memvec.open(path, read_only=True) as reader:
            writer.delete([0])
            writer.seal()
            writer.upsert(vectors[100:101], ids=[1], metadata=[{"new": True}])
            writer.compact()
            assert (len(reader), 0 in reader) == (100, True)
            assert [item.id for item in reader.items()] == list(range(100))
            assert reader.get([1])[0].metadata == {}
            reader.refresh()
            assert (len(reader), 0 in reader) == (99, False)
            assert reader.get([1])[0].metadata == {"new": True}


def test_refresh_reads_what_is_new(path, vectors, monkeypatch):
    """Old blobs and tables are not read again; what comes of them is what a new reader sees."""
    config = memvec.IndexConfig(codes="none", unit_size=4, reserve=8)
    with memvec.open(path, dim=DIM, similarity=0.3, config=config, seal_at=0) as writer:
        writer.add(vectors[:60])
        writer.seal()
        writer.add(vectors[60:90])
        with memvec.open(path, read_only=True) as reader:
            read = []
            check = _contents.crc_text
            monkeypatch.setattr(_contents, "crc_text", lambda crc: read.append(1) or check(crc))
            writer.add(vectors[90:100])
            writer.delete([61])
            read.clear()
            reader.refresh()
            assert len(read) == 1
            assert_same_items(path, reader)
            writer.seal()
            writer.add(vectors[100:110])
            reader.refresh()
            assert_same_items(path, reader)
            known = dict(reader._store.state.calibration)
            assert known
            writer.add(vectors[110:120])
            reader.refresh()
            now = reader._store.state.calibration
            assert all(now[key] is table for key, table in known.items())
            assert_same_items(path, reader)
            writer.compact()
            reader.refresh()
            assert_same_items(path, reader)


def assert_same_items(path, reader):
    with memvec.open(path, read_only=True) as fresh:
        expected = [(item.id, item.vector.tolist()) for item in fresh.items()]
        assert [(item.id, item.vector.tolist()) for item in reader.items()] == expected
        assert reader._store.state.calibration.keys() == fresh._store.state.calibration.keys()
        assert reader.stats() == fresh.stats()


def test_reader_opens_after_a_writer_that_still_runs(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:10])
        writer.seal()
        writer.add(vectors[10:20])
        with memvec.open(path, read_only=True) as reader:
            assert list(reader) == list(range(20))


def test_reader_that_comes_while_segments_are_removed_sees_the_newer_state(
    path, vectors, monkeypatch
):
    from memvec.collection import _state

    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:50])
        writer.seal()
        opening, calls = _state.Segment.open, []

        def compacted_first(*arguments):
            if not calls:
                calls.append(None)
                writer.compact()
            return opening(*arguments)

        monkeypatch.setattr(_state.Segment, "open", compacted_first)
        with memvec.open(path, read_only=True) as reader:
            assert len(reader) == 50
            assert [part.rows.number for part in reader._store.state.segments] == [2]


def test_reader_works_in_a_folder_that_cannot_be_written(path, vectors):
    with memvec.open(path, dim=DIM) as writer:
        writer.add(vectors[:10])
    program = (
        "import memvec, os, sys, urllib.parse\n"
        "memvec.open, memvec.MemvecError  # imported before the rights to read them are gone\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "with memvec.open(sys.argv[1], read_only=True) as reader: print(len(reader))\n"
        "try: memvec.open(sys.argv[1])\n"
        "except memvec.MemvecError as error: print(type(error).__name__, error)\n"
    )
    for folder in path.parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            folder.chmod(0o755)
    path.chmod(0o555)
    before = content(path)
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert done.stderr == ""
    length, refusal = done.stdout.splitlines()
    assert length == "10"
    assert refusal.startswith("StorageError [Errno 30]")
    assert content(path) == before


def test_threads_read_while_one_writes(path, vectors):
    """Each list of ids is that of some committed state: a whole number of batches."""
    errors = []

    def read(collection):
        try:
            while not done.is_set():
                assert len(list(collection)) % 10 == 0
        except BaseException as error:
            errors.append(error)

    done = threading.Event()
    with memvec.open(path, dim=DIM, seal_at=50) as writer:
        threads = [threading.Thread(target=read, args=(writer,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for start in range(0, 300, 10):
            writer.add(vectors[start : start + 10])
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []


def test_checksum_of_the_catalog_goes_while_it_is_written(path, vectors):
    memvec.open(path, dim=DIM).close()
    assert json.loads((path / "catalog.crc").read_text()).keys() == {"size", "crc32"}
    with memvec.open(path) as writer:
        assert not (path / "catalog.crc").exists()
        writer.add(vectors[:1])
        with memvec.open(path, read_only=True):
            writer.close()  # the reader keeps the log from being emptied
    assert not (path / "catalog.crc").exists()
    memvec.open(path).close()
    assert (path / "catalog.crc").exists()


def test_orphans_are_removed_at_open(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:20])
        writer.seal()
    (path / "segments" / "000002" / "g000001").mkdir(parents=True)
    (path / "segments" / "000002" / "g000001" / "rows.npy").write_bytes(b"x")
    (path / "segments" / "000002.rows").write_bytes(b"x")
    (path / "catalog.crc.tmp").write_bytes(b"{")
    with memvec.open(path) as writer:
        assert len(writer) == 20
    assert os.listdir(path / "segments") == ["000001"]
    assert sorted(os.listdir(path)) == sorted([*OWN, "solved"])


def test_missing_folder_of_segments_is_an_error(path):
    memvec.open(path, dim=DIM).close()
    (path / "segments").rmdir()
    with pytest.raises(CorruptIndexError, match="segments is missing, or not a folder"):
        memvec.open(path)


def test_unfinished_creation_is_finished(path):
    path.mkdir()
    (path / "segments").mkdir()
    sqlite3.connect(path / "writer.lock").close()
    (path / "catalog.sqlite").write_bytes(b"")
    with pytest.raises(IndexNotFoundError):
        memvec.open(path)
    with pytest.raises(IndexNotFoundError):
        memvec.open(path, read_only=True)
    with memvec.open(path, dim=3) as collection:
        assert np.shape(list(collection)) == (0,)
    assert Path(path / "catalog.sqlite").stat().st_size > 0
