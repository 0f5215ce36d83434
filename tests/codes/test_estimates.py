"""The bias of the estimate, and its error, stay within what is stated."""

import numpy as np
import pytest
from scipy import special

import naive
from memvec.codes import CodeSpace


@pytest.mark.parametrize("dim", [100, 384])
@pytest.mark.parametrize("similarity", [0.0, 0.6, 0.9])
@pytest.mark.parametrize("norm", [0.3, 1.0, 4.0])
def test_estimates_stay_within_their_bound(dim, similarity, norm):
    rng = np.random.default_rng(int(10 * similarity) + dim)
    errors, deviations = [], []
    for seed in range(60):
        query = naive.unit_rows(rng.standard_normal((1, dim)))[0]
        noise = rng.standard_normal((50, dim))
        noise -= (noise @ query)[:, np.newaxis] * query
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        rows = norm * (similarity * query + np.sqrt(1 - similarity**2) * noise)
        rows = rows.astype(np.float32)
        space = CodeSpace.random(dim, seed=seed)
        found = space.estimate(query, space.encode(rows, prefix_words=1), (rows**2).sum(axis=1))
        errors.append(found.values - rows @ query)
        deviations.append(found.deviations)
    errors, deviations = np.array(errors), np.array(deviations)
    # Errors with one rotation depend on each other, so rotations are the draws.
    bias = errors.mean(axis=1)
    error = bias.std() / np.sqrt(len(bias))
    assert abs(bias.mean()) <= 4 * error + 0.03 * similarity * norm  # Seen: 0.025 · 0.9 at 0.9
    for z in (1.0, 2.0, 3.0):
        outside = (np.abs(errors) > z * deviations).mean(axis=1)
        allowed = 2 * special.ndtr(-z)
        assert outside.mean() <= allowed + 4 * outside.std() / np.sqrt(len(outside)) + 1e-3
