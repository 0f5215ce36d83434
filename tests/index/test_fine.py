"""Indexes whose members are tested by fine codes before they are scored."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from clouds import around
from memvec import Index, IndexConfig
from memvec.errors import InvalidValueError
from memvec.evaluation import count_misses, exact_range
from memvec.guarantee import Calibration, Rule, Thresholds
from strategies import cloud, seeds

CODES, FINE = 3, 4


@pytest.fixture(scope="module")
def crowd():
    """Rows of few dimensions, with many near the limit of a match."""
    centres = np.random.default_rng(1).standard_normal((40, 48))
    return around(centres, 0.95, 2, 5000), around(centres, 0.95, 3, 300)


def built(rows, bits, **config):
    config = IndexConfig(member_bits=bits, codes="estimate", unit_size=16, **config)
    return Index.build(rows, similarity=0.6, miss_rate=0.02, config=config, progress=False)


@pytest.fixture(scope="module")
def pair(crowd):
    return {bits: built(crowd[0], bits) for bits in (1, 4)}


def test_fine_codes_spare_exact_products_and_keep_the_promise(crowd, pair):
    rows, queries = crowd
    plain, fine = (pair[bits].range_search(queries, shadow=0.0) for bits in (1, 4))
    truth = exact_range(rows, queries, 0.6)
    misses = count_misses(truth, fine)
    assert misses.miss_rate <= 0.02 + 4 * misses.standard_error
    # Seen: 1.6 times the matches with fine codes, 3.4 times without.
    assert fine.work.exact_products < 2.0 * len(truth.ids)
    assert plain.work.exact_products > 1.5 * fine.work.exact_products
    assert fine.certificate.thresholds.keys() == {"unit", "prefix", "fine"}
    assert plain.certificate.thresholds.keys() == {"unit", "prefix", "code"}


@settings(deadline=None, max_examples=15)
@given(
    seed=seeds,
    bits=st.integers(2, 8),
    dim=st.integers(2, 100),
    center=st.booleans(),
    words=st.sampled_from(["auto", 1]),
)
def test_nothing_is_lost_where_everything_passes(seed, bits, dim, center, words):
    rows = cloud(seed, n=80, dim=dim)
    config = IndexConfig(member_bits=bits, center=center, member_words=words, reserve=0)
    index = Index.build(rows, similarity=0.5, config=config, progress=False)
    source = index.units
    lines = Thresholds.one(0.5, np.full(len(source.cascade.stage_names), np.inf))
    found = source.search(rows[:5], 0.5, lines, 1)
    for query, row in zip(rows[:5], found, strict=True):
        assert row.ids.tolist() == [name for name, _ in naive.matches(rows, query, 0.5)]


@pytest.mark.parametrize("config", [{}, {"center": True}, {"pca_dim": 8}, {"whiten": True}])
def test_fine_codes_estimate_cosines_whatever_the_other_tests_see(crowd, config):
    rows, queries = crowd
    index = built(rows[:1500], 6, **config)
    query_of, ids = np.repeat(np.arange(20), 50), np.tile(np.arange(50), 20)
    scores, slopes = index.units.see(queries[:20], query_of, ids)
    exact = np.einsum("ij,ij->i", queries[query_of], rows[ids])
    noise = 1 / slopes[:, FINE]
    assert (np.abs(scores[:, FINE] * noise - exact) < 5 * noise).all()


def test_search_passes_what_calibration_says_it_passes(crowd, pair):
    """A fine code tests last: what its slack lets through is what is scored."""
    rows, queries = crowd
    source = pair[4].units
    slack = np.full(5, np.inf)
    slack[FINE] = 0.3
    everything = np.tile(np.arange(len(rows)), 3)
    query_of = np.repeat(np.arange(3), len(rows))
    scores, slopes = source.see(queries[:3], query_of, everything)
    needed = 0.6 * slopes[:, FINE] - scores[:, FINE]
    found = source.search(queries[:3], 0.6, Thresholds.one(0.6, slack), 1)
    for query, spent in enumerate(found.spent):
        own = needed[query_of == query]
        assert np.sum(own <= 0.3 - 1e-3) <= spent[4] <= np.sum(own <= 0.3 + 1e-3)


def test_explain_shows_the_fine_code(crowd, pair):
    _, queries = crowd
    hits = pair[4].range_search(queries[0], shadow=0.0)
    names = [stage.name for stage in pair[4].explain(queries[0], int(hits.ids[0])).stages]
    assert names[-2:] == ["prefix", "fine"]
    assert "fine code" in str(pair[4].explain(queries[0], int(hits.ids[0])))


def test_whole_codes_are_tested_before_fine_ones_where_first_words_are_not_all(crowd):
    rows = naive.unit_rows(np.random.default_rng(3).standard_normal((800, 100)))
    index = built(rows, 4, member_words=1, reserve=50)
    _, slopes = index.units.see(rows[:1], np.array([0]), np.array([1]))
    assert (slopes[0, 1:] > 0).all()
    assert index.units.cascade.stage_shares[CODES] > 0


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_saved_index_with_fine_codes_answers_as_before(crowd, tmp_path, bits):
    rows, queries = crowd
    index = built(rows[:2500], bits)
    index.save(tmp_path / "fine.mv")
    opened = Index.open(tmp_path / "fine.mv", verify=True)
    one, other = (each.range_search(queries[:20], shadow=0.0) for each in (index, opened))
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.spent, other.spent)
    assert one.certificate.thresholds == other.certificate.thresholds


def test_one_plan_serves_indexes_with_and_without_fine_codes(crowd, pair):
    """Their tables are merged; the stage that one of them lacks lets its rows pass."""
    made = [pair[bits]._parts for bits in (1, 4)]
    tables = [parts.evidence.table for parts in made]
    merged = type(tables[0]).merged(tables)
    evidence = replace(made[0].evidence, table=merged)
    for order in ([0, 1], [1, 0]):
        cascades = tuple(made[i].units.cascade for i in order)
        calibration = Calibration(cascades, evidence, 0.6, (0.6,), 0)
        plan = calibration.for_range(0.6, Rule("expected", 0.02))
        assert set(plan.certificate.thresholds) == {"unit", "prefix", "code", "fine"}
        assert plan.certificate.observed <= 0.02
        for parts in made:
            found = parts.units.search(crowd[1], 0.6, plan.thresholds, 1)
            misses = count_misses(exact_range(crowd[0], crowd[1], 0.6), found)
            assert misses.miss_rate <= 0.02 + 4 * misses.standard_error


def test_table_of_four_stages_is_given_a_fifth_that_lets_everything_pass(pair):
    table = pair[1]._parts.evidence.table
    older = replace(table, scores=table.scores[:, :4], slopes=table.slopes[:, :4])
    newer = older.with_all_stages()
    assert table.with_all_stages() is table
    assert newer.checksum == table.checksum
    assert np.isinf(newer.scores[:, FINE]).all()
    assert not newer.slopes[:, FINE].any()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"member_bits": 9}, "'member_bits' .* at most 8. Got 9"),
        ({"member_bits": 0}, "'member_bits' .* Got 0"),
        ({"member_bits": 2, "codes": "none"}, "'member_bits' .* 1 for float32 tests. Got 2"),
    ],
)
def test_bits_that_cannot_be_are_refused(config, text):
    with pytest.raises(InvalidValueError, match=text):
        IndexConfig(**config)


def test_bits_are_chosen_where_short_codes_let_too_much_pass(crowd):
    crowded = Index.build(crowd[0], similarity=0.6, progress=False)
    assert crowded.config.member_bits > 1
    alone = naive.unit_rows(np.random.default_rng(0).standard_normal((3000, 512)))
    assert Index.build(alone, similarity=0.6, progress=False).config.member_bits == 1
    papers = IndexConfig(codes="sign")
    assert Index.build(crowd[0], similarity=0.6, config=papers).config.member_bits == 1
