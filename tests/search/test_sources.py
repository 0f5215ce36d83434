"""Sources, alone and together, against the search of everything by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec import Index, IndexConfig
from memvec.guarantee import Thresholds
from memvec.kernels import StoredRows
from memvec.search import (
    ALL_ALLOWED,
    ANYTHING,
    PlainRows,
    Scope,
    UnitSource,
    _plain_rows,
    are_few,
    compare_scopes,
    search_scopes,
)
from strategies import cloud, seeds

DIM = 12
CONFIGS = {
    "codes": IndexConfig(unit_size=8, reserve=5),
    "floats": IndexConfig(unit_size=8, reserve=0, codes="none"),
    "guests": IndexConfig(unit_size=8, reserve=0, units_per_vector=2),
}
SIMILARITIES = st.sampled_from([0.3, 0.7, 0.9, 1.0])
# Few queries and many, few allowed and most: each takes another way through a source.
N_QUERIES = st.sampled_from([1, 3, 20])
SHARES = st.sampled_from([0.0, 0.1, 0.5, 1.0])


def rows_of(found):
    return [list(zip(row.ids.tolist(), row.scores.tolist(), strict=True)) for row in found]


def rows_with_copies(seed, n=90):
    rows = cloud(seed, n=n, dim=DIM)
    rows[n // 2 : n // 2 + 9] = rows[:9]
    return rows


def brute_force(rows, queries, similarity, allowed=ALL_ALLOWED):
    mask = allowed if len(allowed) else None
    return [naive.matches(rows, query, similarity, None, mask) for query in queries]


def mask_of(seed, n, share):
    """Return which rows are allowed; all of them by an empty mask where the share is 1."""
    return ALL_ALLOWED if share == 1 else np.random.default_rng(seed).random(n) < share


def lets_all_pass(cascade, similarity):
    return Thresholds.one(similarity, np.full(len(cascade.stage_names), np.inf))


@pytest.fixture(scope="module", params=CONFIGS)
def source(request):
    return Index.build(rows_with_copies(1), config=CONFIGS[request.param], progress=False).source


@pytest.fixture
def few_rows(monkeypatch):
    """Set from how many rows on they are not all scored."""
    return lambda n_rows: monkeypatch.setattr(UnitSource, "few_rows", n_rows)


@pytest.mark.parametrize("many_pairs", [1, 1 << 20])
@settings(max_examples=40, deadline=None)  # the first loads kernels
@given(seed=seeds, n=st.integers(0, 40), n_queries=N_QUERIES, similarity=SIMILARITIES, share=SHARES)
def test_plain_rows_find_what_brute_force_finds(many_pairs, seed, n, n_queries, similarity, share):
    """Many pairs are compared by products of matrices, others one query at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_plain_rows, "_MANY_PAIRS", many_pairs)
        patch.setattr(_plain_rows, "_MANY_QUERIES", 1)
        check_plain_rows(seed, n, n_queries, similarity, share)


