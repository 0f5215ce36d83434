"""Calibration tables in the narrow types they are saved in, and those of older folders."""

import dataclasses

import numpy as np
import pytest

from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import CorruptIndexError
from memvec.guarantee import CalibrationTable
from memvec.index._saved_table import narrow_columns, wide_columns
from memvec.storage import open_folder, write_folder

COLUMNS = [field.name for field in dataclasses.fields(CalibrationTable)]


def table(**columns):
    """Two queries with three matches, seen by the second and fourth of five stages."""
    scores = np.full((3, 5), np.inf, dtype=np.float32)
    slopes = np.zeros((3, 5), dtype=np.float32)
    scores[:, [1, 3]] = [[1, 2], [3, np.inf], [5, 6]]
    slopes[:, [1, 3]] = [[7, 8], [9, 0], [1, 2]]
    held = {
        "queries": np.array([0, 0, 4]),
        "cosines": np.float32([0.9, 0.7, 0.8]).astype(np.float64),
        "ranks": np.array([0, 1, 0]),
        "keys": np.array([7, 40_000, 2]),
        "copies": np.ones(3, dtype=np.float32),
        "scores": scores,
        "slopes": slopes,
    }
    return CalibrationTable(**{**held, **columns})


def test_table_takes_few_bytes_and_comes_back():
    narrow = narrow_columns(table())
    assert {name: array.dtype.str for name, array in narrow.items()} == {
        "calibration_queries": "<i2",
        "calibration_cosines": "<f4",
        "calibration_ranks": "<i2",
        "calibration_keys": "<i4",
        "calibration_scores": "<f4",
        "calibration_slopes": "<f4",
        "calibration_stages": "|u1",
    }
    assert narrow["calibration_stages"].tolist() == [0, 1, 0, 1, 0]
    assert narrow["calibration_scores"].tolist() == [[1, 2], [3, np.inf], [5, 6]]
    assert_equal(wide_columns(narrow), table())


@pytest.mark.parametrize(
    "columns",
    [
        {"keys": np.array([7, 2**40, 2])},
        {"ranks": np.array([0, 40_000, 0])},
        {"copies": np.float32([1, 2.5, 1])},
        {"scores": np.ones((3, 1), np.float32), "slopes": np.ones((3, 1), np.float32)},
        {"scores": np.full((3, 5), np.inf, np.float32), "slopes": np.zeros((3, 5), np.float32)},
    ],
)
def test_no_column_loses_anything(columns):
    assert_equal(wide_columns(narrow_columns(table(**columns))), table(**columns))


def assert_equal(arrays, expected):
    assert sorted(arrays) == sorted(f"calibration_{name}" for name in COLUMNS)
    for name in COLUMNS:
        column = getattr(expected, name)
        assert arrays[f"calibration_{name}"].dtype == column.dtype
        np.testing.assert_array_equal(arrays[f"calibration_{name}"], column)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rows = around(np.random.default_rng(3).standard_normal((30, 40)), 0.5, 4, 300)
    folder = tmp_path_factory.mktemp("saved") / "i.index"
    Index.build(rows, config=IndexConfig(unit_size=6, reserve=100, member_bits=1)).save(folder)
    return folder


def test_folder_with_wide_columns_opens_with_the_same_table(saved, tmp_path):
    arrays, meta = open_folder(saved)
    assert "calibration_copies" not in arrays
    write_folder(tmp_path / "older", wide_columns(arrays), meta)
    older, index = Index.open(tmp_path / "older"), Index.open(saved)
    assert older.calibration_table.checksum == index.calibration_table.checksum


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("stages", lambda old: old[:, np.newaxis], "'calibration_stages' is of shape"),
        ("stages", lambda old: np.ones(9, np.uint8), "'calibration_stages' is of shape"),
        ("stages", lambda old: np.ones_like(old), r"where 5 stages were saved"),
        ("stages", lambda old: np.roll(old, 1), "the checksum .* of the calibration"),
        ("queries", lambda old: old.astype(np.float32), "'calibration_queries' is of type <f4"),
        ("keys", lambda old: old[:, np.newaxis], "'calibration_keys' is of type <i2 and shape"),
        ("ranks", lambda old: None, "there is no array 'calibration_ranks'"),
        ("cosines", lambda old: old.astype(np.int32), "'calibration_cosines' is of type <i4"),
        ("scores", lambda old: old[:, 0].copy(), "'calibration_scores' is of shape"),
        ("slopes", lambda old: old[:, :1].copy(), "'calibration_slopes' is of shape"),
        ("slopes", lambda old: old[:-1].copy(), "'calibration_slopes' is of type"),
        ("keys", lambda old: old + np.int16(1), "outside of|the checksum"),
    ],
)
def test_narrow_column_that_is_none_is_refused(saved, tmp_path, name, change, text):
    arrays, meta = open_folder(saved)
    arrays = {key: np.array(array) for key, array in arrays.items()}
    changed = change(arrays.pop(f"calibration_{name}"))
    if changed is not None:
        arrays[f"calibration_{name}"] = changed
    write_folder(tmp_path / "forged", arrays, meta)
    with pytest.raises(CorruptIndexError, match=text):
        Index.open(tmp_path / "forged")
