"""Deduplication of files by blocks: the same as of one array, whatever the blocks and deaths."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import memvec
from collection import block_deaths
from memvec.collection import _blocks, _blocks_groups, _blocks_joining, _blocks_plan
from memvec.collection._blocks_plan import BlockPlan, Task, memory_bytes
from memvec.errors import (
    CorruptIndexError,
    FileFormatError,
    InvalidValueError,
    LockedError,
    UnknownVersionError,
)
from naive.joins import array_groups, array_pairs

SIMILARITY = 0.9


@pytest.fixture
def tmp_path(quick_path):
    """Syncing takes no time."""
    return quick_path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(_blocks_plan, "_FEW_ROWS", 45)


@pytest.fixture(scope="module")
def vectors():
    """Near-copies, chains of them, and copies, in all blocks."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((150, 8))
    rows[100:130] = rows[:30] + 0.15 * rng.standard_normal((30, 8))
    rows[130:140] = rows[100:110] + 0.15 * rng.standard_normal((10, 8))
    rows[140:] = rows[95:105]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def files(tmp_path, vectors):
    """The vectors in three files, with ids and scores."""
    for number, (start, stop) in enumerate([(0, 20), (20, 110), (110, 150)]):
        table = {
            "embedding": pa.array(list(vectors[start:stop])),
            "name": [f"n{row}" for row in range(start, stop)],
            "quality": [float(-(row % 7)) for row in range(start, stop)],
        }
        # Groups of rows end elsewhere than blocks.
        pq.write_table(pa.table(table), tmp_path / f"part-{number}.parquet", row_group_size=17)
    return tmp_path / "part-*.parquet"


def deduplicated(files, folder, similarity=SIMILARITY, **asked):
    return memvec.deduplicate_files(
        files, similarity, out=folder / "pairs", keep_list=folder / "kept.parquet", **asked
    )


