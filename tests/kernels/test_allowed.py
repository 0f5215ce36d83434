"""Searches that pass over rows which may not be hits, against searches that find and drop them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memvec
import naive
from memvec import IndexConfig
from memvec.guarantee import Thresholds
from memvec.kernels import collect_matches, search_vectors
from strategies import seeds

DIM, N_ROWS, SIMILARITY = 64, 600, 0.6
ALL = np.empty(0, dtype=bool)
NO_SCALES = np.empty(0)
CONFIGS = {
    "codes": IndexConfig(codes="estimate", unit_size=8),
    "groups": IndexConfig(codes="estimate", unit_size=8, levels=2, group_size=64),
    "homes": IndexConfig(codes="estimate", unit_size=8, units_per_vector=2, reserve=20),
    "one home": IndexConfig(codes="estimate", unit_size=8, assignment="kmeans", units_per_vector=1),
    "float32": IndexConfig(codes="none", unit_size=8),
}


def near_rows(seed):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((60, DIM))
    return naive.unit_rows(np.repeat(centres, 10, axis=0) + 0.6 * rng.standard_normal((600, DIM)))


ROWS = near_rows(0)


@pytest.fixture(scope="module", params=CONFIGS)
def index(request):
    return memvec.Index.build(ROWS, similarity=SIMILARITY, config=CONFIGS[request.param])


def kept(share, seed=1):
    return np.random.default_rng(seed).random(N_ROWS) < share


def hits(found):
    spans = zip(found.offsets[:-1], found.offsets[1:], strict=True)
    return [list(zip(found.ids[a:b].tolist(), found.scores[a:b], strict=True)) for a, b in spans]


def dropped(found, allowed):
    return [[hit for hit in one if allowed[hit[0]]] for one in hits(found)]


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("slack", [0.5, 2.0, np.inf])
def test_search_finds_what_is_allowed_of_what_it_finds(index, share, slack):
    allowed = kept(share)
    stages = len(index.units.cascade.stage_names)
    lines = Thresholds.one(SIMILARITY, np.full(stages, slack))
    whole = index.units.cascade.search(ROWS[:40], SIMILARITY, lines, 1)
    found = index.units.cascade.search(ROWS[:40], SIMILARITY, lines, 1, allowed)
    assert hits(found) == dropped(whole, allowed)
    if np.isinf(slack):
        assert hits(found)[3] == naive.matches(ROWS, ROWS[3], SIMILARITY, allowed=allowed)
    # Units and first words are tested alike; what follows is spared.
    np.testing.assert_array_equal(found.spent[:, :3], whole.spent[:, :3])
    assert (found.spent[:, 3:] <= whole.spent[:, 3:]).all()
    if share == 0.0:
        assert not found.spent[:, 3:].any()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_exact_search_misses_nothing_that_is_allowed(index, share):
    allowed = kept(share)
    found = index.units.bounds.search(ROWS[:10], SIMILARITY, 1, allowed)
    expected = [naive.matches(ROWS, row, SIMILARITY, allowed=allowed) for row in ROWS[:10]]
    assert hits(found) == expected
    assert (found.spent[:, 4] <= allowed.sum()).all()


@settings(deadline=None, max_examples=20)
@given(seed=seeds, share=st.sampled_from([0.0, 0.1, 0.7]), filtered=st.booleans())
def test_search_by_memory_vectors_equals_its_twin(seed, share, filtered):
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((30, 8)))
    labels = np.repeat(np.arange(6), 5)
    units = np.array([naive.memory_vector(rows[labels == u], "pinv") for u in range(6)])
    units, thresholds = units.astype(np.float32), np.full(6, 0.4, dtype=np.float32)
    allowed = rng.random(30) < share if filtered else ALL
    keys = rng.permutation(30)
    bounds, ids, scores = np.empty(2, np.int64), np.empty(30, np.int64), np.empty(30)
    counts = np.empty((1, 5), dtype=np.int64)
    offsets = np.arange(0, 31, 5)
    query = naive.unit_rows(rng.standard_normal((1, 8)))
    n = search_vectors(
        query, query, 0.2, thresholds, units, offsets, rows, NO_SCALES, keys, allowed, bounds, ids,
        scores, counts,
    )  # fmt: skip
    of_rows = allowed[keys] if filtered else None
    expected = naive.range_in_units(rows, labels, units, query[0], thresholds, 0.2, of_rows)
    assert sorted(ids[:n].tolist()) == sorted(int(keys[row]) for row, _ in expected)
    assert scores[:n].tolist() == [score for _, score in expected]
    visited = np.isin(labels, naive.unit_test(units, query[0], thresholds))
    assert counts[0, 4] == np.count_nonzero(visited if of_rows is None else visited & of_rows)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, share=st.sampled_from([0.0, 0.1, 0.7, 1.0]))
def test_collecting_equals_its_twin(seed, share):
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((25, 8)))
    allowed = rng.random(25) < share
    ids, scores = np.empty(25, dtype=np.int64), np.empty(25)
    places = np.array([0, 10, 25]), np.array([0, 1])
    keys = np.arange(25)
    n = collect_matches(rows[0], rows, NO_SCALES, keys, *places, 0.1, allowed, ids, scores)
    expected = naive.matches(rows, rows[0], 0.1, allowed=allowed)
    assert list(zip(ids[:n].tolist(), scores[:n], strict=True)) == expected
