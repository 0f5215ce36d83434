import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec import checks
from memvec.errors import InvalidTypeError, InvalidValueError, MemvecError, MissingExtraError
from strategies import seeds


@settings(deadline=None)
@given(seed=seeds, scale=st.sampled_from([1e-300, 1e-30, 1.0, 1e30, 1e300]))
def test_unit_rows_have_norm_one_at_every_scale(seed, scale):
    vectors = np.random.default_rng(seed).standard_normal((5, 7)) * scale
    np.testing.assert_allclose(
        checks.unit_rows(vectors, "v", "f"), naive.unit_rows(vectors / scale), atol=1e-7
    )


def test_unit_rows_are_idempotent_bit_by_bit():
    rows = checks.unit_rows(np.random.default_rng(1).standard_normal((1000, 33)), "v", "f")
    np.testing.assert_array_equal(checks.unit_rows(rows, "v", "f"), rows)


@given(seed=seeds, dim=st.integers(1, 40))
def test_unit_rows_are_scaled_by_norms_of_a_fixed_order(seed, dim):
    rows = np.random.default_rng(seed).standard_normal((5, dim)) * 3
    expected = np.array([naive.unit_row(row) for row in rows])
    np.testing.assert_array_equal(checks.unit_rows(rows, "v", "f"), expected)


def test_query_near_norm_one_is_what_the_slow_way_makes_of_it():
    row = naive.unit_rows(np.random.default_rng(2).standard_normal((1, 384)))[0]
    for stretch in (0.0, 4e-7, 9e-7, 1.1e-6, 1e-5):
        near = (row * (1 + stretch)).astype(np.float32)
        [query] = checks.unit_queries(near, "q", "f", dim=384)
        np.testing.assert_array_equal(query, checks.unit_rows(near[np.newaxis], "q", "f")[0])


def test_unit_rows_copy_their_input():
    rows = np.eye(3, dtype=np.float32)
    assert not np.shares_memory(checks.unit_rows(rows, "v", "f"), rows)


def test_unit_rows_are_not_copied_where_that_is_allowed():
    rows = np.eye(3, dtype=np.float32)
    assert checks.unit_rows(rows, "v", "f", copy=False) is rows
    for other in (
        2 * rows,
        rows.astype(np.float64),
        np.asfortranarray(np.ones((2, 2), np.float32)),
    ):
        assert not np.shares_memory(checks.unit_rows(other, "v", "f", copy=False), other)


def test_bad_row_beyond_the_first_block_is_named():
    vectors = np.ones((9000, 2))
    vectors[8500, 1] = np.inf
    with pytest.raises(InvalidValueError, match="an infinite value in row 8500"):
        checks.unit_rows(vectors, "v", "f")


class Column:
    """What pandas and Polars offer of a column: an array of whatever it holds."""

    def __init__(self, array, dtype=None):
        self.array, self.dtype = array, dtype

    def __array__(self, dtype=None, copy=None):
        return self.array


class Undeliverable(Column):
    """A column that has DLPack, but not for what it holds."""

    def __dlpack__(self, **options):
        raise BufferError("no such type in DLPack")

    def __dlpack_device__(self):
        return 1, 0