def content(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def listed(folder):
    return pq.read_table(folder / "kept.parquet").to_pydict()


@pytest.mark.parametrize("groups", ["components", "star"])
@pytest.mark.parametrize("keep", ["first", "last", "best"])
def test_files_have_the_duplicates_of_their_array(files, tmp_path, vectors, keep, groups):
    rows = np.arange(len(vectors))
    order = {"first": rows, "last": rows[::-1], "best": np.argsort(rows % 7, kind="stable")}[keep]
    scores = {"scores": "quality"} if keep == "best" else {}
    found = deduplicated(files, tmp_path, ids="name", keep=keep, groups=groups, **scores)
    expected = array_groups(vectors, SIMILARITY, order, groups)
    assert (found.n_items, found.n_blocks, found.n_groups) == (150, 4, len(expected))
    assert found.n_dropped == sum(len(group) - 1 for group in expected) == 150 - found.n_kept
    kept_of = {row: group[0] for group in expected for row in group}
    table = listed(tmp_path)
    assert table["id"] == [f"n{row}" for row in rows]
    assert table["group"] == [f"n{kept_of.get(row, row)}" for row in rows]
    assert table["keep"] == [kept_of.get(row, row) == row for row in rows]


def test_pairs_are_those_of_the_array_and_copies_pair_with_the_first(files, tmp_path, vectors):
    found = deduplicated(files, tmp_path, ids="name")
    table = pq.read_table(tmp_path / "pairs").to_pydict()
    firsts = {row.tobytes(): number for number, row in reversed(list(enumerate(vectors)))}
    first_of = [firsts[row.tobytes()] for row in vectors]
    expected = {(first_of[row], row): 1.0 for row in range(150) if first_of[row] != row}
    assert len(expected) == found.n_copies == 10
    for left, right, score in array_pairs(vectors, SIMILARITY):
        if first_of[left] == left and first_of[right] == right:
            expected[left, right] = score
    assert len(expected) == found.n_copies + found.n_pairs
    pairs = zip(table["id_a"], table["id_b"], table["score"], strict=True)
    got = {(int(a[1:]), int(b[1:])): score for a, b, score in pairs}
    assert got == pytest.approx(expected, abs=1e-6)
    assert (found.certificate.complete, found.expected_missed) == (True, 0)


def test_rows_without_ids_are_numbered_through_all_files(tmp_path, vectors):
    for number, part in enumerate(np.array_split(vectors, 3)):
        np.save(tmp_path / f"part-{number}.npy", part)
    found = deduplicated([tmp_path / "part-0.npy", tmp_path / "part-[12].npy"], tmp_path)
    whole = memvec.deduplicate(vectors, SIMILARITY)
    table = listed(tmp_path)
    assert np.flatnonzero(table["keep"]).tolist() == whole.kept.tolist()
    assert table["id"] == list(range(150))
    assert found.n_groups == len(whole.groups)


def test_formats_that_cannot_skip_rows_are_read_from_any_row(tmp_path, vectors):
    np.savez(tmp_path / "v.npz", vectors=vectors, ids=np.arange(150) + 1000)
    lines = [json.dumps({"id": n + 2000, "vector": row.tolist()}) for n, row in enumerate(vectors)]
    (tmp_path / "v.jsonl").write_text("\n".join(lines))
    found = deduplicated([tmp_path / "v.npz", tmp_path / "v.jsonl"], tmp_path)
    assert listed(tmp_path)["id"] == [*range(1000, 1150), *range(2000, 2150)]
    # A JSON line has all digits of a float32.
    assert (found.n_items, found.n_copies) == (300, 160)


def test_block_of_copies_alone_has_no_index(tmp_path, vectors):
    np.save(tmp_path / "v.npy", np.concatenate([vectors[:45], vectors[:45], vectors[45:90]]))
    found = deduplicated(tmp_path / "v.npy", tmp_path, keep_work=True)
    assert (found.n_blocks, found.n_copies) == (3, 45)
    assert not (tmp_path / "pairs/_work/index-00001").exists()
    assert found.n_dropped == 45 + len(memvec.deduplicate(vectors[:90], SIMILARITY).drop)


def test_stars_are_the_same_however_few_pairs_fit_into_memory(files, tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    deduplicated(files, tmp_path / "a", ids="name", groups="star")
    monkeypatch.setattr(_blocks_groups, "_BYTES_AN_EDGE", 1 << 60)
    deduplicated(files, tmp_path / "b", ids="name", groups="star")
    assert listed(tmp_path / "a") == listed(tmp_path / "b")


@pytest.fixture
def by_thresholds(monkeypatch):
    """Few rows are indexed and searched as many are."""
    monkeypatch.setattr(BlockPlan, "compares_everything", property(lambda plan: False))
    monkeypatch.setattr(_blocks_plan, "_FEW_ROWS", 1500)


def test_one_certificate_covers_all_blocks_of_sorted_files(tmp_path, by_thresholds):
    """Blocks of other directions each: what is drawn is of all of them."""
    shares = []
    for seed in range(8, 14):
        rng = np.random.default_rng(seed)
        centres = np.repeat(rng.standard_normal((5, 24)), 800, axis=0)
        rows = centres + rng.standard_normal(centres.shape)
        rows[2000:] = rows[:2000] + 0.15 * rng.standard_normal((2000, 24))
        folder = tmp_path / str(seed)
        folder.mkdir()
        np.save(folder / "v.npy", rows.astype(np.float32))
        found = deduplicated(folder / "v.npy", folder, 0.95, miss_rate=0.05)
        certificate = found.certificate
        assert (certificate.level, certificate.source) == ("expected", "reserve")
        assert (certificate.population, certificate.n_queries) == (4000, 200)
        assert found.expected_missed > 0
        truth = memvec.self_join(rows, 0.95)
        table = pq.read_table(folder / "pairs").to_pydict()
        pairs = set(zip(table["id_a"], table["id_b"], strict=True))
        assert pairs <= set(zip(truth.left.tolist(), truth.right.tolist(), strict=True))
        shares.append(1 - len(pairs) / len(truth))
    # Nine of 200 queries may be missed, which is 5 % on average, with a deviation of 1.5 % a draw.
    # 5.1 % were seen, and 5.0 ± 0.5 % over twelve draws.
    assert np.mean(shares) <= 0.05 + 3 * 0.015 / len(shares) ** 0.5


def test_too_few_rows_to_calibrate_on_lower_the_level(tmp_path, vectors, by_thresholds):
    np.save(tmp_path / "v.npy", vectors)
    found = deduplicated(tmp_path / "v.npy", tmp_path)
    # So few rows are all compared instead.
    assert found.n_dropped == len(memvec.deduplicate(vectors, SIMILARITY).drop)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_work_goes_on_from_another_working_folder(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    interrupted(files.name, tmp_path, monkeypatch, Task("copies"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert deduplicated(f"../{files.name}", tmp_path, ids="name").n_items == 150


def test_killed_work_goes_on_to_the_same_bytes(quick_path):
    command = [sys.executable, "-W", "ignore", block_deaths.__file__, quick_path, "9"]
    seen = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert seen["steps"] > 100
    joins = [f"pairs/pairs-{i:05d}-{j:05d}.parquet" for j in range(3) for i in range(j + 1)]
    names = ["kept.parquet", "pairs/_manifest.json", *joins, "pairs/pairs-copies.parquet"]
    assert seen["files"] == sorted(names)
    assert seen["differing"] == []


def interrupted(files, folder, monkeypatch, at, **asked):
    """Work until a task begins, and stop there by Ctrl-C."""
    do = _blocks.do_task

    def stop(work, task, threads):
        if task == at:
            raise KeyboardInterrupt
        do(work, task, threads)

    with monkeypatch.context() as patch:
        patch.setattr(_blocks, "do_task", stop)
        with pytest.raises(KeyboardInterrupt):
            deduplicated(files, folder, ids="name", **asked)


def damaged(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda work: damaged(work / "index-00001/g000001/vectors.npy"),
        lambda work: damaged(work / "rows-00002.f32"),
        lambda work: damaged(work / "firsts.npy"),
        lambda work: damaged(work / "names-00000.parquet"),
        lambda work: (work / "read-00000-00000.json").write_text("[]"),
        lambda work: (work / "index-00000/manifest.json").unlink(),
    ],
    ids=["index", "rows", "copies", "names", "receipt", "manifest"],
)
def test_damaged_work_is_done_again(files, tmp_path, monkeypatch, harm):
    for name in ("whole", "harmed"):
        (tmp_path / name).mkdir()
    deduplicated(files, tmp_path / "whole", ids="name")
    interrupted(files, tmp_path / "harmed", monkeypatch, Task("index", 2))
    harm(tmp_path / "harmed/pairs/_work")
    deduplicated(files, tmp_path / "harmed", ids="name")
    assert content(tmp_path / "harmed") == content(tmp_path / "whole")


@pytest.mark.parametrize("groups", ["components", "star"])
@pytest.mark.parametrize(
    "harm",
    [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-16])],
    ids=["lost", "cut"],
)
def test_pairs_that_are_lost_before_they_are_grouped_are_an_error(
    files, tmp_path, monkeypatch, groups, harm
):
    """Without them, more rows would be kept, and nobody told."""
    do = _blocks.do_task

    def harmed(work, task, threads):
        if task.kind == "groups":
            harm(next(path for path in sorted(work.inner.glob("*.rows")) if path.stat().st_size))
        do(work, task, threads)

    monkeypatch.setattr(_blocks, "do_task", harmed)
    with pytest.raises(CorruptIndexError, match=r"join-0000.*\.rows"):
        deduplicated(files, tmp_path, ids="name", groups=groups)
    monkeypatch.setattr(_blocks, "do_task", do)
    assert deduplicated(files, tmp_path, ids="name", groups=groups).n_pairs > 20


def test_damaged_pairs_are_found_again(files, tmp_path, monkeypatch):
    interrupted(files, tmp_path, monkeypatch, Task("groups"))
    path = tmp_path / "pairs/pairs-00000-00002.parquet"
    whole = path.read_bytes()
    damaged(path)
    deduplicated(files, tmp_path, ids="name")
    assert path.read_bytes() == whole


def test_finished_work_is_not_done_again(files, tmp_path, monkeypatch):
    first = deduplicated(files, tmp_path, ids="name")
    assert {path.name[:5] for path in (tmp_path / "pairs").iterdir()} == {"_mani", "pairs"}
    monkeypatch.setattr(_blocks, "do_task", None)
    again = deduplicated(files, tmp_path, ids="name")
    assert repr(again) == repr(first)
    assert again.certificate == first.certificate
    (tmp_path / "kept.parquet").unlink()
    with pytest.raises(InvalidValueError, match=r"kept.parquet cannot be written: .* is finished"):
        deduplicated(files, tmp_path, ids="name")
    (tmp_path / "pairs/pairs-copies.parquet").unlink()
    with pytest.raises(CorruptIndexError, match=r"pairs-copies.parquet is missing"):
        deduplicated(files, tmp_path, ids="name")


def test_list_can_be_written_later_where_the_work_is_kept(files, tmp_path):
    deduplicated(files, tmp_path, ids="name", keep_work=True)
    before = (tmp_path / "kept.parquet").read_bytes()
    (tmp_path / "kept.parquet").write_text("the list of something else")
    deduplicated(files, tmp_path, ids="name")
    assert (tmp_path / "kept.parquet").read_bytes() == before
    assert not (tmp_path / "pairs/_work").exists()


def test_list_of_another_deduplication_is_not_taken_for_that_of_this_one(files, tmp_path):
    deduplicated(files, tmp_path, ids="name", keep_work=True)
    before = (tmp_path / "kept.parquet").read_bytes()
    write(tmp_path / "kept.parquet", id=["n0"], keep=[True], group=["n0"])
    deduplicated(files, tmp_path, ids="name")
    assert (tmp_path / "kept.parquet").read_bytes() == before
    write(tmp_path / "kept.parquet", id=["n0"], keep=[True], group=["n0"])
    with pytest.raises(InvalidValueError, match=r"kept.parquet cannot be written: .* is finished"):
        deduplicated(files, tmp_path, ids="name")


@pytest.mark.parametrize("linked", [False, True])
def test_list_is_not_written_over_a_file_that_is_read(files, tmp_path, linked):
    target = path = tmp_path / "part-1.parquet"
    if linked:
        path = tmp_path / "kept.parquet"
        path.symlink_to(target)
    before = target.read_bytes()
    with pytest.raises(InvalidValueError, match=r"'keep_list' .* a path that is none of the files"):
        memvec.deduplicate_files(files, out=tmp_path / "pairs", keep_list=path)
    assert target.read_bytes() == before
    assert not (tmp_path / "pairs").exists()


def test_pattern_may_match_what_the_work_has_written(files, tmp_path):
    everything = tmp_path / "**/*.parquet"
    first = deduplicated(everything, tmp_path, ids="name", keep_work=True)
    before = content(tmp_path)
    assert "kept.parquet" in before
    assert deduplicated(everything, tmp_path, ids="name", keep_work=True) == first
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"similarity": 0.8}, r"similarity was 0.9 and is 0.8"),
        ({"groups": "star", "keep": "last"}, r"keep was 'first' and is 'last'; groups was"),
        ({"ids": None}, r"ids was 'name' and is None"),
        ({"memory": "3GB"}, r"memory was [0-9,]+ bytes and is 3,000,000,000"),
    ],
)
def test_other_settings_are_refused(files, tmp_path, monkeypatch, changed, difference):
    interrupted(files, tmp_path, monkeypatch, Task("copies"))
    before = content(tmp_path)
    with pytest.raises(InvalidValueError, match=f"holds another deduplication: {difference}"):
        deduplicated(files, tmp_path, **{"ids": "name", **changed})
    assert content(tmp_path) == before


