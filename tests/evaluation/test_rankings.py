import numpy as np
import pytest

from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.evaluation import disagreeing_rankings, rankings_agree

SCORES = [[0.9, 0.9, 0.5]]


def agree(ids, other_ids, scores=SCORES, other_scores=SCORES, **options):
    return rankings_agree(ids, scores, other_ids, other_scores, **options)


def test_equal_rankings_agree():
    assert agree([[4, 2, 7]], [[4, 2, 7]])


def test_ties_may_be_swapped():
    assert agree([[4, 2, 7]], [[2, 4, 7]])


def test_ties_at_the_end_may_be_other_ids():
    assert agree([[4, 2, 7]], [[4, 2, 8]])


def test_other_ids_before_the_end_disagree():
    assert not agree([[4, 2, 7]], [[4, 3, 7]])
    assert not agree([[4, 2, 7]], [[4, 3, 2]])


def test_swap_of_different_scores_disagrees():
    assert not agree([[4, 2, 7]], [[4, 7, 2]])


def test_other_scores_disagree_beyond_the_tolerance():
    other = [[0.9, 0.9, 0.5 + 2e-6]]
    assert not agree([[4, 2, 7]], [[4, 2, 7]], other_scores=other)
    assert agree([[4, 2, 7]], [[4, 2, 7]], other_scores=other, tolerance=1e-5)


def test_missing_answers_must_be_missing_in_both():
    scores = [[0.9, 0.8, -np.inf]]
    assert agree([[4, 2, -1]], [[4, 2, -1]], scores, [[0.9, 0.8, np.nan]])
    assert not agree([[4, 2, -1]], [[4, 2, 7]], scores, [[0.9, 0.8, 0.7]])


def test_rankings_without_any_answer_agree():
    assert agree([[-1, -1]], [[-1, -1]], [[0, 0]], [[0, 0]])
    assert agree(np.empty((0, 3), int), np.empty((0, 3), int), np.empty((0, 3)), np.empty((0, 3)))


def test_disagreeing_queries_are_named():
    ids = np.array([[0, 1], [0, 1], [0, 1]])
    scores = np.array([[0.9, 0.8], [0.8, 0.8], [0.9, 0.8]])
    found = disagreeing_rankings(ids, scores, [[1, 0], [1, 0], [0, 1]], scores)
    assert found.tolist() == [0]


def test_ties_shuffled_at_random_agree():
    rng = np.random.default_rng(5)
    scores = np.sort(rng.integers(0, 6, size=40) / 10)[::-1]
    for _ in range(50):
        order = np.lexsort((rng.random(40), -scores))[:15]
        assert agree([np.arange(15)], [order], [scores[:15]], [scores[order]])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([[1, 1]], [[1, 2]]), InvalidValueError, "'ids' .* Got id 1 twice for query 0"),
        (([1, 2], [[1, 2]]), InvalidTypeError, r"'ids' .* two-dimensional .* Got shape \(2,\)"),
        (([[1, 2]], [[1.0, 2.0]]), InvalidTypeError, "'other_ids' .* dtype float64"),
        (([[1, 2]], [[1]]), InvalidValueError, r"'other_ids' .* of shape \(1, 2\). Got \(1, 1\)"),
    ],
)
def test_bad_ids_are_refused(arguments, error, text):
    ids, other_ids = arguments
    with pytest.raises(error, match=text):
        rankings_agree(ids, [[0.9, 0.8]], other_ids, [[0.9, 0.8]])


@pytest.mark.parametrize(
    ("scores", "error", "text"),
    [
        ([["a", "b"]], InvalidTypeError, "'scores' .* an array of real numbers. Got dtype <U1"),
        ([[0.9]], InvalidValueError, r"'scores' .* of its ids, \(1, 2\). Got \(1, 1\)"),
        ([[0.9, np.nan]], InvalidValueError, "'scores' .* finite. Got NaN or infinity in row 0"),
        ([[0.8, 0.9]], InvalidValueError, "'scores' .* falling order .* Got a rising row 0"),
    ],
)
def test_bad_scores_are_refused(scores, error, text):
    with pytest.raises(error, match=text):
        disagreeing_rankings([[1, 2]], scores, [[1, 2]], [[0.9, 0.8]])


def test_negative_tolerance_is_refused():
    with pytest.raises(InvalidValueError, match=r"'tolerance' parameter of rankings_agree"):
        agree([[4, 2, 7]], [[4, 2, 7]], tolerance=-1)
