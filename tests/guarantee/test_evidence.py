"""What is gathered for a promise to rest on."""

import numpy as np
import pytest

from memvec.guarantee import _evidence


def test_thinned_matches_estimate_without_bias():
    """Over many draws, the share missed is that of all matches, at each hundredth."""
    rng = np.random.default_rng(5)
    cosines = np.sort(0.6 + 0.4 * rng.beta(1, 6, size=9000)).astype(np.float32)[::-1]
    # What a search misses: more, the nearer the limit.
    missed = rng.random(len(cosines)) < np.clip(0.9 - cosines, 0, 1)
    rows = np.arange(len(cosines))
    draws = [_evidence._thinned(rows, cosines, np.random.default_rng(seed)) for seed in range(400)]
    for similarity in (0.6, 0.63, 0.7, 0.8):
        true = missed[cosines >= similarity - 1e-6]
        seen = []
        for drawn in draws:
            above = drawn.cosines >= similarity - 1e-6
            copies = drawn.copies[above]
            assert copies.sum() == pytest.approx(len(true), rel=1e-6)
            seen.append(float(copies @ missed[drawn.rows[above]]) / float(copies.sum()))
        error = np.std(seen) / np.sqrt(len(seen))
        assert np.mean(seen) == pytest.approx(true.mean(), abs=4 * error + 1e-9)
    assert all(len(drawn.rows) <= 500 for drawn in draws)
