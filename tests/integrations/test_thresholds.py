"""Thresholds of a semantic cache: the bound on wrong hits holds."""

import math

import numpy as np
import pytest
from scipy import stats

from memvec.errors import InvalidValueError
from memvec.integrations.thresholds import choose_threshold, upper_bound


@pytest.mark.parametrize(("n_wrong", "n_hits"), [(0, 1), (0, 597), (3, 700), (20, 21), (7, 7)])
@pytest.mark.parametrize("risk", [0.005, 0.1])
def test_upper_bound_is_that_of_clopper_and_pearson(n_wrong, n_hits, risk):
    test = stats.binomtest(n_wrong, n_hits)
    # The interval of both sides at 1 − 2·risk ends where that of one side does.
    wanted = test.proportion_ci(1 - 2 * risk, method="exact").high
    assert upper_bound(n_wrong, n_hits, risk) == pytest.approx(wanted, rel=1e-9)


def naive_choice(pairs, wrong_hits, confidence):
    """Return the lowest of twenty thresholds that passes, by sums of binomial probabilities."""
    pairs = sorted(pairs, reverse=True)
    risk = (1 - confidence) / 20
    fewest = 1
    while (1 - wrong_hits) ** fewest > risk:
        fewest += 1
    ratio = ((len(pairs) - 1) / fewest) ** (1 / 19)
    passed = None
    for test in range(20):
        limit = pairs[round(fewest * ratio**test)][0]
        labels = [right for cosine, right in pairs if cosine > limit]
        n_wrong = labels.count(False)
        chance = sum(
            math.comb(len(labels), k) * wrong_hits**k * (1 - wrong_hits) ** (len(labels) - k)
            for k in range(n_wrong + 1)
        )
        if labels and chance <= risk:
            passed = len(labels), n_wrong
    return passed


@pytest.mark.parametrize("seed", range(8))
def test_choice_is_that_of_the_twin(seed):
    rng = np.random.default_rng(seed)
    cosines = np.round(rng.uniform(0.5, 1, 600), 2 + seed)  # the first with many ties
    right = rng.random(600) < 0.6 + 0.45 * (cosines - 0.5) / 0.4
    pairs = list(zip(cosines.tolist(), right.tolist(), strict=True))
    wanted = naive_choice(pairs, 0.1, 0.9)
    assert wanted is not None
    choice = choose_threshold(pairs, 0.1, confidence=0.9)
    assert (choice.n_hits, choice.n_wrong) == wanted
    assert np.count_nonzero(cosines >= choice.similarity) == choice.n_hits


LAWS = {
    "rising": lambda cosine: np.clip(2.2 * (1 - cosine), 0, 1),
    "a step": lambda cosine: np.where(cosine > 0.8, 0.0, 0.5),
    "not monotone": lambda cosine: np.where((cosine > 0.9) & (cosine < 0.95), 0.25, 0.01),
    "at the limit": lambda cosine: np.full_like(cosine, 0.1),
    "just above": lambda cosine: np.full_like(cosine, 0.101),
}


@pytest.mark.parametrize("law", LAWS)
def test_wrong_hits_exceed_the_share_as_seldom_as_promised(law):
    """Of 600 draws; those that find no threshold break no promise."""
    wrong, rng = LAWS[law], np.random.default_rng(0)
    grid = np.linspace(0.5, 1, 200_001)
    # The share of wrong hits above each similarity, of similarities uniform in [0.5, 1].
    above = np.cumsum(wrong(grid)[::-1])[::-1] / np.arange(len(grid), 0, -1)
    n_broken = 0
    for _ in range(600):
        cosines = rng.uniform(0.5, 1, 900)
        right = rng.random(900) >= wrong(cosines)
        try:
            choice = choose_threshold(zip(cosines, right, strict=True), 0.1, confidence=0.9)
        except InvalidValueError:
            continue
        n_broken += above[np.searchsorted(grid, choice.similarity)] > 0.1
    assert n_broken / 600 <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 600)


def test_many_pairs_come_near_to_the_lowest_threshold_that_holds():
    """Of wrong answers 2.2·(1 − cosine), a tenth of the hits above 0.909 is wrong."""
    wrong, rng, chosen = LAWS["rising"], np.random.default_rng(1), []
    for _ in range(20):
        cosines = rng.uniform(0.5, 1, 10_000)
        right = rng.random(10_000) >= wrong(cosines)
        pairs = zip(cosines, right, strict=True)
        chosen.append(choose_threshold(pairs, 0.1, confidence=0.9).similarity)
    assert 0.909 < np.mean(chosen) < 0.95  # 0.937 seen


def test_choice_tells_what_it_rests_on():
    pairs = [(0.9 + row / 1e5, True) for row in range(900)] + [(0.5, False)] * 50
    choice = choose_threshold(pairs)
    assert (choice.n_pairs, choice.n_wrong) == (950, 0)
    assert choice.bound <= 0.01
    assert str(choice).startswith(f"At {choice.similarity:.4g} or more, at most ")
    assert f"0 of {choice.n_hits:,} were" in str(choice)


@pytest.mark.parametrize(
    ("pairs", "settings", "match"),
    [
        ([(0.9, True)] * 597, {}, "more than 597 pairs for a share of 0.01 at 0.95. Got 597"),
        ([(0.9, 2)], {}, r"pairs of a similarity and True or False. Got \(.*0.9.*\) in row 0"),
        ([(float("nan"), True)], {}, "in row 0"),
        ([(0.9, True)], {"wrong_hits": 0}, "'wrong_hits' parameter of choose_threshold"),
        ([(0.9, True)], {"confidence": 1}, "'confidence' parameter of choose_threshold"),
        ([(i / 1e3, False) for i in range(999)], {}, "of the 597 most similar pairs, 597 are"),
        ([(0.9, True)] * 999, {}, "No threshold limits"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(pairs, settings, match):
    with pytest.raises(InvalidValueError, match=match):
        choose_threshold(pairs, **settings)
