"""Flipped bits, truncation, extension: a typed error that names the file, or the right answer."""

import os
import shutil

import numpy as np
import pytest

import memvec
from collection.faults import VECTORS
from memvec.collection import check_collection, repair_collection
from memvec.errors import CorruptIndexError, IndexNotFoundError, InvalidTypeError

SUMS = r"is damaged: its checksum \(CRC-32\) is \w{8}, saved was \w{8}"


def files_of(folder):
    """Return the names of all files, but for SQLite's log and index of it, which readers leave."""
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    # What was solved is no part of the data.
    names = [name for name in names if not name.startswith("solved")]
    return sorted(name for name in names if not name.startswith("catalog.sqlite-"))


def answers(folder):
    """Return what a user gets who reads everything and searches."""
    with memvec.open(folder, read_only=True) as collection:
        hits = collection.range_search(VECTORS[:5], 0.3, guarantee="exact")
        items = [(item.id, item.vector.tolist(), item.metadata) for item in collection.items()]
        return hits.ids.tolist(), hits.scores.tolist(), items


def check_damage(folder, name, expected):
    """A search names the damaged file or is right, and a check finds it."""
    file = os.path.basename(name)
    try:
        assert answers(folder) == expected
    except CorruptIndexError as error:
        if file not in str(error):
            raise
    problems = check_collection(folder).problems
    assert any(file in problem for problem in problems), (name, problems)


def flipped(content, position, bit):
    damaged = bytearray(content)
    damaged[position] ^= 1 << bit
    return bytes(damaged)


@pytest.mark.parametrize("n_flips", [6, pytest.param(150, marks=pytest.mark.slow)])
def test_flipped_bit_in_any_file_is_found(folder, n_flips):
    rng, expected = np.random.default_rng(n_flips), answers(folder)
    assert check_collection(folder).ok
    for name in files_of(folder):
        content = (folder / name).read_bytes()
        for _ in range(n_flips if content else 0):
            damaged = flipped(content, rng.integers(len(content)), rng.integers(8))
            (folder / name).write_bytes(damaged)
            check_damage(folder, name, expected)
        (folder / name).write_bytes(content)
    assert answers(folder) == expected
    assert check_collection(folder).ok


def test_truncation_of_any_file_is_found(folder):
    expected = answers(folder)
    for name in files_of(folder):
        content = (folder / name).read_bytes()
        half, most = len(content) // 2, len(content) - 1
        for length in {0, 1, half, most} if len(content) > 1 else ():
            (folder / name).write_bytes(content[:length])
            check_damage(folder, name, expected)
        (folder / name).write_bytes(content)
    assert answers(folder) == expected


@pytest.mark.parametrize("extra", [1, 5000, 10**12])
def test_extension_of_any_file_is_found(folder, extra):
    expected = answers(folder)
    for name in files_of(folder):
        size = (folder / name).stat().st_size
        os.truncate(folder / name, size + extra)
        check_damage(folder, name, expected)
        os.truncate(folder / name, size)
    assert answers(folder) == expected


@pytest.mark.parametrize("ending", ["-shm", "-wal"])
def test_rubbish_in_an_empty_log_is_harmless(folder, ending):
    expected = answers(folder)
    file = folder / f"catalog.sqlite{ending}"
    for rubbish in (b"", b"\0", b"\x55" * 5000, os.urandom(40_000)):
        file.write_bytes(rubbish)
        assert answers(folder) == expected
        assert check_collection(folder).ok
    os.truncate(file, 10**12)
    assert answers(folder) == expected


def test_missing_files_are_found(folder):
    expected = answers(folder)
    for name in files_of(folder):
        if name.startswith("segments"):
            content = (folder / name).read_bytes()
            (folder / name).unlink()
            with pytest.raises(CorruptIndexError, match=f"{os.path.basename(name)} is missing"):
                answers(folder)
            assert not check_collection(folder).ok
            (folder / name).write_bytes(content)
    assert answers(folder) == expected


def test_messages_give_file_and_both_checksums(folder):
    [vectors] = (folder / "segments/000001").glob("g*/vectors.npy")
    content = vectors.read_bytes()
    vectors.write_bytes(flipped(content, len(content) - 1, 0))
    with memvec.open(folder) as collection:
        assert len(collection) == 23  # opening reads no vectors
        with pytest.raises(CorruptIndexError, match=f"vectors.npy {SUMS}"):
            collection.search(VECTORS[0], k=1)
        with pytest.raises(CorruptIndexError, match=f"vectors.npy {SUMS}"):
            list(collection.items())
        [problem] = collection.check().problems
        assert "vectors.npy" in problem
    with memvec.open(folder, verify=False) as collection:
        assert len(collection.search(VECTORS[0], k=1)) == 1  # as asked for
    catalog = folder / "catalog.sqlite"
    catalog.write_bytes(flipped(catalog.read_bytes(), 5000, 3))
    with pytest.raises(CorruptIndexError, match=f"catalog.sqlite {SUMS}"):
        memvec.open(folder)


def damage_blob(folder):
    """Change waiting vectors inside of the catalog, as a flip after a crash would."""
    with memvec.open(folder) as collection:
        sql = "UPDATE waiting SET vectors = zeroblob(length(vectors))"
        collection._store.catalog.execute(sql)


def test_damaged_waiting_vectors_are_named_with_both_checksums(folder):
    damage_blob(folder)
    text = r"checksum \(CRC-32\) of the 6 vectors from key 20 on is \w{8}, saved was \w{8}"
    with pytest.raises(CorruptIndexError, match=text):
        memvec.open(folder)
    [problem] = check_collection(folder).problems
    assert "6 vectors from key 20" in problem


