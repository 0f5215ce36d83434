"""Hypothesis strategies shared by the tests."""

import numpy as np
from hypothesis import strategies as st

import naive
from memvec import IndexConfig

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


one_level = st.builds(
    IndexConfig,
    construction=st.sampled_from(["auto", "pinv", "sum", "ridge"]),
    normalised=st.booleans(),
    assignment=st.sampled_from(["auto", "kmeans", "random"]),
    kmeans_rule=st.sampled_from(["sum", "sum+norm", "pinv", "pinv+norm"]),
    unit_size=st.one_of(st.just("auto"), st.integers(1, 30)),
    batch_size=st.one_of(st.none(), st.integers(1, 30)),
    iterations=st.integers(1, 4),
    units_per_vector=st.sampled_from(["auto", 1]),
    codes=st.sampled_from(["auto", "none", "sign", "estimate", "balanced"]),
    symmetric=st.booleans(),
    rotation=st.sampled_from(["random", "none"]),
    unit_words=st.sampled_from(["auto", 1, 3]),
    member_words=st.sampled_from(["auto", 1, 2]),
    member_bits=st.sampled_from(["auto", 1]),
    pca_dim=st.sampled_from([None, None, 5]),
    center=st.booleans(),
    whiten=st.booleans(),
    reserve=st.sampled_from(["auto", 0, 7]),
    seed=st.integers(0, 5),
)
two_levels = st.builds(
    IndexConfig,
    levels=st.just(2),
    group_size=st.one_of(st.just("auto"), st.integers(1, 40)),
    unit_size=st.one_of(st.just("auto"), st.integers(1, 12)),
    codes=st.sampled_from(["auto", "sign", "estimate", "balanced"]),
    member_bits=st.sampled_from(["auto", 1, 3]),
    reserve=st.sampled_from([0, 7]),
    iterations=st.integers(1, 3),
    units_per_vector=st.sampled_from(["auto", 1]),
)
two_homes = st.builds(
    IndexConfig,
    units_per_vector=st.just(2),
    levels=st.sampled_from([1, 2]),
    group_size=st.one_of(st.just("auto"), st.integers(1, 40)),
    unit_size=st.one_of(st.just("auto"), st.integers(1, 20)),
    codes=st.sampled_from(["auto", "sign", "estimate", "balanced"]),
    member_bits=st.sampled_from(["auto", 1, 4, 7]),
    symmetric=st.booleans(),
    rotation=st.sampled_from(["random", "none"]),
    pca_dim=st.sampled_from([None, None, 5]),
    center=st.booleans(),
    reserve=st.sampled_from(["auto", 0, 7]),
    iterations=st.integers(1, 3),
    seed=st.integers(0, 5),
)
configs = st.one_of(one_level, two_levels, two_homes)


def cloud(seed, n=60, dim=12, near=0.35):
    """Rows around the same few centres for every seed, so that clouds match each other."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((5, dim))
    return naive.unit_rows(centres[rng.integers(5, size=n)] + near * rng.standard_normal((n, dim)))
