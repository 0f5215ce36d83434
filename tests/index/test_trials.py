"""The design step tries k-means units on a sample: centred or not, and of two sizes."""

from dataclasses import replace

import numpy as np
import pytest

from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import InvalidValueError
from memvec.index import MachineCosts
from memvec.index._flat_design import design_flat
from memvec.index._kmeans_design import PassLaw, Trial, design_centring, design_tried_units
from memvec.index._trial import Trials
from memvec.kernels import StoredRows

DIM = 64
CENTRES = np.random.default_rng(1).standard_normal((300, DIM))
TRIED = IndexConfig(
    assignment="kmeans",
    codes="estimate",
    construction="pinv",
    unit_size=20,
    unit_words=1,
    member_words=1,
    member_bits=1,
    units_per_vector=2,
    center=False,
)


def trials_of(rows, similarity):
    return Trials(StoredRows.of(rows), np.arange(len(rows)), similarity, 0)


def leaning(towards, n=6000, seed=2):
    """Return vectors around centres that lie off towards one direction."""
    return around(CENTRES + towards * np.eye(1, DIM), 0.7, seed, n)


class Seen:
    """Trials whose outcome is known."""

    def __init__(self, tell, common, plain, centred):
        self.tell, self.common = tell, common
        self.outcomes = {False: plain, True: centred}

    def of(self, config):
        return self.outcomes[config.center]


def trial(passed, codes=0.01):
    return Trial(4000, passed, codes, codes / 2)


def centred_by(trials, guarantee="expected", **config):
    made = design_centring(IndexConfig(**config), (100_000, DIM), trials, MachineCosts(), guarantee)
    return made.center


def test_trial_is_the_same_for_the_same_seed():
    rows = leaning(6.0)
    one, other = (trials_of(rows, 0.7).of(TRIED) for _ in range(2))
    assert one == other
    assert 0 < one.products <= one.codes < 1
    assert 0 < one.passed < 1


def test_trial_of_centred_vectors_lets_less_pass_where_they_lean():
    trials = trials_of(leaning(8.0), 0.8)
    plain, centred = (trials.of(replace(TRIED, center=center)) for center in (False, True))
    # Seen: shares of products of 0.053 and 0.0063.
    assert trials.common > 0.3
    assert centred.products < 0.6 * plain.products


def test_trials_need_vectors_and_pairs():
    assert not trials_of(leaning(0.0, n=600), 0.7).tell
    assert not trials_of(leaning(0.0), 0.999).tell
    assert trials_of(leaning(0.0), 0.7).tell


@pytest.mark.parametrize("n_vectors", [1, 2, 40, 600])
def test_small_sets_have_no_trials_and_are_built(n_vectors):
    index = Index.build(leaning(8.0, n=n_vectors), similarity=0.7)
    assert index.config.center in (True, False)


def test_vectors_are_centred_where_that_saves_more_than_it_takes():
    assert centred_by(Seen(True, 0.0, trial(0.3), trial(0.1))) is True
    assert centred_by(Seen(True, 0.9, trial(0.1), trial(0.099))) is False
    assert centred_by(Seen(True, 0.9, trial(0.1), trial(0.2))) is False


def test_vectors_without_trials_are_centred_where_they_lean():
    assert centred_by(Seen(False, 0.2, None, None)) is True
    assert centred_by(Seen(False, 0.01, None, None)) is False


@pytest.mark.parametrize(
    "config",
    [
        {"assignment": "random"},
        {"codes": "none"},
        {"codes": "sign"},
        {"rotation": "none"},
        {"normalised": True},
        {"pca_dim": 8},
        {"whiten": True},
        {"center": False},
    ],
)
def test_variants_of_the_paper_are_centred_where_it_is_asked_for_only(config):
    trials = Seen(True, 0.5, trial(0.5), trial(0.01))
    assert centred_by(trials, **config) is False
    assert centred_by(trials) is True
    assert centred_by(trials, guarantee="exact") is False


def test_measured_law_goes_through_both_trials():
    trials = Seen(True, 0.0, trial(0.2), None)
    trials.of = lambda config: trial(0.2 if config.unit_size == 56 else 0.1)
    law = PassLaw.tried(IndexConfig(center=False), (4000, DIM), 0.7, trials, MachineCosts())
    assert law.of_units(56, 2) == pytest.approx(0.2)
    assert law.of_units(20, 2) == pytest.approx(0.1)
    assert law.rest > 0
    more = PassLaw.tried(IndexConfig(center=False), (64_000, DIM), 0.7, trials, MachineCosts())
    assert more.of_units(56, 2) == pytest.approx(0.1)  # by (1/16)^¼


