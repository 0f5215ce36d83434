"""Reading rows with ids and metadata, block by block, from every format."""

import datetime
import decimal
import io
import json
import math
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memvec.errors import FileFormatError, InvalidTypeError, InvalidValueError, MissingExtraError
from memvec.files import _readers, count_rows, read_blocks, read_vectors

ROWS = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
NAMES = ["a", "b", "c"]
YEARS = [2019, 2020, 2021]


def write(path):
    """Write the three rows, with names and years, in the format of the suffix."""
    match path.suffix:
        case ".npz":
            np.savez(path, vectors=ROWS, id=NAMES, year=YEARS)
        case ".h5":
            with h5py.File(path, "w") as file:
                file["train"], file["id"], file["year"] = ROWS, NAMES, YEARS
        case ".parquet":
            columns = {"vector": pa.array(ROWS.tolist()), "id": NAMES, "year": YEARS}
            pq.write_table(pa.table(columns), path)
        case ".jsonl":
            lines = zip(ROWS.tolist(), NAMES, YEARS, strict=True)
            records = [{"vector": v, "id": n, "year": y} for v, n, y in lines]
            path.write_text("\n".join(map(json.dumps, records)) + "\n\n")
        case ".npy":
            np.save(path, ROWS)
    return path


def all_of(path, **asked):
    """Return vectors, ids and metadata of all blocks, after a look at their numbers."""
    blocks = list(read_blocks(path, **asked))
    assert [block.first_row for block in blocks] == np.cumsum([0, *map(len, blocks)])[:-1].tolist()
    vectors = np.concatenate([block.vectors for block in blocks])
    ids = [name for block in blocks for name in block.ids or []]
    metadata = [row for block in blocks for row in block.metadata or []]
    return vectors.tolist(), ids, metadata


NAMED = [".npz", ".h5", ".parquet", ".jsonl"]


@pytest.mark.parametrize("block_rows", [1, 2, 10])
@pytest.mark.parametrize("suffix", NAMED)
def test_ids_and_metadata_come_with_the_vectors(tmp_path, suffix, block_rows):
    path = write(tmp_path / f"v{suffix}")
    vectors, ids, metadata = all_of(path, metadata=["year"], block_rows=block_rows)
    assert (vectors, ids) == (ROWS.tolist(), NAMES)
    assert metadata == [{"year": year} for year in YEARS]


