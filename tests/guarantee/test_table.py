import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from memvec.errors import InvalidValueError
from memvec.guarantee import CalibrationTable, Rule, hoeffding_bentkus
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


def naive_shares(queries, needed, value):
    names = sorted(set(queries))
    return [
        np.mean([need > value for q, need in zip(queries, needed, strict=True) if q == name])
        for name in names
    ]


def naive_solution(queries, cosines, needed, rule, similarities):
    """The smallest candidate λ with which the rule holds above each similarity, by trying all."""
    for candidate in [-math.inf, *sorted(needed)]:
        holds = []
        for similarity in similarities:
            above = [i for i, cosine in enumerate(cosines) if cosine >= similarity - 1e-6]
            own = [queries[i] for i in above]
            shares = naive_shares(own, [needed[i] for i in above], candidate)
            holds.append(above and bool(rule.holds(len(shares), sum(shares))))
        if all(holds):
            return candidate
    return math.inf


def test_solution_by_hand():
    """Of 19 queries with one match each, 10 % allow (19·R + 1)/20 ≤ 0.1: one miss."""
    rows = table(range(19), -np.arange(19.0))
    assert rows.solve(np.arange(19.0), Rule("expected", 0.1).holds) == 17.0


@settings(deadline=None)
@given(
    seed=seeds,
    n_rows=st.integers(1, 60),
    n_queries=st.integers(1, 40),
    rate=st.sampled_from([0.02, 0.05, 0.2, 0.6]),
    promise=st.sampled_from(["expected", "high_probability"]),
    since=st.sampled_from([None, 0.6, 0.8]),
)
def test_solution_equals_its_twin(seed, n_rows, n_queries, rate, promise, since):
    rng = np.random.default_rng(seed)
    queries, needed = rng.integers(n_queries, size=n_rows), rng.integers(12, size=n_rows) * 1.0
    cosines = np.sort(rng.choice(np.linspace(0.5, 1, 500), n_rows, replace=False))[::-1]
    rule = Rule(promise, rate, 0.8)
    rows = table(queries, -needed, cosines)
    inside = [c for c in cosines if since is not None and c < since]
    tops = [] if since is None or not (cosines >= since).any() else [since]
    similarities = [cosines.min()] if since is None else [*inside, *tops]
    if not similarities:  # Every row is above: only all of them are a set of the cell.
        similarities = [cosines.min()]
    expected = naive_solution(queries, cosines, needed, rule, similarities)
    assert rows.solve(needed, rule.holds, since) == expected
    if math.isfinite(expected):
        assert rows.holds(needed, expected, rule.holds, since)
        below = needed[needed < expected]
        assert not rows.holds(needed, below.max(initial=-math.inf), rule.holds, since)


def test_too_few_queries_solve_to_infinity():
    for rule, fewest in (
        (Rule("expected", 0.01), 99),
        (Rule("high_probability", 0.01, 0.95), 299),
    ):
        assert rule.queries_needed == fewest
        zeros = np.zeros(fewest)
        assert table(range(fewest), zeros).solve(zeros, rule.holds) == 0.0
        assert table(range(fewest - 1), zeros[1:]).solve(zeros[1:], rule.holds) == math.inf


def test_conformal_risk_is_held_on_average():
    """The mean miss of fresh queries is at most ε, and not much less."""
    rng = np.random.default_rng(1)
    missed = []
    for _ in range(400):
        needed = rng.standard_normal(300)
        value = table(range(300), -needed).solve(needed, Rule("expected", 0.05).holds)
        missed.append(np.mean(rng.standard_normal(500) > value))
    # Seen: 0.0481 ± 0.0007; the law says 15/301 = 0.0498 at most.
    assert np.mean(missed) == pytest.approx(0.0498, abs=4 * np.std(missed) / 20)


def test_high_probability_fails_for_few_draws():
    """Fresh queries miss more than ε after at most 5 % of the calibrations, and after some."""
    rng = np.random.default_rng(2)
    rule = Rule("high_probability", 0.05, 0.95)
    above = []
    for _ in range(1000):
        needed = rng.standard_normal(400)
        value = table(range(400), -needed).solve(needed, rule.holds)
        above.append(special.ndtr(-value) > 0.05)
    error = np.sqrt(0.05 * 0.95 / len(above))
    assert np.mean(above) <= 0.05 + 4 * error
    careless = Rule("expected", 0.05)
    value = [table(range(400), -n).solve(n, careless.holds) for n in rng.standard_normal((50, 400))]
    assert np.mean(special.ndtr(-np.array(value)) > 0.05) > 0.2


