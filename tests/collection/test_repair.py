"""Repair: only damage leads to a loss, and what can be derived is rebuilt."""

import errno
import os

import numpy as np
import pytest

import memvec
from collection.faults import VECTORS
from memvec.collection import _checksums, check_collection, repair_collection
from memvec.errors import CorruptIndexError


def contents(folder):
    with memvec.open(folder, read_only=True) as collection:
        hits = collection.range_search(VECTORS[:5], 0.3, guarantee="exact")
        items = [(item.id, item.vector.tolist(), item.metadata) for item in collection.items()]
        return hits.ids.tolist(), hits.scores.tolist(), items


def listing(folder):
    """Return every file with its content."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {path: path.read_bytes() for path in files if "sqlite-" not in path.name}


def file_of(folder, segment, pattern):
    [file] = (folder / f"segments/{segment:06d}").glob(pattern)
    return file


def damage(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("damaged", [False, True])
def test_refusal_of_the_system_is_no_damage(folder, monkeypatch, code, damaged):
    if damaged:
        damage(file_of(folder, 1, "g*/means.npy"))
    before, sum_of = listing(folder), _checksums.sum_of

    def refused(path):
        if path.name == "vectors.npy" and "000002" in str(path):
            raise OSError(code, os.strerror(code), str(path))
        return sum_of(path)

    with monkeypatch.context() as patch:
        patch.setattr(_checksums, "sum_of", refused)
        with pytest.raises(OSError, match=r"vectors\.npy"):
            repair_collection(folder)
        with pytest.raises(OSError, match=r"vectors\.npy"):
            check_collection(folder)
        if damaged:
            with pytest.raises(CorruptIndexError, match=r"means\.npy is damaged"):
                memvec.open(folder, read_only=True)
        else:
            with (
                memvec.open(folder, read_only=True) as reader,
                pytest.raises(OSError, match=r"vectors\.npy"),
            ):
                reader.check()
    assert listing(folder) == before
    repair = repair_collection(folder)
    assert (len(repair.actions), repair.n_lost) == (damaged, 0)


def test_failure_to_read_says_of_which_file(folder, monkeypatch):
    class Failing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def read(self, _):
            raise OSError(errno.EIO, "Input/output error")

    file = file_of(folder, 1, "g*/vectors.npy")
    monkeypatch.setattr(type(file), "open", lambda *_: Failing())
    with pytest.raises(OSError, match=r"Input/output error.*vectors\.npy"):
        _checksums.sum_of(file)


@pytest.mark.parametrize("names", [["places"], ["keys"], ["keys", "places"]])
def test_keys_and_places_are_derived(folder, names):
    expected = contents(folder)
    for name in names:
        damage(file_of(folder, 1, f"items/g*/{name}.npy"))
    repair = repair_collection(folder)
    [action] = repair.actions
    assert action.endswith("The segment was rebuilt from its 12 vectors.")
    assert (contents(folder), repair.n_lost) == (expected, 0)
    assert check_collection(folder).ok
    assert not (folder / "lost").exists()


def test_keys_of_two_segments_are_ambiguous(folder):
    for segment in (1, 2):
        damage(file_of(folder, segment, "items/g*/keys.npy"))
    repair = repair_collection(folder)
    assert repair.n_lost == 18
    assert sorted(os.listdir(folder / "lost")) == ["000001", "000002"]
    assert check_collection(folder).ok


def test_keys_are_not_derived_where_the_catalog_lacks_some(folder):
    damage(file_of(folder, 1, "items/g*/keys.npy"))
    with memvec.open(folder, verify=False) as collection:
        collection._store.catalog.execute("DELETE FROM items WHERE key = 3")
    assert repair_collection(folder).n_lost == 11


def test_damaged_keys_and_waiting_vectors_do_not_mix(folder):
    damage(file_of(folder, 1, "items/g*/keys.npy"))
    with memvec.open(folder) as collection:
        sql = "UPDATE waiting SET vectors = zeroblob(length(vectors))"
        collection._store.catalog.execute(sql)
    assert repair_collection(folder).n_lost == 5
    with memvec.open(folder) as collection:
        vectors = np.array([item.vector for item in collection.items()])
        ids = list(collection)
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    assert np.allclose(vectors, unit[ids], atol=1e-6)
    assert len(ids) == 18


def test_lost_segments_do_not_push_each_other_out(folder):
    (folder / "lost/000001").mkdir(parents=True)
    damage(file_of(folder, 1, "g*/vectors.npy"))
    assert repair_collection(folder).n_lost == 11
    assert sorted(os.listdir(folder / "lost")) == ["000001", "000001-2"]
    assert file_of(folder, 2, "g*/vectors.npy").exists()
    with memvec.open(folder) as collection:
        assert len(collection) == 12
    assert sorted(os.listdir(folder / "lost")) == ["000001", "000001-2"]


def test_item_that_is_not_what_was_written_is_kept(folder):
    with memvec.open(folder) as collection:
        sql = "UPDATE items SET metadata = '{\"i\": 7}' WHERE key = 22"
        collection._store.catalog.execute(sql)
    [problem] = check_collection(folder).problems
    assert "of the item 22 is" in problem
    [action] = repair_collection(folder).actions
    assert action.endswith("It was kept as it is: check its metadata.")
    assert check_collection(folder).ok
    with memvec.open(folder) as collection:
        assert collection.get([22])[0].metadata == {"i": 7}


@pytest.mark.parametrize(("column", "text"), [("next_key", "key"), ("next_segment", "segment")])
def test_numbers_in_use_are_not_given_again(folder, column, text):
    with memvec.open(folder) as collection:
        collection._store.catalog.execute(f"UPDATE state SET {column} = 1")
    [problem] = check_collection(folder).problems
    assert f"the next {text} is 1, and" in problem
    [action] = repair_collection(folder).actions
    assert action.endswith("The numbers in use are skipped.")
    assert check_collection(folder).ok
    with memvec.open(folder) as collection:
        collection.add(VECTORS[40:41])
        collection.seal()
        assert len(list(collection.items())) == 24
