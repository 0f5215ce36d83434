"""The spherical cap: moments against 40-digit values, scores term by term against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from memvec.errors import InvalidValueError
from memvec.theory import (
    cap_cosine,
    cap_design,
    cap_mass,
    cap_moments,
    gaussian_kl,
    pinv_cap_scores,
    sample_cap,
    sample_sphere,
    sum_cap_scores,
    unit_design,
)
from naive.laws import (
    Units,
    cap,
    mean_and_error,
    memory_vector,
    related_query,
    sphere,
    sum_cap_terms,
    tail,
    variance_and_error,
)

# (dim, eta): mu1, mu2, variance, 1 - mu2. Computed offline with 40 digits from the integrals
# of exp(-t) sqrt(1 - (1-eta^2) exp(-2t/(d-1)))^(k-1) over t, k = 0, 1, 2.
HIGH_PRECISION = {
    (2, 0.5): (0.82699334313268807, 0.70674833578317202, 0.022830346197392061, 0.29325166421682798),
    (512, 0.3): (
        0.30570106492666948,
        0.093484322760270371,
        3.1181662970580516e-5,
        0.90651567723972963,
    ),
    (100_000, 0.002): (
        0.0039191922574684389,
        1.7838306131091729e-5,
        2.4782381800911704e-6,
        0.99998216169386891,
    ),
    (100_000, 0.5): (
        0.50001499895018145,
        0.25001499940009598,
        2.2494601563191651e-10,
        0.74998500059990402,
    ),
    (100_000, 0.999999): (
        0.99999900001999978,
        0.99999800004099952,
        3.9997640087147948e-22,
        1.9999590004775067e-6,
    ),
}


@pytest.mark.parametrize(("dim", "eta"), HIGH_PRECISION)
def test_cap_moments_have_ten_digits(dim, eta):
    moments = cap_moments(eta, dim)
    found = (moments.mean, moments.second, moments.variance, moments.co_second)
    # Seen: below 1e-11 on a grid of 100 (dim, eta); near eta = 1 the input itself limits.
    np.testing.assert_allclose(found, HIGH_PRECISION[dim, eta], rtol=1e-10)


def test_cap_moments_of_an_arc_by_hand():
    # In the plane the cap is an arc of half angle g: E[cos] = sin(g)/g.
    for angle in (0.01, 0.5, 1.0, 2.0, 3.0):
        assert cap_moments(math.cos(angle), 2).mean == pytest.approx(math.sin(angle) / angle)


def test_cap_moments_at_their_limits():
    whole = cap_moments(-1.0, 30)
    assert (whole.mean, whole.second, whole.variance) == (0.0, 1 / 30, 1 / 30)
    point = cap_moments(math.nextafter(1.0, 0.0), 30)
    assert point.mean == pytest.approx(1, abs=1e-15)
    assert 0 <= point.variance < 1e-30
    assert cap_moments(-0.999999, 100_000).mean == 0.0  # 10^-284948 in truth


@pytest.mark.parametrize("dim", [3, 50, 512, 100_000])
def test_cap_moments_are_continuous_between_their_formulas(dim):
    for eta in (2.0 / math.sqrt(dim - 1), 4.5 / math.sqrt(dim - 1), 0.5, 0.98):
        if eta < 0.99:
            below, above = (cap_moments(eta + step, dim) for step in (-1e-13, 1e-13))
            assert below.mean == pytest.approx(above.mean, rel=1e-9)
            assert below.variance == pytest.approx(above.variance, rel=1e-7, abs=0)


@given(eta=st.floats(-1, 0.9999), dim=st.floats(2, 1e6))
@settings(deadline=None)
def test_cap_moments_are_ordered(eta, dim):
    moments = cap_moments(eta, dim)
    assert max(eta, 0) <= moments.mean <= 1
    assert moments.variance >= 0
    assert moments.second == pytest.approx(moments.mean**2 + moments.variance, rel=1e-9)
    assert moments.co_second == pytest.approx(1 - moments.second, rel=1e-9, abs=1e-14)
    assert moments.co_mean == pytest.approx(1 - moments.mean**2, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("dim", "eta"), [(3, 0.5), (8, -0.3), (20, 0.2), (20, 0.35)])
def test_cap_moments_match_simulation(dim, eta):
    cosines = cap(np.random.default_rng(dim), 40_000, dim, eta)[:, 0]
    moments = cap_moments(eta, dim)
    for power, expected in ((1, moments.mean), (2, moments.second)):
        mean, error = mean_and_error(cosines**power)
        assert abs(mean - expected) < 4 * error
    variance, error = variance_and_error(cosines)
    assert abs(variance - moments.variance) < 4 * error


@pytest.mark.parametrize("eta", [-0.9, 0.0, 0.1, 0.3, 0.9])
def test_sampled_caps_have_the_moments(eta):
    rows = sample_cap(20_000, 40, eta, np.random.default_rng(5))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    assert rows[:, 0].min() > eta
    mean, error = mean_and_error(rows[:, 0])
    assert abs(mean - cap_moments(eta, 40).mean) < 4 * error
    mean, error = mean_and_error(rows[:, 5])
    assert abs(mean) < 4 * error


def test_sampled_caps_may_be_empty_or_tiny():
    rng = np.random.default_rng(0)
    assert sample_cap(0, 10, 0.5, rng).shape == (0, 10)
    assert sample_cap(5, 3, 1 - 1e-12, rng)[:, 0].min() > 1 - 2e-12
    assert sample_sphere(0, 4, rng).shape == (0, 4)


def test_cap_mass_inverts():
    assert cap_mass(-1.0, 10) == 1.0
    for mass in (1e-9, 0.01, 0.5, 0.99):
        assert cap_mass(cap_cosine(mass, 100), 100) == pytest.approx(mass, rel=1e-9)


SUM_TERMS = [
    "axis_variance",
    "residual_variance",
    "noise_axis_variance",
    "noise_residual_variance",
]


@pytest.mark.parametrize(
    ("size", "dim", "alpha", "eta"), [(6, 10, 0.5, 0.2), (20, 8, 0.8, 0.4), (4, 12, 0.3, -0.5)]
)
def test_every_sum_term_matches_simulation(size, dim, alpha, eta):
    terms = sum_cap_terms(np.random.default_rng(size), size, dim, alpha, eta, count=12_000)
    scores = sum_cap_scores(size, dim=dim, similarity=alpha, cap_cosine=eta)
    for column, name in enumerate(SUM_TERMS):
        variance, error = variance_and_error(terms[:, column])
        assert abs(variance - getattr(scores, name)) < 4 * error, name
    mean, error = mean_and_error(alpha + terms.sum(axis=1))
    assert abs(mean - scores.match_mean) < 4 * error
    variance, error = variance_and_error(terms.sum(axis=1))
    assert abs(variance - scores.match_variance) < 4 * error


def test_sum_terms_are_uncorrelated():
    terms = sum_cap_terms(np.random.default_rng(1), 6, 10, 0.5, 0.2, count=20_000)
    centred = terms - terms.mean(axis=0)
    for i in range(4):
        for j in range(i):
            mean, error = mean_and_error(centred[:, i] * centred[:, j])
            assert abs(mean) < 4 * error


@pytest.mark.parametrize("eta", [-1.0, 0.0, 0.4])
def test_sum_norm_matches_simulation(eta):
    rng = np.random.default_rng(7)
    squares = [np.sum(cap(rng, 5, 12, eta).sum(axis=0) ** 2) for _ in range(4000)]
    scores = sum_cap_scores(5, dim=12, similarity=0.5, cap_cosine=eta)
    mean, error = mean_and_error(squares)
    assert abs(mean - scores.squared_norm) < 4 * error
    assert scores.null_variance == scores.squared_norm / 12
    assert scores.null_mean == 0.0


def test_sum_scores_at_their_limits():
    whole = sum_cap_scores(11, dim=100, similarity=0.5, cap_cosine=-1.0)
    assert whole.match_variance == pytest.approx(0.1)
    assert whole.null_variance == pytest.approx(0.11)
    point = sum_cap_scores(11, dim=100, similarity=0.5, cap_cosine=1 - 1e-12)
    assert point.match_mean == pytest.approx(5.5)
    assert point.match_variance == pytest.approx(0, abs=1e-9)
    assert point.null_variance == pytest.approx(1.21)
    alone = sum_cap_scores(1, dim=100, similarity=0.5, cap_cosine=0.5)
    assert (alone.match_mean, alone.match_variance) == (0.5, 0.0)
    assert alone.kl == math.inf
    copies = sum_cap_scores(5, dim=100, similarity=1.0, cap_cosine=0.3)
    assert copies.noise_axis_variance == copies.noise_residual_variance == 0.0


def test_pinv_norm_estimate_matches_simulation():
    rng = np.random.default_rng(8)
    for eta in (0.0, 0.1, 0.3):
        squares = [
            np.sum(memory_vector(sample_cap(20, 100, eta, rng), "pinv") ** 2) for _ in range(2500)
        ]
        mean, error = mean_and_error(squares)
        scores = pinv_cap_scores(20, dim=100, similarity=0.5, cap_cosine=eta)
        # Seen: 0.4, 0.7 and 0.5 % above, for standard errors of 0.3, 0.2 and 0.1 %.
        assert abs(mean - scores.squared_norm) < 4 * error + 0.006 * mean
        assert scores.squared_norm_bound < mean - 4 * error


def test_pinv_match_scores_match_simulation():
    rng = np.random.default_rng(9)
    size, dim, alpha, eta = 10, 60, 0.6, 0.25
    scores = []
    for _ in range(12_000):
        rows = sample_cap(size, dim, eta, rng)
        scores.append(related_query(rng, rows[0], alpha) @ memory_vector(rows, "pinv"))
    expected = pinv_cap_scores(size, dim=dim, similarity=alpha, cap_cosine=eta)
    mean, error = mean_and_error(scores)
    assert abs(mean - expected.match_mean) < 4 * error
    variance, error = variance_and_error(scores)
    assert abs(variance - expected.match_variance) < 4 * error + 0.01 * variance


def test_pinv_scores_at_their_limits():
    whole = pinv_cap_scores(20, dim=1000, similarity=0.5, cap_cosine=-1.0)
    assert whole.squared_norm == pytest.approx(20 * 998 / 979, rel=2e-4)
    assert whole.squared_norm_bound == 20.0
    assert whole.match_variance_bound == pytest.approx(0.75 * 19 / 999)
    point = pinv_cap_scores(20, dim=1000, similarity=0.5, cap_cosine=1 - 1e-12)
    assert point.squared_norm == pytest.approx(1.0)
    assert point.match_variance == pytest.approx(0, abs=1e-12)
    alone = pinv_cap_scores(1, dim=3, similarity=0.5, cap_cosine=0.2)
    assert (alone.squared_norm, alone.match_variance) == (1.0, 0.0)


def test_pinv_block_formula_of_the_paper_with_its_transpose():
    rng = np.random.default_rng(11)
    rows = sphere(rng, 6, 20)
    first, others = rows[0], rows[1:].T
    projector = np.eye(20) - np.outer(first, first)
    inverse = np.linalg.inv(others.T @ projector @ others)
    orthogonal = projector @ others @ inverse @ (np.ones(5) - others.T @ first)
    np.testing.assert_allclose(first + orthogonal, memory_vector(rows, "pinv"), atol=1e-12)


def test_divergence_by_hand_and_by_integral():
    assert gaussian_kl(1.0, 2.0, 1.0, 2.0) == 0.0
    # KL(N(0,1), N(0,4)) = log 2 - 3/8
    assert gaussian_kl(0.0, 1.0, 0.0, 4.0) == pytest.approx(math.log(2) - 0.375)


@pytest.mark.parametrize("scores", [sum_cap_scores, pinv_cap_scores])
def test_divergence_increases_as_the_cap_narrows(scores):
    found = [scores(10, dim=512, similarity=0.5, cap_cosine=eta) for eta in np.arange(0, 1, 0.1)]
    assert np.all(np.diff([value.kl for value in found]) > 0)
    assert np.all(np.diff([value.reverse_kl for value in found]) > 0)


def test_sum_variance_rises_before_it_falls():
    # The paper says that it decreases with eta.
    variance = [
        sum_cap_scores(10, dim=512, similarity=0.5, cap_cosine=eta).match_variance
        for eta in (0.0, 0.3, 0.6, 0.7, 0.9, 0.99)
    ]
    assert variance[0] < variance[1] < variance[2] > variance[3] > variance[4] > variance[5]


@pytest.mark.parametrize("construction", ["sum", "pinv"])
def test_cap_design_matches_simulation(construction):
    rng = np.random.default_rng(12)
    size, dim, alpha, eta, rate = 30, 400, 0.6, 0.15, 0.01
    norms, scores = np.empty(1500), np.empty((1500, size))
    for i in range(1500):
        rows = sample_cap(size, dim, eta, rng)
        m = memory_vector(rows, construction)
        norms[i], scores[i] = np.linalg.norm(m), rows @ m
    across = 0.8 * np.sqrt(np.maximum(norms[:, None] ** 2 - scores**2, 0))

    def excess(tau):
        return tail(alpha * scores - tau, across, dim - 1).mean() - rate

    tau = optimize.brentq(excess, -5, 5)
    found = cap_design(construction, unit_size=size, dim=dim, similarity=alpha, cap_cosine=eta)
    cost = 1 / size + tail(tau, norms, dim).mean()
    # Seen: 0.2 % below (sum) and 0.5 % above (pinv); the laws are Gaussian here.
    assert found.cost_ratio == pytest.approx(cost, rel=0.015)
    assert found.threshold == pytest.approx(tau, abs=0.01)


def test_whole_sphere_design_is_the_random_one():
    for construction in ("sum", "pinv"):
        setting = {"unit_size": 20, "dim": 1000, "similarity": 0.7}
        weak = cap_design(construction, cap_cosine=-1.0, **setting)
        random = unit_design(construction, law="gaussian", **setting)
        assert weak.threshold == pytest.approx(random.threshold, rel=1e-4)
        assert weak.cost_ratio == pytest.approx(random.cost_ratio, rel=1e-3)


def test_random_units_are_simulated_alike():
    # The twin for caps and the twin for random units agree where both apply.
    units = Units(np.random.default_rng(0), "pinv", 5, 30, 2000)
    mean, error = mean_and_error(units.norms**2)
    scores = pinv_cap_scores(5, dim=30, similarity=0.5, cap_cosine=-1.0)
    assert abs(mean - scores.squared_norm) < 4 * error


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: cap_moments(1.0, 10), "The 'cap_cosine' parameter of cap_moments must be"),
        (lambda: cap_moments(0.5, 1), "The 'dim' parameter of cap_moments must be"),
        (lambda: cap_mass(2.0, 10), "The 'cap_cosine' parameter of cap_mass must be"),
        (lambda: cap_cosine(0.0, 10), "The 'mass' parameter of cap_cosine must be"),
        (
            lambda: pinv_cap_scores(8, dim=10, similarity=0.5, cap_cosine=0),
            "'unit_size' parameter of pinv_cap_scores must be at most the dimension 10 less 3",
        ),
        (
            lambda: sum_cap_scores(0, dim=10, similarity=0.5, cap_cosine=0),
            "The 'unit_size' parameter of sum_cap_scores must be",
        ),
        (
            lambda: cap_design("mean", unit_size=2, dim=10, similarity=0.5, cap_cosine=0),
            "The 'construction' parameter of cap_design must be",
        ),
        (
            lambda: sample_cap(3, 1, 0.5, np.random.default_rng(0)),
            "The 'dim' parameter of sample_cap must be an integer >= 2. Got 1",
        ),
        (
            lambda: sample_cap(3, 4, 1.0, np.random.default_rng(0)),
            "The 'cap_cosine' parameter of sample_cap must be",
        ),
        (
            lambda: sample_sphere(-1, 4, np.random.default_rng(0)),
            "The 'count' parameter of sample_sphere must be an integer >= 0",
        ),
    ],
)
def test_bad_cap_arguments_are_named(call, text):
    with pytest.raises(InvalidValueError, match=text):
        call()
