"""Folders that somebody prepared: links inside are refused, and nothing outside is touched."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from memvec.errors import CorruptIndexError, InvalidValueError, StorageError
from memvec.storage import disk, map_file, open_folder, write_folder

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and named pipes")


@pytest.fixture
def saved(tmp_path):
    write_folder(tmp_path / "saved", {"rows": ROWS}, {"n": 1})
    return tmp_path / "saved"


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody else, with names that a save makes, too."""
    folder = tmp_path / "victim"
    (folder / "g000001").mkdir(parents=True)
    for name in ("rows.npy", "other.npy", "g000001/rows.npy", "notes.txt"):
        (folder / name).write_text("precious")
    return folder


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def save(folder):
    write_folder(folder, {"rows": ROWS + 1}, {"n": 2})


@pytest.mark.parametrize("name", ["manifest.json", "manifest.json.tmp", "g000001", "g000002"])
@pytest.mark.parametrize("target", ["notes.txt", "g000001", "nowhere"])
@pytest.mark.parametrize("empty", [False, True])
def test_save_refuses_a_link_in_place_of_what_it_makes(saved, victim, name, target, empty):
    if empty:
        (saved / "manifest.json").unlink()
    if (saved / name).exists():
        (saved / name).rename(victim / "moved")
    (saved / name).symlink_to(victim / target)
    before = content(victim), sorted(os.listdir(saved))
    with pytest.raises(InvalidValueError, match=rf"'path' .* in which '{name}' is a link, instead"):
        save(saved)
    assert (content(victim), sorted(os.listdir(saved))) == before


def test_save_refuses_names_that_are_no_files_or_folders_of_ours(saved):
    os.mkfifo(saved / "manifest.json.tmp")
    with pytest.raises(InvalidValueError, match=r"'manifest.json.tmp' is a named pipe"):
        save(saved)
    (saved / "manifest.json.tmp").unlink()
    (saved / "g000007").write_text("mine")
    with pytest.raises(InvalidValueError, match=r"in which 'g000007' is a file"):
        save(saved)
    assert (saved / "g000007").read_text() == "mine"


def test_save_does_not_write_through_a_hard_link(saved, victim):
    (saved / "manifest.json.tmp").hardlink_to(victim / "notes.txt")
    save(saved)
    assert (victim / "notes.txt").read_text() == "precious"
    assert open_folder(saved, verify=True)[1] == {"n": 2}


def test_sweep_follows_no_link_inside_an_old_generation(saved, victim):
    before = content(victim)
    (saved / "g000001/other.npy").symlink_to(victim / "other.npy")
    (saved / "g000001/more.npy").symlink_to(victim / "g000001")
    (saved / "g000001/folder.npy").mkdir()
    save(saved)
    assert content(victim) == before
    assert open_folder(saved, verify=True)[1] == {"n": 2}
    # What no save made stays, and so does the folder that holds it.
    assert sorted(os.listdir(saved / "g000001")) == ["folder.npy", "more.npy", "other.npy"]


def test_failed_save_follows_no_link(saved, victim, monkeypatch):
    before = content(victim)

    def swap_and_fail(folder):
        if folder.name == "g000002":
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            folder.symlink_to(victim)
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk, "sync_folder", swap_and_fail)
    with pytest.raises(StorageError):
        save(saved)
    assert content(victim) == before
    assert open_folder(saved, verify=True)[1] == {"n": 1}


def test_save_after_the_last_name_of_a_generation_is_refused(saved):
    (saved / "g999999999999999999").mkdir()
    with pytest.raises(InvalidValueError, match="holds 'g999999999999999999', the last name"):
        save(saved)
    assert open_folder(saved, verify=True)[1] == {"n": 1}


@pytest.mark.parametrize("name", ["manifest.json", "g000001", "g000001/rows.npy"])
def test_open_refuses_links_even_to_the_same_content(saved, name):
    (saved / name).rename(saved.parent / "elsewhere")
    (saved / name).symlink_to(saved.parent / "elsewhere")
    with pytest.raises(CorruptIndexError, match=rf"{name} is a link, not a (file|folder)"):
        open_folder(saved)


@pytest.mark.parametrize("verify", [False, True])
def test_pipes_and_folders_in_place_of_files_are_named(saved, verify):
    (saved / "g000001/rows.npy").unlink()
    os.mkfifo(saved / "g000001/rows.npy")
    with pytest.raises(CorruptIndexError, match=r"rows.npy is a named pipe, not a file"):
        open_folder(saved, verify=verify)
    (saved / "manifest.json").unlink()
    (saved / "manifest.json").mkdir()
    with pytest.raises(CorruptIndexError, match=r"manifest.json is a folder, not a file"):
        open_folder(saved, verify=verify)


def test_path_that_leads_to_an_index_through_links_is_one(saved, tmp_path):
    (tmp_path / "current").symlink_to(saved)
    (tmp_path / "around").symlink_to(tmp_path)
    save(tmp_path / "current")
    assert open_folder(tmp_path / "around" / "current", verify=True)[1] == {"n": 2}
    assert (tmp_path / "current").is_symlink()


def test_save_to_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "current").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidValueError, match=r"current, a link that leads nowhere, instead"):
        save(tmp_path / "current")
    assert os.listdir(tmp_path) == ["current"]


def test_path_with_a_zero_byte_is_refused():
    for call in (save, open_folder):
        with pytest.raises(
            InvalidValueError, match=r"a path without NUL characters. Got 'a\\x00b' ins"
        ):
            call("a\0b")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("step", ["make_folder", "write", "sync", "sync_folder", "replace"])
def test_what_the_system_refuses_is_a_storage_error(saved, monkeypatch, step, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(disk, step, refuse)
    with pytest.raises(StorageError, match=rf"Errno {code}.*saved") as info:
        save(saved)
    assert info.value.errno == code
    monkeypatch.undo()
    assert open_folder(saved, verify=True)[1] == {"n": 1}
    assert sorted(os.listdir(saved)) == ["g000001", "manifest.json"]


def test_what_the_system_does_not_let_read_is_a_storage_error(saved, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(disk, "open_file", refuse)
    with pytest.raises(StorageError, match=r"Errno 13.*manifest.json"):
        open_folder(saved)


def test_file_of_ours_is_opened_only_if_it_is_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with disk.open_file(tmp_path / "file") as file:
        assert file.read() == map_file(file).tobytes() == b"abc"
    with pytest.raises(CorruptIndexError, match="link is a link, not a file"):
        disk.open_file(tmp_path / "link")
    with pytest.raises(CorruptIndexError, match="pipe is a named pipe, not a file"):
        disk.open_file(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        disk.open_file(tmp_path / "none")


def test_file_of_ours_is_created_only_where_there_is_nothing(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        disk.create_file(tmp_path / "link")
    with disk.create_file(tmp_path / "new") as file:
        file.write(b"abc")
    assert Path(file.name) == tmp_path / "new"
    assert sorted(os.listdir(tmp_path)) == ["link", "new"]