def test_other_files_are_refused(files, tmp_path, monkeypatch):
    interrupted(files, tmp_path, monkeypatch, Task("copies"))
    some = [tmp_path / "part-0.parquet", tmp_path / "part-1.parquet"]
    with pytest.raises(InvalidValueError, match=r"the files were .* and are .*part-1.parquet"):
        deduplicated(some, tmp_path, ids="name")
    os.utime(tmp_path / "part-2.parquet", ns=(0, 0))
    with pytest.raises(InvalidValueError, match=r"part-2.parquet has changed"):
        deduplicated(files, tmp_path, ids="name")


def test_file_that_changes_meanwhile_is_refused(files, tmp_path, monkeypatch):
    do = _blocks.do_task

    def change(work, task, threads):
        if task == Task("read", 3):
            os.utime(tmp_path / "part-2.parquet", ns=(0, 0))
        do(work, task, threads)

    monkeypatch.setattr(_blocks, "do_task", change)
    with pytest.raises(FileFormatError, match=r"part-2.parquet has changed since the work began"):
        deduplicated(files, tmp_path, ids="name")


def test_links_and_forged_results_are_refused(files, tmp_path):
    deduplicated(files, tmp_path, ids="name")
    path = tmp_path / "pairs/_manifest.json"
    whole = path.read_text()
    for name, value in [("files", 3), ("certificate", "{}"), ("n_items", None)]:
        manifest = json.loads(whole)
        manifest["result"][name] = value
        path.write_text(json.dumps(manifest))
        with pytest.raises(CorruptIndexError, match=r"its result cannot be read"):
            deduplicated(files, tmp_path, ids="name")
    path.write_text(whole)
    (tmp_path / "pairs/_work/index-00000").symlink_to(tmp_path)
    with pytest.raises(CorruptIndexError, match=r"index-00000 is a link"):
        deduplicated(files, tmp_path, ids="name")


