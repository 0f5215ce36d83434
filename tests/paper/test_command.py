"""The command ``python -m paper``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from paper import EXPERIMENTS, Experiment, Finding, Table, Verdict
from paper.__main__ import main

ROWS = (("alpha", 0.123456, 3), ("beta", 2.0, 4))
VERDICTS = {
    "reproduced",
    "reproduced in part",
    "differs",
    "illustrated",
    "could not be tested",
    "checked",
}
TABLE = Table("A title", ("name", "value", "count"), ROWS)


def make(name, compute=lambda run: TABLE):
    settings = {"smoke": {}, "small": {}, "paper": {}}
    verdict = Verdict((Finding("it is so", True, "3 of 4"), Finding("or so", False, "0.1")))
    return Experiment(name, "Figure 0", "A claim.", settings, compute, lambda table: verdict)


@pytest.fixture
def quick(monkeypatch):
    """One experiment that costs nothing, and no other."""
    for name in reversed(list(EXPERIMENTS)):  # undone from the last: the order stays
        monkeypatch.delitem(EXPERIMENTS, name)
    monkeypatch.setitem(EXPERIMENTS, "quick", make("quick"))


@pytest.fixture
def run(tmp_path):
    def invoke(*arguments):
        return CliRunner().invoke(main, ["--out", str(tmp_path), *arguments])

    return invoke


def test_command_lists_what_there_is_and_the_verdict_of_the_page(quick, run, tmp_path):
    page = ("--page", str(tmp_path / "paper.md"))
    [listed] = json.loads(run("--list", "--json", *page).output)
    expected = {"name": "quick", "title": "Figure 0", "claim": "A claim."}
    assert listed == {**expected, "verdict": "not run"}
    run("quick", "--scale", "smoke", "--report", *page)
    [listed] = json.loads(run("--list", "--json", *page).output)
    assert listed == {**expected, "verdict": "reproduced in part"}
    assert "quick  Figure 0  [reproduced in part]\n    A claim." in run("--list", *page).output


def test_list_has_a_verdict_of_the_page_for_every_experiment(run, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    listed = json.loads(run("--list", "--json").output)
    assert [record["name"] for record in listed] == list(EXPERIMENTS)
    assert {record["verdict"] for record in listed} <= VERDICTS


def test_list_reads_no_source_and_runs_nothing(run, monkeypatch):
    monkeypatch.setattr("paper.results.code_hash", None)
    assert run("--list").exit_code == 0


def test_help_teaches_by_example(run):
    output = run("--help").output
    assert "\\b" not in output
    examples = [line for line in output.splitlines() if line.startswith("    python -m paper ")]
    assert len(examples) == 3


def test_interrupted_run_says_what_is_kept(quick, run, monkeypatch):
    def interrupted(run):
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "quick", make("quick", interrupted))
    result = run("quick")
    assert result.exit_code == 130
    assert "The results of finished experiments are kept." in result.stderr


def test_command_prints_a_table_and_the_findings(quick, run):
    result = run("quick")
    assert result.exit_code == 0
    assert "A title" in result.output
    assert "0.1235" in result.output
    assert "quick: partly (small" in result.output
    assert "  + it is so\n      3 of 4\n  - or so\n      0.1" in result.output


def test_command_cuts_no_cell_of_a_wide_table_when_piped(monkeypatch, run):
    columns = tuple(f"a rather long column {i}" for i in range(5))
    table = Table("t", columns, ((1, 2, 3, 4, 5),))
    monkeypatch.setitem(EXPERIMENTS, "wide", make("wide", lambda run: table))
    output = run("wide").output
    assert all(column in output for column in columns)


def test_command_prints_full_digits_as_json(quick, run):
    found = json.loads(run("quick", "--json").output)["quick"]
    assert found["rows"][0] == {"name": "alpha", "value": 0.123456, "count": 3}
    assert found["verdict"] == "partly"
    first = {"claim": "it is so", "holds": True, "numbers": "3 of 4", "of_paper": True}
    assert first.items() <= found["findings"][0].items()


def test_command_passes_scale_seed_and_data(quick, run, monkeypatch, tmp_path):
    runs = []
    monkeypatch.setitem(EXPERIMENTS, "quick", make("quick", lambda run: runs.append(run) or TABLE))
    result = run("--seed", "7", "--scale", "smoke", "--data", str(tmp_path))
    assert result.exit_code == 0
    [seen] = runs
    assert (seen.seed, seen.scale, seen.data.folders) == (7, "smoke", (tmp_path,))


def test_command_runs_the_others_where_one_fails(quick, run, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "broken", make("broken", lambda run: 1 / 0))
    monkeypatch.setitem(EXPERIMENTS, "after", make("after"))
    result = run()
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.output
    assert "after: partly" in result.output
    assert "Error: broken did not run to the end." in result.output


def test_command_writes_the_page(quick, run, tmp_path):
    page = tmp_path / "pages" / "paper.md"
    page.parent.mkdir()
    assert run("--report", "--page", str(page)).exit_code == 0
    assert "## Figure 0: quick" in page.read_text(encoding="utf-8")


def test_command_refuses_to_lose_data_from_the_page_before_it_runs(
    quick, run, monkeypatch, tmp_path
):
    runs = []
    monkeypatch.setitem(EXPERIMENTS, "quick", make("quick", lambda run: runs.append(run) or TABLE))
    page = tmp_path / "paper.md"
    page.write_text("`python -m paper quick --scale small --data DIR`, 3 s", encoding="utf-8")
    result = run("--report", "--page", str(page))
    assert result.exit_code == 1
    assert "paper.md shows results on data sets (quick)" in result.output
    assert "another page with --page." in result.output
    assert runs == []


def test_command_names_the_unknown(run):
    result = run("figure-99")
    assert result.exit_code == 2
    assert "'figure-99' is not one of fig01-cost-random" in result.output


def test_command_refuses_a_negative_seed(run):
    result = run("errata", "--seed", "-1")
    assert result.exit_code == 2
    assert "Invalid value for '--seed'" in result.output
