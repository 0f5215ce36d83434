"""Items come, are replaced and go; each call is on the disk when it returns."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memvec
from memvec.errors import InvalidTypeError, InvalidValueError, StorageError
from memvec.files import read_blocks
from naive import unit_rows

DIM = 8
HUGE = 2**63 - 1


def test_added_items_come_back(collection, vectors):
    assert collection.add(vectors[:3], ids=["a", 7, "b"], metadata=[{"x": 1}, None, {}]) == [
        "a",
        7,
        "b",
    ]
    items = collection.get(["b", "a"])
    assert [item.id for item in items] == ["b", "a"]
    assert [item.metadata for item in items] == [{}, {"x": 1}]
    assert np.array_equal(items[1].vector, unit_rows(vectors)[0])
    assert (len(collection), "a" in collection, "c" in collection) == (3, True, False)
    assert list(collection) == ["a", 7, "b"]


def test_items_are_there_after_reopening(path, vectors):
    with memvec.open(path, dim=DIM) as collection:
        collection.add(vectors[:5], ids=list("abcde"))
        collection.delete(["b"])
    with memvec.open(path) as collection:
        assert list(collection) == list("acde")
        assert [item.id for item in collection.items()] == list("acde")
        got = np.array([item.vector for item in collection.items()])
        assert np.array_equal(got, unit_rows(vectors)[[0, 2, 3, 4]])


def test_ids_are_integers_above_all_others_by_default(collection, vectors):
    assert collection.add(vectors[:2]) == [0, 1]
    collection.add(vectors[:2], ids=[10, "z"])
    assert collection.add(vectors[:2]) == [11, 12]
    collection.delete([11, 12])
    assert collection.add(vectors[:1]) == [11]


def test_integer_and_text_of_the_same_digits_are_two_ids(collection, vectors):
    collection.add(vectors[:2], ids=[1, "1"])
    assert np.array_equal(collection.get(["1"])[0].vector, unit_rows(vectors)[1])
    assert "2" not in collection
    assert 1.5 not in collection


def test_upsert_replaces_vector_and_metadata(collection, vectors):
    collection.add(vectors[:2], ids=["a", "b"], metadata=[{"v": 1}, {"v": 1}])
    assert collection.upsert(vectors[2:4], ids=["b", "c"], metadata=[{"v": 2}, None]) == ["b", "c"]
    assert list(collection) == ["a", "b", "c"]
    assert collection.get(["b"])[0].metadata == {"v": 2}
    assert np.array_equal(collection.get(["b"])[0].vector, unit_rows(vectors)[2])


def test_deleted_id_can_be_added_again(collection, vectors):
    collection.add(vectors[:1], ids=["a"])
    assert collection.delete(["a"]) == 1
    assert "a" not in collection
    collection.add(vectors[1:2], ids=["a"])
    assert np.array_equal(collection.get(["a"])[0].vector, unit_rows(vectors)[1])
    assert collection.delete([]) == 0


def test_add_of_an_existing_id_changes_nothing(collection, vectors):
    collection.add(vectors[:2], ids=["a", "b"])
    with pytest.raises(InvalidValueError, match=r"ids that are new.*Got 'b' instead"):
        collection.add(vectors[:3], ids=["c", "b", "d"])
    assert list(collection) == ["a", "b"]
    assert len(collection.stats().segment_sizes) == 0
    assert collection.add(vectors[:1], ids=["c"]) == ["c"]


def test_numbers_for_ids_end_with_64_bits(collection, vectors):
    collection.add(vectors[:1], ids=[HUGE - 2])
    assert collection.add(vectors[1:2]) == [HUGE - 1]
    change = collection.stats().change
    text = rf"'ids' parameter of Collection.add must be given where.*Got none after {HUGE - 1}"
    with pytest.raises(InvalidValueError, match=text):
        collection.add(vectors[:2])
    assert collection.add(vectors[2:3]) == [HUGE]
    with pytest.raises(InvalidValueError, match=rf"fewer than 1 integers.*none after {HUGE} "):
        collection.add(vectors[:1])
    assert (len(collection), collection.stats().change) == (3, change + 1)
    assert collection.add(vectors[3:4], ids=["named"]) == ["named"]


def test_delete_of_an_unknown_id_changes_nothing(collection, vectors):
    collection.add(vectors[:2], ids=["a", "b"])
    with pytest.raises(InvalidValueError, match=r"in the collection. Got 'c' instead"):
        collection.delete(["a", "c"])
    with pytest.raises(InvalidValueError, match=r"Collection.get.*Got 9 instead"):
        collection.get([9])
    assert len(collection) == 2


def test_stats_count_what_is_there(collection, vectors):
    collection.add(vectors[:100])
    collection.delete([3, 4])
    collection.seal()
    collection.add(vectors[100:110])
    collection.delete([5, 101])
    stats = collection.stats()
    assert (stats.n_items, stats.n_waiting, stats.n_deleted) == (106, 10, 2)
    assert stats.segment_sizes == (98,)
    assert stats.segment_bytes > 98 * DIM * 4
    assert stats.change == 5
    assert repr(collection) == "Collection(106 items of dimension 8, 1 segment, 9 waiting)"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ids = st.integers(-HUGE - 1, HUGE) | st.text()
VECTORS = np.random.default_rng(0).standard_normal((9, DIM))


def storable(value):
    return "\\u0000" not in repr(value).replace("\\x00", "\\u0000") and "inf" not in repr(value)


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.dictionaries(ids, st.dictionaries(st.text(), json_values, max_size=3), max_size=9))
def test_any_ids_and_metadata_come_back_equal(quick_path, things):
    things = {
        name: row
        for name, row in things.items()
        if storable(row) and not (isinstance(name, str) and not storable(name))
    }
    folder = Path(tempfile.mkdtemp(dir=quick_path)) / "c.mv"
    with memvec.open(folder, dim=DIM) as collection:
        if things:
            rows = VECTORS[: len(things)]
            collection.add(rows, ids=list(things), metadata=list(things.values()))
        collection.close()
    with memvec.open(folder) as collection:
        assert {item.id: item.metadata for item in collection.items()} == things
        assert [item.metadata for item in collection.get(list(things))] == list(things.values())


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        (["a"], InvalidValueError, "must be 2, one per vector. Got 1 ids"),
        (["a", "a"], InvalidValueError, "free of repeated ids. Got 'a' twice"),
        ("ab", InvalidTypeError, "a sequence of integers or strings. Got 'ab'"),
        (5, InvalidTypeError, "a sequence of integers or strings. Got 5"),
        ([1, True], InvalidTypeError, "a sequence of integers or strings. Got True"),
        ([1, 2.5], InvalidTypeError, "a sequence of integers or strings. Got 2.5"),
        ([1, 2**63], InvalidValueError, "integers of 64 bits. Got 9223372036854775808"),
        (["a", "\0"], InvalidValueError, "text without NUL characters and lone surrogates"),
        (["a", "\ud800"], InvalidValueError, r"lone surrogates. Got '\\ud800'"),
    ],
)
def test_wrong_ids_are_refused(collection, vectors, ids, error, text):
    with pytest.raises(error, match=text):
        collection.add(vectors[:2], ids=ids)
    assert len(collection) == 0


@pytest.mark.parametrize(
    ("metadata", "error", "text"),
    [
        ({"a": 1}, InvalidTypeError, "a sequence of 2 mappings or None, one per vector. Got dict"),
        ([{}], InvalidValueError, "a sequence of 2 mappings or None, one per vector. Got 1"),
        ([{}, 5], InvalidTypeError, "come back equal from JSON.*Got int in row 1"),
        ([{}, {"a": {1}}], InvalidTypeError, "set is not JSON serializable in row 1"),
        ([{}, {"a": (1,)}], InvalidValueError, r"Got {'a': \(1,\)} in row 1"),
        ([{}, {"a": float("nan")}], InvalidValueError, "in row 1"),
        ([{}, {"a": "\ud800"}], InvalidValueError, "surrogates not allowed in row 1"),
        ([{}, {"a": "x\0y"}], InvalidValueError, "free of NUL characters"),
    ],
)
def test_wrong_metadata_is_refused(collection, vectors, metadata, error, text):
    with pytest.raises(error, match=text):
        collection.add(vectors[:2], metadata=metadata)
    assert len(collection) == 0


def test_text_that_looks_like_an_escaped_nul_is_kept(collection, vectors):
    collection.add(vectors[:1], metadata=[{"a": r"\u0000"}])
    assert collection.get([0])[0].metadata == {"a": r"\u0000"}


def test_ids_may_be_arrays(collection, vectors):
    assert collection.add(vectors[:2], ids=np.array([4, 5])) == [4, 5]
    assert collection.add(vectors[:2], ids=np.array(["x", "y"])) == ["x", "y"]
    assert all(type(name) in (int, str) for name in collection)


def test_wrong_vectors_are_refused(collection, vectors):
    with pytest.raises(InvalidValueError, match="of dimension 8. Got dimension 3"):
        collection.add(vectors[:2, :3])
    with pytest.raises(InvalidValueError, match="only zeros in row 1"):
        collection.add(np.array([[1.0] * DIM, [0.0] * DIM]))
    assert collection.stats().change == 0


def test_upsert_needs_ids(collection, vectors):
    with pytest.raises(InvalidTypeError, match="'ids' parameter of Collection.upsert .*Got None"):
        collection.upsert(vectors[:1], None)
    assert len(collection) == 0


def test_id_too_long_to_be_spelled_out_is_refused(collection, vectors):
    with pytest.raises(InvalidValueError, match="integers of 64 bits. Got one of 16610 bits"):
        collection.add(vectors[:1], ids=[10**5000])


def test_get_of_one_id_is_one_item(collection, vectors):
    collection.add(vectors[:2], ids=["ab", 7], metadata=[{"x": 1}, None])
    assert collection.get("ab").metadata == {"x": 1}
    assert collection.get(7).id == collection.get(np.int64(7)).id == 7
    with pytest.raises(InvalidValueError, match=r"in the collection. Got 'a' instead"):
        collection.get("a")
    with pytest.raises(InvalidTypeError, match=r"a sequence of integers or strings. Got True"):
        collection.get(True)


def test_delete_of_one_id_deletes_one_item(collection, vectors):
    collection.add(vectors[:3], ids=["ab", "a", "b"])
    assert collection.delete("ab") == 1
    assert list(collection) == ["a", "b"]


def test_one_vector_may_be_added(collection, vectors):
    assert collection.add(vectors[0]) == [0]
    assert collection.add(vectors[1], ids="ab", metadata={"x": 1}) == ["ab"]
    assert collection.add(vectors[2].tolist(), ids=np.int64(9), metadata=[{"x": 2}]) == [9]
    assert collection.upsert(vectors[3], ids=["ab"]) == ["ab"]
    assert np.array_equal(collection.get("ab").vector, unit_rows(vectors)[3])
    with pytest.raises(InvalidValueError, match=r"must be 1, one per vector. Got 2 ids"):
        collection.add(vectors[0], ids=["c", "d"])
    with pytest.raises(InvalidValueError, match=r"two-dimensional, one vector per row. Got shape"):
        collection.add([])
    assert len(collection) == 3


def test_numpy_values_in_metadata_become_plain(collection, vectors):
    given = {
        "count": np.int64(3),
        "flag": np.bool_(True),
        "share": np.float32(0.5),
        "text": np.str_("x"),
        "rows": np.arange(4).reshape(2, 2),
        "nested": {"list": [np.uint8(1), np.array([0.5, 1.5]), {"deep": np.float16(2)}]},
        "objects": np.array([np.int8(1), "a", None], dtype=object),
    }
    collection.add(vectors[0], metadata=given)
    assert collection.get(0).metadata == {
        "count": 3,
        "flag": True,
        "share": 0.5,
        "text": "x",
        "rows": [[0, 1], [2, 3]],
        "nested": {"list": [1, [0.5, 1.5], {"deep": 2.0}]},
        "objects": [1, "a", None],
    }
    assert [item.id for item in collection.items(where={"count": 3, "flag": True})] == [0]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.float32("nan"), InvalidValueError),
        (np.array([np.inf]), InvalidValueError),
        (np.datetime64("2020-01-01"), InvalidTypeError),
        (np.complex64(1), InvalidTypeError),
        ({np.int64(1): 2}, InvalidTypeError),
    ],
)
def test_numpy_values_that_json_lacks_are_refused(collection, vectors, value, error):
    with pytest.raises(error, match="come back equal from JSON.*in row 1"):
        collection.add(vectors[:2], metadata=[{}, {"a": value}])
    assert len(collection) == 0


def test_blocks_of_an_iterator_are_added_one_after_the_other(collection, vectors):
    blocks = (vectors[:10][start : start + 4] for start in range(0, 10, 4))
    names = (f"v{row}" for row in range(100))
    metadata = ({"row": row} for row in range(10))
    with pytest.raises(InvalidValueError, match=r"'ids' .* must be 10, one per vector. Got more"):
        collection.add(blocks, ids=names, metadata=metadata)
    assert [(item.id, item.metadata) for item in collection.items()] == [
        (f"v{row}", {"row": row}) for row in range(10)
    ]
    assert np.array_equal([item.vector for item in collection.items()], unit_rows(vectors)[:10])
    assert collection.stats().change == 3
    assert collection.add(row for row in vectors[10:12]) == [10, 11]
    assert collection.upsert(iter([vectors[:1]]), ids=["v3"]) == ["v3"]
    assert collection.add(iter([])) == []
    with pytest.raises(
        InvalidValueError, match=r"'metadata' .* must be 1, one per vector. Got more"
    ):
        collection.add(iter([vectors[:1]]), metadata=[None, None])


def test_blocks_of_files_bring_ids_and_metadata(collection, vectors, tmp_path):
    np.savez(tmp_path / "v.npz", vectors=vectors[:5], ids=list("abcde"), year=np.arange(5))
    read = read_blocks(tmp_path / "v.npz", metadata=["year"], block_rows=2)
    assert collection.add(read) == list("abcde")
    assert collection.get("e").metadata == {"year": 4}


def test_a_refused_block_leaves_those_before_it(collection, vectors):
    bad = vectors[4:8].copy()
    bad[2, 1] = np.nan
    with pytest.raises(InvalidValueError, match="Got NaN in row 6"):
        collection.add(iter([vectors[:4], bad, vectors[8:12]]))
    assert list(collection) == [0, 1, 2, 3]
    with pytest.raises(InvalidTypeError, match="set is not JSON serializable in row 1"):
        collection.add(iter([vectors[:1], vectors[1:2]]), metadata=[{}, {"a": {1}}])
    with pytest.raises(InvalidValueError, match=r"must be 2, one per vector. Got 1 ids"):
        collection.add(iter([vectors[:2], vectors[2:4]]), ids=["a", "b", "c"])
    assert list(collection) == [0, 1, 2, 3, 4, "a", "b"]
    with pytest.raises(InvalidValueError, match="of dimension 8. Got dimension 1"):
        collection.add(iter([1.0]), ids=["c"])
    for wrong in ("abc", {"a": 1}, 5):
        with pytest.raises(InvalidTypeError, match="an iterable, one per vector of all blocks"):
            collection.add(iter([vectors[:3]]), ids=wrong)


def test_blocks_stop_where_the_collection_is_closed(path, vectors):
    def closing():
        yield vectors[:2]
        collection.close()
        yield vectors[2:4]

    collection = memvec.open(path, dim=DIM)
    with pytest.raises(InvalidValueError, match="was closed"):
        collection.add(closing())
    with memvec.open(path, read_only=True) as reader:
        assert list(reader) == [0, 1]
        with pytest.raises(StorageError, match="was opened with read_only=True"):
            reader.add(iter([]))
