"""A check reads every file again, names each that is damaged, and changes nothing."""

import os

import numpy as np
import pytest

from memvec.errors import IndexNotFoundError, InvalidTypeError, UnknownVersionError
from memvec.storage import _check, check_saved, write_folder

ARRAYS = {
    "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
    "keys": np.array(["a", "bc"]),
    "none": np.empty((0, 3), np.int64),
}


@pytest.fixture
def saved(tmp_path):
    write_folder(tmp_path / "saved", ARRAYS, {"dim": 3})
    return tmp_path / "saved"


def test_whole_folder_has_no_problems(saved):
    report = check_saved(saved)
    files = [path for path in saved.rglob("*") if path.is_file()]
    assert (report.ok, report.problems) == (True, ())
    assert report.n_files == len(files) == len(ARRAYS) + 1
    assert report.n_bytes == sum(path.stat().st_size for path in files)


def test_every_damaged_file_is_named(saved):
    rows, keys = saved / "g000001" / "rows.npy", saved / "g000001" / "keys.npy"
    content = bytearray(rows.read_bytes())
    content[-1] ^= 1
    rows.write_bytes(content)
    keys.unlink()
    report = check_saved(saved)
    assert (report.ok, report.n_files) == (False, len(ARRAYS) + 1)
    [of_keys, of_rows] = sorted(report.problems)
    assert of_keys.startswith(f"{keys} is missing")
    assert of_rows.startswith(f"{rows} is damaged: its checksum (CRC-32) is ")


def test_damaged_manifest_is_a_problem(saved):
    content = (saved / "manifest.json").read_bytes()
    (saved / "manifest.json").write_bytes(content[:-10])
    [problem] = check_saved(saved).problems
    assert "manifest.json is damaged" in problem


def test_generation_that_is_no_folder_is_a_problem(saved):
    (saved / "g000001").rename(saved / "moved")
    (saved / "g000001").write_text("")
    assert check_saved(saved).problems == (f"{saved / 'g000001'} is a file, not a folder.",)


def test_save_meanwhile_is_no_damage(saved, monkeypatch):
    first = _check._checked
    calls = []

    def save_first(folder, manifest, file):
        if not calls:
            write_folder(saved, ARRAYS, {"dim": 4})
        calls.append(manifest.generation)
        return first(folder, manifest, file)

    monkeypatch.setattr(_check, "_checked", save_first)
    assert check_saved(saved).ok
    assert calls == ["g000001", "g000002"]


def test_folder_without_a_manifest_is_no_index(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(IndexNotFoundError, match=r"holds no manifest\.json"):
            check_saved(folder)
    with pytest.raises(InvalidTypeError, match="'path' parameter of check_saved"):
        check_saved(3)


def test_unknown_version_is_refused_rather_than_called_damage(saved):
    content = (saved / "manifest.json").read_bytes()
    (saved / "manifest.json").write_bytes(content.replace(b'"version": 1', b'"version": 9', 1))
    with pytest.raises(UnknownVersionError, match="format version 9"):
        check_saved(saved)


def test_check_changes_nothing(saved):
    before = {path: path.stat().st_mtime_ns for path in saved.rglob("*")}
    check_saved(os.fspath(saved))
    assert {path: path.stat().st_mtime_ns for path in saved.rglob("*")} == before
