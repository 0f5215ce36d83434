"""A threshold for a semantic cache, with a bound on wrong hits; needs no extra."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from memvec import checks
from memvec.errors import InvalidValueError
from memvec.lazy import special
from memvec.types import BoolArray, Float64Array

# So many thresholds are tested, each at this share of the risk. More come nearer to the lowest that
# holds, at a price in pairs: 10, 20 and 40 need 528, 597 and 666 hits for 1 % at 95 %. Simulated at
# 10 %, 90 %, where 0.909 is the lowest that holds, 10,000 pairs gave 0.950, 0.937 and 0.935.
_TESTS = 20


@dataclass(frozen=True)
class ThresholdChoice:
    """A threshold with a bound on wrong hits.

    Attributes
    ----------
    similarity : float
        Answer from the cache if the nearest stored prompt is at least this similar.
    bound : float
        With probability `confidence`, at most this share of hits is wrong.
    confidence : float
    n_pairs, n_hits, n_wrong : int
        Number of pairs, of those at least this similar, and of the wrong ones among these.
    """

    similarity: float
    bound: float
    confidence: float
    n_pairs: int
    n_hits: int
    n_wrong: int

    def __str__(self) -> str:
        return (
            f"At {self.similarity:.4g} or more, at most {self.bound:.2%} of hits are wrong, with "
            f"probability {self.confidence:.0%}: {self.n_wrong:,} of {self.n_hits:,} were, and "
            f"{self.n_hits / self.n_pairs:.0%} of {checks.counted(self.n_pairs, 'pair')} are hits."
        )


def choose_threshold(
    labelled_pairs: Iterable[tuple[float, bool]],
    wrong_hits: float = 0.01,
    *,
    confidence: float = 0.95,
) -> ThresholdChoice:
    """Choose the lowest similarity at which at most a given share of hits is wrong.

    Twenty numbers of hits are fixed before labels are seen, at equal ratios, from the fewest that
    could suffice to all pairs but one. Each gives a threshold: just above the next most similar
    pair. Given that threshold, the pairs above it are independent draws of hits, so the wrong ones
    among m of them follow the binomial law of m and of the share of wrong hits. Its upper bound of
    Clopper and Pearson is taken at a twentieth of the risk, and the union bound covers all: with
    probability `confidence` over the draw of pairs, no threshold that passes has a larger share of
    wrong hits. Nothing is assumed about how correctness depends on similarity.

    Parameters
    ----------
    labelled_pairs : iterable of (similarity, is_right)
        One pair per lookup: the cosine of the prompt with its nearest stored prompt, and whether
        the stored answer is right. Lookups must be independent of each other, and like future ones.
    wrong_hits : float, default 0.01
        The share of hits that may be wrong, in (0, 1).
    confidence : float, default 0.95
        In (0, 1).

    Raises
    ------
    InvalidValueError
        If there are too few pairs, or no threshold passes.

    Examples
    --------
    >>> import numpy as np
    >>> cosines = np.random.default_rng(0).uniform(0.6, 1, 5000)
    >>> choice = choose_threshold(zip(cosines, cosines > 0.8), wrong_hits=0.01)
    >>> round(choice.similarity, 2), choice.n_wrong
    (0.82, 0)
    """
    where = "choose_threshold"
    share = checks.miss_rate(wrong_hits, where, "wrong_hits")
    level = checks.miss_rate(confidence, where, "confidence")
    cosines, right = _checked_pairs(labelled_pairs, where)
    risk = (1 - level) / _TESTS
    fewest = math.ceil(math.log(risk) / math.log1p(-share))
    if len(cosines) <= fewest:
        expected = f"more than {fewest} pairs for a share of {share:g} at {level:g}"
        raise checks.bad_value("labelled_pairs", where, expected, len(cosines))
    passed = None
    for n_above in np.unique(np.geomspace(fewest, len(cosines) - 1, _TESTS).round().astype(int)):
        tested = _tested(cosines, right, int(n_above), risk, level)
        if tested is not None and tested.bound <= share:
            passed = tested
    if passed is None:
        raise InvalidValueError(
            f"No threshold limits wrong hits to {share:g} at {level:g}: of the {fewest} most "
            f"similar pairs, {np.count_nonzero(~right[:fewest])} are wrong. Allow more wrong hits, "
            "or label more pairs."
        )
    return passed


def _checked_pairs(
    pairs: Iterable[tuple[float, bool]], where: str
) -> tuple[Float64Array, BoolArray]:
    """Return similarities, falling, and whether each is right."""
    rows = np.array([(*pair,) for pair in pairs], dtype=np.float64).reshape(-1, 2)
    known = np.isfinite(rows[:, 0]) & np.isin(rows[:, 1], (0, 1))
    if not known.all():
        row = int(np.argmin(known))
        expected = "pairs of a similarity and True or False"
        raise checks.bad_value(
            "labelled_pairs", where, expected, f"{tuple(rows[row])} in row {row}"
        )
    rows = rows[np.argsort(-rows[:, 0], kind="stable")]
    return rows[:, 0], rows[:, 1] == 1


def _tested(
    cosines: Float64Array, right: BoolArray, n_above: int, risk: float, level: float
) -> ThresholdChoice | None:
    """Return the threshold above which so many pairs are; of ties with the next, none is."""
    n_hits = int(np.count_nonzero(cosines > cosines[n_above]))
    if n_hits == 0:
        return None
    n_wrong = int(np.count_nonzero(~right[:n_hits]))
    bound = upper_bound(n_wrong, n_hits, risk)
    similarity = float(np.nextafter(cosines[n_above], np.inf))
    return ThresholdChoice(similarity, bound, level, len(cosines), n_hits, n_wrong)


def upper_bound(n_wrong: int, n_hits: int, risk: float) -> float:
    """Return the upper bound of Clopper and Pearson: exceeded with probability `risk` at most."""
    if n_wrong == n_hits:
        return 1.0
    return float(special.betaincinv(n_wrong + 1, n_hits - n_wrong, 1 - risk))


__all__ = ["ThresholdChoice", "choose_threshold", "upper_bound"]
