"""The priority of an item: a fixed number in [0, 1) that looks random and is made of its key.

The living items of lowest priority are a uniform sample of all living ones, whatever was added or
deleted, and most of yesterday's sample is today's (a bottom-k sketch: Cohen and Kaplan,
https://doi.org/10.1145/1281100.1281133). So segments keep the rows of lowest priority out of their
units: these are what a sample can be drawn of.
"""

from __future__ import annotations

import numpy as np

from memvec.guarantee import RESERVE_SHARE, largest_reserve
from memvec.index import IndexConfig
from memvec.types import Float64Array, IntArray

# SplitMix64 (Steele, Lea and Flood, https://doi.org/10.1145/2660193.2660195): the increment of its
# state, and its finaliser.
_GAMMA = 0x9E3779B97F4A7C15
_FIRST_FACTOR, _SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# A float64 holds so many bits.
_BITS = 53


def priorities(keys: IntArray, seed: int) -> Float64Array:
    """Return the priority of each key: output key + 1 of SplitMix64, started at the mixed seed."""
    start = _mixed(np.array([(seed + _GAMMA) % 2**64], dtype=np.uint64))
    states = start + np.uint64(_GAMMA) * (np.asarray(keys).astype(np.uint64) + np.uint64(1))
    return np.asarray((_mixed(states) >> np.uint64(64 - _BITS)) * 2.0**-_BITS)


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_FIRST_FACTOR)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_SECOND_FACTOR)
    return np.asarray(values ^ (values >> np.uint64(31)))


def rows_to_hold_out(keys: IntArray, dim: int, config: IndexConfig) -> IntArray:
    """Return the rows of a segment that its units need not see, by rising priority.

    Those below a fixed priority, so that segments of every size keep their share.
    """
    order = priorities(keys, config.seed)
    if config.reserve == "auto":
        share = int(np.count_nonzero(order < RESERVE_SHARE))
        size = min(share, largest_reserve(len(keys), dim))
    else:
        size = config.reserve
    return np.argsort(order, kind="stable")[:size]
