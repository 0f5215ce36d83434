"""The command ``memvec design``."""

import json
import sys

import pytest
from click.testing import CliRunner

from memvec.cli import main
from memvec.theory import optimal_design

SETTING = ["design", "--dim", "1000", "--similarity", "0.7", "--miss-rate", "0.01"]


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_design_prints_a_table():
    result = run(*SETTING)
    assert result.exit_code == 0
    assert "d = 1000, similarity ≥ 0.7, miss rate 0.01" in result.output
    [line] = [line for line in result.output.splitlines() if "pinv" in line]
    assert "28" in line
    assert "0.4230" in line
    assert "0.0420" in line


def test_design_prints_exactly_the_json_keys():
    result = run(*SETTING, "--json")
    found = json.loads(result.output)
    assert list(found) == ["sum", "pinv"]
    for name, values in found.items():
        expected = optimal_design(name, dim=1000, similarity=0.7, miss_rate=0.01)
        assert values == {
            "unit_size": expected.unit_size,
            "threshold": expected.threshold,
            "false_positive_rate": expected.false_positive_rate,
            "cost_ratio": expected.cost_ratio,
        }


def test_design_draws_in_the_terminal():
    result = run(*SETTING, "--plot")
    assert result.exit_code == 0
    assert "cost ratio against unit size n" in result.output
    chart = result.output.split("both)")[1]
    assert {"s", "p", "*", "|", "+"} <= set(chart)


def test_design_keeps_json_clean_when_it_also_draws():
    result = run(*SETTING, "--json", "--plot")
    assert set(json.loads(result.stdout)) == {"sum", "pinv"}
    assert "cost ratio against unit size n" in result.stderr


def test_design_draws_into_a_file(tmp_path):
    target = tmp_path / "cost.svg"
    result = run(*SETTING, "--plot", str(target))
    assert result.exit_code == 0
    assert f"Wrote {target}" in result.output
    assert "<svg" in target.read_text(encoding="utf-8")


def test_design_names_an_unwritable_file(tmp_path):
    result = run(*SETTING, "--plot", str(tmp_path / "missing" / "cost.png"))
    assert result.exit_code == 1
    assert "No such file or directory" in result.output


def test_design_without_matplotlib_says_its_pip_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run(*SETTING, "--plot", str(tmp_path / "cost.png"))
    assert result.exit_code == 1
    assert "pip install 'memvec[plot]'" in result.output


def test_design_works_at_the_smallest_dimension():
    result = run("design", "--dim", "2", "--similarity", "1", "--plot")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--dim", "1"], "Invalid value for '--dim'"),
        (["--dim", "1" + "0" * 400], "Invalid value for '--dim'"),
        (["--similarity", "1.5"], "Invalid value for '--similarity': 1.5 is not in (0, 1]"),
        (["--similarity", "nan"], "Invalid value for '--similarity': nan is not in (0, 1]"),
        (["--similarity", "0"], "Invalid value for '--similarity'"),
        (["--miss-rate", "0"], "Invalid value for '--miss-rate': 0 is not in (0, 1)"),
        (["--miss-rate", "1"], "Invalid value for '--miss-rate'"),
        (["--plot", "cost.txt"], "Invalid value for '--plot': 'cost.txt' does not end in one of"),
    ],
)
def test_design_names_the_bad_flag(change, text):
    result = run(*SETTING, *change)
    assert result.exit_code == 2
    assert text in result.output


def test_design_needs_its_setting():
    result = run("design", "--dim", "10")
    assert result.exit_code == 2
    assert "Missing option '--similarity'" in result.output


def test_design_help_teaches_by_example():
    result = run("design", "--help")
    assert result.exit_code == 0
    assert "memvec design --dim 1000 --similarity 0.7 --miss-rate 0.01" in result.output
    assert "effective_dimension" in result.output


@pytest.mark.parametrize("command", [[], ["design"]])
def test_help_keeps_the_lines_of_its_examples(command):
    result = run(*command, "--help")
    assert "\\b" not in result.output
    examples = [line for line in result.output.splitlines() if line.startswith("    memvec ")]
    assert len(examples) == 2
