"""K-means units: whether they are centred, how large they are, by what a sample lets pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts

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
# So many units are tested by the first two thirds of their codes, and 256 bits at least. Of a
# million structured vectors in units of 28, tests of 384, 320, 256 and 192 bits let 13, 19, 35 and
# 168 units through, and queries took 55, 50, 52 and 54 µs. With more units the test of all takes
# more of a query.
_MANY_UNITS, _FEWEST_WORDS = 100_000, 4
# Up to forty members pinv left as few members to visit as the centroid on embeddings, and a third
# of them on structured vectors; beyond, it leaves more on embeddings.
_LARGEST_PINV_UNIT = 40
# The paper packs ten; on WordNet embeddings ten cost less than the two to four of random units.
SMALLEST_KMEANS_UNIT = 10
# The first words of members of k-means units: on embeddings two let 4 to 26 times as many members
# through as three, and four cost more than they save.
MEMBER_WORDS = 3
# More of them are tried where units are: on 9,000 whitened image descriptors above 0.25, three let
# 2,900 members through, and eight 210.
_MORE_WORDS = (4, 6, 8, 12)
# Units of these sizes are tried on a sample; what others let pass lies on a power of the size.
TRIED_SIZE, _TRIED_SMALL = 56, 20
# The share of units that passes falls with the number of vectors, as units of more vectors lie
# closer together: from 4,000 to 30,000 pixels by an exponent of 0.2, to 109,659 sentences by 0.2 to
# 0.4.
_TIGHTER = 0.25
_LEAST_PASSED, _MOST_POWER = 1e-6, 1.5
_FLOAT_BYTES = 4
# What centring a query takes, in nanoseconds: 0.6 of 1,715 units of 28 took 8 µs more, with an
# eighth fewer members to test. And the ‖μ‖² from which vectors are centred where nothing can be
# tried: the noise of codes shrinks by that share.
_CENTRING, _COMMON = 8000.0, 0.05


@dataclass(frozen=True)
class Trial:
    """What a query of a sample takes.

    Attributes
    ----------
    n_vectors : int
        Of the sample.
    passed : float
        The share of units that is visited.
    codes, products : float
        The share of the vectors whose whole code is tested, and the share that is scored exactly.
    """

    n_vectors: int
    passed: float
    codes: float
    products: float


class Tries(Protocol):
    """What tries configurations on a sample; see `Trials`."""

    @property
    def common(self) -> float:
        """‖μ‖² of the sample's mean, less what it is for vectors without one."""

    @property
    def tell(self) -> bool:
        """Whether there are enough vectors and pairs to try anything."""

    def of(self, config: IndexConfig) -> Trial:
        """Try a configuration in which everything is decided, without groups and batches."""


def leaves_units_open(config: IndexConfig) -> bool:
    """Tell whether the size of k-means units is left to the design step."""
    return config.unit_size == "auto" and config.assignment != "random" and config.codes != "none"


def design_centring(
    config: IndexConfig,
    shape: tuple[int, int],
    trials: Tries | None,
    costs: MachineCosts,
    guarantee: str,
) -> IndexConfig:
    """Decide whether the tests see vectors less their mean, by what a query of a sample takes.

    Only k-means units tested by estimates of rotated codes are centred by default: the paper's
    variants stay as they are asked for. Codes of centred vectors bound no angles, so an exact
    search would have no use of them.
    """
    if config.center != "auto":
        return config
    apart = config.turns or config.rotation == "none" or config.normalised
    of_paper = config.assignment == "random" or config.codes not in ("auto", "estimate")
    plain, centred = (replace(config, center=center) for center in (False, True))
    if trials is None or apart or of_paper or guarantee == "exact":
        return plain
    if not trials.tell:
        return centred if trials.common > _COMMON else plain
    times = [
        tried_time(one, trials.of(one), shape, costs)
        for one in (tried_config(each, shape, TRIED_SIZE) for each in (plain, centred))
    ]
    return centred if times[1] + _CENTRING < times[0] else plain


def tried_config(config: IndexConfig, shape: tuple[int, int], size: int) -> IndexConfig:
    """Return a configuration of k-means units as it is tried."""
    n_words = config.n_code_words(shape[1])
    made = replace(
        config,
        assignment="kmeans",
        codes="estimate" if config.codes == "auto" else config.codes,
        unit_size=size if config.unit_size == "auto" else config.unit_size,
        levels=1,
        unit_words=n_words if config.unit_words == "auto" else config.unit_words,
        member_words=MEMBER_WORDS if config.member_words == "auto" else config.member_words,
        member_bits=1,
        units_per_vector=2 if config.units_per_vector == "auto" else config.units_per_vector,
    )
    return design_construction(made) if made.construction == "auto" else made


