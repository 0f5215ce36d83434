"""Joins of arrays and indexes, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memvec
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.guarantee import Certificate
from memvec.index import _arrays
from memvec.search import SelfJoin, SimilarPairs
from naive import array_groups, array_pairs, canonical_score, unit_rows

DIM = 6


def some_rows(seed, n_rows=60):
    """Return rows with near-duplicates and copies."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows // 2, DIM))
    near = rows + 0.2 * rng.standard_normal(rows.shape)
    both = np.concatenate([rows, near, rows[:5]])
    return both[rng.permutation(len(both))]


def both_ways(monkeypatch, indexed):
    """Let arrays be indexed however few rows they have, or never."""
    monkeypatch.setattr(_arrays, "_FEW_OTHERS", 0 if indexed else 10**9)
    monkeypatch.setattr(_arrays, "_CALIBRATED_ON", 20)
    monkeypatch.setattr(SelfJoin, "queries_at_once", 7)


def as_groups(found):
    return [(group.kept, *group.dropped) for group in found.groups]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 99), st.sampled_from([0.3, 0.9, 1.0]))
def test_pairs_of_an_array_are_all_in_order(seed, similarity):
    rows = some_rows(seed)
    found = memvec.self_join(rows, similarity)
    assert list(found) == array_pairs(rows, similarity)
    assert len(found) == len(found.left)
    assert (found.left.dtype, found.right.dtype, found.scores.dtype) == ("int64", "int64", "f4")
    assert (found.certificate.level, found.expected_missed) == ("exact", 0)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 99), st.sampled_from([0.3, 0.9, 1.0]))
def test_pairs_of_an_index_are_those_of_its_array(seed, similarity):
    rows = some_rows(seed)
    index = memvec.Index.build(rows, similarity=0.8)
    found = index.self_join(similarity, guarantee="exact")
    assert list(found) == array_pairs(rows, similarity)
    blocks = index.iter_self_join(similarity, guarantee="exact")
    assert [pair for block in blocks for pair in block] == list(found)


@pytest.mark.parametrize("share", [-1.0, 2.0])
@pytest.mark.parametrize("groups", ["components", "star"])
def test_products_and_bounds_find_the_same(monkeypatch, share, groups):
    rows = some_rows(5)
    index = memvec.Index.build(rows, similarity=0.9, guarantee="exact")
    monkeypatch.setattr(SelfJoin, "share_tested", share)
    assert list(index.self_join()) == array_pairs(rows, 0.9)
    found = index.deduplicate(groups=groups)
    assert as_groups(found) == array_groups(rows, 0.9, range(len(rows)), groups)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 99),
    st.sampled_from(["first", "last", "best"]),
    st.sampled_from(["components", "star"]),
    st.booleans(),
)
def test_duplicates_of_an_array_are_those_of_all_pairs(seed, keep, groups, by_index):
    rows = some_rows(seed)
    scores = np.random.default_rng(seed).integers(5, size=len(rows)) if keep == "best" else None
    value = {"first": np.negative(range(len(rows))), "last": np.arange(len(rows))}.get(keep, scores)
    order = sorted(range(len(rows)), key=lambda row: value[row], reverse=True)
    if by_index:
        index = memvec.Index.build(rows, similarity=0.9, guarantee="exact")
        found = index.deduplicate(keep=keep, scores=scores, groups=groups)
    else:
        found = memvec.deduplicate(rows, 0.9, keep=keep, scores=scores, groups=groups)
    assert as_groups(found) == array_groups(rows, 0.9, order, groups)
    assert sorted([*found.kept.tolist(), *found.drop]) == list(range(len(rows)))
    assert (found.n_items, found.expected_missed) == (len(rows), 0)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_join_of_two_arrays_is_every_pair_in_order(monkeypatch, swapped, indexed):
    both_ways(monkeypatch, indexed)
    few, many = some_rows(1)[:30], some_rows(1)
    left, right = (many, few) if swapped else (few, many)
    found = memvec.join(left, right, 0.8, guarantee="expected")
    scored = [
        (i, j, float(np.float32(canonical_score(a, b))))
        for i, a in enumerate(unit_rows(left))
        for j, b in enumerate(unit_rows(right))
    ]
    assert list(found) == [pair for pair in scored if pair[2] >= 0.8 - 1e-6]


@pytest.mark.parametrize("groups", ["components", "star"])
def test_indexed_array_has_the_duplicates_of_the_product(monkeypatch, groups):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3000, 32)).astype(np.float32)
    rows = np.concatenate([rows, rows[:600] + 0.05 * rng.standard_normal((600, 32)), rows[:50]])
    exact = memvec.deduplicate(rows, 0.95, groups=groups, progress=False)
    both_ways(monkeypatch, indexed=True)
    found = memvec.deduplicate(rows, 0.95, groups=groups, progress=False)
    assert found.certificate.level == "expected"
    assert set(found.drop) <= set(exact.drop)
    assert len(set(exact.drop) - set(found.drop)) <= 3 * found.expected_missed
    pairs = memvec.self_join(rows, 0.95, progress=False)
    assert (pairs.left < pairs.right).all()
    assert len(pairs) >= 650 - 3 * pairs.expected_missed


def test_answer_says_how_many_pairs_may_be_left():
    rng = np.random.default_rng(3)
    rows = np.repeat(rng.standard_normal((500, 16)), 5, axis=0)
    index = memvec.Index.build(
        rows + 0.02 * rng.standard_normal(rows.shape), similarity=0.9, miss_rate=0.2
    )
    found, pairs = index.deduplicate(), index.self_join()
    bound = found.certificate.bound
    assert 0 < bound <= 0.2
    assert found.n_pairs == len(pairs)
    assert pairs.expected_missed == int(np.ceil(bound / (1 - bound) * len(pairs)))
    assert repr(pairs).endswith(f" pairs, about {pairs.expected_missed} pairs may be left)")
    assert repr(found).endswith(f" to drop, about {found.expected_missed} pairs may be left)")


