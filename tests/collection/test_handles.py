"""Several handles on one collection: what one of them does leaves the others whole."""

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import memvec
from memvec.collection import _repair, _writing, check_collection, repair_collection
from memvec.errors import CorruptIndexError, InvalidValueError

DIM = 8
PROGRAM = """
import memvec, numpy as np, sys
vectors = np.random.default_rng(5).standard_normal((300, 8)).astype(np.float32)
with memvec.open(sys.argv[1]) as writer:
    writer.add(vectors[100:], ids=range(int(sys.argv[2]), int(sys.argv[2]) + 200))
    writer.delete([int(sys.argv[2])])
    writer.compact()
    writer.add(vectors[:5])
"""


def write_elsewhere(path, first):
    """Add 200 items and 5 more in another process, and delete one."""
    subprocess.run([sys.executable, "-c", PROGRAM, path, str(first)], check=True)


@pytest.fixture
def filled(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:100])
    return path


def test_second_handle_leaves_the_locks_of_the_first(filled, vectors):
    """Closing any descriptor of the catalog would drop them: the log would go while it is read."""
    first = memvec.open(filled, read_only=True)
    second = memvec.open(filled, read_only=True)
    check_collection(filled)
    for n_written, start in enumerate((1000, 2000)):
        write_elsewhere(filled, start)
        assert (filled / "catalog.sqlite-wal").exists()
        for reader in (first, second):
            assert len(reader) == len(list(reader.items())) == 100 + 204 * n_written
            assert reader.search(vectors[0], k=1, guarantee="exact").ids[0, 0] == 0
        for reader in (first, second):
            reader.refresh()
            assert len(reader) == len(list(reader)) == 304 + 204 * n_written
            assert start + 1 in reader
    with memvec.open(filled) as writer:
        writer.add(vectors[:10], ids=range(9000, 9010))
    first.close()
    second.close()
    with memvec.open(filled, read_only=True) as reader:
        assert len(reader) == 518
        assert reader.check().ok


def test_checksum_is_not_noted_while_another_handle_is_open(filled):
    with memvec.open(filled, read_only=True):
        memvec.open(filled).close()
        assert not (filled / "catalog.crc").exists()
    memvec.open(filled).close()
    assert (filled / "catalog.crc").exists()


def test_handle_that_was_dropped_counts_no_more(filled):
    with pytest.raises(InvalidValueError):
        memvec.open(filled, dim=DIM + 1, read_only=True)
    catalog = filled / "catalog.sqlite"
    content = bytearray(catalog.read_bytes())
    content[-1] ^= 1
    catalog.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=r"catalog.sqlite is damaged: its checksum"):
        memvec.open(filled, read_only=True)


@pytest.fixture(params=[DIM, 600])
def wide(request, path):
    """A writer of one segment that nobody read yet: its files are small, or some are large."""
    vectors = np.random.default_rng(6).standard_normal((120, request.param)).astype(np.float32)
    with memvec.open(path, dim=request.param, seal_at=0) as writer:
        writer.add(vectors[:100])
        writer.seal()
        yield writer, vectors


def test_reader_answers_from_segments_that_were_compacted_away(path, wide):
    writer, vectors = wide
    with memvec.open(path, read_only=True) as reader:
        writer.add(vectors[100:])
        writer.compact()
        assert os.listdir(path / "segments") == ["000002"]
        assert reader.search(vectors[3], k=1, guarantee="exact").ids[0, 0] == 3
        assert reader.get([0])[0].id == 0
        checked = reader.check()
        assert (checked.problems, checked.n_files > 0) == ((), True)
        reader.refresh()
        assert len(list(reader.items())) == 120
        assert reader.check().ok


@pytest.mark.parametrize("kind", ["items", "iter_range", "self_join"])
def test_iterators_of_a_writer_outlive_a_compaction(wide, kind):
    writer, vectors = wide
    arguments = {"items": (), "iter_range": (vectors[0], 0.05), "self_join": (0.05,)}
    found = getattr(writer, kind)(*arguments[kind])
    writer.add(vectors[100:])
    writer.compact()
    assert next(iter(found)) is not None


@pytest.mark.parametrize("change", ["flip", "truncate", "extend"])
def test_damage_after_opening_is_found_at_first_use(path, wide, change):
    _, vectors = wide
    [file] = (path / "segments/000001").glob("g*/vectors.npy")
    with memvec.open(path, read_only=True) as reader:
        if change == "flip":
            with file.open("r+b") as opened:
                opened.seek(-1, os.SEEK_END)
                [last] = opened.read()
                opened.seek(-1, os.SEEK_END)
                opened.write(bytes([last ^ 1]))
        else:
            os.truncate(file, 500 if change == "truncate" else 10**12)
        text = "vectors.npy is damaged: its " + ("checksum" if change == "flip" else "size")
        with pytest.raises(CorruptIndexError, match=text):
            reader.search(vectors[0], k=1)
        assert not reader.check().ok


