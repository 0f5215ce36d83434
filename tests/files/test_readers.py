import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import naive
from memvec.errors import (
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
)
from memvec.files import _readers, _vecs, read_ann_benchmark, read_vectors

ROWS = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
KINDS = {".fvecs": ("f", np.float32), ".ivecs": ("i", np.int32), ".bvecs": ("B", np.uint8)}


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def write_parquet(path, values, kind=None, **others):
    pq.write_table(pa.table({"vector": pa.array(values, kind), **others}), path)


# --- npy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_mapped(tmp_path, dtype, order):
    np.save(tmp_path / "v.npy", np.array(ROWS, dtype=dtype, order=order))
    vectors = read_vectors(tmp_path / "v.npy")
    assert vectors.tolist() == ROWS
    assert vectors.dtype == dtype
    assert is_mapped(vectors)


def test_path_may_be_a_string_and_suffix_in_capitals(tmp_path):
    with (tmp_path / "V.NPY").open("wb") as file:
        np.save(file, np.array(ROWS))
    assert read_vectors(str(tmp_path / "V.NPY")).tolist() == ROWS


def test_npy_object_array_is_never_unpickled(tmp_path):
    np.save(tmp_path / "v.npy", np.array([[{}, 1]], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"not a readable .npy file: .*Python objects"):
        read_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize("keep", [0, 3, 40, 140])
def test_npy_truncated_is_refused(tmp_path, keep):
    np.save(tmp_path / "v.npy", np.array(ROWS, dtype=np.float32))
    content = (tmp_path / "v.npy").read_bytes()
    (tmp_path / "v.npy").write_bytes(content[:keep])
    with pytest.raises(FileFormatError, match=r"v.npy is not a readable .npy file"):
        read_vectors(tmp_path / "v.npy")


def test_npy_that_is_an_archive_is_refused(tmp_path):
    with (tmp_path / "v.npy").open("wb") as file:
        np.savez(file, a=np.array(ROWS))
    with pytest.raises(FileFormatError, match=r"not a readable .npy file: .*magic"):
        read_vectors(tmp_path / "v.npy")


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.ones(3), r"shape \(3,\) and dtype float64; vectors are two-dimensional"),
        (np.ones((2, 2), complex), r"shape \(2, 2\) and dtype complex128"),
        (np.array([["a"]]), r"dtype <U1"),
        (np.empty((0, 3)), r"holds no vectors: its shape is \(0, 3\)"),
        (np.empty((3, 0)), r"holds no vectors: its shape is \(3, 0\)"),
    ],
)
def test_npy_of_another_kind_is_refused(tmp_path, array, text):
    np.save(tmp_path / "v.npy", array)
    with pytest.raises(FileFormatError, match=text):
        read_vectors(tmp_path / "v.npy")


# --- fvecs, ivecs, bvecs -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", KINDS)
def test_vecs_are_mapped(tmp_path, suffix):
    kind, dtype = KINDS[suffix]
    path = tmp_path / f"v{suffix}"
    naive.write_vecs(path, ROWS, kind)
    vectors = read_vectors(path)
    assert vectors.tolist() == ROWS
    assert vectors.dtype == dtype
    assert is_mapped(vectors)
    assert not vectors.flags.writeable


@settings(deadline=None, max_examples=30)
@given(
    rows=arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.just(1.5)),
    limit=st.integers(1, 12),
)
def test_fvecs_give_back_what_was_written(tmp_path_factory, rows, limit):
    path = tmp_path_factory.mktemp("vecs") / "v.fvecs"
    naive.write_vecs(path, rows.tolist(), "f")
    np.testing.assert_array_equal(read_vectors(path, rows=limit), rows[:limit])


@pytest.mark.parametrize("size", [0, 3])
def test_vecs_without_a_header_are_refused(tmp_path, size):
    (tmp_path / "v.fvecs").write_bytes(b"\0" * size)
    with pytest.raises(FileFormatError, match=rf"holds no vectors: its size is {size} bytes"):
        read_vectors(tmp_path / "v.fvecs")


