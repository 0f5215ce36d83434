"""Sealing and merging: the same items, in segments."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import memvec
from memvec.storage import disk
from naive import unit_rows

DIM = 8


def sizes(collection):
    return collection.stats().segment_sizes


def assert_holds(collection, vectors, ids):
    items = list(collection.items())
    assert [item.id for item in items] == ids
    got = np.array([item.vector for item in items]).reshape(-1, DIM)
    assert np.array_equal(got, unit_rows(vectors)[ids])


def test_seal_moves_what_waits_into_a_segment(collection, vectors):
    collection.add(vectors[:40])
    collection.delete([3])
    assert collection.seal() == 39
    assert (sizes(collection), collection.stats().n_waiting) == ((39,), 0)
    collection.add(vectors[40:50])
    expected = [i for i in range(50) if i != 3]
    assert_holds(collection, vectors, expected)
    collection.refresh()
    assert_holds(collection, vectors, expected)


@pytest.mark.parametrize("n_rows", [1, 2, 9])
def test_seal_takes_any_number_of_rows(collection, vectors, n_rows):
    collection.add(vectors[:n_rows])
    assert collection.seal() == n_rows
    assert_holds(collection, vectors, list(range(n_rows)))
    assert collection.seal() == 0
    assert sizes(collection) == (n_rows,)


def test_seal_of_deleted_items_leaves_nothing(collection, vectors):
    collection.add(vectors[:5])
    collection.delete(range(5))
    assert collection.seal() == 0
    assert (sizes(collection), collection.stats().n_deleted) == ((), 0)
    assert collection._store.catalog.rows("SELECT * FROM items") == []


def test_compact_makes_one_segment_without_deleted_rows(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        for start in range(0, 90, 30):
            collection.add(vectors[start : start + 30])
            collection.seal()
        collection.add(vectors[90:100])
        collection.delete([0, 45, 95])
        assert collection.compact() == 97
        assert sizes(collection) == (97,)
        assert collection.stats().n_deleted == 0
        assert os.listdir(path / "segments") == ["000004"]
        expected = [i for i in range(100) if i not in (0, 45, 95)]
        assert_holds(collection, vectors, expected)
    with memvec.open(path) as collection:
        assert_holds(collection, vectors, expected)


def test_compact_gives_space_back(path):
    rows = np.random.default_rng(0).standard_normal((3000, 64))
    with memvec.open(path, dim=64, seal_at=0) as collection:
        collection.add(rows)
        collection.seal()
        before = collection.stats()
        collection.delete(range(2900))
        collection.compact()
        collection._store.catalog.empty_log()
        after = collection.stats()
    assert before.segment_bytes - after.segment_bytes >= 2900 * 64 * 4
    assert after.catalog_bytes < before.catalog_bytes / 10


def test_compact_of_nothing_does_nothing(collection, vectors):
    assert collection.compact() == 0
    collection.add(vectors[:5])
    collection.seal()
    collection.delete(range(5))
    assert collection.compact() == 0
    assert sizes(collection) == ()


def test_vectors_are_sealed_when_enough_wait(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=20, background=False) as collection:
        collection.add(vectors[:19])
        assert sizes(collection) == ()
        collection.add(vectors[19:20])
        assert sizes(collection) == (20,)


def test_segments_are_merged_upwards(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=2, background=False) as collection:
        seen = []
        for start in range(0, 300, 2):
            collection.add(vectors[start : start + 2])
            seen.append(sizes(collection))
        assert_holds(collection, vectors, list(range(300)))
        assert len(os.listdir(path / "segments")) == len(sizes(collection))
    assert seen[8] == (2,) * 9
    assert seen[9] == (20,)
    assert seen[98] == (20,) * 9 + (2,) * 9
    assert seen[99] == (200,)
    assert seen[-1] == (200, 20, 20, 20, 20, 20)


def test_items_may_come_and_go_while_a_segment_is_built(collection, vectors, monkeypatch):
    from memvec.collection import _sealing

    collection.add(vectors[:30])
    write = _sealing.Segment.write

    def with_changes(*arguments):
        collection.delete([4])
        collection.upsert(vectors[100:101], ids=[5])
        collection.add(vectors[30:35], ids=range(30, 35))
        return write(*arguments)

    monkeypatch.setattr(_sealing.Segment, "write", with_changes)
    assert collection.seal() == 30
    names = [item.id for item in collection.items()]
    assert names == [i for i in range(30) if i not in (4, 5)] + [5, 30, 31, 32, 33, 34]
    assert np.array_equal(collection.get([5])[0].vector, unit_rows(vectors)[100])
    collection._store.state = collection._store._load(collection._store.catalog, None)
    assert [item.id for item in collection.items()] == names


def test_failed_seal_changes_nothing_and_leaves_nothing(path, vectors, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    with memvec.open(path, dim=DIM, seal_at=20, background=False) as collection:
        monkeypatch.setattr(disk, "sync", refuse)
        collection.add(vectors[:10])
        with pytest.raises(OSError, match="No space left"):
            collection.seal()
        assert os.listdir(path / "segments") == []
        with pytest.warns(RuntimeWarning, match="could not be sealed.*No space left"):
            collection.add(vectors[10:20])
        assert (sizes(collection), len(collection)) == ((), 20)
        monkeypatch.undo()
        collection.add(vectors[20:21])
        assert sizes(collection) == (21,)


def test_everything_is_synced_before_the_commit(collection, vectors, monkeypatch, path):
    from memvec.collection import _sealing

    synced, commit = set(), _sealing._commit
    sync, sync_folder = disk.sync, disk.sync_folder
    monkeypatch.setattr(disk, "sync", lambda file: (synced.add(Path(file.name)), sync(file)))
    monkeypatch.setattr(
        disk, "sync_folder", lambda folder: (synced.add(folder), sync_folder(folder))
    )

    def committed(*arguments):
        # A manifest is synced under the name that it has before it is renamed.
        unfinished = {name for name in synced if name.suffix == ".tmp"}
        renamed = {name.with_suffix("") for name in unfinished}
        written = {path / "segments", *(path / "segments").rglob("*")}
        assert written == (synced - unfinished) | renamed
        return commit(*arguments)

    monkeypatch.setattr(_sealing, "_commit", committed)
    collection.add(vectors[:20])
    assert collection.seal() == 20


def test_leftover_of_the_next_number_is_left_alone(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        collection.add(vectors[:10])
        (path / "segments" / "000001").mkdir()
        (path / "segments" / "000001" / "junk").write_bytes(b"x")
        collection.seal()
        assert_holds(collection, vectors, list(range(10)))
        assert collection.stats().segment_numbers == (2,)
    assert (path / "segments" / "000001" / "junk").read_bytes() == b"x"


def test_old_segments_that_cannot_be_removed_go_at_the_next_open(path, vectors, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "in use")

    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        collection.add(vectors[:10])
        collection.seal()
        monkeypatch.setattr(disk, "remove_file", refuse)
        collection.compact()
        monkeypatch.undo()
        # The last is where the vectors of the new segment were while it was made.
        assert sorted(os.listdir(path / "segments")) == ["000001", "000002", "000002.rows"]
    with memvec.open(path) as collection:
        assert_holds(collection, vectors, list(range(10)))
    assert os.listdir(path / "segments") == ["000002"]


def test_vectors_are_sealed_in_the_background(path, vectors, monkeypatch):
    from memvec.collection import _sealing

    began, go_on = threading.Event(), threading.Event()
    write = _sealing.Segment.write

    def slowly(*arguments):
        began.set()
        assert go_on.wait(10)
        return write(*arguments)

    monkeypatch.setattr(_sealing.Segment, "write", slowly)
    with memvec.open(path, dim=DIM, seal_at=20) as collection:
        collection.add(vectors[:25])
        assert began.wait(10)
        collection.add(vectors[25:40])  # is not kept waiting
        assert sizes(collection) == ()
        assert collection.search(vectors[39], k=1).ids[0, 0] == 39
        go_on.set()
        collection._writing._sealer.wait()
        assert sizes(collection) == (25,)
        assert collection.stats().n_waiting == 15
        collection.add(vectors[40:50])
    with memvec.open(path) as collection:  # closing has waited for the second
        assert sizes(collection) == (25, 25)
        assert_holds(collection, vectors, list(range(50)))


def test_failure_in_the_background_is_told_once(path, vectors, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    with memvec.open(path, dim=DIM, seal_at=20) as collection:
        monkeypatch.setattr(disk, "sync", refuse)
        collection.add(vectors[:20])
        collection._writing._sealer._thread.join()
        monkeypatch.undo()
        with pytest.warns(RuntimeWarning, match="could not be sealed.*No space left"):
            collection.add(vectors[20:21])
        collection._writing._sealer.wait()
        assert (sizes(collection), len(collection)) == ((21,), 21)


def test_those_who_add_wait_where_too_much_waits(path, vectors):
    with memvec.open(path, dim=DIM, seal_at=5) as collection:
        for start in range(0, 300, 30):
            collection.add(vectors[start : start + 30])
            assert collection.stats().n_waiting < 5 * 10 + 30
        collection.add(np.ones((50, DIM)), ids=range(1000, 1050))
        assert collection.stats().n_waiting < 5


def test_merging_can_be_left_for_later(collection, vectors):
    for row in vectors[:12]:
        collection.add([row])
        collection.seal(merge=False)
    assert sizes(collection) == (1,) * 12
    assert collection.seal() == 0
    assert sizes(collection) == (12,)


def test_few_rows_are_not_merged_with_many(collection):
    rows = np.random.default_rng(8).standard_normal((230, DIM))
    collection.add(rows[:200])
    collection.seal()
    for row in rows[200:]:
        collection.add([row])
        collection.seal()
    assert sizes(collection) == (200, 10, 10, 10)
