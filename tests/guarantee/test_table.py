import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memvec.guarantee import CalibrationTable, Certificate
from strategies import seeds


def table(queries, scores, cosines=None):
    """A table of one stage with slope 0: a row needs the slack −score."""
    n = len(queries)
    return CalibrationTable(
        queries=np.asarray(queries),
        cosines=np.ones(n) if cosines is None else np.asarray(cosines),
        ranks=np.zeros(n, dtype=int),
        keys=np.arange(n),
        copies=np.ones(n, dtype=np.float32),
        scores=np.asarray(scores, dtype=np.float32).reshape(n, 1),
        slopes=np.zeros((n, 1), dtype=np.float32),
    )


def naive_solution(queries, needed, miss_rate):
    """The smallest candidate λ with (n·R + 1)/(n + 1) ≤ ε, by trying all."""
    names = sorted(set(queries))
    for candidate in [-math.inf, *sorted(needed)]:
        shares = [
            np.mean(
                [need > candidate for q, need in zip(queries, needed, strict=True) if q == name]
            )
            for name in names
        ]
        if (sum(shares) + 1) / (len(names) + 1) <= miss_rate + 1e-9:
            return candidate
    return math.inf


def test_solution_by_hand():
    """Of 19 queries with one match each, 10 % allow (19·R + 1)/20 ≤ 0.1: one miss."""
    rows = table(range(19), -np.arange(19.0))
    assert rows.solve(np.arange(19.0), 0.1) == 17.0


@settings(deadline=None)
@given(
    seed=seeds,
    n_rows=st.integers(1, 60),
    n_queries=st.integers(1, 40),
    rate=st.sampled_from([0.02, 0.05, 0.2, 0.6]),
)
def test_solution_equals_its_twin(seed, n_rows, n_queries, rate):
    rng = np.random.default_rng(seed)
    queries, needed = rng.integers(n_queries, size=n_rows), rng.integers(12, size=n_rows) * 1.0
    rows = table(queries, -needed)
    assert rows.solve(needed, rate) == naive_solution(queries, needed, rate)


def test_too_few_queries_solve_to_infinity():
    rows = table(range(98), np.zeros(98))
    assert rows.solve(np.zeros(98), 0.01) == math.inf
    assert table(range(99), np.zeros(99)).solve(np.zeros(99), 0.01) == 0.0


def test_conformal_risk_is_held_on_average():
    """The mean miss of fresh queries is at most ε, and not much less."""
    rng = np.random.default_rng(1)
    missed = []
    for _ in range(400):
        needed = rng.standard_normal(300)
        value = table(range(300), -needed).solve(needed, 0.05)
        missed.append(np.mean(rng.standard_normal(500) > value))
    # Seen: 0.0481 ± 0.0007; the law says 15/301 = 0.0498 at most.
    assert np.mean(missed) == pytest.approx(0.0498, abs=4 * np.std(missed) / 20)


def test_needed_slack_is_linear_in_the_similarity():
    rows = CalibrationTable(
        queries=np.array([0]),
        cosines=np.array([0.9]),
        ranks=np.array([0]),
        keys=np.array([5]),
        copies=np.ones(1, dtype=np.float32),
        scores=np.array([[3.0, 4.0]], dtype=np.float32),
        slopes=np.array([[10.0, 2.0]], dtype=np.float32),
    )
    np.testing.assert_allclose(rows.needed(0.5), [[2.0, -3.0]])
    np.testing.assert_allclose(rows.needed(np.array([0.9])), [[6.0, -2.2]])


def test_rows_are_chosen_by_similarity_and_rank():
    rows = table([0, 0, 1], np.zeros(3), cosines=[0.9, 0.7, 0.75])
    assert rows.above(0.75).cosines.tolist() == [0.9, 0.75]
    assert rows.just_below(0.75, 0.1).cosines.tolist() == [0.7]
    assert len(rows.nearest(1)) == 3
    assert len(rows.beyond(1)) == 0
    assert rows.n_queries == 2
    assert rows.weights.tolist() == [0.5, 0.5, 1.0]


def test_a_row_counts_for_the_matches_it_stands_for():
    rows = replace(table([0, 0, 1], np.zeros(3)), copies=np.array([1, 3, 5], dtype=np.float32))
    assert rows.weights.tolist() == [0.25, 0.75, 1.0]


def test_quantile_counts_queries_alike():
    rows = table([0, 0, 1], np.zeros(3))
    values = np.array([5.0, 1.0, 3.0])
    assert rows.quantile(values, 0.2) == 5.0
    assert rows.quantile(values, 0.4) == 3.0
    assert rows.quantile(values, 1.0) == 1.0


def test_certificates_read_well():
    text = str(Certificate("expected", 0.01, 1234, 5678, planted=False))
    assert text == (
        "Misses at most 1.00% of a query's matches on average, for queries like the 1,234 that "
        "were held out of the units (5,678 matches)."
    )
    assert "by the paper's law" in str(Certificate("model", 0.05))
