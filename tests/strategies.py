"""Hypothesis strategies shared by the tests."""

import numpy as np
from hypothesis import strategies as st

seeds = st.integers(min_value=0, max_value=2**32 - 1)


@st.composite
def unit_matrices(draw, max_rows=12, max_dim=20):
    """Random float32 unit rows of any shape, some repeated or combined from others."""
    rng = np.random.default_rng(draw(seeds))
    n, dim = draw(st.integers(1, max_rows)), draw(st.integers(1, max_dim))
    rows = rng.standard_normal((n, dim))
    for target in range(1, n):
        kind = draw(st.sampled_from(["fresh", "fresh", "fresh", "copy", "combination"]))
        if kind == "copy":
            rows[target] = rows[rng.integers(target)]
        elif kind == "combination" and target > 1:
            first, second = rng.choice(target, 2, replace=False)
            rows[target] = rows[first] - 2 * rows[second]
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(norms > 0, norms, 1)).astype(np.float32) + (norms == 0)