class Tensor(Undeliverable):
    """A tensor of PyTorch, of a type that it cannot give away."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def float(self):
        return self.array


def objects(rows):
    """Return an array of one object a row, which NumPy does not make of rows of one length."""
    column = np.empty(len(rows), dtype=object)
    for number, row in enumerate(rows):
        column[number] = row
    return column


ROWS = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)


@pytest.mark.parametrize("kind", [np.array, list, tuple, Column])
@pytest.mark.parametrize("holder", [lambda column: column, Column, Undeliverable])
def test_columns_of_rows_are_stacked(kind, holder):
    column = objects([kind(row) for row in ROWS])
    np.testing.assert_array_equal(checks.matrix(holder(column), "v", "f"), ROWS)
    np.testing.assert_array_equal(
        checks.unit_queries(holder(column), "v", "f", dim=3), checks.unit_rows(ROWS, "v", "f")
    )


def test_columns_of_arrow_are_accepted():
    pyarrow = pytest.importorskip("pyarrow")
    lists = pyarrow.array(ROWS.tolist(), type=pyarrow.list_(pyarrow.float32()))
    fixed = lists.cast(pyarrow.list_(pyarrow.float32(), 3))
    for column in (lists, fixed, pyarrow.chunked_array([lists[:1], lists[1:]])):
        np.testing.assert_array_equal(checks.matrix(column, "v", "f"), ROWS)


def test_columns_of_pandas_are_accepted():
    pandas = pytest.importorskip("pandas")
    column = pandas.DataFrame({"v": list(ROWS)})["v"]
    np.testing.assert_array_equal(checks.matrix(column, "v", "f"), ROWS)


def test_frames_of_one_column_of_rows_are_accepted():
    frame = objects([objects([row])[0] for row in ROWS])[:, np.newaxis]
    np.testing.assert_array_equal(checks.matrix(Column(frame), "v", "f"), ROWS)
    with pytest.raises(InvalidTypeError, match="dtype object"):
        checks.matrix(np.hstack([frame, frame]), "v", "f")


def test_iterators_are_refused_with_what_takes_them():
    text = "Got a generator; Collection.add takes vectors block by block, instead"
    with pytest.raises(InvalidTypeError, match=text):
        checks.matrix((row for row in ROWS), "v", "f")


def test_columns_of_polars_are_accepted():
    polars = pytest.importorskip("polars")
    for column in (polars.Series(ROWS), polars.Series(ROWS.tolist())):
        np.testing.assert_array_equal(checks.matrix(column, "v", "f"), ROWS)


@pytest.mark.parametrize(
    ("rows", "error", "got"),
    [
        ([[1.0, 2.0], [1.0]], InvalidValueError, r"shape \(2,\) in row 0 and \(1,\) in row 1"),
        ([[1.0, 2.0], None], InvalidValueError, "Got None in row 1"),
        ([None, [1.0, 2.0]], InvalidValueError, "Got None in row 0"),
        ([np.eye(2), np.eye(2)], InvalidValueError, r"rows of one length.*\(2, 2\) in row 0"),
        (["a", "b"], InvalidTypeError, "dtype object"),
        ([[[1.0], [1.0, 2.0]], [1.0]], InvalidTypeError, r"Got a row \(.*inhomogeneous"),
        ([["a", "b"], ["c", "d"]], InvalidTypeError, "dtype <U1"),
        ([[1.0, None], [1.0, 2.0]], InvalidTypeError, "dtype object"),
        (
            [np.ma.array([1.0, 2.0], mask=[False, True]), np.ones(2)],
            InvalidValueError,
            "free of masked entries. Got 1 of them, the first in row 0",
        ),
    ],
)
def test_columns_of_anything_else_are_refused(rows, error, got):
    with pytest.raises(error, match=got):
        checks.matrix(objects(rows), "v", "f")


@pytest.mark.parametrize("holder", [lambda array: array, Column, Undeliverable])
def test_bfloat16_becomes_float32(holder):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    found = checks.matrix(holder(ROWS.astype(bfloat16)), "v", "f")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, ROWS.astype(bfloat16).astype(np.float32))


def test_bfloat16_of_torch_becomes_float32():
    found = checks.matrix(Tensor(ROWS, "torch.bfloat16"), "v", "f")
    np.testing.assert_array_equal(found, ROWS)
    with pytest.raises(InvalidTypeError, match="unsupported ScalarType"):
        checks.matrix(Tensor(ROWS, "torch.float8"), "v", "f")


def test_dlpack_and_array_protocols_are_accepted():
    class Foreign:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    rows = checks.unit_rows(Foreign(np.eye(2, dtype=np.float32)), "v", "f")
    assert rows.tolist() == [[1, 0], [0, 1]]


def test_broken_foreign_array_is_refused():
    class Broken:
        def __dlpack__(self, **options):
            raise BufferError("it is on another device")

    with pytest.raises(InvalidTypeError, match="Got Broken"):
        checks.matrix(Broken(), "v", "f")


@pytest.mark.parametrize("value", [np.array([True]), None, "text", [[1, 2], [3]]])
def test_what_is_no_array_of_numbers_is_refused(value):
    with pytest.raises(InvalidTypeError, match="an array of real numbers"):
        checks.matrix(value, "v", "f")


def test_generator_is_passed_through():
    rng = np.random.default_rng(1)
    assert checks.generator(rng, "f") is rng


def test_open_and_closed_ends_are_told():
    with pytest.raises(InvalidValueError, match=r"number in \[0, 1\). Got 1.0"):
        checks.real(1, "x", "f", low=0, high=1, high_open=True)
    with pytest.raises(InvalidValueError, match="must be a number. Got nan"):
        checks.real(float("nan"), "x", "f")


def test_numbers_beyond_floats_are_refused():
    with pytest.raises(InvalidValueError, match="'x' .* Got an integer beyond the range of floats"):
        checks.real(10**400, "x", "f", low=0)


def test_missing_extra_says_its_pip_line():
    error = MissingExtraError("Plotting", "matplotlib", "plot")
    assert isinstance(error, MemvecError)
    assert isinstance(error, ImportError)
    assert "pip install 'memvec[plot]'" in str(error)


class Variable:
    """A variable of a file format whose arrays come masked."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


