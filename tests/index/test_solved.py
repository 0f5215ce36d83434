"""What was solved is kept with the folder, and never used for anything else."""

import json
import os
import shutil
import sys

import numpy as np
import pytest

import clouds
import naive
import solving
from memvec import Index
from memvec.guarantee import SolvedPlans
from memvec.storage import open_folder, write_folder

if sys.platform != "win32":
    import fcntl

DIM = 16
CENTRES = naive.unit_rows(np.random.default_rng(0).standard_normal((300, DIM)))
ROWS = clouds.around(CENTRES, 0.12, 1, 2600)
QUERIES = clouds.around(CENTRES, 0.12, 2, 700)
AHEAD = (0.72, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)


@pytest.fixture(scope="module")
def built():
    return Index.build(ROWS, similarity=0.72, progress=False)


@pytest.fixture(scope="module")
def saved(built, tmp_path_factory):
    folder = tmp_path_factory.mktemp("solved") / "index.mv"
    built.save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "index.mv")


def same(hits, others):
    return (
        hits.certificate == others.certificate
        and hits.work == others.work
        and np.array_equal(hits.offsets, others.offsets)
        and np.array_equal(hits.ids, others.ids)
        and np.array_equal(hits.scores, others.scores)
    )


@pytest.mark.parametrize("similarity", AHEAD)
def test_opened_index_solves_nothing_at_the_usual_similarities(
    built, saved, similarity, monkeypatch
):
    expected = built.range_search(QUERIES, similarity)
    solving.forbid(monkeypatch)
    # So many queries that the watch for drift begins, too.
    assert same(Index.open(saved).range_search(QUERIES, similarity), expected)


def test_similarity_that_was_asked_for_is_solved_once(built, folder, monkeypatch):
    expected = built.range_search(QUERIES, 0.777, miss_rate=0.02)
    assert same(Index.open(folder).range_search(QUERIES, 0.777, miss_rate=0.02), expected)
    solving.forbid(monkeypatch)
    assert same(Index.open(folder).range_search(QUERIES, 0.777, miss_rate=0.02), expected)


def test_saved_index_without_solved_plans_answers_the_same(built, folder):
    shutil.rmtree(folder / "solved")
    assert same(Index.open(folder).range_search(QUERIES), built.range_search(QUERIES))
    assert (folder / "solved").is_dir()
    assert Index.open(folder).check().ok


@pytest.mark.parametrize("place", [0, 100, -10])
def test_damaged_plans_are_solved_anew_and_replaced(built, folder, place, monkeypatch):
    file = folder / "solved" / "manifest.json"
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)
    assert same(Index.open(folder).range_search(QUERIES), built.range_search(QUERIES))
    solving.forbid(monkeypatch)
    Index.open(folder).range_search(QUERIES)


def damaged(plan):
    """Yield plans that cannot have been written, from one that was."""
    yield {}
    yield plan | {"at": []}
    yield plan | {"at": "0x1"}
    yield plan | {"at": ["0x1.8p+1", *plan["at"][1:]]}
    yield plan | {"slack": [line[1:] for line in plan["slack"]]}
    yield plan | {"slack": plan["slack"][1:]}
    yield plan | {"slack": [["nan", *line[1:]] for line in plan["slack"]]}
    yield plan | {"slack": [[7, *line[1:]] for line in plan["slack"]]}
    yield plan | {"slack": [["-inf", *line[1:]] for line in plan["slack"]]}
    yield plan | {"certificate": None}
    yield plan | {"certificate": plan["certificate"] | {"bound": "little"}}
    yield plan | {"certificate": plan["certificate"] | {"n_queries": [3]}}
    yield plan | {"certificate": plan["certificate"] | {"similarity": 0.3}}
    yield plan | {"certificate": plan["certificate"] | {"level": "certain"}}
    yield plan | {"needed": [["0x1"]]}
    # These could have been written, but the calibration queries tell otherwise.
    yield plan | {"slack": [["-0x1p+2" for _ in line] for line in plan["slack"]]}
    for said in (
        {"miss_rate": 0.001},
        {"observed": None},
        {"observed": 0.5},
        {"n_queries": plan["certificate"]["n_queries"] + 1},
        {"complete": True},
        {"level": "exact", "complete": True},
    ):
        yield plan | {"certificate": plan["certificate"] | said}