def test_two_cannot_work_in_one_folder(files, tmp_path, monkeypatch):
    def again(work, task, threads):
        deduplicated(files, tmp_path, ids="name")

    monkeypatch.setattr(_blocks, "do_task", again)
    with pytest.raises(LockedError, match=r"pairs is in use by another process"):
        deduplicated(files, tmp_path, ids="name")


def test_folders_of_something_else_are_refused(files, tmp_path):
    out = tmp_path / "pairs"
    out.mkdir()
    (out / "letter.txt").write_text("x")
    with pytest.raises(InvalidValueError, match=r"a new folder, an empty one"):
        deduplicated(files, tmp_path, ids="name")
    for text, error in [
        ("{}", CorruptIndexError),
        ("no", CorruptIndexError),
        ('{"version": 9, "plan": {}}', UnknownVersionError),
        ('{"version": 2, "plan": {"files": 3}}', CorruptIndexError),
        ("[]", CorruptIndexError),
    ]:
        (out / "_manifest.json").write_text(text)
        with pytest.raises(error, match=r"_manifest\.json"):
            deduplicated(files, tmp_path, ids="name")


def write(path, **columns):
    pq.write_table(pa.table(columns), path)


def good(first=0):
    return {"v": [[1.0, 0.0], [0.0, 1.0]], "id": [first, first + 1]}


