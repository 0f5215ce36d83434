"""From what is asked and what the data is like to a configuration without an "auto"."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from memvec.guarantee import uniform_tail
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._flat_design import design_flat
from memvec.index._kmeans_design import (
    MEMBER_WORDS,
    SMALLEST_KMEANS_UNIT,
    TRIED_SIZE,
    Trial,
    Tries,
    design_construction,
    design_tried_units,
    leaves_units_open,
    time_of_members,
    tried_config,
    tried_time,
)
from memvec.index._member_bits import choose_member_bits
from memvec.kernels import StoredRows, UnitRows
from memvec.lazy import optimize, special
from memvec.metric import Metric
from memvec.theory import optimal_design
from memvec.types import IntArray, RowType

# Rows whose pairs tell the effective dimension, all two million of them.
_MEASURED_ROWS = 2048
# Data that fills this share of its dimensions has no common directions, but may have clusters: then
# the nearest of some thousand vectors is nearer than uniform ones are, by this much.
_FILLED = 0.5
_LOOKED_AT, _LOOKED_AMONG = 256, 4096
_NEARER = 0.1
# What is known of a query and a vector in the signs of a rotated one: √(2/π) for the code, and
# about 0.98 for a query of four levels (√(2/π) for a binary one).
_CODE_SHARE = math.sqrt(2 / math.pi)
_QUERY_SHARE = 0.978
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_WORDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# Those tried for random units: the lower the similarity, the more pay. One would do at 0.9, but let
# many through where the same index is asked at a lower similarity.
_FEW_WORDS = (2, MEMBER_WORDS)
# The shares of the misses that calibration leaves to the test of units, 0.3 to 0.7 were seen, and
# to that of the first words of members, 0.1 to 0.6.
_UNIT_MISSES, _MEMBER_MISSES = 0.6, 0.2
# On a GPU: the share of units where whole codes of members follow, what a test of a member costs in
# tests of units (seen on an H200), and the most members.
_UNIT_SHARE, _MEMBER_ON_DEVICE, _MOST_ON_DEVICE = 0.9, 280.0, 64


@dataclass(frozen=True)
class IndexDesign:
    """The configuration chosen, and what it was chosen from.

    Attributes
    ----------
    similarity, miss_rate : float
        What the index is designed for: α₀ and ε.
    n_vectors, dim : int
        The size of the data.
    effective_dim : float
        The dimension of uniform vectors with cosines as large.
    config : IndexConfig
        The configuration, with every "auto" decided.
    expected_microseconds : float or None
        The time of one query by the cost model; None where it has no law of the data.
    guarantee : {"expected", "model", "high_probability", "exact"}
        What searches promise unless they name another level.
    confidence : float
        1 − δ of "high_probability".
    similarities : tuple of float
        Those that it may be asked for.
    metric : {"cosine", "euclidean"}
        What scores are.
    dtype : {"float32", "float16", "int8"}
        What rows are stored in.
    """

    similarity: float
    miss_rate: float
    n_vectors: int
    dim: int
    effective_dim: float
    config: IndexConfig
    expected_microseconds: float | None = None
    guarantee: Literal["model", "expected", "high_probability", "exact"] = "expected"
    confidence: float = 0.95
    similarities: tuple[float, ...] = ()
    metric: Metric = "cosine"
    dtype: RowType = "float32"

    @property
    def unit_size(self) -> int:
        """Vectors a unit on average."""
        return int(self.config.unit_size)

    def __str__(self) -> str:
        made = self.config
        kind = "codes" if made.rotation == "random" else "unrotated codes"
        tests = "float32" if made.codes == "none" else f"{64 * int(made.unit_words)}-bit {kind}"
        bits = int(made.member_bits)
        fine = f", members by {bits}-bit entries" if bits > 1 else ""
        groups = f" in groups of {made.group_size}" if made.levels == 2 else ""
        homes = ", two for each vector" if made.units_per_vector == 2 else ""
        centred = "centred " if made.center is True else ""
        return (
            f"{made.assignment} units of {made.unit_size}{groups}{homes}, "
            f"{centred}{made.construction} memory vectors tested by {tests}{fine}, "
            f"for similarity {self.similarity:g} and miss rate {self.miss_rate:g}; effective "
            f"dimension {self.effective_dim:.0f} of {self.dim}"
        )


def design_index(
    rows: UnitRows,
    scored: StoredRows,
    among: IntArray,
    similarity: float,
    miss_rate: float,
    config: IndexConfig,
    costs: MachineCosts,
    trials: Tries | None,
    guarantee: str = "expected",
) -> IndexDesign:
    """Decide what the configuration leaves open; what can be tried is taken as it was seen.

    `rows` are as the tests see them, `scored` as they are stored; `among` are the rows that are not
    calibrated on.
    """
    n_vectors, dim = rows.shape
    effective, uniform = measured_uniformity(rows, config.seed)
    undecided = config.assignment == "auto" and config.codes != "none"
    if uniform and undecided and trials is not None and trials.tell:
        # Vectors with matches may be worth putting together, however many dimensions they fill.
        uniform = not _clusters_pay(config, rows.shape, similarity, miss_rate, costs, trials)
    made = config
    if made.assignment == "auto":
        # Groups, batches and second homes are of k-means: who asks for them asks for it.
        random = (
            uniform and 2 not in (made.levels, made.units_per_vector) and made.batch_size is None
        )
        made = replace(made, assignment="random" if random else "kmeans")
    if made.codes == "auto":
        made = replace(made, codes="estimate")
    time = None
    if made.codes == "none":
        made = _design_without_codes(made, n_vectors, effective, similarity, miss_rate)
    elif made.assignment == "random":
        made, time = _design_random_units(made, rows.shape, similarity, miss_rate, costs)
    else:
        made, time = design_tried_units(made, rows.shape, similarity, costs, trials)
        # An exact search skips units by their angles: those of one vector are as many as there are.
        # Each keeps a memory vector of float32, which is more than narrow rows take themselves.
        flat = None
        if guarantee != "exact" and scored.dtype == "float32":
            flat = design_flat(config, rows.shape, trials, costs, time)
        made, time = flat or (made, time)
    if made.levels == "auto":
        made = replace(made, levels=1)
    if made.units_per_vector == "auto":
        made = replace(made, units_per_vector=1)
    if made.group_size == "auto":
        made = replace(made, group_size=made.unit_size)
    if made.construction == "auto":
        made = design_construction(made)
    if made.member_bits == "auto":
        trial = _trial_of(config, made, rows.shape, trials)
        bits = choose_member_bits(scored, among, similarity, made, costs, trial)
        made = replace(made, member_bits=bits)
    return IndexDesign(similarity, miss_rate, n_vectors, dim, effective, made, time)


def _trial_of(
    config: IndexConfig, made: IndexConfig, shape: tuple[int, int], trials: Tries | None
) -> Trial | None:
    """Return what was seen of units like those made, if they were tried."""
    if trials is None or not trials.tell or not leaves_units_open(config):
        return None
    if made.assignment == "kmeans":
        words = replace(config, codes=made.codes, member_words=made.member_words)
        return trials.of(tried_config(words, shape, TRIED_SIZE))
    return trials.of(replace(made, member_bits=1)) if made.unit_size == 1 else None


def measured_uniformity(rows: UnitRows, seed: int) -> tuple[float, bool]:
    """Return the effective dimension, and whether vectors lie about like uniform ones."""
    effective = _effective_dimension(rows, seed)
    return effective, effective >= _FILLED * rows.shape[1] and not _has_clusters(
        rows, effective, seed
    )


def random_unit_size(dim: int, n_words: int, similarity: float, miss_rate: float) -> int:
    """Return the size of random units that a GPU tests fastest, by the law of balanced codes.

    A unit costs one test for its n members, by 1-bit products; a member of a unit that passes costs
    as much as 280 of these.
    """
    law = _CodeLaw(dim, similarity, miss_rate, _CODE_SHARE)
    sizes = range(1, min(_MOST_ON_DEVICE, dim // 2) + 1)
    costs = [1 / n + _MEMBER_ON_DEVICE * law.passed(n, n_words, _UNIT_SHARE) for n in sizes]
    return int(sizes[int(np.argmin(costs))])


def _clusters_pay(
    config: IndexConfig,
    shape: tuple[int, int],
    similarity: float,
    miss_rate: float,
    costs: MachineCosts,
    trials: Tries,
) -> bool:
    """Tell whether k-means units, as they were tried, take less time than random ones by their law.

    Whole codes and exact scores are left out: either way there are as many.
    """
    made = tried_config(config, shape, TRIED_SIZE)
    _, random = _design_random_units(made, shape, similarity, miss_rate, costs)
    trial, sizes = trials.of(made), (shape[1], made.n_code_words(shape[1]))
    members = time_of_members(trial, shape[0], sizes, costs)
    return tried_time(made, trial, shape, costs) - members < 1e3 * random


def _effective_dimension(rows: UnitRows, seed: int) -> float:
    """Return 1/E[cos²] of different rows; see `memvec.theory.effective_dimension`."""
    n_vectors, dim = rows.shape
    if n_vectors < 2 or dim < 2:
        return float(dim)
    drawn = np.random.default_rng([seed, 5]).permutation(n_vectors)[:_MEASURED_ROWS]
    some = rows[np.sort(drawn)]
    products = np.square(some @ some.T, dtype=np.float64)
    total = float(products.sum() - np.trace(products))
    measured = len(some) * (len(some) - 1) / max(total, 1e-30)
    return min(max(measured, 2.0), float(dim))


def _has_clusters(rows: UnitRows, effective: float, seed: int) -> bool:
    """Tell whether vectors have nearer neighbours than uniform ones of the same dimension."""
    rng = np.random.default_rng([seed, 3])
    drawn = rng.permutation(len(rows))[: _LOOKED_AT + _LOOKED_AMONG]
    some, others = rows[drawn[:_LOOKED_AT]], rows[drawn[_LOOKED_AT:]]
    if not len(others):
        return False
    nearest = float(np.median((some @ others.T).max(axis=1)))
    # The median of the largest of n cosines is exceeded by one with probability ln 2/n.
    likely = optimize.brentq(
        lambda score: float(uniform_tail(score, effective)) - math.log(2) / len(others), -1.0, 1.0
    )
    return bool(nearest > likely + _NEARER)


def _design_without_codes(
    config: IndexConfig, n_vectors: int, effective: float, similarity: float, miss_rate: float
) -> IndexConfig:
    """Take the paper's unit size of least cost for random units, and at least ten for k-means."""
    made = replace(config, unit_words=1) if config.unit_words == "auto" else config
    made = replace(made, member_words=1) if made.member_words == "auto" else made
    if made.unit_size != "auto":
        return made
    size = 1
    if effective >= 2.0:
        size = optimal_design(
            "pinv",
            dim=effective,
            similarity=similarity,
            miss_rate=miss_rate,
            max_unit_size=min(n_vectors, math.floor(effective)),
        ).unit_size
    if made.assignment == "kmeans":
        size = max(size, SMALLEST_KMEANS_UNIT)
    return replace(made, unit_size=min(size, n_vectors))


