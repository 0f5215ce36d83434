"""What single figures read off their tables."""

import numpy as np
import pytest

from memvec.theory import cap_design
from paper import Table
from paper.fig02_roc import crossing
from paper.fig03_cost_caps import best_size, farthest, printed_cost
from paper.fig11_codes import ranked_by_codes
from paper.fig15_minibatch import dent, imbalance
from paper.quality_curves import RUN_COLUMNS, SearchedUnits, mean_table
from paper.retrieval_sets import made_up_views
from paper.simulated_queries import passing_rates


def roc_table(sum_heights, pinv_heights, rates=(0.001, 0.01, 0.1, 0.5, 1.0)):
    columns = ("kind", "construction", "similarity", "false", "true", "run")
    both = (("sum", sum_heights), ("pinv", pinv_heights))
    rows = [
        ("theory", name, 0.9, rate, height, 0)
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


def cap_lines(**costs):
    columns = ("kind", "construction", "similarity", "cap", "x", "cost")
    rows = [
        ("printed", name, level, 0.3, size, cost)
        for name, each in costs.items()
        for level in (0.5, 0.6, 0.7, 0.8, 0.9)
        for size, cost in zip((2, 5, 9), each, strict=True)
    ]
    return Table("t", columns, tuple(rows))


def test_best_size_and_farthest_ratio_by_hand():
    table = cap_lines(sum=(0.5, 0.2, 0.3), pinv=(0.5, 0.25, 0.2))
    assert best_size(table, "printed", "sum", 0.5, 0.3) == 5
    assert best_size(table, "printed", "pinv", 0.5, 0.3) == 9
    assert farthest(table, "printed", 0.3) == pytest.approx(0.5)
    assert farthest(table, "printed", 0.3, most=5) == pytest.approx(0.2)


@pytest.mark.parametrize("construction", ["sum", "pinv"])
def test_printed_cost_is_near_the_exact_one_where_n_is_small(construction):
    printed = printed_cost(construction, 10, 1000, 0.7, 0.3)
    exact = cap_design(
        construction, unit_size=10, dim=1000, similarity=0.7, cap_cosine=0.3
    ).cost_ratio
    assert printed == pytest.approx(exact, rel=0.02)


def test_passing_rates_are_those_of_drawn_queries():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((5, 8))
    queries = rng.standard_normal((200_000, 8))
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for threshold in (-0.5, 0.0, 0.8):
        seen = np.mean(queries @ vectors.T > threshold, axis=0)
        # Four standard errors of 200,000 draws.
        np.testing.assert_allclose(passing_rates(vectors, threshold), seen, atol=4 * 0.0012)
    assert passing_rates(vectors, 100.0).tolist() == [0.0] * 5


def test_imbalance_counts_empty_clusters():
    labels = np.repeat([0, 1], 20)
    units = SearchedUnits(np.zeros((1, 2)), labels, np.array([20, 20]))
    # Four clusters asked for, 40/10; half of them hold everything.
    assert imbalance(units) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("qualities", "depth"),
    [((0.0, 0.6, 0.9, 1.0), 0.0), ((0.0, 0.2, 0.8, 1.0), 0.2), ((0.0, 0.0, 0.0, 1.0), 2 / 3)],
)
def test_dent_of_a_curve_by_hand(qualities, depth):
    rows = tuple(
        ("d", "v", ratio, 2 * quality, 2.0, 0)
        for ratio, quality in zip((0.1, 0.2, 0.3, 0.4), qualities, strict=True)
    )
    assert dent(Table("t", RUN_COLUMNS, rows), "d", "v") == pytest.approx(depth)


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


def test_mean_of_runs_by_hand():
    rows = tuple(("d", "v", x, 2 * x, 1.0, run) for run, x in enumerate((0.2, 0.4)))
    [row] = mean_table(Table("t", RUN_COLUMNS, rows)).rows
    assert row[:2] == ("d", "v")
    assert row[2:] == pytest.approx((0.3, 0.6, 1.0, np.std([0.4, 0.8], ddof=1)))