def test_center_is_a_flag_or_auto():
    with pytest.raises(InvalidValueError, match=r"'center' parameter .* 'auto', True, False"):
        IndexConfig(center="yes")


def by_words(codes):
    """Return trials that let the more members through their first words, the fewer words."""
    trials = Seen(True, 0.0, None, None)
    trials.of = lambda config: Trial(4000, 0.5, codes / config.member_words**4, 1e-3)
    return trials


def test_members_that_pass_first_words_in_numbers_are_tested_by_more_words():
    few, many = (
        design_tried_units(
            IndexConfig(center=False, assignment="kmeans", codes="estimate"),
            (100_000, 512),
            0.3,
            MachineCosts(),
            by_words(codes),
        )
        for codes in (0.01, 20.0)
    )
    assert few[0].member_words == 3
    assert many[0].member_words > 4
    assert many[1] > few[1]


def test_given_first_words_stay():
    config = IndexConfig(center=False, assignment="kmeans", codes="estimate", member_words=4)
    made, _ = design_tried_units(config, (100_000, 512), 0.3, MachineCosts(), by_words(20.0))
    assert made.member_words == 4


def test_few_vectors_are_scanned_where_most_units_pass():
    def flat(n_vectors, most, **config):
        trials = Seen(True, 0.0, trial(1e-3), None)
        made = IndexConfig(center=False, **config)
        return design_flat(made, (n_vectors, 512), trials, MachineCosts(), most)

    made, time = flat(9000, 50.0)
    assert (made.assignment, made.unit_size, made.unit_words) == ("random", 1, 8)
    assert 30 < time < 50
    assert flat(9000, 30.0) is None
    assert flat(100_000, 50.0) is None
    for kept in ({"unit_size": 8}, {"assignment": "kmeans"}, {"codes": "sign"}, {"levels": 2}):
        assert flat(9000, 50.0, **kept) is None


@pytest.mark.parametrize("config", [{"unit_size": 20}, {"unit_size": 20, "center": True}])
def test_kind_of_units_is_tried_where_only_their_size_is_given(config, monkeypatch):
    # As word vectors do, these seem to be without clusters: no two are much nearer than others.
    monkeypatch.setattr("memvec.index._design._has_clusters", lambda *_: False)
    index = Index.build(leaning(8.0), similarity=0.8, config=IndexConfig(**config), progress=False)
    assert index.design.config.assignment == "kmeans"


def test_units_tested_in_float32_are_not_tried_by_codes(monkeypatch):
    monkeypatch.setattr("memvec.index._design._has_clusters", lambda *_: False)
    index = Index.build(leaning(0.0), similarity=0.6, config=IndexConfig(codes="none"))
    assert index.design.config.assignment == "random"


def test_vectors_without_neighbours_in_units_are_scanned_and_found():
    rows = np.random.default_rng(5).standard_normal((6000, 256))
    rows = around(rows[:2000], 1.2, 6, 6000)
    index = Index.build(rows, similarity=0.3, progress=False)
    assert index.design.unit_size == 1
    assert index.design.config.assignment == "random"
    exact = Index.build(rows, similarity=0.3, guarantee="exact", progress=False)
    assert exact.design.unit_size > 1
    # Memory vectors of float32, one for each row, would take four times what the rows take.
    small = Index.build(rows, similarity=0.3, dtype="int8", progress=False)
    assert small.design.unit_size > 1


def test_shares_of_a_trial_are_those_of_all_vectors():
    rows = leaning(0.0, n=20_000)
    trials = trials_of(rows, 0.7)
    seen = trials.of(TRIED)
    index = Index.build(rows, similarity=0.7, config=replace(TRIED, reserve=1000), progress=False)
    work = index.range_search(leaning(0.0, n=400, seed=9), 0.7).work
    # Seen: 1.02 times as many. Near vectors of the sample that count as others, too, make it 1.8.
    assert 20_000 * seen.products == pytest.approx(work.exact_products / 400, rel=0.3)
