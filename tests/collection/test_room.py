"""Room that is given back, on disk and in memory, and scratch that waits for no disk."""

import os
import threading

import numpy as np
import pytest

import memvec
from collection.conftest import DIM
from memvec.collection import scratch_collection
from memvec.storage import disk


@pytest.fixture
def syncs(monkeypatch):
    """The names of files and folders that were synced, by descriptor."""
    found = []
    monkeypatch.setattr(os, "fsync", found.append)
    return found


def pages(collection, name):
    [(number,)] = collection._store.catalog.rows(f"PRAGMA {name}")
    return number


def test_seal_leaves_no_empty_pages_in_the_catalog(collection, vectors, monkeypatch):
    monkeypatch.setattr("memvec.collection._writing._EMPTY_PAGES", 4)
    collection.add(np.tile(vectors, (10, 1)))
    before = pages(collection, "page_count")
    collection.seal(progress=False)
    assert pages(collection, "freelist_count") == 0
    assert pages(collection, "page_count") < before - 10
    assert os.path.getsize(collection._store.folder / "catalog.sqlite") == 4096 * pages(
        collection, "page_count"
    )
    assert not os.path.getsize(collection._store.folder / "catalog.sqlite-wal")
    assert len(collection) == 10 * len(vectors)


def test_few_empty_pages_stay_to_be_filled_again(collection, vectors):
    collection.add(np.tile(vectors, (10, 1)))
    collection.seal(progress=False)
    assert 0 < pages(collection, "freelist_count") < 1024


def test_waiting_vectors_are_sealed_where_they_lie(collection, vectors, monkeypatch):
    made = []
    monkeypatch.setattr("memvec.collection._sealing.scratch_rows", made.append)
    collection.add(vectors)
    collection.seal(progress=False)
    assert made == []
    assert np.allclose(collection.get([7])[0].vector, vectors[7] / np.linalg.norm(vectors[7]))


def test_forgotten_pages_are_read_again(collection, vectors):
    collection.add(vectors)
    collection.seal(progress=False)
    [part] = collection._store.state.segments
    before = part.rows.vectors(np.arange(len(vectors))).copy()
    part.rows.forget_pages()
    assert np.array_equal(part.rows.vectors(np.arange(len(vectors))), before)
    part.rows.check()


def test_calibration_of_segments_is_kept_compressed(collection, vectors):
    for start in (0, 100, 200):
        collection.add(vectors[start : start + 100])
        collection.seal(progress=False, merge=False)
    kept = collection._store.state.calibration
    assert len(kept) == 6
    segments = {part.rows.number: part.rows for part in collection._store.state.segments}
    for (number, source), packed in kept.items():
        strangers = segments[source].vectors(segments[source].strangers)
        table = segments[number].index.calibration_rows(strangers)
        assert len(packed.blob) < 0.3 * table.n_bytes
        assert packed.n_known == table.queries.max() + 1
        assert packed.most_copies == table.copies.max()


def test_scratch_waits_for_no_disk_and_is_removed(vectors, syncs):
    with scratch_collection(dim=DIM, similarity=0.7, metric="cosine", seal_at=0) as collection:
        assert pages(collection, "synchronous") == 0
        syncs.clear()
        collection.add(vectors)
        collection.seal(progress=False)
        assert syncs == []
        assert collection.range_search(vectors[3], 0.99).ids[0] == 3
        folder = collection._store.folder
        assert sorted(os.listdir(folder / "segments")) == ["000001"]
    assert not folder.parent.exists()


def test_other_collections_wait_for_the_disk_as_before(path, vectors, syncs):
    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        assert pages(collection, "synchronous") == 2
        collection.add(vectors)
        syncs.clear()
        collection.seal(progress=False)
        # Each array, each manifest, and the folders that name them.
        assert len(syncs) > 20


def test_only_the_thread_that_asked_for_it_leaves_files_unsynced(tmp_path, syncs):
    def write(name):
        with disk.create_file(tmp_path / name) as file:
            disk.sync(file)

    with disk.unsynced():
        write("a")
        disk.sync_folder(tmp_path)
        assert syncs == []
        other = threading.Thread(target=write, args=["b"])
        other.start()
        other.join()
        assert len(syncs) == 1
    write("c")
    assert len(syncs) == 2
