"""A collection of rows in fewer bytes: sealing, compacting and copying change no score."""

import shutil
import sqlite3
import zlib
from contextlib import closing

import numpy as np
import pytest

import memvec
import naive
from memvec import IndexConfig
from memvec.collection import check_collection, repair_collection
from memvec.errors import CorruptIndexError, InvalidValueError
from strategies import cloud

SMALL = ["float16", "int8"]
ROWS = cloud(1, n=400, dim=16, near=0.9)
QUERIES = cloud(2, n=8, dim=16, near=0.9)
CONFIG = IndexConfig(unit_size=8, reserve=40)
EXACT = {"similarity": 0.8, "guarantee": "exact"}


@pytest.fixture(scope="module", params=SMALL)
def dtype(request):
    return request.param


@pytest.fixture(scope="module")
def truth(dtype):
    """Matches above 0.8 of each query, by the twin."""
    rows = naive.unit_rows(ROWS)
    return [
        {
            i: np.float32(score)
            for i, row in enumerate(rows)
            if (score := naive.stored_score(query, row, dtype)) >= 0.8 - 1e-6
        }
        for query in naive.unit_rows(QUERIES)
    ]


def catalog_of(folder):
    """Open the catalog behind memvec's back, without the checksum that would tell."""
    (folder / "catalog.crc").unlink(missing_ok=True)
    return closing(sqlite3.connect(folder / "catalog.sqlite", isolation_level=None))


def opened(path, dtype=None, **more):
    settings = {"dim": 16, "config": CONFIG, "seal_at": 0} if dtype is not None else {}
    return memvec.open(path, dtype=dtype, background=False, **settings, **more)


def found(collection, **asked):
    hits = collection.range_search(QUERIES, **(EXACT | asked))
    return [dict(zip(row.ids.tolist(), row.scores, strict=True)) for row in hits]


def test_no_step_of_its_life_changes_a_score(dtype, truth, tmp_path):
    path = tmp_path / "rows.mv"
    with opened(path, dtype) as collection:
        assert collection.dtype == dtype
        collection.add(ROWS[:250])
        waiting = found(collection)
        collection.seal(progress=False)
        assert found(collection) == waiting
        collection.add(ROWS[250:])
        assert found(collection) == truth
        query = next(i for i, row in enumerate(truth) if row)
        row, score = next(iter(truth[query].items()))
        assert np.float32(collection.explain(QUERIES[query], row, 0.8).score) == score
    with opened(path) as collection:  # waiting rows were read again
        assert collection.dtype == dtype
        assert found(collection) == truth
        assert found(collection, where={"year": {"$exists": False}}) == truth
        collection.delete(list(range(0, 400, 3)))
        left = [{i: s for i, s in row.items() if i % 3} for row in truth]
        assert found(collection) == left
        collection.compact(progress=False)
        assert found(collection) == left
        assert check_collection(path).ok
    with opened(path, read_only=True) as reader:
        assert found(reader) == left


def test_vectors_that_are_got_and_added_again_are_the_same(dtype, truth, tmp_path):
    with opened(tmp_path / "one.mv", dtype) as one, opened(tmp_path / "two.mv", dtype) as two:
        one.add(ROWS[:200])
        one.seal(progress=False)
        one.add(ROWS[200:])
        given = np.array([item.vector for item in one.get(range(400))])
        assert given.dtype == np.float32
        two.add(given)
        again = np.array([item.vector for item in two.get(range(400))])
        assert again.tobytes() == given.tobytes()
        assert found(two) == truth


@pytest.mark.parametrize("online", ["scan", "units"])
def test_waiting_rows_are_scored_as_they_are_stored(dtype, truth, online, tmp_path):
    with opened(tmp_path / "rows.mv", dtype, online=online) as collection:
        collection.add(ROWS)
        for some, every in zip(found(collection, guarantee="model"), truth, strict=True):
            assert some.items() <= every.items()


def test_chunks_scanned_by_codes_are_scored_as_they_are_stored(dtype, truth, tmp_path, monkeypatch):
    monkeypatch.setattr("memvec.collection._waiting_codes.CHUNK", 64)
    monkeypatch.setattr("memvec.search.UnitSource.few_rows", 10)
    with opened(tmp_path / "rows.mv", dtype) as collection:
        collection.add(ROWS[:100])
        collection.seal(progress=False)
        collection.add(ROWS[100:])
        for some, every in zip(found(collection, guarantee="model"), truth, strict=True):
            assert some.items() <= every.items()
            assert {i for i in every if i >= 100} <= some.keys()


