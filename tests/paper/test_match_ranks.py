"""Ranks of the units that hold a match, and what single queries cost."""

import numpy as np
import pytest

from memvec.index import Index
from paper.fig06_query_cost import ratios_by_rank
from paper.match_ranks import (
    largest_units,
    matches_by_chance,
    matches_by_rank,
    own_ids,
    units_without_queries,
    wanted_ids,
)
from paper.quality_curves import SearchedUnits, kmeans_variants, paper_config, search_units
from paper.retrieval_sets import RetrievalSet, made_up_views
from paper_tables import MADE


@pytest.fixture(scope="module")
def objects():
    return made_up_views("objects", 10, 4, 60, 32, seed=4)


def test_queries_are_not_their_own_match(objects):
    assert own_ids(objects).tolist() == list(range(40))
    assert [len(ids) for ids in wanted_ids(objects)] == [3] * 40
    units = units_without_queries(objects, paper_config("random", "pinv", 5, seed=0))
    assert matches_by_rank(objects, units).sum() == 3 * 40
    # Protocols that name the id, and those whose queries come from elsewhere.
    scenes = made_up_views("scenes", 5, 3, 10, 32, seed=4)
    assert own_ids(scenes) is scenes.own
    outside = RetrievalSet("o", objects.vectors, objects.queries, objects.relevant, "mAP")
    assert own_ids(outside) is None
    assert wanted_ids(outside) == list(objects.relevant)


@pytest.mark.parametrize("construction", ["sum", "pinv"])
def test_query_is_left_out_of_the_memory_vector_of_its_unit(objects, construction):
    config = paper_config("random", construction, 5, seed=0)
    units = units_without_queries(objects, config)
    plain = search_units(objects, config)
    for query in range(4):
        unit = units.labels[query]
        changed = np.flatnonzero(units.scores[query] != plain.scores[query])
        assert changed.tolist() == [unit]
        members = objects.vectors[(units.labels == unit) & (np.arange(100) != query)].astype(float)
        memory = members.sum(axis=0)
        if construction == "pinv":
            memory = np.linalg.pinv(members) @ np.ones(len(members))
        expected = objects.queries[query] @ memory
        assert units.scores[query, unit] == pytest.approx(expected, abs=1e-5)


def test_query_alone_in_its_unit_scores_nothing_there(objects):
    units = units_without_queries(objects, paper_config("random", "pinv", 1, seed=0))
    assert all(units.scores[query, units.labels[query]] == 0 for query in range(40))


def test_matches_by_chance_by_hand():
    # Two matches among four vectors in two units of two: together in one of three pairings.
    rows = np.eye(4, dtype=np.float32)
    data = RetrievalSet("o", rows, rows[:1], [np.array([0, 1])], "mAP")
    assert matches_by_chance(data, 2) == pytest.approx(2 / (5 / 3))
    every = RetrievalSet("o", rows, rows[:1], [np.arange(4)], "mAP")
    assert matches_by_chance(every, 2) == pytest.approx(2)


def test_random_units_hold_matches_as_chance_gives(objects):
    config = [paper_config("random", "pinv", 5, seed=seed) for seed in range(40)]
    counts = [matches_by_rank(objects, units_without_queries(objects, each)) for each in config]
    mean = sum(each.sum() for each in counts) / sum(np.count_nonzero(each) for each in counts)
    # Seen: 1.0478 and 1.0416, with a standard error of 0.0048 between seeds; allowed are 4.
    assert mean == pytest.approx(matches_by_chance(objects, 20), abs=4 * 0.0048)


def test_ratios_by_rank_by_hand():
    units = SearchedUnits(np.array([[0.1, 0.9]]), np.array([0, 1, 1, 1]), np.array([1, 3]))
    np.testing.assert_allclose(ratios_by_rank(units), [[5 / 4, 6 / 4]])


def test_normalised_sums_assign_and_score(objects):
    config = kmeans_variants(5, seed=0, rounds=3)["k-means sum, normalised"]
    index = Index.build(objects.vectors, config=config)
    sums = np.array([objects.vectors[index.labels == unit].sum(axis=0) for unit in range(20)])
    sums /= np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(index.unit_vectors, sums, atol=1e-5)


def test_largest_units_are_named_for_each_set():
    table = MADE["fig04-unit-probability"](True)
    assert "with pinv: Holidays 1 % and 1 %. " in largest_units(table)