@pytest.mark.parametrize("dim", [0, -1, 2_000_000])
def test_vecs_with_a_wild_dimension_are_refused(tmp_path, dim):
    (tmp_path / "v.fvecs").write_bytes(dim.to_bytes(4, "little", signed=True) + b"\0" * 12)
    with pytest.raises(FileFormatError, match=rf"says dimension {dim} in a file of 16 bytes"):
        read_vectors(tmp_path / "v.fvecs")


@pytest.mark.parametrize("suffix", KINDS)
def test_vecs_truncated_are_refused(tmp_path, suffix):
    path = tmp_path / f"v{suffix}"
    naive.write_vecs(path, ROWS, KINDS[suffix][0])
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=r"truncated or malformed: its size of \d+ bytes is"):
        read_vectors(path)


def test_vecs_of_differing_dimension_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_vecs, "_CHECK_ROWS", 2)
    path = tmp_path / "v.ivecs"
    # Two short rows take the place of one long: the size alone looks right.
    naive.write_vecs(path, [[1, 2, 3]] * 3 + [[1], [2]], "i")
    with pytest.raises(FileFormatError, match=r"row 3 says dimension 1, the first row 3"):
        read_vectors(path)
    assert read_vectors(path, rows=3).shape == (3, 3)


# --- HDF5 ----------------------------------------------------------------------------------------


def write_benchmark(path, *, without=(), **changes):
    parts = {
        "train": np.array(ROWS, dtype=np.float32),
        "test": np.ones((2, 3), dtype=np.float32),
        "neighbors": np.zeros((2, 2), dtype=np.int32),
        "distances": np.zeros((2, 2), dtype=np.float32),
    }
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = "angular"
        for name, array in (parts | changes).items():
            if name not in without:
                file[name] = array


def test_ann_benchmark_gives_its_four_arrays(tmp_path):
    write_benchmark(tmp_path / "v.hdf5")
    data = read_ann_benchmark(tmp_path / "v.hdf5")
    assert data.train.tolist() == ROWS
    assert data.neighbors.dtype == np.int32
    assert repr(data) == "AnnBenchmark(train=(4, 3), test=(2, 3), k=2, metric='angular')"


def test_ann_benchmark_metric_may_be_bytes_or_missing(tmp_path):
    write_benchmark(tmp_path / "v.hdf5")
    with h5py.File(tmp_path / "v.hdf5", "a") as file:
        file.attrs["distance"] = np.bytes_(b"euclidean")
    assert read_ann_benchmark(tmp_path / "v.hdf5").metric == "euclidean"
    with h5py.File(tmp_path / "v.hdf5", "a") as file:
        del file.attrs["distance"]
    assert read_ann_benchmark(str(tmp_path / "v.hdf5")).metric == ""


def test_hdf5_in_one_piece_is_mapped(tmp_path):
    write_benchmark(tmp_path / "v.h5")
    vectors = read_vectors(tmp_path / "v.h5", rows=3)
    assert vectors.tolist() == ROWS[:3]
    assert is_mapped(vectors)
    assert read_vectors(tmp_path / "v.h5", field="test").shape == (2, 3)


@pytest.mark.parametrize("options", [{"chunks": (2, 3)}, {"compression": "gzip"}])
def test_hdf5_in_chunks_is_read(tmp_path, options):
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file.create_dataset("train", data=np.array(ROWS, dtype=np.float32), **options)
    vectors = read_vectors(tmp_path / "v.hdf5")
    assert vectors.tolist() == ROWS
    assert not is_mapped(vectors)
    assert read_vectors(tmp_path / "v.hdf5", rows=1).tolist() == ROWS[:1]


def test_hdf5_missing_dataset_is_refused_with_what_is_there(tmp_path):
    write_benchmark(tmp_path / "v.hdf5", without=("neighbors",))
    with pytest.raises(FileFormatError, match=r"no dataset 'neighbors'; it holds distances, test"):
        read_ann_benchmark(tmp_path / "v.hdf5")
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        file.create_group("train")
    with pytest.raises(FileFormatError, match=r"no dataset 'train'; it holds train"):
        read_vectors(tmp_path / "v.hdf5")


