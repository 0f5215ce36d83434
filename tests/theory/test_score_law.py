"""The law of a scalar product with a uniform unit vector."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from memvec.errors import InvalidValueError
from memvec.theory import CosineSumLaw, NormalLaw, PointLaw, ScoreLaw, score_tail
from naive.laws import mean_and_error, sphere, variance_and_error


def test_score_law_is_uniform_in_three_dimensions():
    law = ScoreLaw(2.0, dim=3)
    scores = np.array([-2.0, -1.0, 0.0, 0.5, 2.0, 3.0])
    np.testing.assert_allclose(law.cdf(scores), [0, 0.25, 0.5, 0.625, 1, 1], atol=1e-15)
    np.testing.assert_allclose(law.pdf([-1.0, 1.9, 2.1]), [0.25, 0.25, 0.0])
    np.testing.assert_allclose(law.ppf([0.25, 0.5, 1.0]), [-1.0, 0.0, 2.0], atol=1e-15)


def test_score_law_is_arcsine_in_two_dimensions():
    law = ScoreLaw(1.0, dim=2)
    assert float(law.sf(0.5)) == pytest.approx(1 / 3)
    assert float(law.pdf(0.0)) == pytest.approx(1 / math.pi)


def test_score_law_has_two_atoms_in_one_dimension():
    law = ScoreLaw(2.0, dim=1)
    np.testing.assert_array_equal(law.sf([-2.1, -1.0, 0.0, 2.0, 2.1]), [1, 0.5, 0.5, 0.5, 0])
    np.testing.assert_array_equal(law.below([-2.0, 0.0, 2.0, 2.1]), [0, 0.5, 0.5, 1])
    assert float(law.isf(0.1)) == 2.0
    with pytest.raises(InvalidValueError, match="two atoms and no density"):
        law.pdf(0.0)


def test_score_law_matches_simulation():
    rng = np.random.default_rng(10)
    m = rng.standard_normal(12)
    law = ScoreLaw(float(np.linalg.norm(m)), dim=12)
    scores = sphere(rng, 200_000, 12) @ m
    mean, error = mean_and_error(scores)
    assert abs(mean - law.mean) < 4 * error
    variance, error = variance_and_error(scores)
    assert abs(variance - law.variance) < 4 * error
    for threshold in (-1.0, 0.3, 1.5, 2.0):
        share, error = mean_and_error(scores >= threshold)
        assert abs(share - law.sf(threshold)) < 4 * error


@pytest.mark.parametrize("dim", [2, 3, 7.5, 100, 1000])
def test_score_pdf_integrates_to_the_tail(dim):
    law = ScoreLaw(1.5, dim)
    area, _ = integrate.quad(lambda s: float(law.pdf(s)), 0.2, 1.5, points=[0.3], limit=200)
    assert area == pytest.approx(float(law.sf(0.2)), rel=1e-7)


def test_score_tail_keeps_digits_where_the_cdf_is_one():
    # The leading term (1-s^2)^((d-1)/2) / (s (d-1) B(1/2, (d-1)/2)) is 10^-147.8128, by hand.
    tail = float(ScoreLaw(1.0, dim=1000).sf(0.7))
    assert math.log10(tail) == pytest.approx(-147.8128, abs=0.001)
    assert float(ScoreLaw(1.0, dim=1000).cdf(0.7)) == 1.0


@given(
    dim=st.floats(8, 5000),  # in two dimensions s is within an ulp of its end
    norm=st.floats(0.1, 50),
    probability=st.floats(1e-12, 1 - 1e-12),
)
@settings(deadline=None)
def test_score_quantile_inverts_the_tail(dim, norm, probability):
    law = ScoreLaw(norm, dim)
    assert float(law.sf(law.isf(probability))) == pytest.approx(probability, rel=1e-6, abs=0)
    assert float(law.ppf(probability)) == pytest.approx(-float(law.isf(probability)))


def test_approximations_are_as_close_as_the_paper_says():
    law = ScoreLaw(1.0, dim=1000)
    scores = np.array([0.02, 0.05, 0.1, 0.15])
    exact = law.sf(scores)
    # Seen: 0.02, 0.08, 0.3, 0.6 % for the large-d one, 0.05, 0.04, 1.9, 12 % for the Gaussian one.
    assert np.all(np.abs(law.large_dim_sf(scores) / exact - 1) < 0.006)
    assert abs(law.gaussian_sf(0.02) / exact[0] - 1) < 0.001
    assert law.gaussian_sf(0.15) / exact[3] > 1.1


def test_score_tail_broadcasts_over_units():
    norms = np.array([1.0, 2.0, 4.0])
    tails = score_tail([[0.5], [-0.5]], norms, dim=64)
    assert tails.shape == (2, 3)
    np.testing.assert_allclose(tails[0] + tails[1], 1.0)
    assert tails[0, 1] == ScoreLaw(2.0, 64).sf(0.5)


def test_score_tail_of_a_zero_vector_is_an_atom():
    np.testing.assert_array_equal(score_tail([0.0, 0.1, -0.1], 0.0, dim=8), [1, 0, 1])


@pytest.mark.parametrize(("count", "dim"), [(2, 2), (5, 3), (3, 12), (9, 40), (6, 300)])
def test_cosine_sum_matches_simulation(count, dim):
    rng = np.random.default_rng(count)
    draws = 100_000
    # With y the first basis vector, the cosines are first coordinates.
    gauss = rng.standard_normal((draws, count))
    scores = (gauss / np.sqrt(gauss**2 + rng.chisquare(dim - 1, (draws, count)))).sum(axis=1)
    law = CosineSumLaw(count, dim)
    for z in (0.5, 1.0, 2.0, 2.5):
        share, error = mean_and_error(scores >= z * law.std)
        assert abs(share - law.sf(z * law.std)) < 4 * error + 1e-6
    variance, error = variance_and_error(scores)
    assert abs(variance - law.variance) < 4 * error


def test_two_cosines_in_three_dimensions_are_triangular():
    law = CosineSumLaw(2, dim=3)
    np.testing.assert_allclose(law.sf([-1.0, 0.0, 1.0, 2.0]), [0.875, 0.5, 0.125, 0], atol=1e-7)


@pytest.mark.parametrize("dim", [64, 101, 105, 1000, 100_000])
def test_contour_integral_equals_the_beta_law_for_one_cosine(dim):
    from memvec.theory._cosine_sum import _contour_tail

    scores = np.array([0.0, 0.2, 1.0, 3.0, 8.0, 20.0]) / math.sqrt(dim)
    scores = scores[scores < 0.9]
    # Seen: 6e-10 at d = 103, where the Bessel expansion takes over; below 1e-11 elsewhere.
    np.testing.assert_allclose(
        _contour_tail(scores, 1, dim), ScoreLaw(1.0, dim).sf(scores), rtol=2e-9
    )


@pytest.mark.parametrize(("count", "dim"), [(20, 4), (61, 2), (3, 30)])
def test_contour_integral_equals_the_lattice(count, dim):
    from memvec.theory._cosine_sum import _contour_tail, _lattice_tail

    scores = np.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(
        _contour_tail(scores, count, dim), _lattice_tail(scores, count, dim), rtol=1e-6
    )


def test_cosine_sum_stops_at_its_largest_value():
    law = CosineSumLaw(4, dim=50)
    np.testing.assert_array_equal(law.sf([4.0, 5.0, -4.0]), [0, 0, 1])
    assert 0 < float(law.sf(3.9)) < 1e-50


@given(probability=st.floats(1e-9, 1 - 1e-9), count=st.integers(1, 60), dim=st.floats(8, 2000))
@settings(deadline=None, max_examples=40)
def test_cosine_sum_quantile_inverts_the_tail(probability, count, dim):
    law = CosineSumLaw(count, dim)
    assert float(law.sf(law.isf(probability))) == pytest.approx(probability, rel=1e-5, abs=0)


def test_point_law_has_all_its_mass_at_zero():
    law = PointLaw()
    np.testing.assert_array_equal(law.sf([-1.0, 0.0, 1.0]), [1, 1, 0])
    np.testing.assert_array_equal(law.below([-1.0, 0.0, 1.0]), [0, 0, 1])
    assert float(law.ppf(0.01)) == 0.0
    assert law.std == 0.0


def test_normal_law_is_the_gaussian():
    law = NormalLaw(2.0)
    np.testing.assert_allclose(law.sf([0.0, 2.0]), [0.5, 0.15865525393145707])
    assert float(law.cdf(law.ppf(0.2))) == pytest.approx(0.2)
    assert float(law.isf(0.0)) == math.inf


def test_laws_say_who_they_are():
    assert repr(ScoreLaw(2.0, 64)) == "ScoreLaw(norm=2, dim=64)"
    assert repr(CosineSumLaw(3, 64)) == "CosineSumLaw(count=3, dim=64)"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: ScoreLaw(0.0, 3),
            r"The 'norm' parameter of ScoreLaw must be a number in \(0, inf",
        ),
        (lambda: ScoreLaw(1.0, 0.5), "The 'dim' parameter of ScoreLaw must be"),
        (lambda: score_tail(0.1, [-1.0], 3), "The 'norms' parameter of score_tail must be"),
        (lambda: score_tail(0.1, [np.nan], 3), "The 'norms' parameter of score_tail must be"),
        (lambda: score_tail(0.1, 1.0, 0), "The 'dim' parameter of score_tail must be"),
        (lambda: CosineSumLaw(0, 3), "The 'count' parameter of CosineSumLaw must be"),
        (lambda: CosineSumLaw(1, 1), "The 'dim' parameter of CosineSumLaw must be"),
        (lambda: NormalLaw(0.0), "The 'std' parameter of NormalLaw must be"),
        (lambda: ScoreLaw(1.0, 3).isf(1.2), "The 'probability' parameter of ScoreLaw.isf must be"),
    ],
)
def test_bad_law_arguments_are_named(call, text):
    with pytest.raises(InvalidValueError, match=text):
        call()
