"""What stages stop whatever the thresholds: calibration knows of it."""

import numpy as np
import pytest

from memvec.guarantee._bounds import Rule
from memvec.guarantee._cascade import seen_by_stages
from memvec.guarantee._table import CalibrationTable

# Pairs of cosine 0.8 whose fine estimates are 1, 5.9 and 6.1 deviations of 0.1 below it.
DEVIATIONS = np.array([1.0, 5.9, 6.1])
COSINE = 0.8


class TwoStages:
    """A stage of thresholds alone, and one that stops what is six deviations below."""

    most_deviations = np.array([np.inf, 6.0])

    def see(self, queries, query_of, row_of):
        slopes = np.full((len(query_of), 2), 10.0, dtype=np.float32)
        scores = (10 * COSINE - DEVIATIONS[row_of])[:, np.newaxis].repeat(2, axis=1)
        return scores.astype(np.float32), slopes


class OneStage(TwoStages):
    most_deviations = np.array([np.inf, np.inf])


def seen(cascade, cosines=COSINE):
    return seen_by_stages(
        cascade, np.zeros((1, 4), np.float32), np.zeros(3, int), np.arange(3), cosines
    )


def test_match_that_a_stage_always_stops_needs_infinite_slack():
    scores, slopes = seen(TwoStages())
    needed = COSINE * slopes - scores
    assert needed[:, 0] == pytest.approx(DEVIATIONS, rel=1e-5)
    assert needed[:2, 1] == pytest.approx(DEVIATIONS[:2], rel=1e-5)
    assert needed[2, 1] == np.inf


def test_each_match_is_judged_at_its_own_cosine():
    scores, _ = seen(TwoStages(), np.array([COSINE, COSINE + 0.02, COSINE - 0.02]))
    assert np.isneginf(scores[:, 1]).tolist() == [False, True, False]


def test_thresholds_alone_decide_where_no_stage_stops_more():
    scores, _ = seen(OneStage())
    assert np.isfinite(scores).all()


def test_what_is_always_stopped_counts_as_missed():
    """One of three matches is lost at any slack: a third can be promised, less cannot."""
    scores, slopes = seen(TwoStages())
    ones = np.ones(3, dtype=np.float32)
    rows = CalibrationTable(
        np.arange(3), np.full(3, COSINE), np.zeros(3, int), np.arange(3), ones, scores, slopes
    )
    needed = rows.needed(COSINE).max(axis=1)
    # Of three queries, one in a half may be missed with one more that is missed for sure.
    assert np.isfinite(rows.solve(needed, Rule("expected", 0.51).holds))
    assert rows.solve(needed, Rule("expected", 0.4).holds) == np.inf