def test_damage_of_a_segment_that_was_compacted_away_is_found(path, wide):
    writer, _ = wide
    [file] = (path / "segments/000001").glob("g*/vectors.npy")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with memvec.open(path, read_only=True) as reader:
        writer.compact()
        [problem] = reader.check().problems
        assert "vectors.npy is damaged: its checksum" in problem


def test_item_without_a_vector_is_damage(filled):
    with memvec.open(filled) as writer:
        writer._store.catalog.execute("DELETE FROM waiting")
    with pytest.raises(CorruptIndexError, match="it has 100 items and 0 vectors"):
        memvec.open(filled)


@pytest.mark.parametrize("damage", ["blob", "segment"])
def test_interrupted_repair_drops_nothing(path, vectors, monkeypatch, damage):
    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:50])
        writer.seal()
        writer.add(vectors[50:60])
        if damage == "blob":
            sql = "UPDATE waiting SET vectors = zeroblob(length(vectors))"
            writer._store.catalog.execute(sql)
    if damage == "segment":
        [file] = (path / "segments/000001").glob("g*/vectors.npy")
        os.truncate(file, 100)
    before = check_collection(path).problems

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_repair, "unmatched", interrupted)
        with pytest.raises(KeyboardInterrupt):
            repair_collection(path)
    assert check_collection(path).problems == before
    assert repair_collection(path).n_lost == (10 if damage == "blob" else 50)
    with memvec.open(path) as collection:
        assert len(list(collection)) == len(list(collection.items())) == len(collection)
    assert check_collection(path).ok


def test_failed_refresh_leaves_the_old_state(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as writer:
        writer.add(vectors[:100])
        with memvec.open(path, read_only=True) as reader:
            writer.add(vectors[100:200])
            writer.seal()
            writer.add(vectors[200:])
            segment = path / "segments/000001"
            segment.rename(path / "elsewhere")
            for _ in range(2):
                with pytest.raises(CorruptIndexError, match="is missing"):
                    reader.refresh()
                assert (len(reader), len(list(reader)), 250 in reader) == (100, 100, False)
                assert len(list(reader.items())) == 100
            (path / "elsewhere").rename(segment)
            reader.refresh()
            assert (len(list(reader.items())), 250 in reader) == (300, True)


def test_closed_reader_is_not_refreshed(filled):
    reader = memvec.open(filled, read_only=True)
    reader.close()
    with pytest.raises(InvalidValueError, match="was closed"):
        reader.refresh()


def test_close_lets_the_next_writer_in_after_a_warning(path, vectors, monkeypatch):
    def full(*_, **__):
        raise OSError("the disk is full")

    writer = memvec.open(path, dim=DIM, seal_at=10)
    with monkeypatch.context() as patch:
        patch.setattr(_writing, "rewrite", full)
        writer.add(vectors[:20])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="the disk is full"):
                writer.close()
    with memvec.open(path) as writer:
        assert len(writer) == 20


def test_interrupted_close_is_ended_by_the_sealer(path, vectors, monkeypatch):
    """Not before: the next writer would make a segment of the same number."""
    go_on, rewrite = threading.Event(), _writing.rewrite

    def slow(*arguments, **options):
        go_on.wait()
        return rewrite(*arguments, **options)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(_writing, "rewrite", slow)
    writer = memvec.open(path, dim=DIM, seal_at=10)
    writer.add(vectors[:20])
    thread = writer._writing._sealer._thread
    with monkeypatch.context() as patch:
        patch.setattr(writer._writing._sealer, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.close()
    with pytest.raises(memvec.errors.LockedError):
        memvec.open(path)
    go_on.set()
    thread.join()
    with memvec.open(path) as again:
        assert again.stats().segment_sizes == (20,)


def refuse(*_, **__):
    raise OSError("the disk is full")


@pytest.mark.parametrize("background", [True, False])
def test_add_that_was_committed_does_not_fail(path, vectors, monkeypatch, background):
    """With warnings as errors, a failed seal is raised by the next call, before it commits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with memvec.open(path, dim=DIM, seal_at=10, background=background) as writer:
            with monkeypatch.context() as patch:
                patch.setattr(_writing, "rewrite", refuse)
                writer.add(vectors[:20])
                if background:
                    writer._writing._sealer._thread.join()
            with pytest.raises(RuntimeWarning, match="could not be sealed.*the disk is full"):
                writer.add(vectors[20:30])
            assert len(writer) == 20
            writer.add(vectors[20:30])
            assert len(writer) == 30
    with memvec.open(path, read_only=True) as reader:
        assert (len(reader), reader.stats().n_waiting) == (30, 0)


def test_lack_of_threads_does_not_fail_an_add(path, vectors, monkeypatch):
    def no_more(_):
        raise RuntimeError("can't start new thread")

    with memvec.open(path, dim=DIM, seal_at=10) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_more)
            with pytest.warns(RuntimeWarning, match="could not be sealed.*new thread") as seen:
                writer.add(vectors[:20])
            assert seen[0].filename == __file__
        writer.add(vectors[20:21])
    with memvec.open(path) as writer:
        assert writer.stats().segment_sizes == (21,)
