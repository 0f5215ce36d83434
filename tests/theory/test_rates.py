"""Error rates of sum and pinv units under random assignment."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from memvec.errors import InvalidValueError
from memvec.theory import PinvNoiseLaw, PinvNormLaw, PinvNullLaw, UnitTest
from naive.laws import (
    Units,
    mean_and_error,
    memory_vector,
    related_query,
    sphere,
    variance_and_error,
)


def test_pinv_norm_of_two_vectors_by_hand():
    # |m|^2 = 2/(1+c), c uniform on [-1, 1] for d = 3: P(|m|^2 <= 2) = P(c >= 0) = 1/2.
    law = PinvNormLaw(2, dim=3)
    assert law.cdf(2.0) == pytest.approx(0.5)
    assert law.cdf(4 / 3) == pytest.approx(0.25)
    assert law.mean_squared_norm == math.inf


def test_pinv_norm_law_matches_simulation():
    rng = np.random.default_rng(0)
    size, dim = 8, 24
    squares = np.array(
        [np.sum(memory_vector(sphere(rng, size, dim), "pinv") ** 2) for _ in range(20_000)]
    )
    law = PinvNormLaw(size, dim)
    mean, error = mean_and_error(squares)
    assert abs(mean - law.mean_squared_norm) < 4 * error  # seen: 11.745 ± 0.031 for 11.733
    variance, error = variance_and_error(squares)
    assert abs(variance - law.variance_squared_norm) < 4 * error
    for level in (9.0, 11.0, 15.0):
        share, error = mean_and_error(squares <= level)
        assert abs(share - law.cdf(level)) < 4 * error


def test_pinv_norm_nodes_reproduce_the_moments():
    law = PinvNormLaw(50, dim=400)
    inverse_squares, weights = law.nodes()
    mean = float(weights @ (1 / inverse_squares))
    assert mean == pytest.approx(law.mean_squared_norm, rel=1e-12)
    square = float(weights @ (1 / inverse_squares) ** 2)
    assert square - mean**2 == pytest.approx(law.variance_squared_norm, rel=1e-8)


def test_pinv_norm_tends_to_marchenko_pastur():
    law = PinvNormLaw(30_000, dim=100_000)
    assert law.mean_squared_norm == pytest.approx(law.limit_squared_norm, rel=1e-4)
    assert PinvNormLaw(10, dim=10).limit_squared_norm == math.inf
    assert PinvNormLaw(9, dim=10).mean_squared_norm == math.inf
    assert PinvNormLaw(9, dim=10).variance_squared_norm == math.inf


def test_single_vector_units_have_no_interference():
    for construction in ("sum", "pinv", "orthogonal"):
        test = UnitTest(construction, 1, 100, 0.7)
        assert test.threshold(0.01) == 0.7
        assert float(test.false_negative_rate(0.7)) == 0.0
        assert float(test.false_negative_rate(0.7001)) == 1.0
        assert test.match_variance == 0.0
    norm_law = PinvNormLaw(1, 100)
    assert (norm_law.mean_squared_norm, norm_law.variance_squared_norm) == (1.0, 0.0)
    assert (norm_law.cdf(0.9), norm_law.cdf(1.0)) == (0.0, 1.0)


def test_exact_copies_are_never_missed_by_pinv():
    test = UnitTest("pinv", 10, 100, 1.0)
    assert test.threshold(0.01) == 1.0
    assert float(test.false_negative_rate(1.0)) == 0.0
    assert UnitTest("sum", 10, 100, 1.0).threshold(0.01) < 0.5


@pytest.mark.parametrize("construction", ["sum", "pinv"])
@pytest.mark.parametrize(("size", "dim"), [(5, 16), (10, 100), (2, 3)])
def test_error_rates_match_counted_queries(construction, size, dim):
    rng = np.random.default_rng(size)
    alpha, draws = 0.6, 20_000
    null, match = np.empty(draws), np.empty(draws)
    for i in range(draws):
        rows = sphere(rng, size, dim)
        m = memory_vector(rows, construction)
        null[i] = sphere(rng, 1, dim)[0] @ m
        match[i] = related_query(rng, rows[0], alpha) @ m
    test = UnitTest(construction, size, dim, alpha)
    for threshold in (0.1, 0.4, 0.6, 0.9):
        share, error = mean_and_error(null >= threshold)
        assert abs(share - test.false_positive_rate(threshold)) < 4 * error
        share, error = mean_and_error(match < threshold)
        assert abs(share - test.false_negative_rate(threshold)) < 4 * error
    if math.isfinite(PinvNormLaw(size, dim).variance_squared_norm):
        variance, error = variance_and_error(match)
        assert abs(variance - test.match_variance) < 4 * error


def test_orthogonal_units_match_counted_queries():
    rng = np.random.default_rng(3)
    size, dim, alpha, draws = 6, 10, 0.7, 40_000
    rows = np.eye(dim)[:size]
    m = rows.sum(axis=0)
    scores = np.array([related_query(rng, rows[0], alpha) @ m for _ in range(draws)])
    test = UnitTest("orthogonal", size, dim, alpha)
    variance, error = variance_and_error(scores)
    assert abs(variance - test.match_variance) < 4 * error
    share, error = mean_and_error(scores < 0.3)
    assert abs(share - test.false_negative_rate(0.3)) < 4 * error


@pytest.mark.parametrize("construction", ["sum", "pinv"])
def test_rates_match_simulated_units_in_the_tail(construction):
    units = Units(np.random.default_rng(4), construction, size=12, dim=128, count=3000)
    test = UnitTest(construction, 12, 128, 0.7)
    for threshold in (0.5, 0.8, 1.0):
        share, error = mean_and_error(units.false_positives(threshold))
        assert abs(share - test.false_positive_rate(threshold)) < 4 * error
    for threshold in (0.2, 0.0, -0.2):
        share, error = mean_and_error(units.false_negatives(threshold, 0.7))
        assert abs(share - test.false_negative_rate(threshold)) < 4 * error


def test_paper_rates_are_the_printed_equations():
    tau, alpha, n, d = 0.4, 0.7, 10, 100
    beta = math.sqrt(1 - alpha**2)
    total = UnitTest("sum", n, d, alpha, "paper")
    assert float(total.false_positive_rate(tau)) == pytest.approx(
        1 - special.ndtr(tau * math.sqrt(d / n))
    )
    assert float(total.false_negative_rate(tau)) == pytest.approx(
        special.ndtr((tau - alpha) * math.sqrt(d / (n - 1)))
    )
    pinv = UnitTest("pinv", n, d, alpha, "paper")
    assert float(pinv.false_positive_rate(tau)) == pytest.approx(
        1 - special.ndtr(tau * math.sqrt(d / n - 1))
    )
    assert float(pinv.false_negative_rate(tau)) == pytest.approx(
        special.ndtr((tau - alpha) / beta * math.sqrt(d / n - 1))
    )
    orthogonal = UnitTest("orthogonal", n, d, alpha, "paper")
    assert orthogonal.match_variance == pytest.approx(beta**2 * (n - 1) / d)


def test_gaussian_law_has_the_exact_variances():
    for construction in ("sum", "pinv", "orthogonal"):
        exact = UnitTest(construction, 10, 200, 0.6)
        assert exact.null_law.variance == pytest.approx(exact.null_variance)
        assert exact.noise_law.variance == pytest.approx(exact.match_variance)
        gaussian = UnitTest(construction, 10, 200, 0.6, "gaussian")
        assert gaussian.noise_law.variance == pytest.approx(exact.match_variance)
        # Seen: within 0.3 % at false positive rates of about 10 %.
        tau = exact.threshold(0.05)
        ratio = gaussian.false_positive_rate(tau) / exact.false_positive_rate(tau)
        assert float(ratio) == pytest.approx(1, abs=0.005)


def test_pinv_match_variance_has_a_closed_form():
    # beta^2 (E|m|^2 - 1)/(d - 1) = beta^2 (n - 1)/(d - n - 1)
    test = UnitTest("pinv", 10, 100, 0.6)
    assert test.match_variance == pytest.approx(0.64 * 9 / 89)


@pytest.mark.parametrize("construction", ["sum", "pinv", "orthogonal"])
@pytest.mark.parametrize("law", ["exact", "gaussian"])
def test_area_is_the_integral_of_the_roc(construction, law):
    test = UnitTest(construction, 15, 60, 0.5, law)
    nodes, weights = special.roots_legendre(60)
    rates = (nodes + 1) / 2
    assert test.auc() == pytest.approx(float(test.roc(rates) @ weights) / 2, abs=2e-5)


def test_area_of_single_vector_units_is_the_null_cdf():
    test = UnitTest("pinv", 1, 50, 0.3)
    assert test.auc() == float(test.null_law.cdf(0.3))


def test_pinv_roc_is_above_sum_at_high_similarity():
    # Where few matches are missed; at lower rates the larger spread of sum helps it.
    rates = np.array([0.03, 0.1, 0.3])
    pinv = UnitTest("pinv", 10, 100, 0.8).roc(rates)
    total = UnitTest("sum", 10, 100, 0.8).roc(rates)
    assert np.all(pinv > total)
    assert np.all(np.diff(pinv) > 0)


@given(
    construction=st.sampled_from(["sum", "pinv", "orthogonal"]),
    size=st.integers(2, 60),
    dim=st.integers(60, 2000),
    alpha=st.floats(0.05, 0.999),
    rate=st.floats(1e-8, 0.9),
)
@settings(deadline=None, max_examples=60)
def test_threshold_gives_the_wanted_miss_rate(construction, size, dim, alpha, rate):
    test = UnitTest(construction, size, dim, alpha)
    tau = test.threshold(rate)
    assert float(test.false_negative_rate(tau)) == pytest.approx(rate, rel=1e-4, abs=0)


def test_full_pinv_units_still_have_a_law():
    test = UnitTest("pinv", 50, 50, 0.7)
    assert test.null_variance == math.inf
    tau = test.threshold(0.01)
    assert tau < 0
    assert 0.5 < float(test.false_positive_rate(tau)) < 1
    assert PinvNullLaw(50, 50).variance == math.inf
    assert PinvNoiseLaw(50, 50, 0.5).variance == math.inf


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: UnitTest("mean", 3, 10, 0.5), "The 'construction' parameter of UnitTest must be"),
        (lambda: UnitTest("sum", 0, 10, 0.5), "The 'unit_size' parameter of UnitTest must be"),
        (lambda: UnitTest("sum", 3, 1, 0.5), "The 'dim' parameter of UnitTest must be"),
        (lambda: UnitTest("sum", 3, 10, 1.5), "The 'similarity' parameter of UnitTest must be"),
        (lambda: UnitTest("sum", 3, 10, 0.5, "beta"), "The 'law' parameter of UnitTest must be"),
        (lambda: UnitTest("pinv", 11, 10, 0.5), "at most the dimension 10 for pinv. Got 11"),
        (lambda: UnitTest("sum", 3, 10, 0.5).threshold(0), "The 'miss_rate' parameter of UnitTest"),
        (lambda: PinvNormLaw(11, 10), "at most the dimension 10. Got 11"),
    ],
)
def test_bad_rate_arguments_are_named(call, text):
    with pytest.raises(InvalidValueError, match=text):
        call()


def test_pinv_norm_law_says_who_it_is():
    assert repr(PinvNormLaw(3, 10)) == "PinvNormLaw(unit_size=3, dim=10)"