def check_plain_rows(seed, n, n_queries, similarity, share):
    rows, queries = cloud(seed, n=n, dim=DIM), cloud(seed + 1, n=n_queries, dim=DIM)
    rows[n // 2 :] = rows[: n - n // 2]
    allowed = mask_of(seed, n, share)
    plain = PlainRows(StoredRows.of(rows))
    strict = Thresholds.one(similarity, np.full(1, -np.inf))
    expected = brute_force(rows, queries, similarity, allowed)
    for found in (
        plain.search(queries, similarity, None, 1, allowed),
        plain.search(queries, similarity, strict, 2, allowed),
        plain.compare_all(queries, similarity, None, allowed),
    ):
        # Products of matrices, which many queries are compared by, give rounded scores.
        assert [*map(naive.in_order, rows_of(found))] == [*map(naive.in_order, expected)]
        n_scored = int(allowed.sum()) if len(allowed) else n
        assert found.spent.tolist() == [[0, 0, n_scored, 0, n_scored]] * n_queries
    assert len(plain) == n


def test_plain_rows_are_seen_and_tested_by_no_stage():
    rows = cloud(1, n=4, dim=DIM)
    scores, slopes = PlainRows(StoredRows.of(rows)).see(
        rows[:1], np.zeros(3, np.int64), np.arange(3)
    )
    assert np.isnan(scores).all()
    assert np.isnan(slopes).all()
    assert len(scores) == 3
    assert PlainRows(StoredRows.of(rows)).stages(rows[0], 1, None) == ()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("n_queries", [1, 20])
@pytest.mark.parametrize("similarity", [ANYTHING, 0.3, 0.9])
def test_few_rows_are_found_as_many_are(source, few_rows, share, n_queries, similarity):
    queries, allowed = cloud(2, n=n_queries, dim=DIM), mask_of(3, len(source), share)
    rows = rows_with_copies(1)
    expected = [*map(naive.in_order, brute_force(rows, queries, similarity, allowed))]
    for thresholds in (None, lets_all_pass(source.cascade, similarity)):
        for limit in (0, 10**9):
            few_rows(limit)
            found = source.search(queries, similarity, thresholds, 1, allowed)
            assert [*map(naive.in_order, rows_of(found))] == expected
            assert (np.diff(found.scores)[np.diff(found.queries) == 0] <= 0).all()


def test_rows_are_few_below_the_limit_of_a_source(few_rows):
    few_rows(7)
    assert [are_few(6), are_few(7), are_few(27, 4), are_few(28, 4)] == [True, False, True, False]


@settings(max_examples=12, deadline=None)
@given(seeds, N_QUERIES, SIMILARITIES, SHARES, st.integers(0, 2))
def test_sources_together_find_what_one_search_of_the_whole_finds(
    seed, n_queries, similarity, share, n_plain
):
    rows, queries = rows_with_copies(seed), cloud(seed + 1, n=n_queries, dim=DIM)
    keys = np.random.default_rng(seed).permutation(1000)[: len(rows)]
    allowed = mask_of(seed, len(rows), share)
    # Copies lie in different parts, so that equal scores are put in order across them.
    parts = np.array_split(np.arange(len(rows)), 2 + n_plain)
    configs = [CONFIGS["codes"], CONFIGS["floats"]]
    sources = [
        Index.build(rows[part], config=config, progress=False).source
        for part, config in zip(parts, configs, strict=False)
    ]
    sources += [PlainRows(StoredRows.of(rows[part])) for part in parts[2:]]
    scopes = [
        Scope(source, keys[part], allowed[part] if len(allowed) else ALL_ALLOWED)
        for source, part in zip(sources, parts, strict=True)
    ]
    whole = brute_force(rows, queries, similarity, allowed)
    expected = naive.merged([[[(keys[i], score) for i, score in row] for row in whole]], n_queries)
    assert rows_of(search_scopes(scopes, queries, similarity, None, 1)) == expected
    loose = lets_all_pass(sources[0].cascade, similarity)
    assert rows_of(search_scopes(scopes, queries, similarity, loose, 2)) == expected
    assert rows_of(compare_scopes(scopes, queries, similarity)) == expected


@pytest.mark.parametrize("n_queries", [3, 20])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_comparing_one_source_finds_what_its_search_does(source, share, n_queries):
    queries, allowed = cloud(5, n=n_queries, dim=DIM), mask_of(6, len(source), share)
    expected = brute_force(rows_with_copies(1), queries, 0.7, allowed)
    scope = Scope(source, None, allowed)
    # Products of matrices, which many queries are compared by, give rounded scores.
    for found in (
        compare_scopes([scope], queries, 0.7),
        search_scopes([scope], queries, 0.7, None, 1),
    ):
        assert [*map(naive.in_order, rows_of(found))] == [*map(naive.in_order, expected)]


def test_no_scopes_and_no_queries_find_nothing(source):
    queries = cloud(7, n=3, dim=DIM)
    assert rows_of(search_scopes([], queries, 0.7, None, 1)) == [[], [], []]
    assert rows_of(compare_scopes([], queries, 0.7)) == [[], [], []]
    assert rows_of(search_scopes([Scope(source)], queries[:0], 0.7, None, 1)) == []
    assert rows_of(compare_scopes([Scope(source)], queries[:0], 0.7)) == []


def test_work_of_sources_is_summed(source):
    queries = cloud(8, n=4, dim=DIM)
    plain = PlainRows(StoredRows.of(rows_with_copies(9)))
    scopes = [Scope(source, np.arange(90)), Scope(plain, np.arange(90, 180))]
    found = search_scopes(scopes, queries, 0.7, None, 1)
    alone = [scope.source.search(queries, 0.7, None, 1).spent for scope in scopes]
    np.testing.assert_array_equal(found.spent, sum(alone))


def test_no_row_reaches_more_than_one_whatever_the_number_of_queries(monkeypatch):
    """The nearest may be looked for above 1: copies reach that in float32."""
    rows = cloud(8, n=40, dim=DIM)
    monkeypatch.setattr(_plain_rows, "_MANY_PAIRS", 1000)
    monkeypatch.setattr(_plain_rows, "_MANY_QUERIES", 1)
    for queries in (rows[:3], rows):
        found = PlainRows(StoredRows.of(rows)).compare_all(queries, float(np.float32(1.0000001)))
        assert found.counts.tolist() == [1] * len(queries)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("many", [1, 1 << 20])
def test_rows_in_fewer_bytes_are_compared_as_they_are_stored(dtype, many, monkeypatch):
    """By products of matrices and one by one; those that are few are copied first."""
    monkeypatch.setattr(_plain_rows, "_MANY_PAIRS", many)
    monkeypatch.setattr(_plain_rows, "_MANY_QUERIES", 1)
    rows, queries = cloud(3, n=120, dim=DIM), cloud(4, n=6, dim=DIM)
    index = Index.build(rows, config=CONFIGS["guests"], dtype=dtype, progress=False)
    plain = PlainRows(StoredRows.of(rows, dtype))
    for step in (1, 2, 7):
        allowed = np.arange(len(rows)) % step == 0
        for source in (index.source, plain):
            found = source.compare_all(StoredRows.of(queries, dtype)[:], 0.5, None, allowed)
            for query, row in zip(queries, found, strict=True):
                scores = [naive.stored_score(query, other, dtype) for other in rows]
                expected = [
                    i for i, score in enumerate(scores) if score >= 0.5 - 1e-6 and allowed[i]
                ]
                expected.sort(key=lambda i, scores=scores: (-scores[i], i))
                assert row.ids.tolist() == expected
                assert row.scores.astype(np.float32).tolist() == [
                    np.float32(scores[i]) for i in expected
                ]