@pytest.mark.parametrize("first_row", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("block_rows", [1, 2])
@pytest.mark.parametrize("suffix", [*NAMED, ".npy"])
def test_blocks_begin_with_the_row_asked_for(tmp_path, suffix, block_rows, first_row):
    path = write(tmp_path / f"rows{suffix}")
    blocks = list(read_blocks(path, block_rows=block_rows, first_row=first_row))
    rows = [block.first_row + row for block in blocks for row in range(len(block))]
    assert rows == list(range(3))[first_row:]
    assert [row.tolist() for block in blocks for row in block.vectors] == ROWS[rows].tolist()
    if suffix != ".npy":
        assert [name for block in blocks for name in block.ids] == NAMES[first_row:]


@pytest.mark.parametrize("first_row", range(12))
def test_groups_of_rows_before_the_first_are_not_read(tmp_path, first_row):
    path = tmp_path / "rows.parquet"
    rows = np.arange(22, dtype=np.float32).reshape(11, 2)
    pq.write_table(pa.table({"vector": pa.array(rows.tolist())}), path, row_group_size=3)
    blocks = list(read_blocks(path, block_rows=2, first_row=first_row))
    assert [row.tolist() for block in blocks for row in block.vectors] == rows[first_row:].tolist()


@pytest.mark.parametrize("suffix", NAMED)
def test_fields_can_be_named(tmp_path, suffix):
    path = write(tmp_path / f"v{suffix}")
    _, ids, metadata = all_of(path, ids="year", metadata=["*"])
    assert ids == YEARS
    assert metadata == [{"id": name} for name in NAMES]
    assert all_of(path)[2] == []


@pytest.mark.parametrize("suffix", NAMED)
@pytest.mark.parametrize("parameter", ["ids", "metadata"])
def test_unknown_field_is_refused_with_those_there_are(tmp_path, suffix, parameter):
    path = write(tmp_path / f"v{suffix}")
    asked = {parameter: "colour" if parameter == "ids" else ["colour"]}
    match = (
        rf"The '{parameter}' parameter of read_blocks must be the name of a field of .*v{suffix}"
    )
    with pytest.raises(InvalidValueError, match=match + r", which holds .*id.* Got 'colour'"):
        list(read_blocks(path, **asked))


@pytest.mark.parametrize("suffix", [".npy", *NAMED])
def test_rows_are_counted(tmp_path, suffix):
    path = write(tmp_path / f"v{suffix}")
    assert count_rows(path) == 3


@pytest.mark.parametrize("rows", [None, 1, 2, 3, 9])
@pytest.mark.parametrize("suffix", [".npy", *NAMED])
def test_all_vectors_are_those_of_the_blocks(tmp_path, monkeypatch, suffix, rows):
    monkeypatch.setattr(_readers, "_BATCH_ROWS", 2)
    path = write(tmp_path / f"v{suffix}")
    vectors = read_vectors(path, rows=rows)
    assert vectors.tolist() == all_of(path, block_rows=1)[0][:rows]
    assert vectors.dtype == next(read_blocks(path)).vectors.dtype


def test_vectors_are_read_without_what_stands_beside_them(tmp_path):
    lines = [{"vector": [1.0], "metadata": 3}, {"vector": [2.0], "id": "a"}]
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, lines)))
    pq.write_table(pa.table({"v": [[1.0], [2.0]], "metadata": ["{", "3"]}), tmp_path / "v.parquet")
    np.savez(tmp_path / "v.npz", vectors=[[1.0], [2.0]], id=[1, 2, 3])
    for suffix in (".jsonl", ".parquet", ".npz"):
        with pytest.raises(FileFormatError):
            list(read_blocks(tmp_path / f"v{suffix}"))
        assert read_vectors(tmp_path / f"v{suffix}").tolist() == [[1], [2]]


def test_all_vectors_have_the_widest_type_of_the_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(_readers, "_BATCH_ROWS", 1)
    rows = [[0.5], [1e300], [0.1]]
    (tmp_path / "v.jsonl").write_text("".join(json.dumps({"vector": row}) + "\n" for row in rows))
    assert read_vectors(tmp_path / "v.jsonl").tolist() == rows


def test_rows_of_a_file_of_lines_are_read_no_further_than_asked(tmp_path):
    (tmp_path / "v.jsonl").write_text('{"vector": [1]}\n{"vector": [2]}\n{')
    assert read_vectors(tmp_path / "v.jsonl", rows=2).tolist() == [[1], [2]]
    with pytest.raises(FileFormatError, match="no JSON in line 3"):
        read_vectors(tmp_path / "v.jsonl", rows=3)


def test_parquet_without_rows_is_refused_in_blocks_too(tmp_path):
    pq.write_table(pa.table({"v": pa.array([], pa.list_(pa.float32()))}), tmp_path / "v.parquet")
    with pytest.raises(FileFormatError, match="column 'v' has no rows"):
        list(read_blocks(tmp_path / "v.parquet"))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_error_names_the_function_that_was_called(tmp_path, suffix):
    path = write(tmp_path / f"v{suffix}")
    with pytest.raises(InvalidValueError, match="The 'field' parameter of read_vectors must"):
        read_vectors(path, field="x")
    with pytest.raises(InvalidValueError, match="The 'field' parameter of read_blocks must"):
        list(read_blocks(path, field="x"))


def test_plain_files_have_vectors_only(tmp_path):
    path = write(tmp_path / "v.npy")
    assert all_of(path, block_rows=2) == (ROWS.tolist(), [], [])
    for name, value in {"field": "x", "ids": "x", "metadata": ["x"]}.items():
        with pytest.raises(InvalidValueError, match=f"The '{name}' parameter .* one array"):
            list(read_blocks(path, **{name: value}))


