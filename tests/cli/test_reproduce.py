"""The command ``memvec reproduce``."""

import json

import pytest
from click.testing import CliRunner

from memvec.cli import main
from memvec.experiments import EXPERIMENTS, Experiment, Table


@pytest.fixture
def quick(monkeypatch):
    """One experiment that costs nothing."""
    rows = (("alpha", 0.123456, 3), ("beta", 2.0, 4))
    table = Table("A title", ("name", "value", "count"), rows)
    monkeypatch.setitem(
        EXPERIMENTS, "quick", Experiment("quick", "a quick one", lambda seed: table)
    )
    return table


def run(*arguments):
    return CliRunner().invoke(main, ["reproduce", *arguments])


def test_reproduce_lists_what_there_is(quick):
    result = run("--list")
    assert "errata  formulas of the paper against simulation" in result.output
    assert "quick  a quick one" in result.output
    assert json.loads(run("--list", "--json", "quick").output) == {"quick": "a quick one"}


def test_reproduce_prints_a_table(quick):
    result = run("quick")
    assert result.exit_code == 0
    assert "A title" in result.output
    assert "0.1235" in result.output


def test_reproduce_cuts_no_cell_of_a_wide_table_when_piped(monkeypatch):
    columns = tuple(f"a rather long column {i}" for i in range(5))
    table = Table("t", columns, ((1, 2, 3, 4, 5),))
    monkeypatch.setitem(EXPERIMENTS, "wide", Experiment("wide", "", lambda seed: table))
    output = run("wide").output
    assert all(column in output for column in columns)


def test_reproduce_prints_full_digits_as_json(quick):
    [first, _] = json.loads(run("quick", "--json").output)["quick"]
    assert first == {"name": "alpha", "value": 0.123456, "count": 3}


def test_reproduce_passes_the_seed(monkeypatch):
    seeds = []

    def record(seed):
        seeds.append(seed)
        return Table("t", ("a",), ((1,),))

    monkeypatch.setitem(EXPERIMENTS, "errata", Experiment("errata", "", record))
    assert run("--seed", "7").exit_code == 0
    assert seeds == [7]


def test_reproduce_names_the_unknown():
    result = run("figure-99")
    assert result.exit_code == 2
    assert "'figure-99' is not one of errata" in result.output


def test_reproduce_refuses_a_negative_seed():
    result = run("errata", "--seed", "-1")
    assert result.exit_code == 2
    assert "Invalid value for '--seed'" in result.output