@pytest.mark.parametrize(
    ("train", "text"),
    [
        (np.ones(3), r"'train' of shape \(3,\) and dtype float64; it should be two-dimensional"),
        (np.array([[b"a"]]), r"'train' of shape \(1, 1\) and dtype \|S1"),
        (np.empty((0, 3)), r"an empty dataset 'train' of shape \(0, 3\)"),
        (h5py.Empty("f4"), r"'train' of shape None"),
    ],
)
def test_hdf5_of_another_kind_is_refused(tmp_path, train, text):
    write_benchmark(tmp_path / "v.hdf5", train=train)
    with pytest.raises(FileFormatError, match=text):
        read_vectors(tmp_path / "v.hdf5")


def test_ann_benchmark_that_does_not_fit_is_refused(tmp_path):
    write_benchmark(tmp_path / "v.hdf5", test=np.ones((3, 3)))
    with pytest.raises(FileFormatError, match=r"not fit together: train \(4, 3\), test \(3, 3\)"):
        read_ann_benchmark(tmp_path / "v.hdf5")


def test_hdf5_truncated_is_refused(tmp_path):
    write_benchmark(tmp_path / "v.hdf5")
    content = (tmp_path / "v.hdf5").read_bytes()
    for keep in (0, 100, len(content) - 1):
        (tmp_path / "v.hdf5").write_bytes(content[:keep])
        with pytest.raises(FileFormatError, match=r"v.hdf5 is not a readable HDF5 file"):
            read_vectors(tmp_path / "v.hdf5")


def test_hdf5_with_damaged_chunks_is_refused(tmp_path):
    with h5py.File(tmp_path / "v.hdf5", "w") as file:
        data = np.random.default_rng(0).random((64, 8))
        file.create_dataset("train", data=data, compression="gzip", chunks=(64, 8))
        chunk = file["train"].id.get_chunk_info(0)
    with (tmp_path / "v.hdf5").open("r+b") as file:
        file.seek(chunk.byte_offset)
        file.write(b"\xff" * chunk.size)
    with pytest.raises(FileFormatError, match=r"not a readable HDF5 file"):
        read_vectors(tmp_path / "v.hdf5")


def test_ann_benchmark_refuses_what_is_no_path():
    with pytest.raises(InvalidTypeError, match=r"'path' .* a path to an HDF5 file. Got 3 instead"):
        read_ann_benchmark(3)


# --- Parquet -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32(), 3),
        pa.list_(pa.float64()),
        pa.large_list(pa.float32()),
        pa.list_(pa.float16(), 3),
        pa.list_(pa.int8()),
    ],
    ids=str,
)
def test_parquet_lists_are_rows(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(_readers, "_BATCH_ROWS", 3)
    values = np.array(ROWS, dtype=np.float16) if kind.value_type == pa.float16() else np.array(ROWS)
    write_parquet(tmp_path / "v.parquet", list(values), kind, name=list("abcd"))
    vectors = read_vectors(tmp_path / "v.parquet")
    assert vectors.tolist() == ROWS
    assert vectors.dtype == kind.value_type.to_pandas_dtype()


@pytest.mark.parametrize("limit", [1, 3, 4, 9])
def test_parquet_rows_may_be_limited(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(_readers, "_BATCH_ROWS", 3)
    write_parquet(tmp_path / "v.parquet", ROWS, pa.list_(pa.float32()))
    assert read_vectors(tmp_path / "v.parquet", rows=limit).tolist() == ROWS[:limit]


def test_parquet_column_is_chosen_by_name(tmp_path):
    other = pa.array([[0.5]] * 4)
    write_parquet(tmp_path / "v.parquet", ROWS, other=other)
    assert read_vectors(tmp_path / "v.parquet", field="other").tolist() == [[0.5]] * 4
    with pytest.raises(FileFormatError, match=r"2 columns of lists, so 'field' must name one"):
        read_vectors(tmp_path / "v.parquet")
    with pytest.raises(InvalidValueError, match=r"'field' .* other \(list<.*Got 'x' instead"):
        read_vectors(tmp_path / "v.parquet", field="x")


@pytest.mark.parametrize("kind", [pa.int64(), pa.list_(pa.string())])
def test_parquet_column_of_another_kind_is_refused(tmp_path, kind):
    values = [1] if kind == pa.int64() else [["a"]]
    write_parquet(tmp_path / "v.parquet", values, kind)
    with pytest.raises(FileFormatError, match=r"0 columns of lists, so 'field' .* vector \("):
        read_vectors(tmp_path / "v.parquet")
    with pytest.raises(FileFormatError, match=r"no vectors in column 'vector': its type is"):
        read_vectors(tmp_path / "v.parquet", field="vector")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([[1.0, 2.0], [1.0, 2.0], [1.0]], r"2 in the first row, 1 in row 2"),
        ([[1.0, 2.0], None], r"no vector in row 1 of column 'vector' \(null\)"),
        ([[1.0, 2.0], [1.0, None]], r"a null entry in row 1 of column 'vector'"),
        ([[], []], r"empty lists in column 'vector'"),
    ],
)
@pytest.mark.parametrize("batch", [1, 8192])
def test_parquet_ragged_and_null_are_refused(tmp_path, monkeypatch, values, text, batch):
    monkeypatch.setattr(_readers, "_BATCH_ROWS", batch)
    write_parquet(tmp_path / "v.parquet", values, pa.list_(pa.float32()))
    with pytest.raises(FileFormatError, match=text):
        read_vectors(tmp_path / "v.parquet")