def tried_time(
    config: IndexConfig, trial: Trial, shape: tuple[int, int], costs: MachineCosts
) -> float:
    """Return the mean nanoseconds of a query among all vectors, by what one of a sample takes."""
    n_vectors, dim = shape
    size, slots = int(config.unit_size), int(config.unit_size) * int(config.units_per_vector)
    n_units, n_words = n_vectors / size, config.n_code_words(dim)
    first_words = min(int(config.member_words), n_words)
    passed = trial.passed * _tighter(trial, n_vectors)
    time = costs.query + costs.scan(n_units, min(int(config.unit_words), n_words))
    time += costs.visits(n_units, passed, slots, first_words, together=_TOGETHER)
    return time + time_of_members(trial, n_vectors, (dim, n_words), costs)


def time_of_members(
    trial: Trial, n_vectors: int, sizes: tuple[int, int], costs: MachineCosts
) -> float:
    """Return the nanoseconds that whole codes and exact scores take.

    `sizes` are the entries of a vector and the words of its code.
    """
    dim, n_words = sizes
    product = costs.row(_FLOAT_BYTES * dim, n_vectors)
    code = costs.whole_code(n_words, n_vectors)
    return n_vectors * (trial.codes * code + trial.products * product)


def _tighter(trial: Trial, n_vectors: int) -> float:
    """Return what is left of the share of units that passes where there are more vectors."""
    return min(1.0, math.pow(trial.n_vectors / n_vectors, _TIGHTER))


@dataclass(frozen=True)
class PassLaw:
    """The share of k-means units of a size that pass: as on embeddings, or as on a sample.

    Attributes
    ----------
    similarity : float
        What is asked for.
    share, power : float or None
        Of units of 56, and how it grows with their size; None for those of embeddings.
    factor : float
        How many more pass than on embeddings: groups are not tried, and pass as many more.
    rest : float
        Nanoseconds for whole codes and exact scores, whatever the units; not known of embeddings.
    """

    similarity: float
    share: float | None = None
    power: float = 0.0
    factor: float = 1.0
    rest: float = 0.0

    @classmethod
    def tried(
        cls,
        config: IndexConfig,
        shape: tuple[int, int],
        similarity: float,
        trials: Tries | None,
        costs: MachineCosts,
    ) -> PassLaw:
        """Return what two trials tell, or the law of embeddings where nothing can be tried."""
        if trials is None or not trials.tell or not leaves_units_open(config):
            return cls(similarity)
        made = tried_config(config, shape, TRIED_SIZE)
        small, large = (trials.of(one) for one in (tried_config(config, shape, _TRIED_SMALL), made))
        ratio = max(large.passed, _LEAST_PASSED) / max(small.passed, _LEAST_PASSED)
        power = math.log(ratio) / math.log(TRIED_SIZE / _TRIED_SMALL)
        share = max(large.passed, _LEAST_PASSED) * _tighter(large, shape[0])
        homes: Literal[1, 2] = 2 if made.units_per_vector == 2 else 1
        factor = share / _passed(TRIED_SIZE, homes, similarity)
        law = cls(similarity, share, min(max(power, 0.0), _MOST_POWER), factor)
        return law.with_rest(large, config, shape, costs)

    def with_rest(
        self, trial: Trial, config: IndexConfig, shape: tuple[int, int], costs: MachineCosts
    ) -> PassLaw:
        """Return the law with what members take after their first words, as it was tried."""
        n_vectors, dim = shape
        sizes = dim, config.n_code_words(dim)
        return replace(self, rest=time_of_members(trial, n_vectors, sizes, costs))

    def of_units(self, size: float, homes: Literal[1, 2]) -> float:
        """Return the share of units that pass."""
        if self.share is None:
            return _passed(size, homes, self.similarity)
        return min(1.0, self.share * math.pow(size / TRIED_SIZE, self.power))

    def of_groups(self, size: float) -> float:
        """Return the share of groups that pass."""
        return min(1.0, self.factor * _passed(size, 1, self.similarity))


def design_tried_units(
    config: IndexConfig,
    shape: tuple[int, int],
    similarity: float,
    costs: MachineCosts,
    trials: Tries | None,
) -> tuple[IndexConfig, float]:
    """Take the units of least expected time, and first words that spare enough whole codes."""
    law = PassLaw.tried(config, shape, similarity, trials, costs)
    best = design_kmeans_units(config, shape, similarity, costs, law)
    if trials is None or law.share is None or config.member_words != "auto":
        return best
    n_words, (units, least) = config.n_code_words(shape[1]), best
    for words in sorted({min(words, n_words) for words in (*_MORE_WORDS, n_words)}):
        some = replace(units, member_words=words)
        # More words than that would not pay if they spared all whole codes and exact scores.
        bare = design_kmeans_units(some, shape, similarity, costs, replace(law, rest=0.0))
        if words <= MEMBER_WORDS or _time(bare) > least:
            continue
        trial = trials.of(tried_config(replace(config, member_words=words), shape, TRIED_SIZE))
        tried = law.with_rest(trial, config, shape, costs)
        best = min(best, design_kmeans_units(some, shape, similarity, costs, tried), key=_time)
    return best


