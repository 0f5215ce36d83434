"""From what is asked and what the data is like to a configuration without an "auto"."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from memvec.guarantee import uniform_tail
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._member_bits import choose_member_bits
from memvec.kernels import StoredRows, UnitRows
from memvec.lazy import optimize, special
from memvec.metric import Metric
from memvec.theory import effective_dimension, optimal_design
from memvec.types import RowType

# Pairs drawn to measure the effective dimension: a relative error of about 0.5 %.
_PAIRS = 50_000
# Rows that are read for it, of those that are stored in fewer bytes.
_MEASURED_ROWS = 20_000
# Data that fills this share of its dimensions has no common directions, but may have clusters: then
# the nearest of some thousand vectors is nearer than uniform ones are, by this much.
_FILLED = 0.5
_LOOKED_AT, _LOOKED_AMONG = 256, 4096
_NEARER = 0.1
# The share of k-means units that pass, c·n^p·exp(−f(α − 0.7)) of units of n: (c, p, f) for vectors
# of one home and of two. On 113,659 sentence embeddings 11, 4.8 and 1.8 % of units of 28 passed at
# 0.6, 0.7 and 0.8 with one home; with two, 4.0, 1.7 and 1.4 %, and 5.3, 2.6 and 1.9 % of units of
# 56.
_PASSED = {1: (1.7e-3, 1.0, 9.0), 2: (2.4e-3, 0.6, 4.0)}
# What passes two tests, of groups and of units, is more by this factor: they share the misses.
_SHARED_MISSES = 1.6
# What the second level must save to be worth its trouble.
_WORTH_A_LEVEL = 0.1
# k-means units that pass lie together, as those of one cluster are neighbours: about so many.
_TOGETHER = 8
# With one home, the share of units that passes grows faster than the units beyond forty: a million
# structured vectors were searched five times as fast in units of 28 as in units of 56. With two it
# does where there are many vectors: units of 28 and 56 took 33 and 32 µs on 109,659 embeddings, but
# 47 and 85 µs on 300,000 structured vectors, and 226 and 407 µs on a million.
_KMEANS_SIZES = {1: (10, 14, 20, 28, 40), 2: (10, 14, 28, 56, 80)}
_MANY_VECTORS, _LARGEST_OF_MANY = 200_000, 28
_GROUP_SIZES = (100, 200, 333, 500, 1000, 2000)
# Up to forty members pinv left as few members to visit as the centroid on embeddings, and a third
# of them on structured vectors; beyond, it leaves more on embeddings.
_LARGEST_PINV_UNIT = 40
# The paper packs ten; on WordNet embeddings ten cost less than the two to four of random units.
_SMALLEST_KMEANS_UNIT = 10
# What is known of a query and a vector in the signs of a rotated one: √(2/π) for the code, and
# about 0.98 for a query of four levels (√(2/π) for a binary one).
_CODE_SHARE = math.sqrt(2 / math.pi)
_QUERY_SHARE = 0.978
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_WORDS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# The first words of members of k-means units: on embeddings two let 4 to 26 times as many members
# through as three, and four cost more than they save.
MEMBER_WORDS = 3
# Those tried for random units: the lower the similarity, the more pay. One would do at 0.9, but let
# many through where the same index is asked at a lower similarity.
_FEW_WORDS = (2, MEMBER_WORDS)
# The shares of the misses that calibration leaves to the test of units, 0.3 to 0.7 were seen, and
# to that of the first words of members, 0.1 to 0.6.
_UNIT_MISSES, _MEMBER_MISSES = 0.6, 0.2


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
        return (
            f"{made.assignment} units of {made.unit_size}{groups}{homes}, {made.construction} "
            f"memory vectors tested by {tests}{fine}, for similarity {self.similarity:g} and "
            f"miss rate {self.miss_rate:g}; effective dimension {self.effective_dim:.0f} of "
            f"{self.dim}"
        )


def design_index(
    rows: UnitRows,
    similarity: float,
    miss_rate: float,
    config: IndexConfig,
    costs: MachineCosts,
) -> IndexDesign:
    """Decide what the configuration leaves open."""
    n_vectors, dim = rows.shape
    effective = _effective_dimension(rows, config.seed)
    uniform = effective >= _FILLED * dim and not _has_clusters(rows, effective, config.seed)
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
        made, time = _design_kmeans_units(made, rows.shape, similarity, costs)
    if made.levels == "auto":
        made = replace(made, levels=1)
    if made.units_per_vector == "auto":
        made = replace(made, units_per_vector=1)
    if made.group_size == "auto":
        made = replace(made, group_size=made.unit_size)
    if made.construction == "auto":
        made = _design_construction(made)
    if made.member_bits == "auto":
        made = replace(made, member_bits=choose_member_bits(rows, similarity, made, costs))
    return IndexDesign(similarity, miss_rate, n_vectors, dim, effective, made, time)


def _effective_dimension(rows: UnitRows, seed: int) -> float:
    n_vectors, dim = rows.shape
    if n_vectors < 2 or dim < 2:
        return float(dim)
    some = rows.drawn(_MEASURED_ROWS, [seed, 5]) if isinstance(rows, StoredRows) else rows
    measured = effective_dimension(some, pairs=_PAIRS, seed=seed).dimension
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
        size = max(size, _SMALLEST_KMEANS_UNIT)
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


def _design_kmeans_units(
    config: IndexConfig, shape: tuple[int, int], similarity: float, costs: MachineCosts
) -> tuple[IndexConfig, float]:
    """Take the levels and the sizes of least expected time, by what passed on embeddings."""
    n_vectors, dim = shape
    n_words = config.n_code_words(dim)
    words = n_words if config.unit_words == "auto" else config.unit_words
    levels: tuple[Literal[1, 2], ...] = (1, 2) if config.batch_size is None else (1,)
    if config.levels != "auto":
        levels = (config.levels,)
    homes = 2 if config.units_per_vector == "auto" else config.units_per_vector
    first_words = MEMBER_WORDS if config.member_words == "auto" else config.member_words
    sizes = _kmeans_sizes(n_vectors, homes) if config.unit_size == "auto" else (config.unit_size,)
    groups = _GROUP_SIZES if config.group_size == "auto" else (config.group_size,)
    tried = [
        (
            _kmeans_units_time(n_vectors, words, n, homes, first_words, group, similarity, costs),
            level,
            n,
            group or n,
        )
        for level in levels
        for n in sorted({min(n, n_vectors) for n in sizes})
        for group in (sorted({min(max(g, n), n_vectors) for g in groups}) if level == 2 else (0,))
    ]
    time, level, size, group = min(
        tried, key=lambda one: (one[0] * (1 + _WORTH_A_LEVEL * (one[1] - 1)), *one[1:])
    )
    made = replace(config, unit_words=words, member_words=min(first_words, n_words))
    return replace(
        made, levels=level, unit_size=size, group_size=group, units_per_vector=homes
    ), time


def _kmeans_sizes(n_vectors: int, homes: Literal[1, 2]) -> tuple[int, ...]:
    """Return the sizes of k-means units to choose from."""
    largest = _LARGEST_OF_MANY if n_vectors > _MANY_VECTORS else math.inf
    return tuple(size for size in _KMEANS_SIZES[homes] if size <= largest)


def _kmeans_units_time(
    n_vectors: int,
    words: int,
    size: int,
    homes: Literal[1, 2],
    first_words: int,
    group: int,
    similarity: float,
    costs: MachineCosts,
) -> float:
    """Return the expected microseconds of a query; groups of 0 vectors are no groups.

    Whole codes of members are left out: how many first words pass on embeddings has no law here.
    Codes of fewer words than `first_words` are counted as if they had them, as when the shares that
    pass were fitted; without it units of short codes would be larger.
    """
    n_units, passed = n_vectors / size, _passed(size, homes, similarity)
    time = costs.query
    if group:
        n_groups, in_groups = n_vectors / group, _passed(group, 1, similarity)
        time += costs.scan(n_groups, words)
        time += costs.visits(n_groups, in_groups, group / size, words, together=_TOGETHER)
        passed = min(1.0, _SHARED_MISSES * passed)
    else:
        time += costs.scan(n_units, words)
    slots = homes * size
    time += costs.visits(n_units, passed, slots, first_words, together=_TOGETHER)
    return 1e-3 * time


def _passed(size: float, homes: Literal[1, 2], similarity: float) -> float:
    """Return the share of k-means units of a size that pass."""
    share, power, fall = _PASSED[homes]
    return min(1.0, share * math.pow(size, power) * math.exp(-fall * (similarity - 0.7)))


def _design_construction(config: IndexConfig) -> IndexConfig:
    if int(config.unit_size) <= _LARGEST_PINV_UNIT or config.assignment == "random":
        return replace(config, construction="pinv")
    return replace(config, construction="ridge", ridge=float(np.inf))
