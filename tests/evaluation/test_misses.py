import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation import count_misses, miss_rate, pair_miss
from memvec.matches import Matches

ids = st.lists(st.integers(0, 12), unique=True, max_size=8)


class Flat:
    """The smallest thing that has the shape of hits."""

    def __init__(self, offsets, ids):
        self.offsets, self.ids = offsets, ids


def test_rates_by_hand():
    truth = Matches.from_rows([[4], [0, 1, 2, 3, 5, 6, 7, 8, 9], [], [1, 2]])
    answer = Matches.from_rows([[], [9, 8, 7, 6, 5, 3, 2, 1, 0], [3], [2, 5]])
    misses = count_misses(truth, answer)
    assert misses.shares.tolist() == [1.0, 0.0, 0.5]
    assert misses.miss_rate == miss_rate(truth, answer) == 0.5
    assert misses.pair_miss == pair_miss(truth, answer) == 2 / 12
    assert (misses.n_queries, misses.n_queries_without_matches) == (4, 1)
    assert misses.extra.tolist() == [0, 0, 1, 1]


def test_errors_by_hand():
    # Shares 1, 0, 0.5: deviation 0.5. Residuals 1 - 1/6, -9/6, 1 - 2/6.
    misses = count_misses(
        Matches.from_rows([[4], list(range(9)), [1, 2]]),
        Matches.from_rows([[], list(range(9)), [2]]),
    )
    assert misses.standard_error == pytest.approx(0.5 / math.sqrt(3))
    residuals = 1.5 * ((5 / 6) ** 2 + 1.5**2 + (2 / 3) ** 2)
    assert misses.pair_standard_error == pytest.approx(math.sqrt(residuals) / 12)


def test_repr_gives_both_rates():
    text = repr(count_misses(Matches.from_rows([[1, 2], [3]]), Matches.from_rows([[2], [3]])))
    assert text == (
        "Misses(miss_rate=0.25, standard_error=0.25, pair_miss=0.3333, n_missed=1, n_pairs=3, "
        "n_queries=2, n_queries_without_matches=0)"
    )


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_nothing_to_miss_gives_zero_and_says_so(rows):
    misses = count_misses(Matches.from_rows(rows), Matches.from_rows(rows))
    assert (misses.miss_rate, misses.pair_miss, misses.n_pairs) == (0.0, 0.0, 0)
    assert (misses.standard_error, misses.pair_standard_error) == (0.5, 0.5)
    assert misses.interval() == (0.0, 1.0)
    assert misses.n_queries_without_matches == len(rows)


def test_interval_is_wilsons():
    # 10 of 100 missed, z = 1.959964: the textbook's interval is 0.0552 to 0.1744.
    truth = Matches.from_rows([[1]] * 100)
    low, high = count_misses(truth, Matches.from_rows([[]] * 10 + [[1]] * 90)).interval(0.95)
    assert (low, high) == pytest.approx((0.05523, 0.17437), abs=1e-5)


def test_interval_covers_and_standard_error_is_right():
    # Four matches a query, each found with probability 0.95 for all or 0.5 in one query of ten.
    rng = np.random.default_rng(4)
    truth = Matches.from_rows([[0, 1, 2, 3]] * 200)
    expected = 0.9 * 0.05 + 0.1 * 0.5
    rates, errors, covered = [], [], []
    for _ in range(300):
        chance = np.where(rng.random(200) < 0.1, 0.5, 0.95)
        found = rng.random((200, 4)) < chance[:, None]
        misses = count_misses(truth, Matches.from_rows([np.flatnonzero(row) for row in found]))
        low, high = misses.interval(0.9)
        covered.append(low <= expected <= high)
        rates.append(misses.miss_rate)
        errors.append(misses.standard_error)
        assert misses.pair_standard_error == pytest.approx(misses.standard_error)
    assert np.mean(covered) >= 0.9  # 0.99 seen: the interval is wide on purpose
    # The spread of 300 rates is known to 1/sqrt(600) = 4 %; five of them. 1.04 seen.
    assert np.mean(errors) == pytest.approx(np.std(rates), rel=0.2)
    # 1.7 standard errors seen.
    assert abs(np.mean(rates) - expected) < 5 * np.std(rates) / math.sqrt(300)


@settings(deadline=None)
@given(st.lists(st.tuples(ids, ids), max_size=6))
def test_rates_equal_naive(rows):
    truth, answer = [row[0] for row in rows], [row[1] for row in rows]
    misses = count_misses(Matches.from_rows(truth), Matches.from_rows(answer))
    assert (misses.miss_rate, misses.pair_miss) == pytest.approx(naive.misses(truth, answer))
    assert misses.extra.tolist() == [len(set(b) - set(a)) for a, b in rows]
    low, high = misses.interval()
    assert 0 <= low <= misses.miss_rate <= high <= 1


def test_ids_may_be_any_int64():
    far = 2**63 - 1
    truth = Matches.from_rows([[far, -5], [far]])
    assert count_misses(truth, Matches.from_rows([[far], [-5]])).missed.tolist() == [1, 1]


def test_anything_with_offsets_and_ids_is_read():
    assert miss_rate(Flat([0, 2], [5, 6]), Flat([0, 1], [6])) == 0.5
    assert miss_rate(Flat([0, 0], []), Flat([0, 0], [])) == 0.0


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        ([[1]], InvalidTypeError, "'answer' .* an object with offsets and ids. Got list instead"),
        (
            Flat([0, 1], [1.5]),
            InvalidTypeError,
            r"Got ids of shape \(1,\) and dtype float",
        ),
        (Flat([[0, 1]], [1]), InvalidTypeError, r"'answer' .* Got offsets of shape \(1, 2\)"),
        (Flat([1, 1], [1]), InvalidValueError, r"rise from 0 .* Got offsets \[1, 1\] for 1 ids"),
        (Flat([0, 2], [1]), InvalidValueError, r"Got offsets \[0, 2\] for 1 ids instead"),
        (Flat([0, 2, 1], [1]), InvalidValueError, r"Got offsets \[0, 2, 1\] for 1 ids instead"),
        (Flat([], []), InvalidValueError, r"Got offsets \[\] for 0 ids instead"),
        (Flat([0, 1, 1], [1]), InvalidValueError, "rows for the 1 queries of the truth. Got 2"),
        (
            Flat([0, 2], [7, 7]),
            InvalidValueError,
            "repeated ids. Got id 7 twice for query 0",
        ),
    ],
)
def test_malformed_answers_are_refused(answer, error, text):
    with pytest.raises(error, match=text):
        count_misses(Matches.from_rows([[1]]), answer)


def test_confidence_outside_is_refused():
    misses = count_misses(Matches.from_rows([[1]]), Matches.from_rows([[1]]))
    with pytest.raises(InvalidValueError, match=r"'confidence' parameter of Misses.interval"):
        misses.interval(1.0)


def test_ranges_iterate_index_and_count():
    found = Matches.from_rows([[4, 1], [], [7]], scores=[[0.9, 0.8], [], [0.7]])
    assert len(found) == 3
    assert found.counts.tolist() == [2, 0, 1]
    assert found[-1].ids.tolist() == [7]
    assert [row.scores.tolist() for row in found][1] == []
    assert repr(found) == "Matches(n_queries=3, n_matches=3)"


def test_ranges_refuse_scores_that_do_not_fit():
    with pytest.raises(InvalidValueError, match=r"'scores' .* \[2\]. Got lengths \[1\] instead"):
        Matches.from_rows([[4, 1]], scores=[[0.9]])
