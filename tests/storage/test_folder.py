import json
import mmap
import os
import threading
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InvalidTypeError,
    InvalidValueError,
    MemvecError,
)
from memvec.storage import _manifest, _npy, _read, open_folder, write_folder

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
META = {"dim": 4, "name": "ä", "levels": [1, 2], "ridge": 0.1, "nested": {"none": None, "on": True}}

DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?"),
    npst.complex_number_dtypes(endianness="?"),
    npst.byte_string_dtypes(min_len=1, max_len=5),
    npst.unicode_string_dtypes(endianness="?", min_len=1, max_len=5),
)
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, memoryview | mmap.mmap)


# --- what is on disk -----------------------------------------------------------------------------


def test_folder_holds_a_manifest_and_plain_npy_files(tmp_path):
    folder = tmp_path / "saved"
    write_folder(folder, {"rows": ROWS}, META)
    assert sorted(os.listdir(folder)) == ["g000001", "manifest.json"]
    assert os.listdir(folder / "g000001") == ["rows.npy"]
    assert np.load(folder / "g000001/rows.npy", allow_pickle=False).tolist() == ROWS.tolist()
    content = (folder / "g000001/rows.npy").read_bytes()
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert len(manifest.pop("crc32")) == 8
    assert manifest == {
        "format": "memvec-index",
        "version": 1,
        "generation": "g000001",
        "arrays": {
            "rows": {
                "file": "rows.npy",
                "dtype": "<f4",
                "shape": [3, 4],
                "bytes": len(content),
                "crc32": f"{zlib.crc32(content):08x}",
            }
        },
        "meta": META,
    }


def test_saving_again_replaces_everything(tmp_path):
    write_folder(tmp_path, {"rows": ROWS, "old": ROWS}, {"n": 1})
    write_folder(tmp_path, {"rows": ROWS[:1]}, {"n": 2})
    arrays, meta = open_folder(tmp_path, verify=True)
    assert (list(arrays), meta) == (["rows"], {"n": 2})
    assert arrays["rows"].tolist() == [[0, 1, 2, 3]]
    assert sorted(os.listdir(tmp_path)) == ["g000002", "manifest.json"]


def test_arrays_are_mapped_plain_and_changes_stay_in_memory(tmp_path):
    write_folder(tmp_path, {"rows": ROWS, "none": ROWS[:0]}, {})
    arrays, _ = open_folder(str(tmp_path))
    assert [type(array) for array in arrays.values()] == [np.ndarray, np.ndarray]
    assert [is_mapped(array) for array in arrays.values()] == [True, False]
    assert arrays["none"].shape == (0, 4)
    arrays["rows"][:] = -1
    again, _ = open_folder(tmp_path, verify=True)
    np.testing.assert_array_equal(again["rows"], ROWS)


@pytest.mark.parametrize("rows", [ROWS, ROWS.T, ROWS[:, ::2], np.asfortranarray(ROWS), ROWS[::-1]])
def test_memory_order_is_no_matter(tmp_path, rows):
    write_folder(tmp_path, {"rows": rows}, {})
    opened = open_folder(tmp_path, verify=True)[0]["rows"]
    assert opened.tolist() == rows.tolist()
    assert opened.flags.c_contiguous


def test_content_longer_than_a_block_comes_back(tmp_path, monkeypatch):
    monkeypatch.setattr(_npy, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(_manifest, "_BLOCK_BYTES", 77)
    rows = np.random.default_rng(0).standard_normal((31, 7))
    write_folder(tmp_path, {"rows": rows, "turned": rows.T}, {})
    arrays, _ = open_folder(tmp_path, verify=True)
    assert np.array_equal(arrays["rows"], rows)
    assert np.array_equal(arrays["turned"], rows.T)


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    arrays=st.dictionaries(NAMES, ARRAYS, max_size=3),
    meta=st.dictionaries(st.text(), JSON, max_size=3),
)
def test_everything_comes_back_bit_by_bit(tmp_path_factory, arrays, meta):
    folder = tmp_path_factory.mktemp("saved")
    write_folder(folder, arrays, meta)
    opened, opened_meta = open_folder(folder, verify=True)
    assert opened_meta == meta
    assert list(opened) == list(arrays)
    for name, array in arrays.items():
        assert opened[name].dtype == array.dtype
        assert opened[name].shape == array.shape
        assert opened[name].tobytes() == array.tobytes()
        alone = np.load(folder / f"g000001/{name}.npy", allow_pickle=False)
        assert (alone.dtype, alone.tobytes()) == (array.dtype, array.tobytes())


# --- readers and writers at the same time --------------------------------------------------------


def test_opened_arrays_outlive_the_next_save(tmp_path):
    write_folder(tmp_path, {"rows": ROWS}, {})
    opened = open_folder(tmp_path)[0]["rows"]
    write_folder(tmp_path, {"rows": opened + 1}, {})
    write_folder(tmp_path, {"rows": opened + 2}, {})
    assert opened.tolist() == ROWS.tolist()


def test_save_during_an_open_gives_the_newer_content(tmp_path, monkeypatch):
    write_folder(tmp_path, {"rows": ROWS}, {"n": 1})
    read, manifests = _read.open_manifest, []

    def slow_read(folder):
        manifests.append(read(folder))
        if len(manifests) == 1:
            write_folder(tmp_path, {"rows": ROWS + 1}, {"n": 2})
        return manifests[-1]

    monkeypatch.setattr(_read, "open_manifest", slow_read)
    arrays, meta = open_folder(tmp_path)
    assert arrays["rows"].tolist() == (ROWS + 1).tolist()
    assert meta == {"n": 2}


