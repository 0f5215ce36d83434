"""Thresholds of given units, against queries simulated for those very units."""

import numpy as np
import pytest

from memvec.errors import InvalidValueError
from memvec.theory import unit_score_moments, unit_thresholds
from naive.laws import memory_vector, sphere, tail


def simulate(construction, size, dim, count, seed):
    """Norms, member scores and their spread, of many random units."""
    rng = np.random.default_rng(seed)
    norms, scores = np.empty(count), np.empty((count, size))
    for i in range(count):
        rows = sphere(rng, size, dim)
        m = memory_vector(rows, construction)
        norms[i], scores[i] = np.linalg.norm(m), rows @ m
    return norms, scores


def missed(norms, scores, thresholds, alpha, dim):
    """The exact miss rate of each unit, averaged over its members as the match."""
    across = np.sqrt(1 - alpha**2) * np.sqrt(np.maximum(norms[:, None] ** 2 - scores**2, 0))
    return tail(alpha * scores - thresholds[:, None], across, dim - 1).mean(axis=1)


def test_thresholds_of_pinv_units_by_hand():
    # |m|^2 - 1 = 100 = d - 1: sigma = beta = 0.6.
    [tau] = unit_thresholds([101**0.5], dim=101, similarity=0.8, miss_rate=0.158655254)
    assert tau == pytest.approx(0.2)
    assert unit_thresholds([1.0], dim=101, similarity=0.8) == pytest.approx(0.8)


def test_every_pinv_unit_misses_what_was_asked():
    norms, scores = simulate("pinv", size=30, dim=200, count=400, seed=0)
    thresholds = unit_thresholds(norms, dim=200, similarity=0.6, miss_rate=0.01)
    rates = missed(norms, scores, thresholds, 0.6, 200)
    # Seen: 0.00981 in every unit; the Gaussian is on the safe side of the Beta law.
    assert np.all((rates > 0.0096) & (rates <= 0.01))


def test_sum_units_miss_what_was_asked_on_average():
    norms, scores = simulate("sum", size=12, dim=200, count=4000, seed=1)
    thresholds = unit_thresholds(
        norms, dim=200, similarity=0.6, miss_rate=0.01, construction="sum", sizes=[12] * 4000
    )
    rates = missed(norms, scores, thresholds, 0.6, 200)
    error = rates.std() / np.sqrt(rates.size)
    assert abs(rates.mean() - 0.01) < 4 * error  # seen: 0.01000 ± 0.00009
    # Short units and long ones alike, which one threshold for all could not give.
    order = np.argsort(norms)
    for quarter in (order[:1000], order[-1000:]):
        assert rates[quarter].mean() == pytest.approx(0.01, abs=0.0006)  # seen: 0.0100, 0.0098


def test_sum_moments_match_simulation_given_the_norm():
    size, dim = 12, 200
    norms, scores = simulate("sum", size, dim, count=4000, seed=1)
    mean, std = unit_score_moments(
        norms, dim=dim, similarity=1.0, construction="sum", sizes=np.full(norms.size, size)
    )
    np.testing.assert_allclose(scores.mean(axis=1), mean)  # exact in every unit
    order = np.argsort(norms)
    for quarter in (order[:1000], order[-1000:]):
        spread = scores[quarter].var(axis=1)
        error = spread.std() / np.sqrt(spread.size)
        # Seen: 0.0412 for 0.0412 in short units, 0.0502 for 0.0504 in long ones.
        assert abs(spread.mean() - np.mean(std[quarter] ** 2)) < 4 * error


def test_two_vector_sums_have_no_spread_left():
    mean, std = unit_score_moments([1.5], dim=50, similarity=1.0, construction="sum", sizes=[2])
    assert mean[0] == pytest.approx(1.125)  # each member scores |m|^2 / 2
    assert std[0] == pytest.approx(0.0, abs=1e-7)


def test_ridge_units_use_their_measured_spread():
    rng = np.random.default_rng(3)
    dim, size, alpha = 80, 10, 0.7
    rows = sphere(rng, size, dim)
    m = rows.T @ np.linalg.solve(rows @ rows.T + 0.5 * np.eye(size), np.ones(size))
    m /= (rows @ m).mean()
    scores = rows @ m
    mean, std = unit_score_moments(
        [np.linalg.norm(m)],
        dim=dim,
        similarity=alpha,
        construction="ridge",
        member_variance=[scores.var()],
    )
    beta = np.sqrt(1 - alpha**2)
    queries = np.concatenate(
        [alpha * row + beta * noise_orthogonal_to(rng, row, 4000) for row in rows]
    )
    found = queries @ m
    assert abs(found.mean() - mean[0]) < 4 * found.std() / np.sqrt(found.size)
    squares = (found - found.mean()) ** 2
    assert abs(squares.mean() - std[0] ** 2) < 4 * squares.std() / np.sqrt(found.size)


def noise_orthogonal_to(rng, row, count):
    noise = rng.standard_normal((count, row.size))
    noise -= np.outer(noise @ row, row)
    return noise / np.linalg.norm(noise, axis=1, keepdims=True)


def test_code_noise_adds_to_the_variance():
    _, std = unit_score_moments([2.0, 3.0], dim=100, similarity=0.6)
    _, noisy = unit_score_moments([2.0, 3.0], dim=100, similarity=0.6, noise_variance=[0.1, 0.2])
    np.testing.assert_allclose(noisy**2 - std**2, [0.1, 0.2])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"construction": "sum"},
            "The 'sizes' parameter .* must be given for the construction 'sum'",
        ),
        ({"construction": "ridge"}, "'member_variance' parameter .* must be given"),
        (
            {"construction": "sum", "sizes": [0]},
            "'sizes' parameter .* must be numbers >= 1. Got 0.0",
        ),
        ({"norms": [-1.0]}, "'norms' parameter .* must be numbers >= 0. Got -1.0"),
        ({"norms": [np.nan]}, "'norms' parameter .* must be numbers >= 0. Got nan"),
        ({"noise_variance": -1.0}, "'noise_variance' parameter .* must be numbers >= 0. Got -1.0"),
        ({"dim": 1.0}, "The 'dim' parameter of unit_score_moments must be"),
        ({"similarity": 0.0}, "The 'similarity' parameter of unit_score_moments must be"),
        ({"miss_rate": 1.0}, "The 'miss_rate' parameter of unit_thresholds must be"),
        ({"construction": "mean"}, "'construction' parameter .* one of 'sum', 'pinv', 'ridge'"),
    ],
)
def test_bad_threshold_arguments_are_named(change, text):
    arguments = {"norms": [1.0], "dim": 10.0, "similarity": 0.5} | change
    with pytest.raises(InvalidValueError, match=text):
        unit_thresholds(arguments.pop("norms"), **arguments)