@pytest.mark.parametrize(
    ("table", "asked", "error"),
    [
        (good(2), {"field": "w"}, r"'field' parameter .* must be a column of .*0.parquet"),
        (good(2), {"ids": "w"}, r"'ids' parameter .* the name of a field of .*0.parquet"),
        (good(2) | {"v": [[1.0], [2.0]]}, {}, r"files of one dimension; .* has 2\. Got 1 in"),
        (good(2) | {"v": [[1.0, 0.0], [1.0]]}, {}, r"different lengths in column 'v': 2 .*row 1"),
        (good(2) | {"v": [[1.0, 0.0], [0.0, 0.0]]}, {}, r"1.parquet must be .* zeros in row 1"),
        (good(2) | {"v": [[1.0, 0.0], [np.nan, 0.0]]}, {}, r"1.parquet must be .* NaN in row 1"),
        (good(1), {}, r"The id 1 occurs twice: in row 1 of .*0.parquet and row 0 of .*1.parquet"),
        (
            good(2) | {"id": ["a", "b"]},
            {},
            r"others texts or none|has the id 'a' in row 0; ids must be int",
        ),
        (good(2) | {"id": [2.5, 3.0]}, {}, r"1.parquet has the id 2.5 in row 0; ids must be int"),
        (good(2) | {"id": [None, 3]}, {}, r"1.parquet has the id None in row 0"),
        ({"v": good()["v"]}, {}, r"1.parquet has no ids, unlike others|others texts or none"),
        (good(2), {"keep": "best", "scores": "s"}, r"'scores' .* a field of .*, which holds id"),
    ],
)
@pytest.mark.parametrize("n_rows", [1, 2])
def test_bad_files_are_refused_by_name(tmp_path, monkeypatch, table, asked, error, n_rows):
    """Whether rows of both files are in one block or not."""
    monkeypatch.setattr(_blocks_plan, "_FEW_ROWS", 2 * n_rows)
    for number, columns in enumerate([good(), table]):
        write(tmp_path / f"{number}.parquet", **columns)
    with pytest.raises((FileFormatError, InvalidValueError), match=error):
        deduplicated(tmp_path / "*.parquet", tmp_path, **asked)
    # Files that are mended are other files: what was begun with these is of no use.
    assert not (tmp_path / "pairs").exists()
    (tmp_path / "pairs").mkdir()
    with pytest.raises((FileFormatError, InvalidValueError)):
        deduplicated(tmp_path / "*.parquet", tmp_path, **asked)
    assert list((tmp_path / "pairs").iterdir()) == []


def test_files_without_rows_are_passed_over_unless_all_are_so(tmp_path):
    columns = pa.schema({"v": pa.list_(pa.float32()), "id": pa.int64()})
    nothing = columns.empty_table()
    pq.write_table(nothing, tmp_path / "0.parquet")
    with pytest.raises(FileFormatError, match=r"0.parquet holds no vectors"):
        deduplicated(tmp_path / "0.parquet", tmp_path)
    pq.write_table(nothing, tmp_path / "2.parquet")
    for number in (1, 3):
        table = pa.table(good(2 * number), schema=columns)
        pq.write_table(table, tmp_path / f"{number}.parquet")
    deduplicated(tmp_path / "[0-3].parquet", tmp_path)
    assert listed(tmp_path)["id"] == [2, 3, 6, 7]


