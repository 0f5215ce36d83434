"""Frames of every kind give what arrays give, and columns of fixed size are not copied."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from pyarrow import parquet

import memvec
from memvec.evaluation import load_sample
from memvec.integrations._frames import vectors_of_column
from memvec.integrations.arrow import contamination, deduplicate, join, range_search

SIMILARITY = 0.8


@pytest.fixture(scope="module")
def vectors():
    return load_sample().vectors[:1000]


def fixed(rows, dtype="float32"):
    flat = pa.array(np.ascontiguousarray(rows, dtype=dtype).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def table_of(vectors):
    rows = np.arange(len(vectors))
    return pa.table({"number": rows, "quality": rows % 7, "embedding": fixed(vectors)})


def as_table(table, folder):
    return table


def as_lists(table, folder):
    lists = pa.array([row.tolist() for row in table["embedding"].to_numpy()])
    return table.set_column(2, "embedding", lists)


def as_parquet(table, folder):
    parquet.write_table(table, folder / "rows.parquet")
    return folder / "rows.parquet"


def as_polars(table, folder):
    polars = pytest.importorskip("polars", reason="of the group extras: make test-extras")
    return polars.from_arrow(table)


def as_pandas(table, folder):
    pandas = pytest.importorskip("pandas", reason="of the group extras: make test-extras")
    return pandas.DataFrame({name: list(table[name].to_numpy()) for name in table.column_names})


def as_arrow_in_pandas(table, folder):
    pandas = pytest.importorskip("pandas", reason="of the group extras: make test-extras")
    frame = pandas.DataFrame({"number": table["number"].to_numpy(), "quality": table["quality"]})
    kind = pandas.ArrowDtype(table["embedding"].type)
    return frame.assign(embedding=pandas.Series(table["embedding"], dtype=kind))


KINDS = [as_table, as_lists, as_parquet, as_polars, as_pandas, as_arrow_in_pandas]


def column(frame, name):
    """Return a column of a frame of any kind as a list."""
    if isinstance(frame, pa.Table):
        return frame[name].to_pylist()
    return frame[name].to_list() if hasattr(frame, "to_arrow") else list(frame[name])


def names(frame):
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def same_kind(made, given):
    return isinstance(made, pa.Table if isinstance(given, pa.Table) else type(given))


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_are_those_of_the_array(kind, vectors, tmp_path):
    frame = kind(table_of(vectors), tmp_path)
    wanted = memvec.deduplicate(vectors, SIMILARITY)
    made, found = deduplicate(frame, "embedding", SIMILARITY)
    assert found.groups == wanted.groups
    assert len(wanted.groups) > 10
    assert column(made, "number") == wanted.kept.tolist()
    groups = dict(zip(column(made, "number"), column(made, "duplicates"), strict=True))
    assert {row: list(some) for row, some in groups.items() if len(some)} == dict(wanted.groups)
    assert kind is as_parquet or same_kind(made, frame)
    assert names(made) == ["number", "quality", "embedding", "duplicates"]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_may_be_a_column(kind, vectors, tmp_path):
    frame = kind(table_of(vectors), tmp_path)
    wanted = memvec.deduplicate(
        vectors, SIMILARITY, keep="best", scores=np.arange(len(vectors)) % 7
    )
    made, _ = deduplicate(frame, similarity=SIMILARITY, keep="best", scores="quality")
    assert column(made, "number") == wanted.kept.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_join_is_that_of_the_arrays(kind, vectors, tmp_path):
    left, right = table_of(vectors[:300]), table_of(vectors[200:])
    (tmp_path / "right").mkdir()
    frames = kind(left, tmp_path), kind(right, tmp_path / "right")
    wanted = memvec.join(vectors[:300], vectors[200:], 0.6)
    made, certificate = join(*frames, similarity=0.6)
    assert column(made, "left") == wanted.left.tolist()
    assert column(made, "right") == wanted.right.tolist()
    np.testing.assert_array_equal(column(made, "score"), wanted.scores)
    assert certificate.level == "exact"
    found = contamination(frames[1], frames[0], 0.6)
    assert found.pairs.left.tolist() == wanted.left.tolist()
    assert found.train_rows.tolist() == sorted(set(wanted.right.tolist()))
    assert found.test_rows.tolist() == sorted(set(wanted.left.tolist()))
    assert found.certificate.level == "exact"
    assert repr(found).startswith(f"Contamination({len(found.test_rows)} of 300 evaluation rows")


@pytest.mark.parametrize("kind", KINDS)
def test_range_gives_rows_with_their_columns(kind, vectors, tmp_path):
    vectors = vectors[:200]
    frame = kind(table_of(vectors), tmp_path)
    wanted = memvec.Index.build(vectors, similarity=0.6).range_search(vectors[:20])
    made, certificate = range_search(frame, vectors[:20], similarity=0.6)
    assert column(made, "row") == column(made, "number") == wanted.ids.tolist()
    assert column(made, "query") == np.repeat(np.arange(20), wanted.counts).tolist()
    assert names(made) == ["query", "row", "score", "number", "quality"]
    assert certificate.similarity == 0.6
    (tmp_path / "asked").mkdir()
    asked = kind(table_of(vectors[:20]), tmp_path / "asked")
    again, _ = range_search(frame, asked, similarity=0.6)
    assert column(again, "row") == column(made, "row")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_column_of_fixed_size_is_not_copied(vectors, dtype):
    array = fixed(vectors, dtype)
    for some in (array, array[10:500], pa.chunked_array([array])):
        found = vectors_of_column(some, "embedding", "test")
        assert found.dtype == dtype
        assert found.shape == (len(some), vectors.shape[1])
        whole = np.frombuffer(array.values.buffers()[1], dtype=dtype)
        assert np.shares_memory(found, whole)
    assert np.array_equal(vectors_of_column(array[10:500], "", ""), vectors[10:500].astype(dtype))


def test_columns_of_lists_and_chunks_are_read(vectors):
    few = vectors[:6]
    lists = [pa.array(few.tolist(), kind(pa.float32())) for kind in (pa.list_, pa.large_list)]
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(few))
    chunks = pa.chunked_array([fixed(few[:2]), fixed(few[2:2]), fixed(few[2:])])
    for some in (*lists, tensor, chunks, lists[0].slice(0)):
        np.testing.assert_array_equal(vectors_of_column(some, "embedding", "test"), few)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([[1.0], [1.0, 2.0]]), "rows of one length. Got 1 and 2 in 'embedding'"),
        (pa.array([[1.0], None]), "Got null in row 1 of 'embedding'"),
        (pa.array([1.0, 2.0]), "a column of lists of numbers. Got 'embedding' of double"),
        (pa.array([], pa.list_(pa.float32(), 2)), "at least one row. Got 'embedding' with none"),
        (pa.array([[1.0, None]]), "Got NaN in row 0"),
        (
            pa.chunked_array([pa.array([[1.0]]), pa.array([[1.0, 2.0]])]),
            r"rows of one length. Got \[1, 2\] in 'embedding'",
        ),
    ],
)
def test_columns_that_are_no_vectors_are_refused(column, match):
    with pytest.raises(memvec.MemvecError, match=match):
        deduplicate(pa.table({"embedding": column}))


def test_what_frames_cannot_do_is_refused(vectors):
    table = table_of(vectors[:10])
    with pytest.raises(
        ValueError, match="must be one of 'number', 'quality', 'embedding'. Got 'x'"
    ):
        deduplicate(table, "x")
    with pytest.raises(ValueError, match="'scores' parameter of deduplicate must be one of"):
        deduplicate(table, keep="best", scores="x")
    with pytest.raises(ValueError, match="the name of a new column. Got 'number'"):
        deduplicate(table, groups_column="number")
    with pytest.raises(
        TypeError, match="'left' parameter of join must be an Arrow table.* Got int"
    ):
        join(3, table)
    named = table.rename_columns(["row", "quality", "embedding"])
    with pytest.raises(
        ValueError, match=r"without columns 'query', 'row' and 'score'. Got \['row'"
    ):
        range_search(named, vectors[:1])
