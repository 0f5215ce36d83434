"""Parquet files of plain columns, and names that stand for files."""

import pyarrow.parquet as pq
import pytest

from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.files import expand_paths, read_column, writing_table


def test_batches_become_one_table(tmp_path):
    path = tmp_path / "t.parquet"
    with writing_table(path, {"id": "string", "score": "float32"}) as write:
        write({"id": ["a"], "score": [0.5]})
        write({"id": ["b", "c"], "score": [1, 2]})
    assert pq.read_table(path).to_pydict() == {"id": ["a", "b", "c"], "score": [0.5, 1, 2]}
    assert read_column(path, "id").to_pylist() == ["a", "b", "c"]


def fail(path):
    with writing_table(path, {"id": "int64"}) as write:
        write({"id": [2]})
        raise KeyboardInterrupt


def test_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "t.parquet"
    with writing_table(path, {"id": "int64"}) as write:
        write({"id": [1]})
    with pytest.raises(KeyboardInterrupt):
        fail(path)
    assert [one.name for one in tmp_path.iterdir()] == ["t.parquet"]
    assert read_column(path, "id").to_pylist() == [1]


def test_name_that_exists_is_no_pattern(tmp_path):
    (tmp_path / "a[1].npy").touch()
    (tmp_path / "a1.npy").touch()
    assert [one.name for one in expand_paths(tmp_path / "a[1].npy", "f")] == ["a[1].npy"]
    (tmp_path / "a[1].npy").unlink()
    assert [one.name for one in expand_paths(tmp_path / "a[1].npy", "f")] == ["a1.npy"]


def test_two_stars_stand_for_any_folders(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("c.npy", "a/b/d.npy"):
        (tmp_path / name).touch()
    found = expand_paths(tmp_path / "**/*.npy", "f")
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a/b/d.npy", "c.npy"]


@pytest.mark.parametrize("names", ["no.npy", ["b*.npy"], ["a.npy", "no*"], ["folder"], []])
def test_names_of_no_file_are_refused(tmp_path, monkeypatch, names):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npy").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidValueError, match="'files' parameter of f must be"):
        expand_paths(names, "f")


def test_other_things_than_names_are_refused():
    with pytest.raises(InvalidTypeError, match="'files' parameter of f must be paths or patterns"):
        expand_paths([3], "f")