def _design_random_units(
    config: IndexConfig,
    shape: tuple[int, int],
    similarity: float,
    miss_rate: float,
    costs: MachineCosts,
) -> tuple[IndexConfig, float]:
    """Take the unit size and the words of least expected time, by the law of codes of units."""
    n_vectors, dim = shape
    n_words = config.n_code_words(dim)
    query_share = _CODE_SHARE if config.is_symmetric else _QUERY_SHARE
    law = _CodeLaw(dim, similarity, miss_rate, query_share)
    sizes = _SIZES if config.unit_size == "auto" else (config.unit_size,)
    words = _WORDS if config.unit_words == "auto" else (config.unit_words,)
    first_words = _FEW_WORDS if config.member_words == "auto" else (config.member_words,)
    time, size, of_unit, of_member = min(
        (_random_units_time(law, n_vectors, n, b, m, costs), n, b, m)
        for n in sizes
        for b in sorted({min(b, n_words) for b in words})
        for m in sorted({min(m, n_words) for m in first_words})
        if n == sizes[0] or n < min(dim, n_vectors)
    )
    return replace(config, unit_size=size, unit_words=of_unit, member_words=of_member), time


@dataclass(frozen=True)
class _CodeLaw:
    """How codes of uniform vectors score.

    In standard deviations of the code's noise, unrelated queries score N(0, 1) on a unit, and a
    match of similarity α scores α·s·√(b/n) on average with s = 0.78 for codes of b bits; knowing
    the inner product removes the share s²·α²·b/d of the variance. A member is a unit of one.
    """

    dim: int
    similarity: float
    miss_rate: float
    query_share: float

    def passed(self, size: int, words: int, misses: float) -> float:
        """Return the share that passes a test which misses that share of what may be missed."""
        dim, bits, share = self.dim, words * 64, _CODE_SHARE * self.query_share
        norm = math.sqrt(size * (dim - 2) / (dim - size - 1)) if dim > size + 1 else math.inf
        mean = self.similarity * share * math.sqrt(bits) / norm
        known = (share * self.similarity) ** 2 * min(1.0, bits / dim)
        spread = math.sqrt(max(0.05, 1 - known))
        limit = mean + spread * float(special.ndtri(misses * self.miss_rate))
        return float(special.ndtr(-limit))


def _random_units_time(
    law: _CodeLaw, n_vectors: int, size: int, words: int, first_words: int, costs: MachineCosts
) -> float:
    """Return the expected microseconds of a query that has no match."""
    n_units, passed = n_vectors / size, law.passed(size, words, _UNIT_MISSES)
    n_codes = n_vectors * passed * law.passed(1, first_words, _MEMBER_MISSES)
    time = costs.query + costs.scan(n_units, words) + n_codes * costs.member_code
    return 1e-3 * (time + costs.visits(n_units, passed, size, first_words))