def test_check_counts_what_it_read(folder):
    checked = check_collection(folder)
    names = [name for name in files_of(folder) if name.startswith("segments")]
    assert (checked.ok, checked.n_files) == (True, len(names))
    assert checked.n_bytes == sum((folder / name).stat().st_size for name in names)


def test_settings_that_make_no_sense_are_damage(folder):
    with memvec.open(folder) as collection:
        collection._store.catalog.execute("UPDATE settings SET value = '{}', crc32 = NULL")
    with pytest.raises(CorruptIndexError, match="settings of the collection are damaged"):
        memvec.open(folder)
    assert not check_collection(folder).ok


def test_catalog_without_its_one_state_is_damage(folder):
    with memvec.open(folder) as collection:
        collection._store.catalog.execute("DELETE FROM settings")
    with pytest.raises(CorruptIndexError, match="it does not hold one state"):
        memvec.open(folder)


def test_segment_without_files_in_the_catalog_is_damage(folder):
    with memvec.open(folder) as collection:
        catalog = collection._store.catalog
        catalog.execute("DELETE FROM segment_files WHERE file LIKE 'items/%'")
        shutil.rmtree(folder / "segments/000001/items")
        assert not collection.check().ok


def test_rebuilt_segments_answer_as_before(folder):
    expected = answers(folder)
    for name in files_of(folder):
        if name.startswith("segments") and "vectors.npy" not in name and "/items/" not in name:
            (folder / name).write_bytes(b"rubbish")
    repair = repair_collection(folder)
    assert repair.n_lost == 0
    assert len(repair.actions) == 2
    assert all("rebuilt from its" in action for action in repair.actions)
    assert answers(folder) == expected
    assert check_collection(folder).ok
    assert sorted(os.listdir(folder / "segments")) == ["000003", "000004"]
    assert repair_collection(folder).actions == ()


def test_segment_whose_vectors_are_damaged_is_dropped(folder):
    [vectors] = (folder / "segments/000001").glob("g*/vectors.npy")
    os.truncate(vectors, 100)
    (folder / "segments/000003").mkdir()  # left by a crash
    repair = repair_collection(folder)
    assert repair.n_lost == 11
    first, second = repair.actions
    assert "its size is 100 bytes" in first
    assert first.endswith("The segment was dropped; what is left of it is in lost.")
    assert os.listdir(folder / "lost") == ["000001"]
    assert second == "12 items without a vector were dropped."
    with memvec.open(folder) as collection:
        assert list(collection) == [12, 13, 14, 16, 17, 18, 19, 20, 22, 23, 24, 25]


def test_missing_segment_is_dropped(folder):
    shutil.rmtree(folder / "segments/000002")
    assert repair_collection(folder).n_lost == 7
    assert check_collection(folder).ok


def test_damaged_waiting_vectors_are_dropped(folder):
    damage_blob(folder)
    repair = repair_collection(folder)
    assert repair.n_lost == 5
    assert repair.actions[0].endswith("They were dropped.")
    with memvec.open(folder) as collection:
        assert len(list(collection.items())) == 18


def test_vectors_without_items_stay_unfound(folder):
    with memvec.open(folder) as collection:
        collection._store.catalog.execute("DELETE FROM items WHERE key IN (0, 1)")
        [problem] = collection.check().problems
        assert problem.endswith("2 vectors belong to no item.")
    repair = repair_collection(folder)
    assert repair.actions == ("2 vectors without an item were marked as deleted.",)
    with memvec.open(folder) as collection:
        assert collection.search(VECTORS[0], k=1, guarantee="exact").ids[0, 0] != 0
        assert 0 not in collection


def test_items_without_vectors_are_found(folder):
    with memvec.open(folder) as collection:
        collection._store.catalog.execute("DELETE FROM waiting")
        [problem] = collection.check().problems
        assert problem.endswith("6 items have no vector.")


def test_checksum_and_lock_are_made_anew(folder):
    expected = answers(folder)
    (folder / "catalog.crc").write_text("{}")
    (folder / "writer.lock").write_bytes(b"x")
    with pytest.raises(CorruptIndexError, match=r"writer.lock is damaged: it must be empty"):
        memvec.open(folder)
    assert not check_collection(folder).ok
    lock, checksum = repair_collection(folder).actions
    assert "writer.lock was not empty" in lock
    assert "catalog.crc is damaged: it holds b'{}'. It was kept" in checksum
    assert answers(folder) == expected


def test_catalog_beyond_repair_is_said_to_be(folder):
    catalog = folder / "catalog.sqlite"
    content = catalog.read_bytes()
    catalog.write_bytes(content[:4096] + b"\x55" * 8192 + content[12288:])
    with pytest.raises(CorruptIndexError, match="Restore it from a copy|is damaged"):
        repair_collection(folder)
    catalog.write_bytes(b"")
    with pytest.raises(CorruptIndexError, match="is beyond repair: it is empty"):
        repair_collection(folder)
    assert not check_collection(folder).ok
    (folder / "catalog.crc").unlink()
    assert check_collection(folder).problems[0].endswith("it is empty.")


def test_what_is_no_collection_is_not_repaired(tmp_path):
    for function in (repair_collection, check_collection):
        with pytest.raises(IndexNotFoundError, match=r"it holds no catalog.sqlite"):
            function(tmp_path)
        with pytest.raises(InvalidTypeError, match="must be a path. Got 5"):
            function(5)
    assert os.listdir(tmp_path) == []
