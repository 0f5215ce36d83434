"""Vectors in clusters, for tests that need matches."""

import numpy as np

import naive


def around(centres, noise, seed, n):
    """Return `n` unit rows, each a centre drawn at random and some noise."""
    rng = np.random.default_rng(seed)
    noises = noise * rng.standard_normal((n, centres.shape[1]))
    return naive.unit_rows(centres[rng.integers(len(centres), size=n)] + noises)
