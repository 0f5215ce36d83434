"""Links, pipes and foreign names in the folder of a collection: nothing of others is touched."""

import os
import shutil
import sqlite3

import pytest

import memvec
from collection.faults import VECTORS, content
from memvec.collection import check_collection, repair_collection
from memvec.errors import CorruptIndexError


def snapshot(folder):
    """Return every name below a folder with what it holds."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(parent, name)
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = file.read()
            else:
                found[path] = None
    return found


@pytest.fixture
def foreign(quick_path):
    """A folder of somebody else, which holds names such as ours and others."""
    folder = quick_path / "foreign"
    (folder / "000099" / "g000001").mkdir(parents=True)
    (folder / "000099" / "g000001" / "vectors.npy").write_bytes(b"theirs")
    (folder / "000098.rows").write_bytes(b"theirs")
    (folder / "thesis.tex").write_bytes(b"theirs")
    return folder


def write_all(folder):
    with memvec.open(folder) as collection:
        collection.add(VECTORS[40:42])
        collection.compact()


def read_all(folder):
    with memvec.open(folder, read_only=True) as collection:
        return content(collection)


DOORS = [memvec.open, read_all, write_all, repair_collection]


def check_refused(folder, path, text):
    """Every door is shut with an error that names the path, and nothing is changed."""
    before = snapshot(folder.parent)
    for door in DOORS:
        with pytest.raises(CorruptIndexError, match=text) as caught:
            door(folder)
        assert str(path) in str(caught.value)
    problems = check_collection(folder).problems
    assert str(path) in problems[0]
    assert snapshot(folder.parent) == before


NAMES = [
    "catalog.sqlite",
    "catalog.sqlite-wal",
    "catalog.sqlite-shm",
    "catalog.sqlite-journal",
    "catalog.crc",
    "catalog.crc.tmp",
    "writer.lock",
    "segments",
    "segments/000001",
    "segments/000001/manifest.json",
    "segments/000001/items",
    "segments/000001/items/g000001/keys.npy",
    "segments/000001/g000001",
    "segments/000001/g000001/vectors.npy",
]


def moved_away(folder, name, foreign):
    """Move what has a name elsewhere, or an empty file; return where it is."""
    target = foreign / "moved"
    if (folder / name).exists():
        shutil.move(folder / name, target)
    else:
        target.write_bytes(b"")
    return target


@pytest.mark.parametrize("name", NAMES)
def test_link_in_a_collection_is_refused(folder, foreign, name):
    (folder / name).symlink_to(moved_away(folder, name, foreign))
    check_refused(folder, folder / name, "is a link, not a ")


@pytest.mark.parametrize("name", [name for name in NAMES if "sqlite-" not in name])
def test_link_that_leads_nowhere_is_refused(folder, foreign, name):
    moved_away(folder, name, foreign)
    (folder / name).symlink_to(foreign / "absent")
    check_refused(folder, folder / name, "is a link, not a ")
    assert not (foreign / "absent").exists()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "segments/000001/items"])
def test_pipe_in_a_collection_is_refused_without_waiting(folder, foreign, name):
    moved_away(folder, name, foreign)
    os.mkfifo(folder / name)
    check_refused(folder, folder / name, "is a named pipe, not a (file|folder)")


def test_folder_of_lost_segments_that_is_a_link_is_refused(folder, foreign):
    (folder / "lost").symlink_to(foreign)
    os.truncate(next((folder / "segments/000001").glob("g*/vectors.npy")), 5)
    check_refused(folder, folder / "lost", "is a link")


def test_path_that_a_user_names_may_be_a_link(folder, quick_path):
    expected = read_all(folder)
    (quick_path / "deep").mkdir()
    (quick_path / "deep" / "up").symlink_to(quick_path)
    (quick_path / "link.mv").symlink_to(folder)
    for path in (quick_path / "link.mv", quick_path / "deep" / "up" / folder.name):
        assert read_all(path) == expected
        memvec.open(path).close()
        assert check_collection(path).ok
        assert repair_collection(path).actions == ()


def test_foreign_names_among_the_segments_stay(folder, foreign):
    segments = folder / "segments"
    (segments / "notes.txt").write_bytes(b"mine")
    (segments / "stray").mkdir()
    (segments / "link").symlink_to(foreign)
    (segments / "12345").mkdir()  # shorter than any that memvec makes
    (segments / "000077").mkdir()
    (segments / "000077" / "photo.jpg").write_bytes(b"mine")
    (segments / "000078" / "items").mkdir(parents=True)
    (segments / "000078" / "items" / "g000001").symlink_to(foreign)
    (segments / "000079" / "g000001").mkdir(parents=True)
    (segments / "000079" / "g000001" / "codes.npy").write_bytes(b"left by a crash")
    (segments / "000079.rows").write_bytes(b"left by a crash")
    theirs = snapshot(foreign)
    expected = read_all(folder)[0]
    with memvec.open(folder) as collection:
        assert content(collection)[0] == expected
        assert sorted(os.listdir(segments)) == sorted(
            ["000001", "000002", "000077", "000078", "12345", "link", "notes.txt", "stray"]
        )
        collection.compact()
        # Above every number that stands on the disk.
        assert collection.stats().segment_numbers == (79,)
        assert content(collection)[0] == expected
    assert (segments / "000077" / "photo.jpg").read_bytes() == b"mine"
    assert snapshot(foreign) == theirs


def test_orphans_stay_where_the_catalog_is_damaged(folder):
    orphan = folder / "segments" / "000050" / "g000001"
    orphan.mkdir(parents=True)
    (orphan / "codes.npy").write_bytes(b"x")
    [vectors] = (folder / "segments/000001").glob("g*/vectors.npy")
    os.truncate(vectors, 5)
    with pytest.raises(CorruptIndexError, match="vectors.npy is damaged"):
        memvec.open(folder)
    assert (orphan / "codes.npy").read_bytes() == b"x"


def test_file_that_is_linked_twice_keeps_its_content(folder, foreign):
    """A hard link cannot be told from a file; so what has a name is replaced, not overwritten."""
    os.link(foreign / "thesis.tex", folder / "catalog.crc.tmp")
    os.link(foreign / "thesis.tex", folder / "segments" / "000003.rows")
    write_all(folder)
    assert (foreign / "thesis.tex").read_bytes() == b"theirs"


def test_journal_that_names_a_foreign_file_is_refused(folder, foreign):
    """SQLite would remove what the end of a journal names."""
    name = bytes(foreign / "thesis.tex")
    total = sum(name)
    (folder / "catalog.crc").unlink()
    end = (
        (1 << 18).to_bytes(4, "big")
        + name
        + len(name).to_bytes(4, "big")
        + total.to_bytes(4, "big")
        + bytes.fromhex("d9d505f920a163d7")
    )
    head = bytes.fromhex("d9d505f920a163d7") + bytes(12) + (3).to_bytes(4, "big") + bytes(488)
    (folder / "catalog.sqlite-journal").write_bytes(head + end)
    check_refused(folder, folder / "catalog.sqlite-journal", "is not the journal of a collection")
    assert (foreign / "thesis.tex").read_bytes() == b"theirs"


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("operation", ["seal", "compact"])
def test_live_segment_is_never_written_to(folder, number, operation):
    """The catalog was edited, or damaged after a crash: its next number is one in use."""
    expected = read_all(folder)[0]
    forge(folder, f"UPDATE state SET next_segment = {number}")
    with memvec.open(folder) as collection:
        getattr(collection, operation)()
        assert content(collection)[0] == expected
    assert read_all(folder)[0] == expected
    assert check_collection(folder).ok


def test_repair_never_writes_to_a_live_segment(folder):
    expected = read_all(folder)[0]
    forge(folder, "UPDATE state SET next_segment = 2")
    [means] = (folder / "segments/000001").glob("g*/means.npy")
    means.write_bytes(b"rubbish")
    assert repair_collection(folder).n_lost == 0
    assert read_all(folder)[0] == expected
    assert check_collection(folder).ok


@pytest.mark.parametrize("next_key", [0, 3, 25])
def test_key_of_an_item_is_never_given_again(folder, next_key):
    before = read_all(folder)[0]
    forge(folder, f"UPDATE state SET next_key = {next_key}")
    with memvec.open(folder) as collection:
        assert collection.add(VECTORS[40:42]) == [26, 27]
        found = content(collection)[0]
        assert {name: found[name] for name in before} == before
    assert check_collection(folder).ok


def forge(folder, *statements):
    """Change the catalog behind memvec's back, as if there had been a crash."""
    (folder / "catalog.crc").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "catalog.sqlite")
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
