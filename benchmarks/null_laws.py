"""Whether p-values are what they say: fitted on half of the random pairs, counted on the others."""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np

from benchmarks.guarantee_sets import REAL, judged_set
from benchmarks.measure import print_table
from memvec.guarantee import NullLaw, uniform_tail
from memvec.kernels import canonical_score_pairs
from memvec.types import Float32Array, Float64Array

N_PAIRS = 200_000
# Levels at which p-values are counted.
LEVELS = (0.1, 0.01, 0.001, 0.0002)


def random_cosines(vectors: Float32Array, n_pairs: int, seed: int = 4) -> Float32Array:
    """Return the cosines of random pairs of distinct rows."""
    rng = np.random.default_rng(seed)
    left = rng.integers(len(vectors), size=n_pairs)
    right = (left + rng.integers(1, len(vectors), size=n_pairs)) % len(vectors)
    return canonical_score_pairs(vectors, vectors, left, right).astype(np.float32)


def excess(p_values: Float64Array, levels: Sequence[float]) -> Float64Array:
    """Return how often p-values are at or below each level, over the level."""
    return np.array([(p_values <= level).mean() / level for level in levels])


def run(names: Sequence[str], data: str | None) -> None:
    """Print, for each set, how often p-values are small against what they say."""
    rows = []
    for name in names:
        if name in REAL and data is None:
            click.echo(f"\n{name}: left out, since no folder of data is named.")
            continue
        judged = judged_set(name, data, n_queries=2000)
        cosines = random_cosines(judged.vectors, N_PAIRS)
        law, others = NullLaw.of_pairs(cosines[::2]), cosines[1::2]
        beta = excess(uniform_tail(others.astype(np.float64), law.dimension), LEVELS)
        own = excess(law.p_values(others), LEVELS)
        cells = [f"{o:.2f} / {b:.2f}" for o, b in zip(own, beta, strict=True)]
        used = "Beta" if law.is_uniform else "pairs"
        rows.append([judged.title, f"{law.dimension:.0f}", used, *cells])
    print_table(
        f"p-values of {N_PAIRS // 2:,} pairs, fitted on as many others",
        ["data", "effective dimension", "law used", *(f"p ≤ {level:g}" for level in LEVELS)],
        rows,
        "Pairs at or below each level, over what the level says: by the law used / by the Beta "
        "law. Above 1, p-values are too small.",
    )
