"""Laws that answers obey at every level and with every configuration."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import naive
from memvec import Index, IndexConfig
from strategies import cloud, configs, seeds

similarities = st.floats(0.02, 0.999)
# Without queries the evidence is planted; with so many it is mostly natural.
calibrating = st.sampled_from([None, 250])


def build(vectors, config, n_calibrating=None, **settings):
    queries = None
    if n_calibrating is not None:
        queries = cloud(12345, n=n_calibrating, dim=vectors.shape[1])
    return Index.build(vectors, config=config, queries=queries, **settings)


def pairs_of(hits, names=None):
    """The hits of each query as a set of (id, score)."""
    names = np.arange(10**4) if names is None else names
    return [set(zip(names[row.ids].tolist(), row.scores.tolist(), strict=True)) for row in hits]


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    config=configs,
    n_calibrating=calibrating,
    level=st.sampled_from(["model", "expected", "exact"]),
    rate=st.sampled_from([0.01, 0.05, 0.3]),
    pair=st.tuples(similarities, similarities),
)
@example(
    seed=1,
    config=IndexConfig(iterations=1, kmeans_rule="sum", whiten=True, seed=1),
    n_calibrating=None,
    level="expected",
    rate=0.3,
    pair=(0.03125, 0.0234375),
).via("the lowest planted cell")
@example(1, IndexConfig(center=False, whiten=True, seed=1), None, "expected", 0.3, (0.0234, 0.0313))
def test_lower_similarity_returns_a_superset(seed, config, n_calibrating, level, rate, pair):
    low, high = sorted(pair)
    index = build(cloud(seed, near=0.6), config, n_calibrating)
    queries = cloud(seed + 1, n=12, near=0.6)
    # The narrow one first: what is solved and kept must not matter.
    narrow = index.range_search(queries, high, guarantee=level, miss_rate=rate)
    wide = index.range_search(queries, low, guarantee=level, miss_rate=rate)
    for inner, outer in zip(pairs_of(narrow), pairs_of(wide), strict=True):
        assert inner <= outer


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    config=configs,
    n_calibrating=calibrating,
    rate=st.sampled_from([0.05, 0.3]),
    similarity=similarities,
)
def test_what_is_found_on_average_is_found_surely(seed, config, n_calibrating, rate, similarity):
    surely = {"guarantee": "high_probability", "similarities": [similarity]}
    index = build(cloud(seed, near=0.6), config, n_calibrating, **surely)
    queries = cloud(seed + 1, n=12, near=0.6)
    found = [
        pairs_of(index.range_search(queries, similarity, guarantee=level, miss_rate=rate))
        for level in ("expected", None, "exact")
    ]
    for expected, sure, exact in zip(*found, strict=True):
        assert expected <= sure <= exact


@settings(deadline=None, max_examples=60)
@given(
    seed=seeds,
    config=configs,
    n_calibrating=calibrating,
    level=st.sampled_from(["model", "expected", None, "exact"]),
    similarity=similarities,
)
def test_every_returned_score_is_a_true_one(seed, config, n_calibrating, level, similarity):
    vectors, queries = cloud(seed), cloud(seed + 1, n=4)
    surely = {"guarantee": "high_probability", "similarities": [similarity]}
    index = build(vectors, config, n_calibrating, **surely)
    hits = index.range_search(queries, similarity, guarantee=level, miss_rate=0.1)
    for query, row in zip(queries, hits, strict=True):
        truth = dict(naive.matches(vectors, query, similarity))
        assert set(row.ids.tolist()) <= set(truth)
        assert row.scores.tolist() == [np.float32(truth[number]) for number in row.ids.tolist()]
        assert (np.diff(row.scores) <= 0).all()


@settings(deadline=None, max_examples=80)
@given(seed=seeds, config=configs, n_calibrating=calibrating, similarity=similarities)
def test_exact_equals_brute_force(seed, config, n_calibrating, similarity):
    vectors, queries = cloud(seed), cloud(seed + 1, n=4)
    vectors[5] = vectors[6]
    index = build(vectors, config, n_calibrating)
    hits = index.range_search(queries, similarity, guarantee="exact")
    for query, row in zip(queries, hits, strict=True):
        expected = naive.matches(vectors, query, similarity)
        assert row.ids.tolist() == [number for number, _ in expected]
        assert row.scores.tolist() == [np.float32(score) for _, score in expected]
    assert hits.certificate.complete


@settings(deadline=None, max_examples=40)
@given(seed=seeds, config=configs, n_calibrating=calibrating, k=st.integers(1, 30))
def test_exact_top_k_is_a_prefix_of_the_exact_range(seed, config, n_calibrating, k):
    index = build(cloud(seed), config, n_calibrating)
    queries = cloud(seed + 1, n=5)
    top = index.search(queries, k, guarantee="exact")
    for row, ids, scores in zip(
        index.range_search(queries, 0.02, guarantee="exact"), top.ids, top.scores, strict=True
    ):
        n = min(k, len(row.ids))
        assert ids[:n].tolist() == row.ids[:n].tolist()
        assert scores[:n].tolist() == row.scores[:n].tolist()
        assert (ids >= 0).all()
    assert top.certificate.complete


@settings(deadline=None, max_examples=40)
@given(seed=seeds, config=configs, similarity=similarities, size=st.integers(1, 40))
def test_exact_answer_does_not_depend_on_batches_or_threads(seed, config, similarity, size):
    index = build(cloud(seed), config)
    queries = cloud(seed + 1, n=40)
    whole = pairs_of(index.range_search(queries, similarity, guarantee="exact", threads=1))
    parts = []
    for start in range(0, len(queries), size):
        some = queries[start : start + size]
        parts += pairs_of(index.range_search(some, similarity, guarantee="exact", threads=3))
    assert parts == whole


@settings(deadline=None, max_examples=40)
@given(seed=seeds, config=configs, other=configs, similarity=similarities)
def test_exact_answer_does_not_depend_on_order_or_layout(seed, config, other, similarity):
    vectors, queries = cloud(seed), cloud(seed + 1, n=8)
    order = np.random.default_rng(seed).permutation(len(vectors))
    one = build(vectors, config).range_search(queries, similarity, guarantee="exact")
    shuffled = np.asfortranarray(vectors[order])
    two = build(shuffled, other).range_search(
        np.asfortranarray(queries), similarity, guarantee="exact"
    )
    assert pairs_of(one) == pairs_of(two, order)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, config=configs, similarity=similarities, more=st.integers(1, 60))
def test_unrelated_vectors_remove_no_hit_at_exact(seed, config, similarity, more):
    vectors, queries = cloud(seed), cloud(seed + 1, n=8)
    unrelated = naive.unit_rows(np.random.default_rng(seed + 2).standard_normal((more, 12)))
    before = build(vectors, config).range_search(queries, similarity, guarantee="exact")
    after = build(np.vstack([vectors, unrelated]), config).range_search(
        queries, similarity, guarantee="exact"
    )
    for fewer, many in zip(pairs_of(before), pairs_of(after), strict=True):
        assert fewer == {pair for pair in many if pair[0] < len(vectors)}


@pytest.mark.parametrize("dim", [1, 2])
def test_ranges_nest_down_to_zero(dim):
    index = build(cloud(5, n=60, dim=dim), None)
    queries = cloud(6, n=20, dim=dim)
    inner = [set()] * len(queries)
    for similarity in (0.2, 0.05, 0.03, 0.01, 1e-4, 1e-7):
        hits = index.range_search(queries, similarity, guarantee="expected", miss_rate=0.3)
        outer = pairs_of(hits)
        assert all(less <= more for less, more in zip(inner, outer, strict=True))
        inner = outer


# The same queries again and again are unlike the calibration queries.
@pytest.mark.filterwarnings("ignore::memvec.errors.DriftWarning")
@pytest.mark.parametrize("level", ["model", "expected"])
def test_ranges_of_clustered_data_nest_all_along(level):
    """Natural evidence gives way to planted evidence somewhere between the two ends."""
    vectors = cloud(40, n=400, dim=32, near=0.7)
    index = build(vectors, None, 400, similarity=0.6, miss_rate=0.05)
    queries = cloud(41, n=60, dim=32, near=0.7)
    steps = np.concatenate([np.linspace(0.45, 0.999, 25), [0.5, 0.55, 0.6, 0.65, 0.949999, 0.95]])
    inner = [set()] * len(queries)
    planted = set()
    for similarity in np.sort(steps)[::-1]:
        hits = index.range_search(queries, float(similarity), guarantee=level)
        planted.add(hits.certificate.synthetic)
        outer = pairs_of(hits)
        assert all(less <= more for less, more in zip(inner, outer, strict=True))
        inner = outer
    assert planted == ({True, False} if level == "expected" else {False})


# The same queries again and again are unlike the calibration queries.
@pytest.mark.filterwarnings("ignore::memvec.errors.DriftWarning")
def test_ranges_nest_between_those_promised_surely():
    """Off its list, the level of the build is lowered; ranges contain each other all the same."""
    vectors = cloud(40, n=400, dim=32, near=0.7)
    listed, surely = [0.5, 0.6, 0.7], "high_probability"
    promised = {"miss_rate": 0.05, "guarantee": surely, "similarities": listed}
    index = build(vectors, None, 400, similarity=0.5, **promised)
    queries = cloud(41, n=60, dim=32, near=0.7)
    inner = [set()] * len(queries)
    for similarity in (0.9, 0.75, 0.7, 0.69, 0.65, 0.6, 0.59, 0.55, 0.5, 0.45):
        hits = index.range_search(queries, similarity)
        outer = pairs_of(hits)
        assert all(less <= more for less, more in zip(inner, outer, strict=True))
        inner = outer
        assert (hits.certificate.level == surely) == (similarity in listed)