@pytest.mark.parametrize("score", [None, float("nan"), True])
def test_rows_without_a_score_are_refused(tmp_path, score):
    write(tmp_path / "v.parquet", **good(), s=[score, score])
    with pytest.raises(FileFormatError, match=r"v.parquet has .* as 's' in row 0; scores must"):
        deduplicated(tmp_path / "v.parquet", tmp_path, keep="best", scores="s")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"keep": "best"}, "'scores' parameter of memvec.deduplicate_files must be the name"),
        ({"scores": "quality"}, "'scores' parameter .* Got 'quality' instead"),
        ({"keep": "longest"}, "'keep' parameter .* one of 'first', 'last', 'best'"),
        ({"memory": "much"}, "'memory' parameter .* such as '4GB'. Got 'much' instead"),
        ({"memory": "1MB"}, "'memory' parameter .* at least 0.63 GB for 150 rows of dimension 8"),
        ({"keep_list": "kept.csv"}, "'keep_list' parameter .* a path ending in .parquet"),
        ({"keep_list": "no/kept.parquet"}, "'keep_list' parameter .* a folder that exists"),
        ({"keep_list": "kept.parquet", "out": "."}, "'keep_list' .* not that of the pairs"),
        ({"keep_list": "./part-1.parquet"}, "'keep_list' .* none of the files"),
        ({"keep_list": "x/../y/kept.parquet", "out": "y"}, "'keep_list' .* not that of the pairs"),
        ({"keep_list": "x/y/kept.parquet", "out": "x"}, "'keep_list' .* not that of the pairs"),
        ({"files": "no-*.parquet"}, "'files' parameter .* patterns that some files match"),
        ({"files": []}, "'files' parameter .* at least one file"),
        ({"files": ["part-0.parquet"] * 2}, "'files' parameter .* files, each named once"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(
    files, tmp_path, monkeypatch, asked, error
):
    for name in ("x/y", "y"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError, match=error):
        memvec.deduplicate_files(**{"files": files, "out": "pairs"} | asked)
    assert not Path("pairs").exists()


def test_memory_is_read_as_people_write_it():
    texts = ["4GB", "4 gb", "0.5g", "2GiB", "100"]
    assert [memory_bytes(text, "") for text in texts] == [
        4 * 10**9,
        4 * 10**9,
        5 * 10**8,
        2 << 30,
        100,
    ]
    assert memory_bytes(7, "") == 7
    assert memory_bytes(None, "") > 1 << 28


def test_fewer_blocks_follow_from_more_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_blocks_plan, "_FEW_ROWS", 10**9)
    counts = [_blocks_plan._n_blocks(10**6, 10**6, 384, size * 10**9, "") for size in (1, 2, 4, 64)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 5
    assert counts[-1] == 1


def test_wide_rows_are_read_in_small_parts(tmp_path, monkeypatch):
    """Rows of 4,096 entries took 1.3 GB to read, and 0.2 GB in parts of two million entries."""
    np.save(tmp_path / "v.npy", np.eye(3, 1 << 20, dtype=np.float32))
    read, asked = _blocks_plan.read_blocks, []
    monkeypatch.setattr(
        _blocks_plan,
        "read_blocks",
        lambda *given, **kw: asked.append(kw["block_rows"]) or read(*given, **kw),
    )
    monkeypatch.setattr(_blocks, "do_task", _only_reading(_blocks.do_task))
    with pytest.raises(KeyboardInterrupt):
        deduplicated(tmp_path / "v.npy", tmp_path)
    assert max(asked) == 2


def _only_reading(do):
    def reading(work, task, threads):
        if task.kind != "read":
            raise KeyboardInterrupt
        do(work, task, threads)

    return reading


def test_pairs_are_written_as_they_are_found(files, tmp_path, monkeypatch):
    """The bytes of a table depend on how many pairs are held; their content does not."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    deduplicated(files, tmp_path / "a", ids="name")
    monkeypatch.setattr(_blocks_joining, "PAIRS_AT_ONCE", 1)
    monkeypatch.setattr(memvec.search.SelfJoin, "products_at_once", 2)
    deduplicated(files, tmp_path / "b", ids="name")
    assert listed(tmp_path / "a") == listed(tmp_path / "b")
