"""Runs are kept, found again and shown."""

import json

import pytest

from memvec.errors import FileFormatError, MissingExtraError
from memvec.experiments import (
    DataFolders,
    Experiment,
    Finding,
    Table,
    Verdict,
    latest_result,
    load_result,
    run_experiment,
    write_report,
)


def experiment(calls, name="one", settings=None, holds=True):
    def compute(run):
        calls.append(run)
        return Table("Title", ("x", "y"), ((1, 0.5), (2, float("inf"))))

    def check(table):
        return Verdict((Finding("y grows", holds, "0.5 to inf"),), "A note.")

    return Experiment(
        name,
        "Figure 0",
        "It grows.",
        {scale: settings or {"n": 1} for scale in ("smoke", "small", "paper")},
        compute,
        check,
        data_note="Other data. {photographs}",
        show_table=True,
    )


def test_result_is_computed_once(tmp_path):
    calls = []
    first = run_experiment(experiment(calls), "smoke", tmp_path)
    again = run_experiment(experiment(calls), "smoke", tmp_path)
    assert len(calls) == 1
    assert again == first
    assert first.versions.keys() == {"python", "memvec", "numpy", "scipy", "numba"}
    assert (tmp_path / "smoke" / "one.csv").read_text() == "x,y\n1,0.5\n2,inf\n"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"fresh": True},
        {"settings": {"n": 2}},
        {"data": "wordnet-minilm"},
        {"scale": "small"},
    ],
    ids=str,
)
def test_result_is_computed_again_when_something_changed(tmp_path, change):
    calls = []
    run_experiment(experiment(calls), "smoke", tmp_path / "out")
    changed = experiment(calls, settings=change.pop("settings", None))
    if "data" in change:
        (tmp_path / change["data"]).mkdir()
        change["data"] = DataFolders((tmp_path,))
    run_experiment(changed, change.pop("scale", "smoke"), tmp_path / "out", **change)
    assert len(calls) == 2


def test_fresh_run_starts_without_checkpoints(tmp_path):
    calls = []
    run_experiment(experiment(calls), "smoke", tmp_path)
    calls[0].checkpoints.mkdir(parents=True)
    (calls[0].checkpoints / "tally.npz").touch()
    run_experiment(experiment(calls), "smoke", tmp_path, fresh=True)
    assert calls[1].checkpoints == calls[0].checkpoints
    assert not calls[1].checkpoints.exists()


def test_missing_package_gives_a_result_that_did_not_run(tmp_path):
    def compute(run):
        raise MissingExtraError("This", "nothing", "reproduce")

    missing = Experiment("m", "", "", {"smoke": {}}, compute, lambda table: Verdict())
    verdict = run_experiment(missing, "smoke", tmp_path).verdict(missing)
    assert verdict.outcome == "not-run"
    assert "pip install 'memvec[reproduce]'" in verdict.note
    assert latest_result("m", tmp_path) is None


def test_latest_result_is_that_of_the_largest_scale(tmp_path):
    for scale in ("small", "smoke"):
        run_experiment(experiment([]), scale, tmp_path)
    assert latest_result("one", tmp_path).scale == "small"
    assert load_result("one", "paper", tmp_path) is None


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"table": None, "other": 1})])
def test_damaged_result_is_named(tmp_path, text):
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke" / "one.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"one.json is no result of an experiment"):
        load_result("one", "smoke", tmp_path)


def test_report_names_what_is_not_reproduced_first(tmp_path):
    shown = {
        "one": experiment([], "one"),
        "two": experiment([], "two", holds=False),
        "three": experiment([], "three"),
    }
    for name in ("one", "two"):
        run_experiment(shown[name], "smoke", tmp_path / "out")
    page = tmp_path / "page.md"
    write_report(shown, tmp_path / "out", page)
    text = page.read_text(encoding="utf-8")
    top = text.split("## All of it")[0]
    assert "([two](#two)): not so on this data: y grows (0.5 to inf)." in top
    assert "([three](#three)): not run." in top
    assert "[one]" not in top
    assert "| Figure 0 | [one](#one) | reproduced | 1 of 1 |" in text
    assert "`memvec reproduce two --scale smoke`" in text
    assert "A note. Other data. Made-up descriptors of scenes" in text
    assert "| 1 | 0.5 |" in text


def test_report_of_what_is_all_reproduced_says_so(tmp_path):
    shown = {"one": experiment([], "one")}
    run_experiment(shown["one"], "smoke", tmp_path)
    write_report(shown, tmp_path, tmp_path / "page.md")
    assert "Nothing: every claim that was tested holds." in (tmp_path / "page.md").read_text()
