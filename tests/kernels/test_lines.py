import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.kernels._lines import lines_for_query
from strategies import seeds


def lines(total, energy, slack, tested_at, gain, scale_range):
    """The lines that are kept, as bases and factors."""
    slack, tested_at, scale_range = (
        np.asarray(values, dtype=np.float32) for values in (slack, tested_at, scale_range)
    )
    bases, factors = np.empty_like(slack), np.empty_like(slack)
    of_query = np.float32(total), np.float32(energy)
    count = lines_for_query(
        *of_query, slack, tested_at, np.float32(gain), scale_range, bases, factors
    )
    return bases[:count].tolist(), factors[:count].tolist()


@pytest.mark.parametrize(
    ("scale_range", "kept"),
    [
        ((0, 2), ([0, 1], [0, 1])),
        ((0, 0.5), ([1], [1])),
        ((1.5, 2), ([0], [0])),
        ((0, 0), ([1], [1])),
    ],
)
def test_lines_by_hand(scale_range, kept):
    """0 and 1 − scale cross where the scale is 1."""
    assert lines(0, 1, [0, 1], [0, 1], 1, scale_range) == kept
    backwards = lines(0, 1, [1, 0], [1, 0], 1, scale_range)
    assert (sorted(backwards[0]), sorted(backwards[1])) == kept


def test_line_takes_the_place_of_all_that_it_covers():
    assert lines(10, 4, [1, 2, 0, 5], [0.5, 0.6, 0.4, 0.5], 2, (1, 3)) == ([20], [1])


def test_equal_lines_are_one():
    assert lines(3, 1, [2] * 4, [0.5] * 4, 2, (1, 5)) == ([5], [1])
    assert lines(3, 1, [2], [0.5], 2, (1, 5)) == ([5], [1])


@settings(deadline=None, max_examples=200)
@given(
    seed=seeds,
    n_lines=st.integers(1, 12),
    n_infinite=st.integers(0, 2),
    width=st.sampled_from([0.0, 5.0, 50.0]),
)
def test_lines_that_are_left_pass_what_all_pass(seed, n_lines, n_infinite, width):
    rng = np.random.default_rng(seed)
    slack = rng.normal(2, 2, size=n_lines).astype(np.float32)
    slack[rng.permutation(n_lines)[:n_infinite]] = np.inf
    tested_at = rng.choice([0.3, 0.5, 0.7, 0.9], size=n_lines).astype(np.float32)
    total, energy, gain, low = 200.0, 400.0, 1.5, float(rng.uniform(0, 20))
    bases, factors = lines(total, energy, slack, tested_at, gain, (low, low + width))
    assert 1 <= len(bases) <= n_lines
    for scale in np.linspace(low, low + width, 7):
        expected = naive.most_disagreement(total, energy, slack, tested_at, gain, scale)
        found = max(base - factor * scale for base, factor in zip(bases, factors, strict=True))
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-3)
