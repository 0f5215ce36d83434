"""The slack that pairs need, told from what the stages see."""

import numpy as np

from memvec.guarantee import NeededSlack
from memvec.guarantee._family import ThresholdFamily


def test_pairs_that_no_stage_tests_need_nothing_known():
    """Matches that wait are in no unit: nobody knows how many stages there are."""
    knots = np.array([[0.0, 0.0], [1.0, 2.0], [4.0, 3.0]])
    family = ThresholdFamily(np.full(2, 0.5), knots, np.full(2, np.inf))
    unseen = np.full((4, 1), np.nan, dtype=np.float32)
    needed = NeededSlack(0.7, 0.7, family, 10.0).of_pairs(unseen, unseen)
    assert needed.shape == (4,)
    assert np.isnan(needed).all()
