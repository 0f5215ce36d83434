"""What single figures read off their tables."""

import numpy as np
import pytest

from paper import EXPERIMENTS, Table
from paper.fig02_roc import crossing
from paper.fig03_cost_caps import best_size
from paper.fig11_codes import mean_table, ranked_by_codes
from paper.fig15_minibatch import imbalance
from paper.quality_curves import CURVE_COLUMNS, SearchedUnits
from paper.retrieval_sets import made_up_views


def roc_table(sum_heights, pinv_heights, rates=(0.001, 0.01, 0.1, 0.5, 1.0)):
    columns = ("kind", "construction", "similarity", "false", "true")
    both = (("sum", sum_heights), ("pinv", pinv_heights))
    rows = [
        ("theory", name, 0.9, rate, height)
        for name, heights in both
        for rate, height in zip(rates, heights, strict=True)
    ]
    return Table("t", columns, tuple(rows))


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        ((0.1, 0.5, 0.9, 1.0, 1.0), "1 to 10 %"),
        ((0.3, 0.7, 0.9, 1.0, 1.0), "below 0.1 %"),
        ((0.1, 0.5, 0.7, 0.8, 1.0), "none"),
    ],
)
def test_crossing_of_two_curves_by_hand(heights, expected):
    assert crossing(roc_table((0.2, 0.6, 0.8, 0.9, 1.0), heights), "theory", 0.9) == expected


def test_best_size_tells_whether_larger_units_were_tried():
    columns = ("kind", "construction", "similarity", "cap", "x", "cost")
    costs = {"sum": (0.5, 0.2, 0.3), "pinv": (0.5, 0.3, 0.2)}
    rows = [
        ("theory", name, 0.5, 0.1, size, cost)
        for name, each in costs.items()
        for size, cost in zip((2, 5, 9), each, strict=True)
    ]
    table = Table("t", columns, tuple(rows))
    inside = best_size(table, "theory", "sum", 0.5, 0.1)
    assert (inside.size, inside.cost, inside.text) == (5, 0.2, "5")
    assert best_size(table, "theory", "pinv", 0.5, 0.1).text == "9 or more"


def test_imbalance_counts_empty_clusters():
    labels = np.repeat([0, 1], 20)
    units = SearchedUnits(np.zeros((1, 2)), labels, np.array([20, 20]))
    # Four clusters asked for, 40/10; half of them hold everything.
    assert imbalance(units) == pytest.approx(2.0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_members_are_ranked_by_their_codes(symmetric):
    data = made_up_views("scenes", 10, 3, 50, 64, seed=0)
    coded = ranked_by_codes(data, symmetric, seed=0)
    signs, rows = coded.vectors[:, :-1], coded.queries[:, :-1]
    np.testing.assert_allclose(np.abs(signs), 1 / 8)
    assert np.allclose(np.abs(rows), 1 / 8) is symmetric
    scores = np.take_along_axis(rows @ signs.T, coded.ranking, axis=1)
    # In the order of their codes, but for the coordinate that breaks ties.
    assert np.diff(scores, axis=1).max() < 3e-4


def test_mean_of_curves_by_hand():
    tables = [Table("t", CURVE_COLUMNS, (("d", "v", x, 2 * x, 1.0),)) for x in (0.2, 0.4)]
    [row] = mean_table(tables).rows
    assert row[:2] == ("d", "v")
    assert row[2:] == pytest.approx((0.3, 0.6, 1.0))


def test_pca_that_did_not_fit_is_not_compared_with_itself():
    rows = tuple(("d", "d = 64", x, x, 1.0) for x in (0.5, 1.0))
    verdict = EXPERIMENTS["fig09-pca"].check(Table("t", CURVE_COLUMNS, rows))
    assert [finding.standing for finding in verdict.findings] == ["cannot be tested"]
    assert verdict.outcome == "not-run"