@pytest.mark.parametrize(
    ("n_pairs", "text"),
    [(0, "(0 pairs)"), (1, "(1 pair, about 1 pair may be left)"), (500, ", about 6 pairs may be")],
)
def test_pairs_left_are_counted_in_words(n_pairs, text):
    rows = np.arange(n_pairs)
    certificate = Certificate("expected", 0.9, 0.02, 0.01)
    found = SimilarPairs(rows, rows + 1, np.ones(n_pairs, np.float32), certificate)
    assert text in repr(found)


def test_ten_thousand_copies_are_one_group():
    rows = np.ones((10_050, 16), dtype=np.float32)
    rows[:50] = np.random.default_rng(0).standard_normal((50, 16))
    found = memvec.deduplicate(rows, 0.999)
    assert [(group.kept, len(group.dropped)) for group in found.groups] == [(50, 9_999)]
    assert found.n_pairs == 0


def test_centre_of_a_star_is_near_all_that_it_drops():
    angles = np.radians([0, 25, 50])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert memvec.deduplicate(rows).drop == [1, 2]
    assert memvec.deduplicate(rows, groups="star").drop == [1]
    best = memvec.deduplicate(rows, groups="star", keep="best", scores=[0.0, 1.0, 0.5])
    assert (best.kept.tolist(), best.drop) == ([1], [0, 2])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: memvec.self_join(x, 0), InvalidValueError, "parameter of memvec.self_join must"),
        (
            lambda x: memvec.self_join(x, threads=0),
            InvalidValueError,
            "'threads' parameter of memvec.self_join must be an integer >= 1. Got 0",
        ),
        (
            lambda x: memvec.self_join(x, guarantee="sure"),
            InvalidValueError,
            "'guarantee' parameter of memvec.self_join must be one of",
        ),
        (
            lambda x: memvec.join(x, np.ones((2, 3))),
            InvalidValueError,
            f"'right' parameter of memvec.join must be of dimension {DIM}. Got dimension 3",
        ),
        (
            lambda x: memvec.deduplicate(x, keep="longest"),
            InvalidValueError,
            "'keep' parameter of memvec.deduplicate must be one of 'first', 'last', 'best'",
        ),
        (
            lambda x: memvec.deduplicate(x, groups="stars"),
            InvalidValueError,
            "'groups' parameter of memvec.deduplicate must be one of 'components', 'star'",
        ),
        (
            lambda x: memvec.deduplicate(x, keep="best"),
            InvalidValueError,
            "'scores' parameter of memvec.deduplicate must be 65 numbers, one for each row",
        ),
        (
            lambda x: memvec.deduplicate(x, keep="best", scores=[1, 2]),
            InvalidValueError,
            r"'scores' parameter of memvec.deduplicate must be 65 numbers.*Got shape \(2,\)",
        ),
        (
            lambda x: memvec.deduplicate(x, keep="best", scores=["a"] * 65),
            InvalidTypeError,
            "'scores' parameter of memvec.deduplicate must be an array of real numbers",
        ),
        (
            lambda x: memvec.deduplicate(x, keep="best", scores=[1.0] * 64 + [np.nan]),
            InvalidValueError,
            "'scores' parameter of memvec.deduplicate must be free of NaN. Got NaN in row 64",
        ),
        (
            lambda x: memvec.Index.build(x).deduplicate(scores=[1.0] * 65),
            InvalidValueError,
            "'scores' parameter of Index.deduplicate must be left out unless keep is 'best'",
        ),
        (
            lambda x: memvec.Index.build(x).self_join(similarity=2),
            InvalidValueError,
            "'similarity' parameter of Index.self_join must be",
        ),
    ],
)
def test_wrong_arguments_are_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(some_rows(0))


def pairs_of_rows(rng):
    base = unit_rows(rng.standard_normal((10_000, 128)))
    return np.concatenate([base, base + 0.6 * unit_rows(rng.standard_normal(base.shape))])


def clustered(rng, dim, n_clusters, noise):
    centres = rng.standard_normal((n_clusters, dim))[rng.integers(n_clusters, size=20_000)]
    return centres + noise * rng.standard_normal(centres.shape)


LARGE = {
    "loose clusters": (lambda rng: clustered(rng, 64, 4000, 0.55), 0.7),
    "uniform in pairs": (pairs_of_rows, 0.8),
    "low rank": (lambda rng: clustered(rng, 12, 1500, 0.5) @ rng.standard_normal((12, 64)), 0.9),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("seed", range(3))
def test_joins_miss_no_more_than_was_asked(name, seed):
    make, similarity = LARGE[name]
    rows = make(np.random.default_rng([seed, 5]))
    index = memvec.Index.build(rows, similarity=similarity, miss_rate=0.05, progress=False)
    found = index.self_join(progress=False)
    truth = memvec.self_join(rows, similarity, guarantee="exact", progress=False)
    places = [pairs.left * len(rows) + pairs.right for pairs in (truth, found)]
    missed = np.bincount(truth.left, ~np.isin(*places), len(rows))
    total = np.bincount(truth.left, minlength=len(rows))
    shares = missed[total > 0] / total[total > 0]
    error = np.std(shares) * np.sqrt(1 / len(shares) + 1 / found.certificate.n_queries)
    assert np.mean(shares) <= 0.05 + 2 * error