def test_parquet_null_in_fixed_lists_is_refused(tmp_path):
    write_parquet(tmp_path / "v.parquet", [[1.0, 2.0], None], pa.list_(pa.float32(), 2))
    with pytest.raises(FileFormatError, match=r"no vector in row 1 of column 'vector'"):
        read_vectors(tmp_path / "v.parquet")


def test_parquet_without_rows_is_refused(tmp_path):
    write_parquet(tmp_path / "v.parquet", [], pa.list_(pa.float32()))
    with pytest.raises(FileFormatError, match=r"column 'vector' has no rows"):
        read_vectors(tmp_path / "v.parquet")


def test_parquet_with_fewer_rows_than_it_says_is_refused(tmp_path, monkeypatch):
    write_parquet(tmp_path / "v.parquet", ROWS)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *_, **__: iter(()))
    with pytest.raises(FileFormatError, match=r"claims 4 rows but has 0"):
        read_vectors(tmp_path / "v.parquet")


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_parquet_truncated_is_refused(tmp_path, keep):
    write_parquet(tmp_path / "v.parquet", ROWS)
    content = (tmp_path / "v.parquet").read_bytes()
    (tmp_path / "v.parquet").write_bytes(content[:keep])
    with pytest.raises(FileFormatError, match=r"v.parquet is not a readable Parquet file"):
        read_vectors(tmp_path / "v.parquet")


# --- all formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v.npy", "v.fvecs", "v.hdf5", "v.parquet"])
def test_missing_file_keeps_its_builtin_error(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: '.*v\.\w+'$"):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize("name", ["v.npy", "v.fvecs", "v.hdf5", "v.parquet"])
def test_folder_keeps_its_builtin_error(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(OSError, match=r"irectory"):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "package"), [("v.hdf5", "h5py"), ("v.h5", "h5py"), ("v.parquet", "pyarrow")]
)
def test_missing_package_says_its_pip_line(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"'{package}'.* pip install 'memvec\[files\]'"):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            ("v.csv",),
            InvalidValueError,
            r"'path' .* ending in .npy, .* Got 'v.csv' instead",
        ),
        ((3,), InvalidTypeError, r"'path' parameter of read_vectors .* Got 3 instead"),
    ],
)
def test_path_of_no_known_format_is_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        read_vectors(*arguments)


def test_rows_must_be_positive():
    with pytest.raises(InvalidValueError, match=r"'rows' .* an integer >= 1. Got 0 instead"):
        read_vectors("v.npy", rows=0)


def test_field_of_a_plain_file_is_refused():
    with pytest.raises(InvalidValueError, match=r"'field' .* holds one array. Got 'x' instead"):
        read_vectors("v.npy", field="x")