MASKED = np.ma.masked_array([[1.0, 2.0], [3.0, -999.0]], mask=[[0, 0], [0, 1]])


@pytest.mark.parametrize(
    "value",
    [
        MASKED,
        MASKED.astype(np.float32),
        Variable(MASKED),
        [MASKED[0], MASKED[1]],
        (np.ones(2), MASKED[1]),
        np.ma.masked_equal([[1, 2], [3, 4]], 4),
    ],
)
def test_masked_entry_is_refused_with_its_row(value):
    expected = r"'v' parameter of f must be free of masked entries. Got 1 of them, the first in row"
    for check in (checks.numbers, checks.matrix, checks.unit_rows):
        with pytest.raises(InvalidValueError, match=f"{expected} 1 instead"):
            check(value, "v", "f")


def test_masked_query_is_refused():
    row = np.ma.masked_array(np.eye(3, dtype=np.float32)[0], mask=[0, 1, 0])
    with pytest.raises(InvalidValueError, match="free of masked entries. Got 1 of them"):
        checks.unit_queries(row, "v", "f", dim=3)


def test_masked_array_without_a_masked_entry_is_an_array():
    rows = np.ma.masked_array(np.eye(2, dtype=np.float32), mask=False)
    for value in (rows, Variable(rows), [rows[0], rows[1]]):
        found = checks.unit_rows(value, "v", "f")
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, np.eye(2))
    assert type(checks.unit_queries(rows[0], "v", "f", dim=2)) is np.ndarray


@pytest.mark.parametrize("value", [[[1.0, None]], np.array([[1.0, None]]), [["1", "2"]]])
def test_entry_that_is_missing_is_refused(value):
    with pytest.raises(InvalidTypeError, match="an array of real numbers. Got dtype"):
        checks.numbers(value, "v", "f")


class OnCard:
    """A tensor on a card, which is copied to memory by a method that has a name."""

    def __init__(self, array, name):
        setattr(self, name, lambda: array)

    def __dlpack__(self, **options):
        raise BufferError("not on the CPU")

    def __dlpack_device__(self):
        return 2, 0

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion is not allowed.")


@pytest.mark.parametrize("name", ["cpu", "get"])
def test_tensors_on_a_card_are_copied(name):
    np.testing.assert_array_equal(checks.matrix(OnCard(ROWS, name), "v", "f"), ROWS)


def test_tensor_on_a_card_that_cannot_be_copied_is_refused():
    with pytest.raises(InvalidTypeError, match="Implicit conversion is not allowed"):
        checks.matrix(OnCard(ROWS, "nothing"), "v", "f")
