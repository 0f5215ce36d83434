"""The cost of a search, the unit size that makes it least, and the capacity of a unit."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from memvec import checks
from memvec.lazy import special
from memvec.theory._rates import LawName, UnitTest

Searchable = Literal["sum", "pinv"]

# So few sizes are all tried: in a handful of dimensions nothing promises that P_fp grows with n.
_TRY_ALL = 64
# Costs this near, relatively, are the same: without it a flat optimum at n* ~ 10⁷ takes minutes.
_SAME_COST = 1e-7
# Far beyond any data; integers up to here are floats, too.
_LARGEST_DIM = 2.0**53


@dataclass(frozen=True)
class Design:
    """A unit size with the threshold, false positive rate and cost that follow from it.

    Attributes
    ----------
    construction : str
        "sum" or "pinv".
    dim, similarity, miss_rate : float
        The arguments: d, α₀ and ε.
    unit_size : int
        n, the vectors in a unit.
    threshold : float
        τ, with P_fn(α₀) = ε.
    false_positive_rate : float
        P_fp(n) at that threshold.
    """

    construction: Searchable
    dim: float
    similarity: float
    miss_rate: float
    unit_size: int
    threshold: float
    false_positive_rate: float

    @property
    def cost_ratio(self) -> float:
        """C_H0/N = 1/n + P_fp(n): inner products, over those of an exhaustive search."""
        return 1 / self.unit_size + self.false_positive_rate


def unit_design(
    construction: Searchable,
    *,
    unit_size: int,
    dim: float,
    similarity: float,
    miss_rate: float = 0.01,
    law: LawName = "exact",
) -> Design:
    """Return threshold, false positive rate and cost of a given unit size.

    The threshold solves P_fn(α₀) = ε; the cost is C_H0/N = 1/n + P_fp(n) (paper, Section 4,
    "Random assignment").

    Examples
    --------
    >>> design = unit_design("pinv", unit_size=25, dim=1000, similarity=0.7)
    >>> round(design.cost_ratio, 4)
    0.043
    """
    checks.choice(construction, "construction", "unit_design", get_args(Searchable))
    test = UnitTest(construction, unit_size, dim, similarity, law)
    threshold = test.threshold(miss_rate)
    rate = float(test.false_positive_rate(threshold))
    return Design(construction, dim, similarity, miss_rate, unit_size, threshold, rate)


def optimal_design(
    construction: Searchable,
    *,
    dim: float,
    similarity: float,
    miss_rate: float = 0.01,
    max_unit_size: int | None = None,
) -> Design:
    """Return the design of least cost, n* = argmin 1/n + P_fp(n) over 1 ≤ n ≤ `max_unit_size`.

    For ε ≤ ½, P_fp increases with n, so on [a, b] the cost is at least 1/b + P_fp(a): ranges whose
    bound exceeds the best cost seen are dropped, the others halved. The result costs at most 1e-7
    more than the global minimum. Up to 64 sizes are all tried. For ε > ½, the search is the same,
    but without this proof.

    Parameters
    ----------
    construction : {"sum", "pinv"}
        How memory vectors are made.
    dim : float
        The dimension d ≥ 2.
    similarity, miss_rate : float
        α₀ and ε.
    max_unit_size : int, optional
        The largest n considered; the dimension by default (the paper assumes n < d), which pinv
        cannot exceed.

    Examples
    --------
    >>> optimal_design("pinv", dim=1000, similarity=0.7).unit_size
    28
    """
    dim = checks.real(dim, "dim", "optimal_design", low=2.0, high=_LARGEST_DIM)
    largest = _largest_unit(construction, dim, max_unit_size)

    @cache
    def design(unit_size: int) -> Design:
        return unit_design(
            construction, unit_size=unit_size, dim=dim, similarity=similarity, miss_rate=miss_rate
        )

    return _least_cost(design, largest)


def _largest_unit(construction: str, dim: float, max_unit_size: int | None) -> int:
    if max_unit_size is None:
        return math.floor(dim)
    largest = checks.integer(max_unit_size, "max_unit_size", "optimal_design")
    if construction == "pinv" and largest > dim:
        limit = f"at most the dimension {dim:g} for pinv"
        raise checks.bad_value("max_unit_size", "optimal_design", limit, largest)
    return largest


def _least_cost(design: Callable[[int], Design], largest: int) -> Design:
    if largest <= _TRY_ALL:
        return min(map(design, range(1, largest + 1)), key=lambda found: found.cost_ratio)
    best = min(design(1), design(largest), key=lambda found: found.cost_ratio)
    ranges = [(1 / largest + design(1).false_positive_rate, 1, largest)]
    while ranges:
        bound, first, last = heapq.heappop(ranges)
        if bound >= best.cost_ratio * (1 - _SAME_COST) or last - first < 2:
            continue
        # Halving on the logarithmic scale: the optimum is far below the dimension.
        middle = min(max(math.isqrt(first * last), first + 1), last - 1)
        best = min(best, design(middle), key=lambda found: found.cost_ratio)
        heapq.heappush(ranges, (1 / middle + design(first).false_positive_rate, first, middle))
        heapq.heappush(ranges, (1 / last + design(middle).false_positive_rate, middle, last))
    return best


def cost_curve(
    construction: Searchable,
    unit_sizes: Iterable[int],
    *,
    dim: float,
    similarity: float,
    miss_rate: float = 0.01,
    law: LawName = "exact",
) -> list[Design]:
    """Return the design of each unit size, as in the paper's figure of cost against n.

    Examples
    --------
    >>> curve = cost_curve("sum", [5, 10, 20], dim=1000, similarity=0.7)
    >>> [round(design.cost_ratio, 4) for design in curve]
    [0.2, 0.1, 0.0537]
    """
    return [
        unit_design(
            construction,
            unit_size=size,
            dim=dim,
            similarity=similarity,
            miss_rate=miss_rate,
            law=law,
        )
        for size in unit_sizes
    ]


def designs_by_dimension(
    construction: Searchable,
    dims: Iterable[float],
    *,
    similarity: float,
    miss_rate: float = 0.01,
) -> list[Design]:
    """Return the best design of each dimension at fixed α₀ and ε.

    The cost falls with d: "provably better in high-dimensional spaces" (the paper's abstract).

    Examples
    --------
    >>> found = designs_by_dimension("pinv", [100, 1000, 10000], similarity=0.7)
    >>> [round(design.cost_ratio, 4) for design in found]
    [0.2591, 0.042, 0.0056]
    """
    return [
        optimal_design(construction, dim=dim, similarity=similarity, miss_rate=miss_rate)
        for dim in dims
    ]


def capacity(
    construction: Searchable,
    *,
    dim: float,
    similarity: float,
    miss_rate: float = 0.01,
    false_positive_rate: float = 0.01,
) -> int:
    """Return the largest n with P_fn(α) = ε and P_fp ≤ the wanted rate; 0 if even n = 1 fails.

    It grows linearly with d (paper, Section 3): n/d tends to `capacity_per_dimension`.

    Examples
    --------
    >>> [capacity("pinv", dim=dim, similarity=0.7) for dim in (100, 1000, 10000)]
    [3, 30, 299]
    """
    wanted = checks.miss_rate(false_positive_rate, "capacity", "false_positive_rate")
    checks.choice(construction, "construction", "capacity", get_args(Searchable))

    def holds(unit_size: int) -> bool:
        found = unit_design(
            construction, unit_size=unit_size, dim=dim, similarity=similarity, miss_rate=miss_rate
        )
        return found.false_positive_rate <= wanted

    if construction == "sum" and wanted + checks.miss_rate(miss_rate, "capacity") >= 1:
        expected = "less than 1 - miss_rate, which tossing a coin would meet"
        raise checks.bad_value("false_positive_rate", "capacity", expected, wanted)
    limit = math.floor(dim) if construction == "pinv" else None
    return _largest_true(holds, limit)


def _largest_true(holds: Callable[[int], bool], limit: int | None) -> int:
    """Return the largest n ≥ 1 for which a property that holds up to some n holds; 0 if none."""
    if not holds(1):
        return 0
    good, bad = 1, 2
    while (limit is None or bad <= limit) and holds(bad):
        good, bad = bad, 2 * bad
    if limit is not None and bad > limit:
        bad = limit + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def capacity_per_dimension(
    construction: Searchable,
    *,
    similarity: float,
    miss_rate: float = 0.01,
    false_positive_rate: float = 0.01,
) -> float:
    """Return lim n/d at fixed error rates, where the Gaussian laws are exact.

    With r = (α/(a + b))², a = Φ⁻¹(1−P_fp) and b = Φ⁻¹(1−ε): r for sum; r/(1+r) for pinv, whose b is
    multiplied by β.

    Examples
    --------
    >>> round(capacity_per_dimension("pinv", similarity=0.7), 4)
    0.0299
    """
    where = "capacity_per_dimension"
    checks.choice(construction, "construction", where, get_args(Searchable))
    alpha = checks.similarity(similarity, where)
    miss = -float(special.ndtri(checks.miss_rate(miss_rate, where)))
    false = -float(
        special.ndtri(checks.miss_rate(false_positive_rate, where, "false_positive_rate"))
    )
    beta = math.sqrt((1 - alpha) * (1 + alpha))
    spread = false + (beta if construction == "pinv" else 1.0) * miss
    if spread <= 0:
        return math.inf if construction == "sum" else 1.0
    ratio = (alpha / spread) ** 2
    return ratio / (1 + ratio) if construction == "pinv" else ratio