def test_metadata_may_be_whole_objects_or_their_json(tmp_path):
    rows = [{"tag": "x"}, {}, {"deep": [1, None]}]
    records = [{"vector": [1.0], "metadata": row} for row in rows]
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert all_of(tmp_path / "v.jsonl")[2] == rows
    texts = [*map(json.dumps, rows[:2]), None]
    pq.write_table(pa.table({"v": [[1.0]] * 3, "metadata": texts}), tmp_path / "v.parquet")
    assert all_of(tmp_path / "v.parquet")[2] == [*rows[:2], {}]


@pytest.mark.parametrize(("value", "text"), [("{", "not JSON"), ("3", "object but int")])
def test_metadata_that_is_no_object_is_refused(tmp_path, value, text):
    pq.write_table(pa.table({"v": [[1.0]], "metadata": [value]}), tmp_path / "v.parquet")
    with pytest.raises(FileFormatError, match=f"v.parquet has metadata .*{text}"):
        list(read_blocks(tmp_path / "v.parquet"))


def test_nulls_are_left_out_and_dates_become_text(tmp_path):
    days = [datetime.date(2020, 1, 2), None]
    pq.write_table(pa.table({"v": [[1.0], [2.0]], "day": days}), tmp_path / "v.parquet")
    assert all_of(tmp_path / "v.parquet", metadata=["day"])[2] == [{"day": "2020-01-02"}, {}]
    np.savez(tmp_path / "v.npz", vectors=ROWS[:1], day=np.array(["2020-01-02"], "M8[D]"), id=[b"x"])
    assert all_of(tmp_path / "v.npz", metadata=["day"])[1:] == (["x"], [{"day": "2020-01-02"}])


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".h5"])
def test_nan_is_left_out_as_null_is(tmp_path, suffix):
    path, values = tmp_path / f"v{suffix}", [1.5, float("nan"), 2.5]
    match suffix:
        case ".npz":
            np.savez(path, vectors=ROWS, x=values)
        case ".h5":
            with h5py.File(path, "w") as file:
                file["train"], file["x"] = ROWS, values
        case ".parquet":
            pq.write_table(pa.table({"v": pa.array(ROWS.tolist()), "x": values}), path)
    assert all_of(path, metadata=["x"])[2] == [{"x": 1.5}, {}, {"x": 2.5}]


def test_time_that_is_missing_is_left_out(tmp_path):
    days = np.array(["2020-01-02", "NaT", "2020-01-03"], "M8[D]")
    np.savez(tmp_path / "v.npz", vectors=ROWS, day=days)
    found = all_of(tmp_path / "v.npz", metadata=["day"])[2]
    assert found == [{"day": "2020-01-02"}, {}, {"day": "2020-01-03"}]


@pytest.mark.parametrize(
    ("kind", "count", "text"),
    [
        (pa.timestamp("ns"), 1_500_000_000_000_000_001, "2017-07-14T02:40:00.000000001"),
        (pa.timestamp("ns"), 1_500_000_000_000_000_000, "2017-07-14T02:40:00"),
        (
            pa.timestamp("ns", "UTC"),
            1_500_000_000_123_456_789,
            "2017-07-14T02:40:00.123456789+00:00",
        ),
        (pa.timestamp("ns"), -1, "1969-12-31T23:59:59.999999999"),
        (pa.time64("ns"), 1_000_000_020, "00:00:01.000000020"),
    ],
)
def test_nanoseconds_become_text(tmp_path, kind, count, text):
    times = pa.array([None, count], pa.int64()).cast(kind)
    table = pa.table({"v": [[1.0], [2.0]], "time": times})
    pq.write_table(table, tmp_path / "v.parquet")
    assert all_of(tmp_path / "v.parquet", metadata=["time"])[2] == [{}, {"time": text}]