def _time(design: tuple[IndexConfig, float]) -> float:
    return design[1]


def design_kmeans_units(
    config: IndexConfig,
    shape: tuple[int, int],
    similarity: float,
    costs: MachineCosts,
    law: PassLaw | None = None,
) -> tuple[IndexConfig, float]:
    """Take the levels and the sizes of least expected time, by what passes."""
    law = PassLaw(similarity) if law is None else law
    n_vectors, dim = shape
    levels: tuple[Literal[1, 2], ...] = (1, 2) if config.batch_size is None else (1,)
    if config.levels != "auto":
        levels = (config.levels,)
    homes = 2 if config.units_per_vector == "auto" else config.units_per_vector
    first_words = MEMBER_WORDS if config.member_words == "auto" else config.member_words
    sizes = _kmeans_sizes(n_vectors, homes) if config.unit_size == "auto" else (config.unit_size,)
    groups = _GROUP_SIZES if config.group_size == "auto" else (config.group_size,)
    tried = [
        (
            _kmeans_units_time(n_vectors, words, n, homes, first_words, group, law, costs),
            level,
            n,
            group or n,
            words,
        )
        for level in levels
        for n in sorted({min(n, n_vectors) for n in sizes})
        for group in (sorted({min(max(g, n), n_vectors) for g in groups}) if level == 2 else (0,))
        for words in (_words_of_units(config, dim, n_vectors / n, level),)
    ]
    time, level, size, group, words = min(
        tried, key=lambda one: (one[0] * (1 + _WORTH_A_LEVEL * (one[1] - 1)), *one[1:])
    )
    first_words = min(first_words, config.n_code_words(dim))
    made = replace(config, unit_words=words, member_words=first_words)
    return replace(
        made, levels=level, unit_size=size, group_size=group, units_per_vector=homes
    ), time


def _kmeans_sizes(n_vectors: int, homes: Literal[1, 2]) -> tuple[int, ...]:
    """Return the sizes of k-means units to choose from."""
    largest = _LARGEST_OF_MANY if n_vectors > _MANY_VECTORS else math.inf
    return tuple(size for size in _KMEANS_SIZES[homes] if size <= largest)


def _words_of_units(config: IndexConfig, dim: int, n_units: float, levels: int) -> int:
    """Return how many words of a unit's code are tested: all, unless there are very many units."""
    n_words = config.n_code_words(dim)
    if config.unit_words != "auto":
        return config.unit_words
    if levels == 2 or config.codes != "estimate" or n_units < _MANY_UNITS:
        return n_words
    return min(n_words, max(_FEWEST_WORDS, -(-2 * n_words // 3)))


def _kmeans_units_time(
    n_vectors: int,
    words: int,
    size: int,
    homes: Literal[1, 2],
    first_words: int,
    group: int,
    law: PassLaw,
    costs: MachineCosts,
) -> float:
    """Return the expected microseconds of a query; groups of 0 vectors are no groups.

    Whole codes of members count where units were tried: how many first words pass on embeddings has
    no law here. Codes of fewer words than `first_words` are counted as if they had them, as when
    the shares that pass were fitted; without it units of short codes would be larger.
    """
    n_units, passed = n_vectors / size, law.of_units(size, homes)
    time = costs.query
    if group:
        n_groups, in_groups = n_vectors / group, law.of_groups(group)
        time += costs.scan(n_groups, words)
        time += costs.visits(n_groups, in_groups, group / size, words, together=_TOGETHER)
        passed = min(1.0, _SHARED_MISSES * passed)
    else:
        time += costs.scan(n_units, words)
    slots = homes * size
    time += costs.visits(n_units, passed, slots, first_words, together=_TOGETHER) + law.rest
    return 1e-3 * time


def _passed(size: float, homes: Literal[1, 2], similarity: float) -> float:
    """Return the share of k-means units of a size that pass."""
    share, power, fall = _PASSED[homes]
    return min(1.0, share * math.pow(size, power) * math.exp(-fall * (similarity - 0.7)))


def design_construction(config: IndexConfig) -> IndexConfig:
    """Take pinv for random and small units, the centroid for large ones."""
    if int(config.unit_size) <= _LARGEST_PINV_UNIT or config.assignment == "random":
        return replace(config, construction="pinv")
    return replace(config, construction="ridge", ridge=float(np.inf))
