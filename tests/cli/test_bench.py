"""The command ``memvec bench``."""

import pytest
from click.testing import CliRunner

import memvec.cli._bench as command
from memvec.cli import main
from memvec.index import MachineCosts, profile_machine


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def measured(monkeypatch):
    """A table that takes no time to measure."""
    found = MachineCosts(visit=88.0)
    monkeypatch.setattr(command, "profile_machine", lambda: found)
    return found


def test_bench_writes_the_table_that_it_measured(monkeypatch, tmp_path):
    found = profile_machine()
    monkeypatch.setattr(command, "profile_machine", lambda: found)
    target = tmp_path / "machine.json"
    result = run("bench", "--profile", "--json", str(target))
    assert result.exit_code == 0
    assert f"Wrote {target}" in result.output
    assert MachineCosts.read(target) == found
    [line] = [line for line in result.output.splitlines() if " query " in line]
    assert f"{found.query / MachineCosts().query:.2f}" in line


def test_bench_shows_measured_beside_built_in(measured):
    result = run("bench", "--profile")
    [line] = [line for line in result.output.splitlines() if " visit " in line]
    built_in = MachineCosts().visit
    assert "going to a unit's members" in line
    assert "88" in line
    assert f"{built_in:.3g}" in line
    assert f"{88 / built_in:.2f}" in line


def test_bench_names_an_unwritable_file(measured, tmp_path):
    result = run("bench", "--profile", "--json", str(tmp_path / "missing" / "machine.json"))
    assert result.exit_code == 1
    assert "No such file or directory" in result.output


def test_bench_needs_to_know_what_to_measure():
    result = run("bench")
    assert result.exit_code == 2
    assert "Missing option '--profile'" in result.output


def test_bench_help_teaches_by_example():
    result = run("bench", "--help")
    assert "memvec bench --profile --json machine.json" in result.output
    assert "\\b" not in result.output