@pytest.mark.parametrize("number", range(22))
def test_plan_that_cannot_be_one_is_solved_anew(built, folder, number):
    plans = open_folder(folder / "solved")[1]["plans"]
    [name] = [one for one in plans if " 0.72 " in one]
    assert len(list(damaged(plans[name]))) == 22
    plans[name] = list(damaged(plans[name]))[number]
    write_folder(folder / "solved", {}, {"plans": plans})
    assert same(Index.open(folder).range_search(QUERIES), built.range_search(QUERIES))


def test_plans_of_another_index_are_not_used(folder):
    other = Index.build(ROWS[::-1].copy(), similarity=0.72, progress=False)
    shutil.copytree(folder / "solved", folder.parent / "old")
    other.save(folder)
    shutil.rmtree(folder / "solved")
    shutil.copytree(folder.parent / "old", folder / "solved")
    assert same(Index.open(folder).range_search(QUERIES), other.range_search(QUERIES))


def test_recalibrated_index_does_not_use_the_plans_of_the_folder(folder):
    index = Index.open(folder)
    certificate = index.recalibrate(QUERIES, progress=False)
    assert certificate.source == "queries"
    assert index.range_search(QUERIES[:1]).certificate.source == "queries"
    assert Index.open(folder).range_search(QUERIES[:1]).certificate.source == "reserve"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_folder_of_plans_is_left_alone(built, folder, kind):
    shutil.rmtree(folder / "solved")
    other = folder.parent / "other"
    other.mkdir()
    if kind == "link":
        (folder / "solved").symlink_to(other)
    else:
        (folder / "solved").write_text("mine")
    assert same(Index.open(folder).range_search(QUERIES), built.range_search(QUERIES))
    assert not list(other.iterdir())
    assert kind == "link" or (folder / "solved").read_text() == "mine"


def test_folder_that_is_something_else_now_is_left_alone(built, folder):
    index = Index.open(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    assert same(index.range_search(QUERIES, 0.77), built.range_search(QUERIES, 0.77))
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_search_does_not_wait_for_whoever_holds_the_folder_of_plans(built, folder):
    held = os.open(folder / "solved", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert same(
            Index.open(folder).range_search(QUERIES, 0.77), built.range_search(QUERIES, 0.77)
        )
    finally:
        os.close(held)
    plans = open_folder(folder / "solved")[1]["plans"]
    assert not [name for name in plans if " 0.77 " in name]


def test_plans_are_bounded_and_those_of_other_calibrations_go_first(tmp_path):
    write_folder(tmp_path, {}, {})
    plans = SolvedPlans(tmp_path)
    plans.keep("old", {str(number): {"number": number} for number in range(60)})
    plans.keep("new", {str(number): {"number": number} for number in range(10)})
    again = SolvedPlans(tmp_path)
    assert again.find("old", "3") is None
    assert again.find("new", "3") == {"number": 3}
    for number in range(10, 80):
        plans.keep("new", {str(number): {"number": number}})
    stored = json.loads((tmp_path / "solved" / "manifest.json").read_text())["meta"]["plans"]
    assert len(stored) == 64
    assert plans.find("new", "79") == {"number": 79}


def test_solving_is_noticed_where_nothing_is_kept(folder, monkeypatch):
    shutil.rmtree(folder / "solved")
    solving.forbid(monkeypatch)
    with pytest.raises(AssertionError, match="something is solved"):
        Index.open(folder).range_search(QUERIES)


def test_infinite_slack_comes_back_as_it_was(tmp_path, monkeypatch):
    few = Index.build(ROWS[:50], similarity=0.72, miss_rate=1e-5, progress=False)
    few.save(tmp_path / "few.mv")
    expected = few.range_search(ROWS[:1]).certificate
    solving.forbid(monkeypatch)
    parts = Index.open(tmp_path / "few.mv")._parts
    plan = parts.promises.for_range(0.72, parts.promises.default, "test")
    assert plan.thresholds.pass_everything
    assert plan.certificate == expected
