"""Codes of vectors as they are, without a rotation."""

import numpy as np
import pytest

import memvec
import naive
from memvec import Index, IndexConfig
from memvec.errors import InvalidValueError
from memvec.evaluation import count_misses, exact_range

DIM = 70  # no multiple of 64
PLAIN = IndexConfig(codes="estimate", rotation="none")


def uneven(seed, n):
    """Unit rows around 200 centres; a few entries make up most of every row."""
    fixed, rng = np.random.default_rng(8), np.random.default_rng(seed)
    weights = np.exp(1.5 * fixed.standard_normal(DIM))
    centres = fixed.standard_normal((200, DIM))
    return naive.unit_rows(
        (centres[rng.integers(200, size=n)] + 0.6 * rng.standard_normal((n, DIM))) * weights
    )


def test_promise_holds_where_entries_are_uneven():
    """The noise of such codes has no bound that all data shares: calibration alone tells it."""
    vectors, queries = uneven(1, 9000), uneven(2, 2000)
    index = Index.build(vectors, similarity=0.9, miss_rate=0.02, config=PLAIN)
    hits = index.range_search(queries)
    assert hits.certificate.level == "expected"
    assert hits.work.exact_products < 0.9 * len(vectors) * len(queries)
    misses = count_misses(exact_range(vectors, queries, 0.9), hits)
    # At most 1 for a query: a standard error of less than √(0.02/n).
    assert misses.miss_rate <= 0.02 + 4 * np.sqrt(0.02 / len(queries))
    exact = index.range_search(queries[:200], guarantee="exact")
    assert count_misses(exact_range(vectors, queries[:200], 0.9), exact).miss_rate == 0


@pytest.mark.parametrize("codes", ["sign", "estimate"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_index_without_rotation_is_opened_as_it_was_saved(tmp_path, codes, symmetric):
    config = IndexConfig(codes=codes, symmetric=symmetric, rotation="none")
    index = Index.build(uneven(3, 2500), similarity=0.8, config=config)
    assert "unrotated codes" in str(index.design)
    index.save(tmp_path / "i.mv")
    opened = Index.open(tmp_path / "i.mv", verify=True)
    assert opened.config == index.config
    queries = uneven(4, 50)
    np.testing.assert_array_equal(opened.unit_scores(queries), index.unit_scores(queries))
    for arguments in ({}, {"guarantee": "exact"}, {"units": 5}):
        one, other = (each.range_search(queries, **arguments) for each in (index, opened))
        np.testing.assert_array_equal(one.ids, other.ids)
        assert one.work == other.work


def test_waiting_vectors_are_not_missed_without_rotation(tmp_path):
    vectors, queries = uneven(5, 6000), uneven(6, 100)
    with memvec.open(
        tmp_path / "c.mv", dim=DIM, similarity=0.9, config=PLAIN, seal_at=0
    ) as collection:
        collection.add(vectors[:3000])
        collection.seal()
        collection.add(vectors[3000:])
        found = collection.range_search(queries)
    truth = exact_range(vectors[3000:], queries, 0.9)
    for query, row in enumerate(found):
        waiting = truth.ids[truth.offsets[query] : truth.offsets[query + 1]] + 3000
        assert set(waiting.tolist()) <= set(row.ids.tolist())
    assert len(truth.ids) > 100


def test_unknown_rotation_is_refused():
    with pytest.raises(InvalidValueError, match="'rotation' parameter of IndexConfig .*'turned'"):
        IndexConfig(rotation="turned")
