"""Calibration tables in the narrow types they are saved in, and those of older folders."""

import dataclasses

import numpy as np
import pytest

from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import CorruptIndexError
from memvec.guarantee import CalibrationTable, narrow_columns, wide_columns
from memvec.storage import open_folder, write_folder

PREFIX = "calibration_"
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
        "queries": "<i2",
        "cosines": "<f4",
        "ranks": "<i2",
        "keys": "<i4",
        "scores": "<f4",
        "slopes": "<f4",
        "stages": "|u1",
    }
    assert narrow["stages"].tolist() == [0, 1, 0, 1, 0]
    assert narrow["scores"].tolist() == [[1, 2], [3, np.inf], [5, 6]]
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
    assert sorted(arrays) == sorted(f"{name}" for name in COLUMNS)
    for name in COLUMNS:
        column = getattr(expected, name)
        assert arrays[f"{name}"].dtype == column.dtype
        np.testing.assert_array_equal(arrays[f"{name}"], column)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rows = around(np.random.default_rng(3).standard_normal((30, 40)), 0.5, 4, 300)
    folder = tmp_path_factory.mktemp("saved") / "i.index"
    Index.build(rows, config=IndexConfig(unit_size=6, reserve=100, member_bits=1)).save(folder)
    return folder


def test_folder_with_wide_columns_opens_with_the_same_table(saved, tmp_path):
    arrays, meta = open_folder(saved)
    assert "calibration_copies" not in arrays
    narrow = {name: arrays.pop(name) for name in list(arrays) if name.startswith(PREFIX)}
    columns = {name.removeprefix(PREFIX): column for name, column in narrow.items()}
    wide = {f"{PREFIX}{name}": column for name, column in wide_columns(columns).items()}
    write_folder(tmp_path / "older", arrays | wide, meta)
    older, index = Index.open(tmp_path / "older"), Index.open(saved)
    assert older.calibration_table.checksum == index.calibration_table.checksum


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("stages", lambda old: old[:, np.newaxis], "the stages of the calibration are of shape"),
        ("stages", lambda old: np.ones(9, np.uint8), "the stages of the calibration are of shape"),
        ("stages", lambda old: np.ones_like(old), "for 5 stages"),
        ("stages", lambda old: np.roll(old, 1), "the checksum .* of the calibration"),
        (
            "queries",
            lambda old: old.astype(np.float32),
            "queries of .* are of type <f4",
        ),
        (
            "keys",
            lambda old: old[:, np.newaxis],
            "keys of .* are of type <i2 and shape",
        ),
        ("ranks", lambda old: None, "there are no ranks of the calibration"),
        (
            "cosines",
            lambda old: old.astype(np.int32),
            "cosines of .* are of type <i4",
        ),
        ("scores", lambda old: old[:, 0].copy(), "the scores of the calibration are of shape"),
        ("slopes", lambda old: old[:, :1].copy(), "the slopes of the calibration are of shape"),
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
