import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation import (
    average_precisions,
    four_recall_at_4,
    mean_average_precision,
    recall_at_k,
)


def test_trapezoid_by_hand():
    # Relevant at ranks 1 and 3 of 4: (1 + 1)/2/2 + (1/2 + 2/3)/2/2.
    assert mean_average_precision([[5, 8, 6, 9]], [[5, 6]]) == pytest.approx(0.5 + 7 / 24)


def test_plain_by_hand():
    # Precision 1 at rank 1 and 2/3 at rank 3.
    assert mean_average_precision([[5, 8, 6]], [[5, 6]], method="plain") == pytest.approx(5 / 6)


def test_holidays_leaves_the_query_out():
    with_query = mean_average_precision([[0, 5, 8, 6]], [[0, 5, 6]], queries=[0])
    assert with_query == mean_average_precision([[5, 8, 6]], [[5, 6]])


def test_oxford_leaves_junk_out():
    with_junk = mean_average_precision([[7, 5, 1, 8, 6]], [[5, 6]], junk=[[7, 1]])
    assert with_junk == mean_average_precision([[5, 8, 6]], [[5, 6]])


def test_perfect_ranking_has_precision_one_and_empty_one_zero():
    for method in ("trapezoid", "plain"):
        ap = average_precisions([[3, 1, 2], []], [[1, 3], [1]], method=method)
        assert ap.tolist() == [1.0, 0.0]


def test_missing_relevant_ids_and_padding_add_nothing():
    assert mean_average_precision([[3, -1, -1]], [{3, 4}], method="plain") == 0.5


@settings(deadline=None)
@given(
    ranking=st.permutations(range(10)),
    depth=st.integers(0, 10),
    labels=st.lists(st.sampled_from("rjw"), min_size=10, max_size=10),
    query=st.integers(0, 9),
)
def test_average_precision_equals_naive(ranking, depth, labels, query):
    relevant = {i for i, label in enumerate(labels) if label == "r"}
    junk = {i for i, label in enumerate(labels) if label == "j"}
    assume(relevant - {query})
    for method, twin in (
        ("trapezoid", naive.trapezoid_average_precision),
        ("plain", naive.plain_average_precision),
    ):
        [ap] = average_precisions(
            [ranking[:depth]], [relevant], junk=[junk], queries=[query], method=method
        )
        expected = twin(ranking[:depth], relevant - {query}, junk | {query})
        assert ap == pytest.approx(expected, abs=1e-12)


def test_mean_is_over_queries():
    both = [[1, 2], [2, 1]]
    assert mean_average_precision(both, [[1], [1]]) == pytest.approx((1 + 0.25) / 2)
    assert average_precisions(np.array(both), [[1], [1]]).tolist() == [1.0, 0.25]


def test_recall_by_hand():
    assert recall_at_k([[5, 3, 8], [1, 2, 4]], [[3, 8], [4]], k=2) == 0.25
    assert recall_at_k([[5, 3, 8], [1, 2, 4]], [[3, 8], [4]], k=3) == 1.0
    assert recall_at_k([[5], [-1]], [[5, 6], [4]], k=3) == 0.25


def test_four_recall_by_hand():
    objects = [[0, 1, 2, 3]] * 2 + [[4, 5, 6, 7]]
    assert four_recall_at_4([[0, 1, 2, 3], [1, 9, 8, 0, 2], [4]], objects) == pytest.approx(7 / 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: mean_average_precision([], []),
            InvalidValueError,
            "'rankings' .* Got none",
        ),
        (
            lambda: recall_at_k([[1]], [[1], [2]], 1),
            InvalidValueError,
            "'relevant' .* 1 rows",
        ),
        (
            lambda: recall_at_k([[1]], [[]], 1),
            InvalidValueError,
            "Got none for query 0",
        ),
        (
            lambda: recall_at_k([[1]], [[-1]], 1),
            InvalidValueError,
            "Got -1 for query 0",
        ),
        (lambda: recall_at_k([[1]], [[1]], 0), InvalidValueError, "'k' .* >= 1. Got 0 instead"),
        (lambda: recall_at_k(3, [[1]], 1), InvalidTypeError, "'rankings' .* Got 3 instead"),
        (lambda: recall_at_k("12", [[1]], 1), InvalidTypeError, "'rankings' .* Got '12' instead"),
        (lambda: recall_at_k([[0.5]], [[1]], 1), InvalidTypeError, "'rankings' .* dtype float64"),
        (lambda: recall_at_k([[1, [2]]], [[1]], 1), InvalidTypeError, r"Got \[1, \[2\]\] instead"),
        (lambda: recall_at_k([1], [[1]], 1), InvalidTypeError, r"'rankings' .* shape \(\)"),
        (lambda: recall_at_k([[1, 1]], [[1]], 1), InvalidValueError, "Got id 1 twice for query 0"),
        (lambda: four_recall_at_4([[1]], [[1]]), InvalidValueError, "4 ids .* Got 1 for query 0"),
        (
            lambda: mean_average_precision([[1]], [[1]], queries=[1]),
            InvalidValueError,
            "'relevant' .* besides the query itself. Got none for query 0",
        ),
        (
            lambda: mean_average_precision([[1]], [[1]], queries=[1, 2]),
            InvalidValueError,
            "'queries' .* 1 rows, one per query. Got 2",
        ),
        (
            lambda: mean_average_precision([[1]], [[1]], junk=[[2, 1]]),
            InvalidValueError,
            "'junk' .* free of relevant ids. Got id 1 in both for query 0",
        ),
        (
            lambda: average_precisions([[1]], [[1]], method="voc"),
            InvalidValueError,
            "'method' parameter of average_precisions must be one of 'trapezoid', 'plain'",
        ),
    ],
)
def test_bad_input_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
