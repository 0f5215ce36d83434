"""Where k-means starts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from memvec.assignment._nearest import NearestUnits
from memvec.kernels import UnitRows
from memvec.progress import Advance
from memvec.types import Float64Array, IntArray

# Rounds in which seeds are drawn: more follow the k-means++ law closer, at the same cost.
SEEDING_ROUNDS = 8
# Distances under float32 rounding are no distance: 1 − cos of equal rows.
_ROUNDING = 1e-6


def seed_units(
    vectors: UnitRows,
    n_units: int,
    rng: np.random.Generator,
    nearest: NearestUnits,
    advance: Advance,
) -> None:
    """Draw `n_units` of the vectors as seeds, far from each other, and assign all to the nearest.

    k-means++ draws each seed with probability proportional to the squared distance (here
    2 − 2cos) to the seeds before it, one at a time. Drawing them in a few rounds, as k-means||
    does (Bahmani et al. 2012), turns that into matrix products; together they cost one assignment
    step, which is not wasted: its result is the first assignment.
    """
    seeds = np.empty(n_units, dtype=np.int64)
    is_seed = np.zeros(len(vectors), dtype=bool)
    bounds = np.linspace(0, n_units, min(SEEDING_ROUNDS, n_units) + 1).astype(np.int64)
    for first, last in pairwise(bounds):
        distances = 1.0 - nearest.best.astype(np.float64) if first else np.ones(len(vectors))
        chosen = _draw(distances, is_seed, int(last - first), rng)
        seeds[first:last], is_seed[chosen] = chosen, True
        nearest.see(vectors[chosen], np.arange(first, last), advance)


def _draw(
    weights: Float64Array, taken: np.ndarray, count: int, rng: np.random.Generator
) -> IntArray:
    """Draw `count` numbers that are not taken, without repetition, in proportion to the weights.

    The largest of the keys log(u)/w are such a draw (Efraimidis and Spirakis 2006). Where too few
    weights are positive, as with many duplicates, the rest is drawn evenly from what is left.
    """
    noise = np.log(rng.random(len(weights)))
    keys = np.where(weights > _ROUNDING, noise / np.maximum(weights, _ROUNDING), noise - 1e12)
    keys[taken] = -np.inf
    return np.sort(np.argpartition(-keys, count - 1)[:count])
