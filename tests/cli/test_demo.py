import re

import pytest
from click.testing import CliRunner

from memvec.cli import main


@pytest.fixture(scope="module")
def output():
    result = CliRunner().invoke(main, ["demo"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    return result.output


def test_demo_answers_readable_queries(output):
    assert "dog, domestic dog, Canis familiaris: a member of the genus Canis" in output
    assert re.search(r"0\.\d{3}  jackal, Canis aureus", output)


def test_demo_cuts_texts_to_the_width(output):
    lines = [line for line in output.splitlines() if "Canis aureus" in line]
    assert len(lines) == 1
    assert len(lines[0]) == 120
    assert lines[0].endswith("…")


def test_demo_compares_with_the_scan(output):
    found = re.search(r"exhaustive scan\s+│\s+([\d,]+) │", output)
    ours = re.search(r"memvec\s+│\s+([\d,]+) │\s+([\d,]+) │", output)
    n_true, n_found, products = (int(s.replace(",", "")) for s in (found[1], *ours.groups()))
    assert 0.99 * n_true <= n_found <= n_true
    assert products < 9000
    assert "missed 0." in output


def test_demo_refuses_a_similarity_out_of_range():
    result = CliRunner().invoke(main, ["demo", "--similarity", "1.5"])
    assert result.exit_code == 2
    assert "--similarity" in result.output
