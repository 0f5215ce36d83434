"""A fault at every step of a save: what opens afterwards is the old content or the new one."""

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from memvec.errors import CorruptIndexError, IndexNotFoundError, StorageError
from memvec.storage import _disk, open_folder, write_folder

OLD = {"rows": np.arange(6.0).reshape(2, 3), "gone": np.zeros(2, np.int8)}
NEW = {"rows": np.arange(8.0).reshape(4, 2), "keys": np.array(["a", "bc"]), "none": np.zeros(0)}
STEPS = [
    "make_folder",
    "remove_file",
    "remove_folder",
    "replace",
    "sync",
    "sync_folder",
    "write",
]
# Before a step, after it took effect, or (for writes) when half of it did.
MOMENTS = ["before", "half", "after"]


class FaultyDisk:
    """Counts the steps of a save and calls `fault` at one of them, or at it and all after it."""

    def __init__(self, monkeypatch, fault, at=None, moment="before", lasting=False):
        self.taken = []
        self._fault, self._at, self._moment, self._lasting = fault, at, moment, lasting
        for name in STEPS:
            monkeypatch.setattr(_disk, name, self._wrapped(name, getattr(_disk, name)))

    def _wrapped(self, name, step):
        def faulty(*arguments):
            number = len(self.taken)
            self.taken.append(name)
            if self._at is None or number < self._at or (number > self._at and not self._lasting):
                return step(*arguments)
            if self._moment == "half" and name == "write":
                step(arguments[0], arguments[1][: len(arguments[1]) // 2])
                arguments[0].flush()
            if self._moment == "after":
                step(*arguments)
            return self._fault()

        return faulty


def failing(error):
    def fault(*_):
        raise error

    return fault


def state(folder):
    """Return "old", "new" or None (nothing saved yet) after checking the whole content."""
    try:
        arrays, meta = open_folder(folder, verify=True)
    except IndexNotFoundError:
        return None
    expected = {"old": OLD, "new": NEW}[meta["state"]]
    assert list(arrays) == list(expected)
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)
    return meta["state"]


def save(folder, which):
    write_folder(folder, {"old": OLD, "new": NEW}[which], {"state": which})


def assert_next_save_leaves_nothing_else(folder):
    save(folder, "new")
    assert state(folder) == "new"
    manifest, generation = sorted(os.listdir(folder), reverse=True)
    assert (manifest, generation[0]) == ("manifest.json", "g")
    assert sorted(os.listdir(folder / generation)) == sorted(f"{name}.npy" for name in NEW)
    assert os.listdir(folder.parent) == [folder.name]


def steps_of_a_save(folder):
    with pytest.MonkeyPatch.context() as patch:
        disk = FaultyDisk(patch, None)
        save(folder, "new")
    return disk.taken


def test_steps_stand_in_the_order_that_a_crash_needs(tmp_path):
    first = steps_of_a_save(tmp_path / "saved")
    write_three = ["write", "write", "sync", "write", "write", "sync", "write", "sync"]
    generation = ["make_folder", *write_three, "sync_folder", "sync_folder"]
    commit = ["write", "sync", "replace", "sync_folder"]
    assert first == ["make_folder", "sync_folder", *generation, *commit]
    removal = ["remove_file", "remove_file", "remove_file", "remove_folder"]
    assert steps_of_a_save(tmp_path / "saved") == [*generation, *commit, *removal]


def test_everything_is_synced_before_the_rename(tmp_path, monkeypatch):
    synced, at_rename = [], []
    replace = _disk.replace
    monkeypatch.setattr(_disk, "sync", lambda file: synced.append(Path(file.name).name))
    monkeypatch.setattr(_disk, "sync_folder", lambda path: synced.append(path.name))
    monkeypatch.setattr(
        _disk, "replace", lambda *paths: (at_rename.extend(synced), replace(*paths))
    )
    save(tmp_path / "saved", "new")
    files = ["rows.npy", "keys.npy", "none.npy"]
    assert at_rename[1:] == [*files, "g000001", "saved", "manifest.json.tmp"]
    assert synced[len(at_rename) :] == ["saved"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("before", [None, "old"])
def test_fault_at_any_step_leaves_old_or_new(tmp_path, before, lasting, moment, error):
    seen = []
    for number in count():
        folder = tmp_path / str(number) / "saved"
        folder.parent.mkdir()
        if before:
            save(folder, before)
        with pytest.MonkeyPatch.context() as patch:
            disk = FaultyDisk(patch, failing(error), number, moment, lasting)
            raised = attempt(folder)
        if len(disk.taken) <= number:
            break
        seen.append(check_after_a_fault(folder, before, raised, lasting))
        assert_next_save_leaves_nothing_else(folder)
    assert len(seen) >= 15
    # The old content up to one step, the new one from there on: there is one commit point.
    commit = seen.index("new")
    assert seen == [before] * commit + ["new"] * (len(seen) - commit)


def attempt(folder):
    try:
        save(folder, "new")
    except (OSError, KeyboardInterrupt):
        return True
    return False


def check_after_a_fault(folder, before, raised, lasting):
    if lasting and before is None and folder.exists() and "manifest.json" not in os.listdir(folder):
        with pytest.raises(CorruptIndexError, match=r"holds no manifest\.json"):
            open_folder(folder)
        return None  # a disk that refuses everything cannot be cleaned up: the next save does it
    found = state(folder)
    assert raised or found == "new"
    if not lasting and found == before:
        assert leftovers(folder) == []
    return found


def leftovers(folder):
    """Return what a failed save has left beside the old content."""
    if not folder.exists():
        return []
    return sorted(set(os.listdir(folder)) - {"manifest.json", "g000001"})


def test_failed_save_into_an_empty_folder_leaves_it_empty(tmp_path, monkeypatch):
    FaultyDisk(monkeypatch, failing(KeyboardInterrupt), at=5)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, "new")
    assert os.listdir(tmp_path) == []


def test_old_generation_that_cannot_be_removed_goes_with_the_next_save(tmp_path):
    folder = tmp_path / "saved"
    save(folder, "old")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_disk, "remove_file", failing(PermissionError(13, "in use")))
        save(folder, "new")
    assert state(folder) == "new"
    assert sorted(os.listdir(folder)) == ["g000001", "g000002", "manifest.json"]
    assert_next_save_leaves_nothing_else(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_read_only_folder_is_refused_by_the_system(tmp_path):
    save(tmp_path / "saved", "old")
    (tmp_path / "saved").chmod(0o500)
    with pytest.raises(StorageError, match="g000002"):
        save(tmp_path / "saved", "new")
    (tmp_path / "saved").chmod(0o700)
    assert state(tmp_path / "saved") == "old"


# One process is started; it forks a child for each step and moment, which dies there at once.
KILLER = """
import importlib.util, os, sys
import pytest

specification = importlib.util.spec_from_file_location("test_crash", sys.argv[1])
crash = importlib.util.module_from_spec(specification)
specification.loader.exec_module(crash)
parent, before = crash.Path(sys.argv[2]), sys.argv[3]
for moment in crash.MOMENTS:
    for number in crash.count():
        folder = parent / f"{moment}-{number}" / "saved"
        folder.parent.mkdir()
        if before == "old":
            crash.save(folder, "old")
        child = os.fork()
        if child == 0:
            crash.FaultyDisk(pytest.MonkeyPatch(), lambda: os._exit(77), number, moment)
            crash.save(folder, "new")
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        assert code == 77, code
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("before", [None, "old"])
def test_process_killed_at_any_step_leaves_old_or_new(tmp_path, before):
    command = [sys.executable, "-W", "ignore", "-c", KILLER, __file__, tmp_path, str(before)]
    subprocess.run(command, check=True, timeout=120)
    for moment in MOMENTS:
        numbers = range(len(list(tmp_path.glob(f"{moment}-*"))) - 1)  # the last was not killed
        assert len(numbers) >= 15
        folders = [tmp_path / f"{moment}-{number}" / "saved" for number in numbers]
        seen = [state_after_a_kill(folder, before) for folder in folders]
        commit = seen.index("new")
        assert seen == [before] * commit + ["new"] * (len(seen) - commit)
        for folder in folders:
            assert_next_save_leaves_nothing_else(folder)


def state_after_a_kill(folder, before):
    if before is None and folder.exists() and "manifest.json" not in os.listdir(folder):
        with pytest.raises(CorruptIndexError, match=r"holds no manifest\.json"):
            open_folder(folder)
        return None
    return state(folder)
