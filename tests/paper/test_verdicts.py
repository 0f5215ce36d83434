"""Tables and verdicts."""

import numpy as np
import pytest

from paper import EXPERIMENTS, Finding, Table, Verdict
from paper.experiment import unless_collapsed
from paper.table import plain

HELD, FAILED = Finding("a", True, "1"), Finding("b", False, "2")


@pytest.mark.parametrize(
    ("findings", "outcome"),
    [
        ((), "not-run"),
        ((HELD, HELD), "reproduced"),
        ((HELD, FAILED), "partly"),
        ((FAILED,), "differs"),
    ],
)
def test_verdict_follows_from_the_findings(findings, outcome):
    assert Verdict(findings).outcome == outcome


def test_what_the_paper_does_not_claim_has_no_part_in_the_outcome():
    extra = Finding("c", True, "3", of_paper=False)
    assert Verdict((FAILED, extra)).outcome == "differs"
    assert Verdict((extra,)).outcome == "not-run"


MAIN, NOT_MAIN = Finding("m", True, "1", main=True), Finding("m", False, "2", main=True)


@pytest.mark.parametrize(
    ("findings", "outcome"),
    [
        ((MAIN, FAILED), "partly"),
        ((NOT_MAIN, HELD, HELD), "differs"),
        ((MAIN, NOT_MAIN, NOT_MAIN, HELD), "differs"),
        ((MAIN, MAIN, NOT_MAIN), "partly"),
        ((MAIN, NOT_MAIN, FAILED), "partly"),
        ((HELD, FAILED, FAILED), "differs"),  # none is named: all are main claims
    ],
)
def test_outcome_differs_where_the_main_claim_fails(findings, outcome):
    assert Verdict(findings).outcome == outcome


def test_claim_about_a_collapsed_clustering_is_not_counted():
    assert unless_collapsed(HELD, 0.5) is HELD
    untested = unless_collapsed(HELD, 0.9)
    assert untested.standing == "cannot be tested"
    assert untested.numbers == "one unit holds 90 % of the vectors (1)"
    assert Verdict((untested, FAILED)).outcome == "differs"
    assert Verdict((untested,)).outcome == "not-run"


def test_errata_is_the_only_experiment_that_reproduces_nothing():
    assert [name for name, made in EXPERIMENTS.items() if not made.reproduction] == ["errata"]


def test_table_selects_rows_and_columns():
    table = Table("t", ("name", "x"), (("a", 1), ("b", 2), ("a", 3.5)))
    assert table.where(name="a").column("x").tolist() == [1.0, 3.5]
    assert table.values("name") == ["a", "b"]
    assert table.where(name="b").number("x") == 2.0
    assert table.to_csv() == "name,x\na,1\nb,2\na,3.5\n"


def test_plain_rows_hold_python_numbers():
    row = plain(["a", np.int32(3), np.float32(0.5), True])
    assert row == ("a", 3, 0.5, 1)
    assert [type(cell) for cell in row] == [str, int, float, int]
