"""Quality against complexity: the shortcut over all thresholds is what the index returns."""

import numpy as np
import pytest

from memvec.index import Index
from paper import Table
from paper.quality_curves import (
    CURVE_COLUMNS,
    SearchedUnits,
    curve_rows,
    paper_config,
    quality_at,
    ratio_to_reach,
    search_units,
)
from paper.retrieval_sets import RetrievalSet, cosine_set, made_up_views


@pytest.fixture(scope="module")
def scenes():
    return made_up_views("scenes", 20, 5, 200, 48, seed=3)


@pytest.mark.parametrize("assignment", ["random", "kmeans"])
@pytest.mark.parametrize("construction", ["sum", "pinv"])
def test_rankings_are_those_of_the_index(scenes, assignment, construction):
    index = Index.build(scenes.vectors, config=paper_config(assignment, construction, 8, seed=0))
    units = SearchedUnits.of_index(index, scenes.queries)
    for ratio in (0.2, 0.5, 0.9):
        threshold = units.threshold(ratio)
        found = index.search(scenes.queries, k=len(scenes.vectors), threshold=threshold)
        rankings = units.rankings(scenes, threshold)
        for row, ranking in zip(found.ids, rankings, strict=True):
            np.testing.assert_array_equal(row[row >= 0], ranking)
        assert units.ratios(threshold).mean() == pytest.approx(found.work.cost_ratio)


@pytest.mark.parametrize(
    "how",
    [
        ("random", "sum", {}),
        ("random", "pinv", {}),
        ("kmeans", "sum", {}),
        ("kmeans", "pinv", {"iterations": 2}),
        ("kmeans", "sum", {"kmeans_rule": "sum+norm", "normalised": True}),
        ("kmeans", "pinv", {"batch_size": 100}),
    ],
)
def test_units_searched_without_an_index_are_those_of_the_index(scenes, how):
    assignment, construction, more = how
    config = paper_config(assignment, construction, 8, seed=3, **more)
    found = search_units(scenes, config)
    index = Index.build(scenes.vectors, config=config)
    np.testing.assert_array_equal(found.labels, index.labels)
    np.testing.assert_array_equal(found.sizes, index.unit_sizes)
    np.testing.assert_allclose(found.scores, index.unit_scores(scenes.queries), atol=1e-5)


def test_matches_found_are_those_of_the_index(scenes):
    data = cosine_set("near", scenes.vectors, 40, 0.5, seed=0)
    index = Index.build(data.vectors, config=paper_config("kmeans", "pinv", 8, seed=0))
    units = SearchedUnits.of_index(index, data.queries)
    threshold = units.threshold(0.4)
    hits = index.range_search(data.queries, 0.5, threshold=threshold)
    shares = [np.isin(ids, row.ids).mean() for ids, row in zip(data.relevant, hits, strict=True)]
    assert data.quality(units.rankings(data, threshold)) == pytest.approx(np.mean(shares))


def test_threshold_spends_what_it_may_by_hand():
    # Two queries, units of 1, 2 and 3 vectors: the tests cost 3 of 6 each.
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.8, 0.3]], dtype=np.float32)
    units = SearchedUnits(scores, np.array([0, 1, 1, 2, 2, 2]), np.array([1, 2, 3]))
    assert units.threshold(0.5) == np.inf
    assert units.threshold(0.75) == pytest.approx(0.8)  # 3/6 + (1 + 2)/12
    np.testing.assert_allclose(units.ratios(units.threshold(0.75)), [4 / 6, 5 / 6])


def test_curve_ends_at_the_exhaustive_quality(scenes):
    units = search_units(scenes, paper_config("random", "pinv", 8, seed=0))
    rows = curve_rows(scenes, "v", units, (0.2, 2.0))
    assert rows[-1][3] == rows[-1][4] == scenes.quality(list(scenes.ranking))


@pytest.mark.parametrize("ratios", [(0.2, 0.5), (0.2, 0.5, 1.1), (0.2, 0.5, 1.3, 2.0)])
def test_last_point_of_a_curve_visits_every_unit(scenes, ratios):
    units = search_units(scenes, paper_config("random", "pinv", 8, seed=0))
    rows = curve_rows(scenes, "v", units, ratios)
    everything = 1 + len(units.sizes) / len(scenes.vectors)
    assert rows[-1][2] == pytest.approx(everything)
    assert [row[2] for row in rows[:-1]] == pytest.approx(
        [ratio for ratio in ratios if ratio < everything], abs=0.01
    )


def test_largest_unit_by_hand():
    units = SearchedUnits(np.zeros((1, 2)), np.array([0, 1, 1, 1]), np.array([1, 3]))
    assert units.largest == 0.75


def test_units_of_labels_leave_empty_ones_out():
    rows = np.eye(3, dtype=np.float32)
    units = SearchedUnits.of_labels(rows, np.array([5, 5, 9]), rows[:1], "sum")
    assert units.sizes.tolist() == [2, 1]
    np.testing.assert_allclose(units.scores, [[1.0, 0.0]])
    centroids = SearchedUnits.of_labels(rows, np.array([5, 5, 9]), rows[:1], "sum", centroids=True)
    np.testing.assert_allclose(centroids.scores, [[np.sqrt(0.5), 0.0]], rtol=1e-6)


def test_curves_are_read_between_their_points():
    points = ((0.1, 0.0), (0.3, 0.4), (0.5, 0.8))
    table = Table("t", CURVE_COLUMNS, tuple(("d", "v", x, y, 0.8) for x, y in points))
    assert quality_at(table, "d", "v", 0.2) == pytest.approx(0.25)
    assert ratio_to_reach(table, "d", "v", 0.75) == pytest.approx(0.4)
    assert ratio_to_reach(table, "d", "v", 1.0) == pytest.approx(0.5)
    worse = Table("t", CURVE_COLUMNS, table.rows[:2])
    assert ratio_to_reach(worse, "d", "v") == np.inf


def test_four_recall_counts_the_query_itself():
    rows = np.eye(4, dtype=np.float32)
    data = RetrievalSet("o", rows, rows, [np.arange(4)] * 4, "4-recall@4")
    assert data.quality(list(data.ranking)) == 4.0


def test_cosine_set_leaves_queries_without_a_match_out():
    rows = np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1]], dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    kept = [len(cosine_set("c", rows, 1, 0.9, seed).queries) for seed in range(20)]
    assert set(kept) == {0, 1}
