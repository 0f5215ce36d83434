"""Thresholds of thresholds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import naive
from memvec.guarantee import Thresholds
from strategies import seeds


def some_lines(rng, n_lines):
    return Thresholds(
        rng.uniform(0.2, 0.9, n_lines).round(1), rng.normal(1, 1, (n_lines, 3)).round(1)
    )


@given(seed=seeds, n_lines=st.integers(1, 4), n_others=st.integers(1, 4))
def test_joined_lines_pass_what_either_passes_at_each_stage(seed, n_lines, n_others):
    rng = np.random.default_rng(seed)
    lines, others = some_lines(rng, n_lines), some_lines(rng, n_others)
    least = rng.uniform(0, 3, 3)
    joined = lines.joined(others, least)
    assert len(lines.at) <= len(joined.at) <= n_lines + n_others
    for _ in range(30):
        slopes, scores = least + rng.exponential(1, 3), rng.normal(1, 2, 3)
        for stage in range(3):
            seen = scores[[stage]], slopes[[stage]]
            left = [
                naive.slack_left(*seen, one.at, one.slack[:, [stage]])
                for one in (lines, others, joined)
            ]
            assert (left[2] >= 0) == (max(left[:2]) >= 0)


def test_lines_that_let_nothing_else_pass_are_left_out():
    lines = Thresholds.one(0.5, np.array([1.0, np.inf]))
    least = np.array([2.0, 0.0])
    assert len(lines.joined(Thresholds.one(0.6, np.array([1.2, 5.0])), least).at) == 1
    assert len(lines.joined(Thresholds.one(0.6, np.array([1.3, 5.0])), least).at) == 2
    # At a lower similarity a steeper unit would let more pass.
    assert len(lines.joined(Thresholds.one(0.4, np.array([0.0, 0.0])), least).at) == 2