@settings(deadline=None)
@given(n=st.integers(1, 400), missed=st.integers(0, 40), rate=st.floats(0.01, 0.5))
def test_hoeffding_bentkus_is_the_smaller_of_two_known_bounds(n, missed, rate):
    missed = min(missed, n)
    share = min(missed / n, rate)
    first = 0.0 if share == 0 else share * math.log(share / rate)
    second = (1 - share) * math.log((1 - share) / (1 - rate))
    tail = sum(math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(missed + 1))
    expected = min(math.exp(-n * (first + second)), math.e * tail)
    assert float(hoeffding_bentkus(n, missed, rate)) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(n=st.integers(1, 2000), share=st.floats(0, 1), confidence=st.floats(0.5, 0.99))
def test_bound_is_the_least_rate_that_holds(n, share, confidence):
    missed = share * n
    for rule in (Rule("expected", 0.1), Rule("high_probability", 0.1, confidence)):
        bound = rule.bound(n, missed)
        looser = Rule(rule.promise, min(bound + 1e-6, 1 - 1e-9), confidence)
        assert bool(looser.holds(n, missed)) or bound >= 1 - 1e-6
        assert bound >= share - 1e-9


def test_merged_tables_are_ranked_together():
    left, right = table([0, 1], [1.0, 2.0], [0.9, 0.8]), table([0, 0], [3.0, 4.0], [0.95, 0.7])
    both = CalibrationTable.merged([left, right])
    assert both.queries.tolist() == [0, 0, 0, 1]
    assert both.cosines.tolist() == [0.95, 0.9, 0.7, 0.8]
    assert both.ranks.tolist() == [0, 1, 2, 0]
    assert both.scores[:, 0].tolist() == [3.0, 1.0, 4.0, 2.0]


def test_columns_of_different_length_are_refused():
    with pytest.raises(InvalidValueError, match="must be of one length. Got .*'keys': 2"):
        replace(table([0, 0, 1], np.zeros(3)), keys=np.arange(2))


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
    assert rows.n_queries == 2
    assert rows.weights.tolist() == [0.5, 0.5, 1.0]


def test_a_row_counts_for_the_matches_it_stands_for():
    rows = replace(table([0, 0, 1], np.zeros(3)), copies=np.array([1, 3, 5], dtype=np.float32))
    assert rows.weights.tolist() == [0.25, 0.75, 1.0]


def test_quantile_counts_queries_alike():
    rows = table([0, 0, 1], np.zeros(3))
    values = np.array([5.0, 1.0, 3.0])
    assert rows.quantiles(values, np.array([0.2, 0.4, 1.0])).tolist() == [5.0, 3.0, 1.0]


@given(seed=seeds, n_rows=st.integers(1, 3000), n_values=st.sampled_from([1, 3, 50, 10**6]))
def test_quantiles_of_the_largest_are_those_of_all(seed, n_rows, n_values):
    rng = np.random.default_rng(seed)
    made = table(rng.integers(n_rows // 3 + 1, size=n_rows), np.zeros(n_rows))
    values = rng.integers(n_values, size=n_rows).astype(np.float64)
    values[rng.random(n_rows) < 0.01] = np.inf
    shares = np.sort(rng.random(4) ** rng.integers(1, 12))
    order = np.argsort(-values, kind="stable")
    exceeding = np.cumsum(made.weights[order]) / made.weights.sum()
    last = np.minimum(np.searchsorted(exceeding, shares), n_rows - 1)
    assert made.quantiles(values, shares).tolist() == values[order[last]].tolist()


@given(seed=seeds, n_rows=st.integers(1, 300), narrow=st.booleans())
def test_rows_fall_by_cosine_and_equal_ones_stay_in_order(seed, n_rows, narrow):
    rng = np.random.default_rng(seed)
    cosines = np.round(rng.uniform(-1, 1, n_rows), int(rng.integers(1, 9)))
    cosines[rng.random(n_rows) < 0.1] = -0.0
    cosines = cosines.astype(np.float32).astype(np.float64) if narrow else cosines
    made = replace(table(np.arange(n_rows), np.zeros(n_rows)), cosines=cosines)
    assert made.by_cosine.queries.tolist() == np.argsort(-cosines, kind="stable").tolist()


def test_rows_just_below_are_those_that_do_not_match_yet():
    cosines = np.array([0.65, 0.72, 0.6, 0.7, 0.599, 0.8])
    made = replace(table(np.arange(6), np.zeros(6)), cosines=cosines)
    assert made.just_below(0.7, 0.1).queries.tolist() == [0, 2]
