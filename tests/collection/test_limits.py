"""What is too large for the catalog, and a disk that refuses: a clear error, nothing changed."""

import errno
import os
import shutil

import numpy as np
import pytest

import memvec
from collection import faults
from collection.faults import VECTORS, content
from memvec.collection import _ids, _items, _settings, repair_collection
from memvec.errors import InvalidValueError, StorageError
from memvec.storage import disk

DIM = faults.DIM


def test_metadata_beyond_the_limit_is_refused(collection, monkeypatch):
    monkeypatch.setattr(_ids, "LARGEST_METADATA", 100)
    vectors = np.ones((2, collection.dim))
    text = "must be at most 100 bytes of JSON for each vector. Got 101 bytes in row 1 instead"
    with pytest.raises(InvalidValueError, match=text):
        collection.add(vectors, metadata=[None, {"text": "é" * 44 + "x"}])
    assert len(collection) == 0
    collection.add(vectors, metadata=[None, {"text": "é" * 44}])
    assert len(collection) == 2


def test_limits_are_within_those_of_sqlite():
    assert _ids.LARGEST_METADATA + _ids.LONGEST_ID < 10**9
    assert 6 * _ids.LONGEST_ID * _items._ASKED_AT_ONCE < 10**9  # as JSON escapes them
    assert max(_items._BLOB_BYTES, 4 * _settings.LARGEST_DIM) < 10**9


def test_id_beyond_the_limit_is_refused(collection):
    vectors = np.ones((1, collection.dim))
    with pytest.raises(InvalidValueError, match="text of at most 65,536 bytes. Got 65,537 bytes"):
        collection.add(vectors, ids=["x" * 65_537])
    collection.add(vectors, ids=["x" * 65_536])
    assert "x" * 65_536 in collection
    assert "x" * 65_537 not in collection


def test_dimension_beyond_the_limit_is_refused(path):
    with pytest.raises(InvalidValueError, match="an integer of at most 16,777,216. Got 16777217"):
        memvec.open(path, dim=_settings.LARGEST_DIM + 1)
    assert not path.exists()


def test_long_vectors_lie_in_several_blobs(collection, vectors, monkeypatch):
    monkeypatch.setattr(_items, "_BLOB_BYTES", 4 * collection.dim * 10 + 3)
    collection.add(vectors[:25])
    found = collection._store.catalog.rows("SELECT n_rows FROM waiting ORDER BY first_key")
    assert found == [(10,), (10,), (5,)]
    assert len(list(collection.items())) == 25


def test_many_ids_are_asked_for_in_several_questions(collection, vectors, monkeypatch):
    monkeypatch.setattr(_items, "_ASKED_AT_ONCE", 7)
    ids = [f"item {number}" for number in range(30)]
    collection.add(vectors[:30], ids=ids)
    assert [item.id for item in collection.get(ids)] == ids == list(collection)
    collection.upsert(vectors[30:60], ids=ids)
    assert collection.delete(ids) == 30


def test_value_beyond_the_limit_of_sqlite_is_no_damage(collection):
    catalog = collection._store.catalog
    with pytest.raises(StorageError, match="too big") as caught:
        catalog.rows("SELECT length(zeroblob(2000000000))")
    assert caught.value.errno == errno.EFBIG


REFUSALS = [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO]


def refuse_from(monkeypatch, step, code):
    """Let every step of memvec on the disk fail from the given one on."""
    taken = []

    def refuse(name, original):
        def faulty(*arguments):
            taken.append(name)
            if len(taken) > step:
                raise OSError(code, os.strerror(code))
            return original(*arguments)

        return faulty

    for name in faults.DISK_STEPS:
        monkeypatch.setattr(disk, name, refuse(name, getattr(disk, name)))
    return taken


def create(folder):
    memvec.open(folder.with_name("new.mv"), dim=3).close()


def seal(folder):
    with memvec.open(folder) as collection:
        collection.seal()


def compact(folder):
    with memvec.open(folder) as collection:
        collection.compact()


def repair(folder):
    next((folder / "segments/000001").glob("g*/means.npy")).write_bytes(b"x")
    os.truncate(next((folder / "segments/000002").glob("g*/vectors.npy")), 9)
    repair_collection(folder)


def held(folder):
    with memvec.open(folder) as collection:
        return content(collection)[0]


def is_refused(act, folder):
    try:
        act(folder)
    except StorageError as error:
        return str(folder.parent) in str(error)
    return False


@pytest.mark.parametrize("act", [create, seal, compact, repair])
def test_refusal_of_the_disk_is_typed_and_loses_nothing(folder, quick_path, act):
    template = quick_path / "copy.mv"
    shutil.copytree(folder, template)
    expected = held(folder)
    n_refused = 0
    for step in range(0, 1000, 7):
        shutil.rmtree(folder)
        shutil.rmtree(folder.with_name("new.mv"), ignore_errors=True)
        shutil.copytree(template, folder)
        with pytest.MonkeyPatch.context() as patch:
            taken = refuse_from(patch, step, REFUSALS[step % len(REFUSALS)])
            n_refused += is_refused(act, folder)
        if act is repair:
            repair_collection(folder)
            kept = {name for name in expected if not 12 <= int(name) < 20}
            assert held(folder) == {name: expected[name] for name in kept}
            assert os.listdir(folder / "lost") == ["000002"]
        else:
            assert held(folder) == expected
        if len(taken) <= step:
            break
    assert n_refused >= 1


def test_refusal_while_closing_is_no_error(folder, monkeypatch):
    """Everything is on the disk already; only the checksum of the catalog is not noted."""
    collection = memvec.open(folder)
    collection.add(VECTORS[40:41])
    refuse_from(monkeypatch, 0, errno.ENOSPC)
    collection.close()
    monkeypatch.undo()
    assert not (folder / "catalog.crc").exists()
    assert len(held(folder)) == 24


def test_refusal_to_read_is_typed(folder, monkeypatch):
    from memvec.collection import _checksums

    def refuse(path):
        raise OSError(errno.EIO, "Input/output error", str(path))

    with memvec.open(folder, read_only=True) as reader:
        monkeypatch.setattr(_checksums, "sum_of", refuse)
        with pytest.raises(StorageError, match=r"Input/output error: '.*segments/000001"):
            reader.search(VECTORS[0], k=1)
