"""Two sets of files joined by blocks: the pairs of their arrays, through interruptions."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memvec
from memvec.collection import _blocks, _blocks_plan
from memvec.collection._blocks_plan import BlockPlan, Task
from memvec.errors import CorruptIndexError, FileFormatError, InvalidValueError

SIMILARITY = 0.9


@pytest.fixture
def tmp_path(quick_path):
    """Syncing takes no time."""
    return quick_path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(_blocks_plan, "_FEW_ROWS", 45)


@pytest.fixture(scope="module")
def rows():
    """A set, and a larger one with near-copies and copies of it."""
    rng = np.random.default_rng(4)
    a = rng.standard_normal((70, 8))
    b = rng.standard_normal((150, 8))
    b[20:60] = a[:40] + 0.15 * rng.standard_normal((40, 8))
    b[140:] = a[5:15]
    b[100:105] = a[5]
    return [one.astype(np.float32) for one in (a, b)]


@pytest.fixture
def sets(tmp_path, rows):
    """Both in files of other numbers of rows than blocks have, with ids."""
    for name, vectors in zip("ab", rows, strict=True):
        for number, some in enumerate(np.array_split(np.arange(len(vectors)), 3)):
            ids = some if name == "a" else [f"n{row}" for row in some]
            table = pa.table({"embedding": list(vectors[some]), "name": ids})
            pq.write_table(table, tmp_path / f"{name}-{number}.parquet", row_group_size=17)
    return [str(tmp_path / f"{name}-*.parquet") for name in "ab"]


def joined(sets, folder, **asked):
    return memvec.join_files(*sets, SIMILARITY, out=folder / "pairs", ids="name", **asked)


def pairs_in(folder):
    table = pq.read_table(folder / "pairs").to_pydict()
    return set(zip(table["id_a"], table["id_b"], table["score"], strict=True))


def content(folder):
    paths = [path for path in (folder / "pairs").rglob("*") if path.is_file()]
    return {path.name: path.read_bytes() for path in sorted(paths)}


def test_pairs_are_those_of_the_arrays(sets, rows, tmp_path):
    found = joined(sets, tmp_path)
    truth = memvec.join(*rows, SIMILARITY)
    wanted = {(pair.left, f"n{pair.right}") for pair in truth}
    assert {pair[:2] for pair in pairs_in(tmp_path)} == wanted
    assert (found.n_a, found.n_b, found.n_pairs) == (70, 150, len(truth))
    assert found.n_blocks == 2 + 4
    assert found.certificate.complete
    assert repr(found) == f"FileJoin({len(truth)} pairs of 70 and 150, about 0 pairs may be left)"


def test_sets_may_be_swapped(sets, tmp_path):
    for name in ("there", "back"):
        (tmp_path / name).mkdir()
    joined(sets, tmp_path / "there")
    joined(sets[::-1], tmp_path / "back")
    swapped = {(b, a, score) for a, b, score in pairs_in(tmp_path / "back")}
    assert swapped == pairs_in(tmp_path / "there")


def test_rows_without_ids_are_numbered_in_their_set(tmp_path, rows):
    for name, vectors in zip("ab", rows, strict=True):
        np.save(tmp_path / f"{name}.npy", vectors)
    memvec.join_files(tmp_path / "a.npy", tmp_path / "b.npy", 0.9, out=tmp_path / "pairs")
    wanted = {(pair.left, pair.right) for pair in memvec.join(*rows, SIMILARITY)}
    assert {pair[:2] for pair in pairs_in(tmp_path)} == wanted


@pytest.mark.parametrize("swapped", [False, True])
def test_many_rows_are_searched_with_one_certificate(tmp_path, monkeypatch, swapped):
    monkeypatch.setattr(BlockPlan, "compares_everything", property(lambda plan: False))
    monkeypatch.setattr(_blocks_plan, "_FEW_ROWS", 1500)
    rng = np.random.default_rng(8)
    centres = np.repeat(rng.standard_normal((5, 24)), 800, axis=0)
    b = centres + rng.standard_normal(centres.shape)
    a = b[::2] + 0.15 * rng.standard_normal((2000, 24))
    sets = [b, a] if swapped else [a, b]
    for name, some in zip("ab", sets, strict=True):
        np.save(tmp_path / f"{name}.npy", some.astype(np.float32))
    files = tmp_path / "a.npy", tmp_path / "b.npy"
    found = memvec.join_files(*files, 0.95, out=tmp_path / "pairs", miss_rate=0.05)
    certificate = found.certificate
    assert (certificate.level, certificate.source) == ("expected", "queries")
    assert certificate.n_queries >= 50
    truth = memvec.join(*sets, 0.95)
    # 2 to 11 of 2,000 pairs are missed; all that is found is true.
    assert 0 <= len(truth) - found.n_pairs <= 0.05 * len(truth)
    assert {pair[:2] for pair in pairs_in(tmp_path)} <= {(one.left, one.right) for one in truth}
    assert found.expected_missed > 0


@pytest.mark.parametrize("searched", [False, True])
@pytest.mark.parametrize("at", [Task("draw"), Task("thresholds"), Task("join", 0, 4)])
def test_interrupted_join_goes_on_to_the_same_bytes(sets, tmp_path, monkeypatch, at, searched):
    if searched:
        monkeypatch.setattr(BlockPlan, "compares_everything", property(lambda plan: False))
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    joined(sets, tmp_path / "whole")
    do = _blocks.do_task

    def stop(work, task, threads):
        if task == at:
            raise KeyboardInterrupt
        do(work, task, threads)

    with monkeypatch.context() as patch:
        patch.setattr(_blocks, "do_task", stop)
        with pytest.raises(KeyboardInterrupt):
            joined(sets, tmp_path / "cut")
    again = joined(sets, tmp_path / "cut")
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
    monkeypatch.setattr(_blocks, "do_task", None)
    assert joined(sets, tmp_path / "cut") == again


def test_work_of_something_else_is_refused(sets, tmp_path):
    joined(sets, tmp_path)
    asked = {"out": tmp_path / "pairs", "ids": "name"}
    with pytest.raises(InvalidValueError, match="holds another join: a join of two sets is no"):
        memvec.deduplicate_files(sets[0], 0.9, **asked)
    *first, last = [tmp_path / f"a-{number}.parquet" for number in range(3)]
    with pytest.raises(InvalidValueError, match="of the files 3 were a, and 2 are"):
        memvec.join_files(first, [last, sets[1]], 0.9, **asked)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(InvalidValueError, match="or the folder of this join. Got .*'file'"):
        memvec.join_files(*sets, 0.9, out=tmp_path / "other")


def test_forged_result_names_no_file_elsewhere(sets, tmp_path):
    joined(sets, tmp_path)
    path = tmp_path / "pairs" / "_manifest.json"
    manifest = json.loads(path.read_text())
    manifest["result"]["files"] = {"../a-0.parquet": [1, 1]}
    path.write_text(json.dumps(manifest))
    with pytest.raises(CorruptIndexError, match=r"'../a-0.parquet', which is not a file of"):
        joined(sets, tmp_path)


@pytest.mark.parametrize(
    ("forged", "error", "text"),
    [
        ({"n_blocks": 10**12}, CorruptIndexError, "its plan cannot be read .*10{12} blocks of 220"),
        ({"first": [3, 0]}, CorruptIndexError, "its plan cannot be read"),
        ({"first": [3, 6]}, CorruptIndexError, "its plan cannot be read"),
        ({"dim": 3}, InvalidValueError, "the dimension was 3 and is 8"),
    ],
)
def test_forged_plan_is_refused(sets, tmp_path, forged, error, text):
    joined(sets, tmp_path)
    path = tmp_path / "pairs" / "_manifest.json"
    manifest = json.loads(path.read_text())
    manifest["plan"] |= forged
    path.write_text(json.dumps(manifest))
    with pytest.raises(error, match=text):
        joined(sets, tmp_path)


@pytest.mark.parametrize(
    "receipt",
    [
        {"files": {"/dev/zero": [1, "00000000"]}, "n_pairs": 3},
        {"files": {"_work/../../a-0.parquet": [1, "00000000"]}, "n_pairs": 3},
        {"files": {"pairs-00000-00004.parquet": 3}, "n_pairs": 3},
        {"files": 3},
        {},
    ],
)
def test_forged_receipt_is_no_receipt(sets, tmp_path, monkeypatch, receipt):
    """Its task is done again; a device that never ends is not read."""
    for name in ("whole", "forged"):
        (tmp_path / name).mkdir()
    joined(sets, tmp_path / "whole")
    do, last = _blocks.do_task, Task("join", 1, 5)

    def stop(work, task, threads):
        if task == last:
            raise KeyboardInterrupt
        do(work, task, threads)

    with monkeypatch.context() as patch:
        patch.setattr(_blocks, "do_task", stop)
        with pytest.raises(KeyboardInterrupt):
            joined(sets, tmp_path / "forged")
    path = tmp_path / "forged" / "pairs" / "_work" / f"{Task('join', 0, 4).name}.json"
    path.write_text(json.dumps(receipt))
    joined(sets, tmp_path / "forged")
    assert content(tmp_path / "forged") == content(tmp_path / "whole")


def test_bad_sets_are_refused(tmp_path):
    vectors = pa.array(list(np.eye(3, dtype=np.float32)))
    good = pa.table({"embedding": vectors, "name": ["x", "y", "z"]})
    pq.write_table(good, tmp_path / "a.parquet")
    pq.write_table(good.slice(0, 0), tmp_path / "none.parquet")
    twice = good.set_column(1, "name", pa.array(["x", "y", "x"]))
    pq.write_table(twice, tmp_path / "b.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("a", "b", "none")]
    with pytest.raises(FileFormatError, match="The id 'x' occurs twice: in row 0 of .*b.parquet"):
        joined(files[:2], tmp_path)
    with pytest.raises(InvalidValueError, match="'b' parameter of memvec.join_files .* with rows"):
        memvec.join_files(files[0], files[2], out=tmp_path / "no")
    same = memvec.join_files(files[0], files[0], 0.9, out=tmp_path / "same", ids="name")
    assert same.n_pairs == 3  # an id may be in both sets
