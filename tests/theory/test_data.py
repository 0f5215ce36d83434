"""What data says: imbalance of unit sizes and effective dimension."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.theory import effective_dimension, imbalance_factor, unit_size_moments
from naive.laws import sphere


def test_imbalance_by_hand():
    assert imbalance_factor([1, 3]) == pytest.approx(2 * (1 + 9) / 16)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50).filter(any))
def test_size_moments_are_those_of_the_sizes(sizes):
    delta = min(imbalance_factor(sizes), float(len(sizes)))
    mean, variance = unit_size_moments(sum(sizes), len(sizes), max(delta, 1.0))
    assert mean == pytest.approx(np.mean(sizes))
    assert variance == pytest.approx(np.var(sizes), abs=1e-6 * mean**2)


@pytest.mark.parametrize("dim", [8, 64, 300])
def test_effective_dimension_of_uniform_rows_is_their_dimension(dim):
    rows = sphere(np.random.default_rng(dim), 4000, dim)
    found = effective_dimension(rows, pairs=40_000)
    # Relative standard error of a mean of squared cosines: about sqrt(2/pairs) = 0.7 %.
    assert found.dimension == pytest.approx(dim, rel=4 * math.sqrt(2 / 40_000))
    assert found.centred_dimension == pytest.approx(dim, rel=4 * math.sqrt(2 / 40_000))
    assert abs(found.mean_cosine) < 4 / math.sqrt(dim * 40_000)


def test_effective_dimension_of_low_rank_rows_is_their_rank():
    rng = np.random.default_rng(1)
    rows = sphere(rng, 3000, 10) @ np.linalg.qr(rng.standard_normal((200, 10)))[0].T
    found = effective_dimension(rows, pairs=40_000, seed=2)
    assert found.dimension == pytest.approx(10, rel=0.03)


def test_centring_removes_a_common_direction():
    rng = np.random.default_rng(3)
    rows = sphere(rng, 3000, 50)
    rows[:, 0] += 1.0
    found = effective_dimension(rows, pairs=40_000)
    assert found.mean_cosine == pytest.approx(0.5, abs=0.02)
    assert found.dimension < 5
    assert found.centred_dimension == pytest.approx(49.3, abs=1.5)  # seen: 49.27


def test_effective_dimension_is_seeded_and_samples_large_sets():
    rows = np.random.default_rng(4).standard_normal((25_000, 4)).astype(np.float32)
    first, again = (effective_dimension(rows, pairs=5000, seed=7) for _ in range(2))
    assert first == again
    assert first.pairs == 5000
    assert first.dimension == pytest.approx(4, rel=0.1)
    generator = np.random.default_rng(7)
    assert effective_dimension(rows, pairs=5000, seed=generator) == first


def test_effective_dimension_of_degenerate_rows():
    same = effective_dimension(np.ones((5, 3)), pairs=20)
    assert same.dimension == pytest.approx(1.0)
    assert math.isnan(same.centred_dimension)
    assert effective_dimension(np.eye(2), pairs=20).dimension == math.inf


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: imbalance_factor([]), InvalidValueError, "one size per unit. Got shape"),
        (lambda: imbalance_factor([[1]]), InvalidValueError, "one size per unit. Got shape"),
        (lambda: imbalance_factor([0, 0]), InvalidValueError, "not all zero"),
        (lambda: imbalance_factor([-1, 2]), InvalidValueError, "numbers >= 0"),
        (
            lambda: unit_size_moments(10, 2, 3.0),
            InvalidValueError,
            r"The 'imbalance' parameter of unit_size_moments must be a number in \[1, 2\]",
        ),
        (lambda: effective_dimension(np.ones((1, 3))), InvalidValueError, "at least 2 rows. Got 1"),
        (lambda: effective_dimension(np.zeros((4, 3))), InvalidValueError, "only zeros in row 0"),
        (lambda: effective_dimension(np.ones((4, 3)), pairs=0), InvalidValueError, "'pairs'"),
        (lambda: effective_dimension(np.ones((4, 3)), seed=0.5), InvalidTypeError, "'seed'"),
    ],
)
def test_bad_data_arguments_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
