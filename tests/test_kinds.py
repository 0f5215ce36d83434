"""Indexes, collections, shards, photo libraries and descriptors: none is taken for another."""

import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import memvec
from memvec import cluster
from memvec.cli import main
from memvec.collection import check_collection, repair_collection
from memvec.errors import MemvecError
from memvec.images import (
    PhotoLibrary,
    Triangulation,
    made_up_scene,
    open_descriptor,
    save_descriptor,
)
from memvec.storage import Kind, kind_of

ROWS = np.eye(8, dtype=np.float32)
MODEL = Triangulation.fit([np.random.default_rng(0).standard_normal((300, 8))], 2)

MAKERS = {
    Kind.INDEX: lambda path: memvec.Index.build(ROWS).save(path),
    Kind.COLLECTION: lambda path: memvec.open(path, dim=8).close(),
    Kind.SHARDS: lambda path: cluster.open(path, shards=2, dim=8, local=True).close(),
    Kind.LIBRARY: lambda path: PhotoLibrary.create(path, MODEL, similarity=0.5).close(),
    Kind.DESCRIPTOR: lambda path: save_descriptor(MODEL, path),
}
OPENERS = {
    "Index.open": (Kind.INDEX, memvec.Index.open),
    "memvec.open": (Kind.COLLECTION, memvec.open),
    "memvec.open, reading": (Kind.COLLECTION, lambda path: memvec.open(path, read_only=True)),
    "check_collection": (Kind.COLLECTION, check_collection),
    "repair_collection": (Kind.COLLECTION, repair_collection),
    "cluster.open": (Kind.SHARDS, lambda path: cluster.open(path, local=True)),
    "PhotoLibrary.open": (Kind.LIBRARY, PhotoLibrary.open),
    "open_descriptor": (Kind.DESCRIPTOR, open_descriptor),
}
COMMANDS = {
    ("create", "--dim", "8"): Kind.COLLECTION,
    ("add", "rows.npy"): Kind.COLLECTION,
    ("delete", "1"): Kind.COLLECTION,
    ("search", "--like", "1"): Kind.COLLECTION,
    ("measure", "--queries", "rows.npy"): Kind.COLLECTION,
    ("calibrate",): Kind.COLLECTION,
    ("info",): Kind.COLLECTION,
    ("compact",): Kind.COLLECTION,
    ("repair",): Kind.COLLECTION,
    ("range", "--like", "1"): Kind.COLLECTION,
    ("export", "out.npy"): Kind.COLLECTION,
    ("dedup",): Kind.COLLECTION,
    ("images", "search", "photo.png", "--library"): Kind.LIBRARY,
    ("images", "index", ".", "--library"): Kind.LIBRARY,
    ("images", "index", ".", "--descriptor"): Kind.DESCRIPTOR,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    parent = tmp_path_factory.mktemp("kinds")
    made = {kind: parent / kind.name.lower() for kind in MAKERS}
    for kind, make in MAKERS.items():
        make(made[kind])
    return made


def content(folder):
    return {
        path: path.stat().st_mtime_ns for path in sorted(Path(folder).rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("kind", MAKERS)
def test_kind_is_told_by_the_files(folders, kind):
    assert kind_of(folders[kind]) is kind


def test_segment_is_an_index(tmp_path):
    with memvec.open(tmp_path / "a", dim=8) as made:
        made.add(ROWS)
        made.seal()
    assert kind_of(tmp_path / "a" / "segments" / "000001") is Kind.INDEX


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("opener", OPENERS)
def test_opener_names_what_it_was_given_and_what_opens_that(folders, kind, opener):
    wanted, call = OPENERS[opener]
    # A library has a descriptor in it, which is what its path stands for there.
    if wanted is kind or (wanted, kind) == (Kind.DESCRIPTOR, Kind.LIBRARY):
        opened = call(folders[kind])
        getattr(opened, "close", lambda: None)()
        return
    before = content(folders[kind])
    with pytest.raises(MemvecError) as caught:
        call(folders[kind])
    expected = f"{folders[kind]} is not {wanted.title} but {kind.title}: {kind.openers}."
    assert str(caught.value) == expected
    assert content(folders[kind]) == before


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("new", MAKERS)
def test_nothing_is_made_over_another_kind(folders, kind, new):
    if new is kind:
        return
    before = content(folders[kind])
    with pytest.raises(MemvecError) as caught:
        MAKERS[new](folders[kind])
    assert kind.title in str(caught.value)
    assert new.title in str(caught.value)
    assert content(folders[kind]) == before


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_command_names_what_it_was_given(folders, kind, command, tmp_path, monkeypatch):
    if kind is COMMANDS[command] or (command[-1] == "--descriptor" and kind is Kind.LIBRARY):
        return
    monkeypatch.chdir(tmp_path)
    Image.fromarray(made_up_scene(1)).save("photo.png")
    np.save("rows.npy", ROWS)
    place = 1 if command[0] != "images" else len(command)
    arguments = [*command[:place], str(folders[kind]), *command[place:]]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (1, 2), result.output
    printed = " ".join(result.output.split())
    assert f"{kind.title}: {kind.openers}." in printed or f", {kind.title}" in printed


@pytest.mark.parametrize("opener", OPENERS)
def test_folder_of_other_things_is_of_no_kind(tmp_path, opener):
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / "manifest.json").write_text('{"name": "a page of the web"}')
    assert kind_of(tmp_path) is None
    with pytest.raises(MemvecError) as caught:
        OPENERS[opener][1](tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["letter.txt", "manifest.json"]


@pytest.mark.parametrize("opener", OPENERS)
def test_file_is_of_no_kind(tmp_path, opener):
    file = tmp_path / "letter.txt"
    file.write_text("dear")
    assert kind_of(file) is None
    with pytest.raises(MemvecError):
        OPENERS[opener][1](file)
    assert file.read_text() == "dear"


def test_index_of_a_later_version_is_still_an_index(tmp_path):
    memvec.Index.build(ROWS).save(tmp_path / "a")
    manifest = tmp_path / "a" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 999'))
    assert kind_of(tmp_path / "a") is Kind.INDEX


def test_check_of_a_library_names_the_folders_to_check(folders):
    result = CliRunner().invoke(main, ["check", str(folders[Kind.LIBRARY])])
    assert result.exit_code == 2
    assert "'collection'" in result.output
