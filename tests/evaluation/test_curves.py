import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

import naive
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation import auc, complexity_ratio, roc_curve

# Few distinct values, so that ties are common.
scores = st.lists(st.integers(0, 6).map(lambda i: i / 4), min_size=1, max_size=12)


def test_roc_by_hand():
    curve = roc_curve([0.1, 0.4], [0.4, 0.8])
    assert curve.thresholds.tolist() == [np.inf, 0.8, 0.4, 0.1]
    assert curve.false_positive_rate.tolist() == [0, 0, 0.5, 1]
    assert curve.true_positive_rate.tolist() == [0, 0.5, 1, 1]
    assert curve.false_negative_rate.tolist() == [1, 0.5, 0, 0]
    assert curve.area == 0.875
    assert repr(curve) == "RocCurve(n_points=4, area=0.875)"


def test_separated_scores_have_area_one_and_equal_ones_a_half():
    assert auc([0, 1], [2, 3]) == 1.0
    assert auc([2, 3], [0, 1]) == 0.0
    assert auc([1, 1, 1], [1]) == 0.5


@settings(deadline=None)
@given(scores, scores)
def test_area_equals_mann_whitney(low, high):
    assert auc(low, high) == pytest.approx(naive.mann_whitney(low, high), abs=1e-12)


def test_area_equals_scipy_on_many_scores():
    rng = np.random.default_rng(6)
    low, high = rng.normal(0, 1, 4000).round(2), rng.normal(1, 1, 3000).round(2)
    statistic = mannwhitneyu(high, low).statistic
    assert auc(low, high) == pytest.approx(statistic / (4000 * 3000), abs=1e-12)


@settings(deadline=None)
@given(scores, scores)
def test_rates_are_shares_at_each_threshold(low, high):
    curve = roc_curve(low, high)
    for threshold, fp, tp in zip(
        curve.thresholds, curve.false_positive_rate, curve.true_positive_rate, strict=True
    ):
        assert fp == pytest.approx(np.mean(np.array(low) >= threshold), abs=1e-12)
        assert tp == pytest.approx(np.mean(np.array(high) >= threshold), abs=1e-12)
    assert (np.diff(curve.thresholds) < 0).all()


def test_complexity_by_hand():
    # Two units of 6 and 4: two products, and six more for the query that opens the first.
    ratios = complexity_ratio([[0.9, 0.2], [0.1, 0.3], [0.9, 0.9]], [6, 4], threshold=0.5)
    assert ratios.tolist() == [0.8, 0.2, 1.2]


def test_complexity_takes_units_strictly_above_the_threshold():
    assert complexity_ratio([[0.5, 0.2]], [6, 4], threshold=0.5).tolist() == [0.2]


def test_complexity_equals_naive():
    rng = np.random.default_rng(7)
    unit_scores, sizes = rng.random((20, 15)), rng.integers(0, 9, 15)
    for threshold in (-1, 0.3, 0.8, 2):
        expected = naive.complexity_ratio(unit_scores.tolist(), sizes.tolist(), threshold)
        assert complexity_ratio(unit_scores, sizes, threshold).tolist() == expected


@pytest.mark.parametrize(
    ("low", "error", "text"),
    [
        ([], InvalidValueError, r"'scores_h0' .* at least one finite number. Got shape \(0,\)"),
        ([0.1, np.nan], InvalidValueError, "'scores_h0' .* Got nan instead"),
        ([np.inf], InvalidValueError, "'scores_h0' .* Got inf instead"),
        ([1, [2]], InvalidTypeError, "'scores_h0' parameter of roc_curve .* Got list"),
        (["a"], InvalidTypeError, "'scores_h0' parameter of roc_curve .* Got dtype <U1 instead"),
    ],
)
def test_roc_refuses(low, error, text):
    with pytest.raises(error, match=text):
        roc_curve(low, [0.5])


@pytest.mark.parametrize(
    ("unit_scores", "sizes", "error", "text"),
    [
        ([[0.5, 0.6]], [1], InvalidValueError, r"'unit_sizes' .* 2 integers .* Got shape \(1,\)"),
        ([[0.5, 0.6]], [1, -1], InvalidValueError, "Got a smallest of -1 and a largest of 1"),
        ([[0.5, 0.6]], [0, 0], InvalidValueError, "Got a smallest of 0 and a largest of 0"),
        ([[0.5, 0.6]], [1.0, 2.0], InvalidTypeError, "'unit_sizes' .* Got dtype float64"),
        ([0.5], [1], InvalidValueError, "'unit_scores' .* two-dimensional"),
        ([[0.5], [np.nan]], [1], InvalidValueError, "'unit_scores' .* NaN. Got one in row 1"),
    ],
)
def test_complexity_refuses(unit_scores, sizes, error, text):
    with pytest.raises(error, match=text):
        complexity_ratio(unit_scores, sizes, 0.5)


def test_complexity_refuses_nan_threshold():
    with pytest.raises(InvalidValueError, match=r"'threshold' .* Got nan instead"):
        complexity_ratio([[0.5]], [1], float("nan"))