def test_writers_wait_for_each_other_and_readers_see_whole_saves(tmp_path):
    folder = tmp_path / "saved"
    write_folder(folder, {"a": np.zeros(50), "b": np.zeros(50)}, {"n": 0})
    failures = []

    def save(numbers):
        try:
            for n in numbers:
                write_folder(folder, {"a": np.full(50, n), "b": np.full(50, n)}, {"n": n})
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=save, args=(range(k, 40, 3),)) for k in range(3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        arrays, meta = open_folder(folder, verify=True)
        assert set(arrays["a"]) == set(arrays["b"]) == {meta["n"]}
    assert failures == []
    assert len(os.listdir(folder)) == 2


# --- places that are refused ---------------------------------------------------------------------


def test_missing_folder_is_not_found(tmp_path):
    with pytest.raises(IndexNotFoundError, match=r"There is no saved index at .*nowhere\.") as info:
        open_folder(tmp_path / "nowhere")
    assert isinstance(info.value, FileNotFoundError)
    assert isinstance(info.value, MemvecError)


def test_file_is_not_an_index(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CorruptIndexError, match=r"file is not a saved index: it is not a folder"):
        open_folder(tmp_path / "file")
    with pytest.raises(
        InvalidValueError, match=r"'path' parameter of X must be .*file, a file, ins"
    ):
        write_folder(tmp_path / "file", {}, {}, where="X")
    assert (tmp_path / "file").read_text() == "x"


def test_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(CorruptIndexError, match=r"not a saved index: it holds no manifest.json"):
        open_folder(tmp_path)
    with pytest.raises(InvalidValueError, match=r"which holds 'letter.txt' and no manifest.json"):
        write_folder(tmp_path, {}, {})
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_folder_with_a_foreign_manifest_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": "photos", "icons": []}')
    for call in (lambda: open_folder(tmp_path), lambda: write_folder(tmp_path, {}, {})):
        with pytest.raises(CorruptIndexError, match=r"not say that its format is 'memvec-index'"):
            call()
    assert os.listdir(tmp_path) == ["manifest.json"]


def test_save_in_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(
        InvalidValueError, match=r"a new path in an existing folder.* Got .*a/b ins"
    ):
        write_folder(tmp_path / "a/b", {}, {})
    assert os.listdir(tmp_path) == []


def test_files_of_others_beside_and_inside_stay(tmp_path):
    write_folder(tmp_path, {"rows": ROWS}, {})
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "g000001/notes.txt").write_text("mine too")
    write_folder(tmp_path, {"rows": ROWS}, {})
    assert sorted(os.listdir(tmp_path)) == ["g000001", "g000002", "manifest.json", "notes.txt"]
    assert os.listdir(tmp_path / "g000001") == ["notes.txt"]


# --- arguments that are refused ------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, 5, b"saved"])
def test_path_that_is_none_is_refused(path):
    with pytest.raises(InvalidTypeError, match=rf"of open_folder must be a path. Got {path!r} ins"):
        open_folder(path)
    with pytest.raises(InvalidTypeError, match=rf"of X must be a path. Got {path!r} instead"):
        write_folder(path, {}, {}, where="X")


@pytest.mark.parametrize(
    ("arrays", "error", "text"),
    [
        ([ROWS], InvalidTypeError, "'arrays' parameter of write_folder .* Got list instead"),
        ({"rows": [1, 2]}, InvalidTypeError, "Got list for 'rows' instead"),
        ({"rows": np.array([{}])}, InvalidTypeError, "numbers .* Got dtype object for 'rows'"),
        ({"rows": np.zeros(2, "f4,f4")}, InvalidTypeError, "Got dtype .* for 'rows'"),
        ({"rows": np.zeros(2, "M8[s]")}, InvalidTypeError, "dtype datetime64.s. for 'rows'"),
        ({"../rows": ROWS}, InvalidValueError, r"named by .* Got '../rows' instead"),
        ({"Rows": ROWS}, InvalidValueError, "Got 'Rows' instead"),
        ({"": ROWS}, InvalidValueError, "Got '' instead"),
        ({"a" * 65: ROWS}, InvalidValueError, "at most 64"),
        ({1: ROWS}, InvalidValueError, "Got 1 instead"),
    ],
)
def test_arrays_that_cannot_be_stored_are_refused(tmp_path, arrays, error, text):
    with pytest.raises(error, match=text):
        write_folder(tmp_path / "saved", arrays, {})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("meta", "error", "text"),
    [
        ([1], InvalidTypeError, "'meta' parameter of write_folder must be .* Got list instead"),
        ({"x": {1, 2}}, InvalidTypeError, "Got Object of type set is not JSON serializable ins"),
        ({"x": np.int64(1)}, InvalidTypeError, "Got Object of type int64"),
        ({"x": float("nan")}, InvalidValueError, "comes back equal from JSON. Got Out of range"),
        ({"x": (1, 2)}, InvalidValueError, r"Got {'x': \(1, 2\)} instead"),
        ({"x": {1: 2}}, InvalidValueError, "Got {'x': {1: 2}} instead"),
    ],
)
def test_settings_that_json_would_change_are_refused(tmp_path, meta, error, text):
    with pytest.raises(error, match=text):
        write_folder(tmp_path / "saved", {}, meta)
    assert os.listdir(tmp_path) == []


def test_settings_too_long_for_a_manifest_are_refused(tmp_path):
    size = _manifest.MAX_MANIFEST_BYTES
    with pytest.raises(InvalidValueError, match=rf"'meta' .* at most {size} bytes .* Got 1677"):
        write_folder(tmp_path / "saved", {"rows": ROWS}, {"x": "a" * size})
    assert os.listdir(tmp_path) == []