def test_joins_are_those_of_the_stored_rows(dtype, tmp_path):
    rows = naive.unit_rows(ROWS[:70]).copy()
    rows[60:] = rows[:10]
    expected = {
        (i, j): np.float32(score)
        for i in range(70)
        for j in range(i + 1, 70)
        if (score := naive.stored_score(rows[i], rows[j], dtype)) >= 0.8 - 1e-6
    }
    with opened(tmp_path / "rows.mv", dtype) as collection:
        collection.add(rows[:40])
        collection.seal(progress=False)
        collection.add(rows[40:])
        pairs = collection.self_join(**EXACT)
        assert {(p.left, p.right): np.float32(p.score) for p in pairs} == expected
        assert {60 + i for i in range(10)} <= set(collection.deduplicate(1.0).drop)


def test_rows_take_the_bytes_of_their_type(dtype, tmp_path):
    sizes = {}
    for kind in ("float32", dtype):
        with opened(tmp_path / kind, kind) as collection:
            collection.add(ROWS)
            with catalog_of(tmp_path / kind) as catalog:
                [(blob,)] = catalog.execute("SELECT sum(length(vectors)) FROM waiting")
            collection.seal(progress=False)
            sizes[kind] = blob, collection.stats().segment_bytes
    width = np.dtype(dtype).itemsize
    assert sizes[dtype][0] == 400 * 16 * width
    # Each row has its scale besides.
    saved = sizes["float32"][1] - sizes[dtype][1]
    assert saved == pytest.approx(400 * 16 * (4 - width) - 400 * 8, abs=1000)


def test_damaged_segment_is_rebuilt_from_its_stored_rows(dtype, truth, tmp_path):
    path = tmp_path / "rows.mv"
    with opened(path, dtype) as collection:
        collection.add(ROWS)
        collection.seal(progress=False)
    [codes] = path.glob("segments/*/g*/codes.npy")
    codes.write_bytes(codes.read_bytes()[:-1] + b"x")
    assert not check_collection(path).ok
    repair_collection(path)
    assert check_collection(path).ok
    with opened(path) as collection:
        assert collection.dtype == dtype
        assert found(collection) == truth


def test_float32_is_written_as_before_there_were_others(tmp_path):
    with opened(tmp_path / "rows.mv", "float32"):
        pass
    with catalog_of(tmp_path / "rows.mv") as catalog:
        text = "".join(map(str, catalog.execute("SELECT * FROM settings").fetchall()))
    assert "dtype" not in text
    with opened(tmp_path / "rows.mv") as collection:
        assert collection.dtype == "float32"


def test_another_type_than_that_of_the_collection_is_refused(dtype, tmp_path):
    with opened(tmp_path / "rows.mv", dtype):
        pass
    with pytest.raises(InvalidValueError, match=f"'dtype' parameter of memvec.open .* '{dtype}'"):
        memvec.open(tmp_path / "rows.mv", dtype="float32")
    with pytest.raises(InvalidValueError, match="'dtype' parameter of memvec.open must be one of"):
        memvec.open(tmp_path / "new.mv", dim=2, dtype="int4")
    with pytest.raises(InvalidValueError, match="'dtype' parameter of memvec.open .* dimensions"):
        memvec.open(tmp_path / "new.mv", dim=1 << 17, dtype="int8")
    assert not (tmp_path / "new.mv").exists()


@pytest.mark.parametrize("value", [-128, 0, 126])
def test_waiting_rows_that_nobody_stores_are_refused(value, tmp_path):
    path = tmp_path / "rows.mv"
    with opened(path, "int8") as collection:
        collection.add(ROWS)
    with catalog_of(path) as catalog:
        [(blob,)] = catalog.execute("SELECT vectors FROM waiting").fetchall()
        rows = np.frombuffer(bytearray(blob), dtype=np.int8).reshape(-1, 16)
        rows[3] = value
        forged = rows.tobytes()
        crc = f"{zlib.crc32(forged):08x}"
        catalog.execute("UPDATE waiting SET vectors = ?, crc32 = ?", [forged, crc])
    with pytest.raises(CorruptIndexError, match="not all 400 vectors from key 0 on have norm 1"):
        opened(path)


def test_segment_of_another_type_is_refused(tmp_path):
    for kind in ("float32", "int8"):
        with opened(tmp_path / kind, kind) as collection:
            collection.add(ROWS)
            collection.seal(progress=False)
    with catalog_of(tmp_path / "int8") as catalog:
        rows = catalog.execute("SELECT * FROM segment_files").fetchall()
    with catalog_of(tmp_path / "float32") as catalog:
        catalog.execute("DELETE FROM segment_files")
        catalog.executemany("INSERT INTO segment_files VALUES (?, ?, ?, ?)", rows)
    [old], [new] = ((tmp_path / kind).glob("segments/*") for kind in ("float32", "int8"))
    shutil.rmtree(old)
    shutil.copytree(new, old)
    with pytest.raises(CorruptIndexError, match="its vectors are int8, and the catalog says float"):
        opened(tmp_path / "float32")