def test_time_beyond_those_of_python_names_the_column(tmp_path):
    times = pa.array([2**58], pa.timestamp("ms"))
    pq.write_table(pa.table({"v": [[1.0]], "time": times}), tmp_path / "v.parquet")
    with pytest.raises(FileFormatError, match=r"v.parquet holds values in column 'time' \(timesta"):
        list(read_blocks(tmp_path / "v.parquet", metadata=["time"]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"x", "holds a value of the type bytes as 'x' in row 2. Metadata is what JSON holds"),
        (decimal.Decimal("1.5"), "holds a value of the type Decimal as 'x' in row 2"),
        (datetime.timedelta(1), "holds a value of the type timedelta as 'x' in row 2"),
        (math.inf, "holds inf as 'x' in row 2"),
        ([math.nan], "holds nan as 'x' in row 2"),
    ],
)
def test_value_that_json_does_not_hold_is_named(tmp_path, value, text):
    table = pa.table({"v": pa.array(ROWS.tolist()), "x": [None, None, value]})
    pq.write_table(table, tmp_path / "v.parquet")
    with pytest.raises(FileFormatError, match=f"v.parquet {text}"):
        list(read_blocks(tmp_path / "v.parquet", field="v", metadata=["x"], block_rows=2))


def test_values_within_lists_and_objects_are_made_json(tmp_path):
    day = datetime.date(2020, 1, 2)
    table = pa.table({"v": [[1.0]], "days": [[day]], "in": [{"day": day, "n": 1, "none": None}]})
    pq.write_table(table, tmp_path / "v.parquet")
    [row] = all_of(tmp_path / "v.parquet", metadata=["*"])[2]
    assert row == {"days": ["2020-01-02"], "in": {"day": "2020-01-02", "n": 1, "none": None}}


def test_open_file_is_read_as_json_lines():
    lines = io.BytesIO(b'{"vector": [0.5, 1e300]}\n\n{"vector": [1, 2]}\n')
    [block] = read_blocks(lines)
    assert block.ids is None
    assert block.vectors.tolist() == [[0.5, 1e300], [1, 2]]


def test_numbers_that_were_float32_stay_float32():
    vector = np.random.default_rng(0).standard_normal(5).astype(np.float32)
    [block] = read_blocks(io.BytesIO(json.dumps({"vector": vector.tolist()}).encode()))
    assert block.vectors.dtype == np.float32
    np.testing.assert_array_equal(block.vectors[0], vector)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("{", "holds no JSON in line 1"),
        ("[1]", "holds no object in line 1"),
        ('{"v": [1]}', "has no 'vector' in line 1; it holds v"),
        ('{"vector": 1}', "holds no list of numbers as 'vector' in line 1"),
        ('{"vector": []}', "holds no list of numbers as 'vector' in line 1"),
        ('{"vector": [1]}\n\n{"vector": [1, 2]}', "lengths: 1 in the first line, 2 in line 3"),
        ('{"vector": [1]}\n{"vector": ["x"]}', "values other than numbers as 'vector' in line 2"),
        ('{"vector": [1]}\n{"vector": [true]}', None),
        ('{"vector": [[1], [2]]}', "values other than numbers as 'vector' in line 1"),
        ('{"vector": [1, [2]]}', "values other than numbers as 'vector' in line 1"),
        ('{"vector": [1], "id": 1}\n{"vector": [1]}', "has no 'id' in line 2; it holds vector"),
        (
            '{"vector": [1]}\n{"vector": [1], "id": 1}',
            "has 'id' in line 2 and no id in line 1; all",
        ),
        (
            '{"vector": [1], "metadata": []}',
            "has metadata in line 1 that is not an object but list",
        ),
    ],
)
def test_bad_line_is_named(tmp_path, lines, text):
    (tmp_path / "v.jsonl").write_text(lines)
    if text is None:  # true among numbers is 1, as NumPy has it
        assert len(list(read_blocks(tmp_path / "v.jsonl"))) == 1
        return
    with pytest.raises(FileFormatError, match=f"v.jsonl .*{text}".replace("[", r"\[")):
        list(read_blocks(tmp_path / "v.jsonl"))


