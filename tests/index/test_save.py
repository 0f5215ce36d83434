import errno
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import naive
from memvec import Index, IndexConfig
from memvec.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    InvalidValueError,
    StorageError,
)
from memvec.storage import disk, open_folder, write_folder

ROWS = naive.unit_rows(np.random.default_rng(1).standard_normal((3000, 40)))
QUERIES = naive.unit_rows(ROWS[:50] + 0.1 * np.random.default_rng(2).standard_normal((50, 40)))


@pytest.mark.parametrize(
    "config",
    [
        IndexConfig(codes="none"),
        IndexConfig(codes="sign"),
        IndexConfig(),
        IndexConfig(levels=2),
        IndexConfig(units_per_vector=2),
        IndexConfig(units_per_vector=2, levels=2, center=True),
        IndexConfig(pca_dim=20, whiten=True),
        IndexConfig(center=True),
        IndexConfig(construction="ridge", ridge=np.inf, unit_size=np.int64(40)),
    ],
)
def test_opened_index_answers_like_the_saved_one(tmp_path, config):
    index = Index.build(ROWS, config=config)
    index.save(tmp_path / "index.mv")
    opened = Index.open(tmp_path / "index.mv", verify=True)
    assert opened.design == index.design
    for one, other in (
        (index.range_search(QUERIES, 0.7), opened.range_search(QUERIES, 0.7)),
        (index.search(QUERIES, 5), opened.search(QUERIES, 5)),
    ):
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.scores, other.scores)
        assert one.certificate == other.certificate


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((1, 1)),
        np.array([[1.0], [-1.0]]),
        np.ones((300, 5)),
        np.repeat([[1.0, 0.0], [-1.0, 0.0]], 150, axis=0),
        np.eye(70, 65),
        np.random.default_rng(8).standard_normal((130, 2)),
    ],
)
@pytest.mark.parametrize("codes", ["none", "sign", "estimate", "balanced"])
def test_index_of_any_vectors_can_be_opened(tmp_path, rows, codes):
    index = Index.build(rows[np.abs(rows).any(axis=1)], config=IndexConfig(codes=codes))
    index.save(tmp_path / "index.mv")
    opened = Index.open(tmp_path / "index.mv", verify=True)
    one, other = (each.range_search(rows[:1], 0.5) for each in (index, opened))
    np.testing.assert_array_equal(one.ids, other.ids)


def test_saving_replaces_an_index(tmp_path):
    Index.build(ROWS).save(tmp_path / "index.mv")
    Index.build(ROWS[:10]).save(tmp_path / "index.mv")
    assert len(Index.open(tmp_path / "index.mv")) == 10


def test_an_index_without_all_its_arrays_is_refused(tmp_path):
    Index.build(ROWS[:100], config=IndexConfig(units_per_vector=2)).save(tmp_path / "index.mv")
    arrays, meta = open_folder(tmp_path / "index.mv")
    for missing in ("offsets", "codes", "run_offsets", "run_rows"):
        kept = {name: np.array(array) for name, array in arrays.items() if name != missing}
        write_folder(tmp_path / "broken.mv", kept, meta)
        with pytest.raises(CorruptIndexError, match=f"does not hold a complete index.*{missing}"):
            Index.open(tmp_path / "broken.mv")


def test_missing_and_foreign_folders_are_refused(tmp_path):
    with pytest.raises(IndexNotFoundError):
        Index.open(tmp_path / "nothing")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidValueError, match="Index.save"):
        Index.build(ROWS[:10]).save(tmp_path / "other")
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_disk_that_refuses_leaves_the_old_index(tmp_path, monkeypatch, code):
    Index.build(ROWS[:20]).save(tmp_path / "index.mv")

    def refuse(*_):
        raise OSError(code, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write", refuse)
        with pytest.raises(StorageError, match=r"refused: '.*index.mv'") as info:
            Index.build(ROWS[:10]).save(tmp_path / "index.mv")
    assert info.value.errno == code
    assert len(Index.open(tmp_path / "index.mv", verify=True)) == 20
    names = sorted(path.name for path in (tmp_path / "index.mv").iterdir())
    assert names == ["g000001", "manifest.json", "solved"]


def test_index_behind_a_link_is_opened_and_replaced(tmp_path):
    Index.build(ROWS[:20]).save(tmp_path / "index-v2")
    (tmp_path / "current").symlink_to("index-v2")
    assert len(Index.open(tmp_path / "current")) == 20
    Index.build(ROWS[:10]).save(tmp_path / "current")
    assert len(Index.open(tmp_path / "index-v2")) == 10


def test_settings_on_disk_are_plain_json(tmp_path):
    Index.build(ROWS[:100]).save(tmp_path / "index.mv")
    manifest = json.loads((tmp_path / "index.mv" / "manifest.json").read_text())
    assert manifest["meta"]["design"]["config"]["seed"] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_an_interrupt_leaves_nothing_behind(tmp_path, seconds):
    """Ctrl-C while an index is built or saved: an error, and no file that was not there before."""
    code = (
        "import signal, numpy as np, memvec\n"
        # A process started in the background of a shell ignores interrupts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "rows = np.random.default_rng(0).standard_normal((60_000, 64), dtype=np.float32)\n"
        "print('ready', flush=True)\n"
        f"while True: memvec.Index.build(rows).save({str(tmp_path / 'index.mv')!r})\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(seconds)
    complaint = None
    # Python drops an interrupt that comes while it finalises an object: people press again.
    for _ in range(120):
        child.send_signal(signal.SIGINT)
        try:
            _, complaint = child.communicate(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            continue
    if complaint is None:
        child.kill()
        child.communicate()
    assert child.returncode != 0
    assert "KeyboardInterrupt" in (complaint or "")
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"index.mv"}
    if left:
        Index.open(tmp_path / "index.mv", verify=True)


def test_check_names_damaged_files_of_an_opened_index(tmp_path):
    Index.build(ROWS[:50]).save(tmp_path / "index.mv")
    index = Index.open(tmp_path / "index.mv")
    assert (index.check().ok, index.to("cpu").check().ok) == (True, True)
    [file] = tmp_path.glob("index.mv/g*/vectors.npy")
    file.write_bytes(file.read_bytes()[:-4] + b"abcd")
    [problem] = index.check().problems
    assert f"{file} is damaged: its checksum" in problem


def test_check_of_an_index_in_memory_is_refused():
    with pytest.raises(InvalidValueError, match="this index is only in memory. Save it first"):
        Index.build(ROWS[:50]).check()


def test_check_finds_the_folder_from_wherever_it_is_called(tmp_path, monkeypatch):
    Index.build(np.eye(4)).save(tmp_path / "four.mv")
    monkeypatch.chdir(tmp_path)
    opened = Index.open("four.mv")
    monkeypatch.chdir("/")
    assert opened.check().ok