@pytest.mark.parametrize("block_rows", [1, 10])
def test_each_line_has_fields_of_its_own(block_rows):
    records = [
        {"id": "a", "vector": [1.0]},
        {"ids": "b", "vector": [2.0], "metadata": {"year": 1}, "tag": None},
        {"id": "c", "vector": [3.0], "metadata": None, "tag": "x"},
    ]
    content = "\n".join(map(json.dumps, records)).encode()

    def found(**asked):
        blocks = list(read_blocks(io.BytesIO(content), block_rows=block_rows, **asked))
        metadata = [row for block in blocks for row in block.metadata or [{}] * len(block)]
        return [name for block in blocks for name in block.ids], metadata

    assert found() == (["a", "b", "c"], [{}, {"year": 1}, {}])
    assert found(metadata=["*"]) == (
        ["a", "b", "c"],
        [{}, {"metadata": {"year": 1}}, {"tag": "x"}],
    )
    if block_rows > 1:
        assert found(metadata=["tag"])[1] == [{}, {}, {"tag": "x"}]
    else:  # a stream is not read to its end to see whether a name is mistyped
        with pytest.raises(InvalidValueError, match="which holds id. Got 'tag' instead"):
            found(metadata=["tag"])


def test_empty_file_of_lines_is_refused(tmp_path):
    (tmp_path / "v.jsonl").write_text("\n\n")
    with pytest.raises(FileFormatError, match="v.jsonl holds no vectors: it has no lines"):
        list(read_blocks(tmp_path / "v.jsonl"))
    assert list(read_blocks(io.BytesIO(b""))) == []


def test_npz_is_read_from_compressed_and_single_arrays(tmp_path):
    np.savez_compressed(tmp_path / "v.npz", things=ROWS)
    assert all_of(tmp_path / "v.npz", block_rows=2)[0] == ROWS.tolist()
    assert all_of(tmp_path / "v.npz", field="things")[0] == ROWS.tolist()


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"a": ROWS, "b": ROWS}, "has no array 'vectors', so 'field' must name one; it holds a, b"),
        ({"vectors": ROWS[0]}, r"'vectors' of shape \(2,\) and dtype float32"),
        ({"vectors": ROWS, "id": [1]}, "holds 3 vectors and 1 rows of 'id'"),
        ({"vectors": np.asfortranarray(ROWS)}, "'vectors' in Fortran's order"),
        ({"vectors": np.array([[{}]])}, "holds Python objects as 'vectors'"),
    ],
)
def test_npz_of_something_else_is_refused(tmp_path, arrays, text):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(FileFormatError, match=f"v.npz .*{text}"):
        list(read_blocks(tmp_path / "v.npz"))


def test_npz_without_the_array_asked_is_refused(tmp_path):
    write(tmp_path / "v.npz")
    with pytest.raises(InvalidValueError, match="The 'field' parameter .* Got 'x' instead"):
        list(read_blocks(tmp_path / "v.npz", field="x"))


def test_damaged_npz_is_refused(tmp_path):
    (tmp_path / "v.npz").write_bytes(b"no archive")
    with pytest.raises(FileFormatError, match="v.npz is not a readable .npz file"):
        list(read_blocks(tmp_path / "v.npz"))
    with zipfile.ZipFile(tmp_path / "v.npz", "w") as archive:
        content = io.BytesIO()
        np.save(content, ROWS)
        archive.writestr("vectors.npy", content.getvalue()[:-1])
    with pytest.raises(FileFormatError, match="v.npz is truncated: 'vectors' ends too early"):
        list(read_blocks(tmp_path / "v.npz"))


def test_arguments_are_checked(tmp_path):
    with pytest.raises(InvalidValueError, match=r"ending in .npy.* Got 'v.txt' instead"):
        read_blocks("v.txt")
    with pytest.raises(InvalidTypeError, match="The 'source' parameter of read_blocks .* Got 3"):
        read_blocks(3)
    with pytest.raises(InvalidTypeError, match="a sequence of names. Got 'year' instead"):
        read_blocks("v.jsonl", metadata="year")
    with pytest.raises(InvalidValueError, match="'block_rows' .* Got 0 instead"):
        read_blocks("v.jsonl", block_rows=0)


def test_parquet_without_pyarrow_says_its_pip_line(tmp_path, monkeypatch):
    path = write(tmp_path / "v.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'memvec\[files\]'"):
        list(read_blocks(path))
