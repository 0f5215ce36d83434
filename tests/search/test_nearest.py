"""The k nearest in one visit, against brute force and against what the stages let pass."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import naive
from memvec import Index, IndexConfig
from memvec.guarantee import Plan, Thresholds
from memvec.kernels import StoredRows
from memvec.search import ALL_ALLOWED, ANYTHING, PlainRows, Scope, UnitSource, find_nearest
from strategies import cloud, seeds

DIM, N = 70, 260
CONFIGS = {
    "codes": {"unit_size": 8, "reserve": 5},
    "groups": {"unit_size": 6, "levels": 2, "group_size": 4},
    "two units a vector": {"unit_size": 8, "units_per_vector": 2},
    "centred": {"unit_size": 8, "units_per_vector": 2, "center": True},
    "centred groups": {"unit_size": 6, "levels": 2, "group_size": 4, "center": True},
    "four bits": {"unit_size": 8, "member_bits": 4},
    "centred, eight bits": {"unit_size": 8, "member_bits": 8, "center": True},
    "first words": {"unit_size": 8, "member_words": 1, "member_bits": 3},
    "sign": {"unit_size": 8, "codes": "sign"},
    "balanced": {"unit_size": 8, "codes": "balanced"},
    "floats": {"unit_size": 8, "codes": "none"},
}
NO_CUTS = np.array([ANYTHING])


def rows_with_copies(seed):
    rows = cloud(seed, n=N, dim=DIM, near=0.5)
    rows[N // 2 : N // 2 + 9] = rows[:9]
    return rows


def built(rows, kind, dtype="float32"):
    config = IndexConfig(codes="estimate") if "codes" not in CONFIGS[kind] else IndexConfig()
    config = replace(config, **CONFIGS[kind])
    return Index.build(rows, config=config, dtype=dtype, similarity=0.6, progress=False).source


@pytest.fixture(scope="module")
def sources():
    """Return the source of each kind, built once."""
    kept = {}

    def of(kind, dtype="float32"):
        if (kind, dtype) not in kept:
            kept[kind, dtype] = built(rows_with_copies(1), kind, dtype)
        return kept[kind, dtype]

    return of


def plan_of(slack, tries=(), n_stages=5):
    lines = Thresholds.one(0.0, np.full(n_stages, slack))
    return Plan(lines, SimpleNamespace(complete=False), tries)


def rows_of(found):
    return [list(zip(row.ids.tolist(), row.scores.tolist(), strict=True)) for row in found]


def brute_force(rows, queries, k, allowed=ALL_ALLOWED, score=naive.canonical_score):
    """The k nearest of each query and what is as near, by falling score and then by id."""
    every = [i for i in range(len(rows)) if not len(allowed) or allowed[i]]
    scored = [[(i, score(query, rows[i])) for i in every] for query in queries]
    ordered = [sorted(row, key=lambda pair: (-pair[1], pair[0])) for row in scored]
    return [naive.best(row, k) for row in ordered]


def nearest(scopes, queries, k, plan, threads=1):
    return rows_of(find_nearest(SimpleNamespace(scopes=scopes), queries, k, plan, threads))


@pytest.mark.parametrize("kind", CONFIGS)
@settings(max_examples=8, deadline=None)
@given(
    seed=seeds,
    k=st.sampled_from([1, 2, 7, 40, N, N + 9]),
    n_queries=st.sampled_from([1, 3, 20]),
    tries=st.lists(st.floats(-0.5, 1.0), max_size=4),
    share=st.sampled_from([0.3, 0.9, 1.0]),
    few=st.sampled_from([0, 100]),
)
@example(seed=0, k=1, n_queries=20, tries=[0.5], share=0.3, few=100)  # by products of matrices
def test_with_slack_for_all_the_k_nearest_are_those_of_brute_force(
    sources, kind, seed, k, n_queries, tries, share, few
):
    """Copies lie in different units: equal scores and their order are part of it."""
    rows, source = rows_with_copies(1), sources(kind)
    queries = np.concatenate([rows[seed % 9 : seed % 9 + 1], cloud(seed, n=n_queries, dim=DIM)])
    allowed = ALL_ALLOWED
    if share < 1:
        allowed = np.random.default_rng(seed).random(N) < share
    plan = plan_of(60.0, tuple(sorted(tries, reverse=True)), len(source.cascade.stage_names))
    expected = brute_force(rows, queries, k, allowed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnitSource, "few_rows", few)
        for threads in (1, 2):
            assert nearest([Scope(source, None, allowed)], queries, k, plan, threads) == expected


@pytest.mark.parametrize("kind", ["codes", "centred, eight bits"])
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_stored_rows_are_ranked_by_the_score_of_what_is_stored(sources, kind, dtype):
    rows, queries = rows_with_copies(1), cloud(5, n=6, dim=DIM)
    expected = brute_force(
        rows, queries, 7, score=lambda query, row: naive.stored_score(query, row, dtype)
    )
    assert nearest([Scope(sources(kind, dtype))], queries, 7, plan_of(60.0, (0.4,))) == expected


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != "floats"])
@settings(max_examples=10, deadline=None)
@given(seed=seeds, k=st.sampled_from([1, 5, 30]), slack=st.sampled_from([-0.5, 0.5, 1.5]))
def test_what_passes_at_the_similarity_of_the_kth_nearest_is_found(sources, kind, seed, k, slack):
    rows, source = rows_with_copies(1), sources(kind)
    cascade, queries = source.cascade, cloud(seed, n=4, dim=DIM)
    plan = plan_of(slack, (0.7, 0.3))
    best = np.full((len(queries), k), -np.inf)
    found = cascade.nearest(queries, np.array([0.7, 0.3, ANYTHING]), plan.thresholds, best, 1)
    for q, scored in enumerate(brute_force(rows, queries, N)):
        places = cascade.units.places[[name for name, _ in scored]].astype(np.int64)
        views = cascade.see_homes(queries, np.full(N, q), places)

        def passes(name, at, views=views, scored=scored):
            i = [one for one, _ in scored].index(name)
            left = [
                naive.slack_left(scores[i], slopes[i], [at], [np.full(5, slack)])
                for scores, slopes in views
            ]
            return max(left) > 1e-3

        got = rows_of(found)[q]
        assert set(naive.nearest_of_passing(scored, k, passes)) <= {name for name, _ in got}
        exact = dict(scored)
        assert [exact[name] for name, _ in got] == [score for _, score in got]
        kth = sorted((score for _, score in got), reverse=True)[k - 1 : k]
        assert sorted(best[q].tolist(), reverse=True)[len(kth) * (k - 1) :][:1] == (
            kth or [-np.inf]
        )
        assert all(score >= best[q, 0] - 1e-6 for _, score in got)


@settings(max_examples=10, deadline=None)
@given(seeds, st.sampled_from([1, 6, 40]), st.sampled_from([1, 20]), st.sampled_from([0.3, 1.0]))
def test_sources_together_find_the_k_nearest_of_all(seed, k, n_queries, share):
    """Two visited best first, one by floats, one that compares everything."""
    rows, queries = rows_with_copies(seed), cloud(seed + 1, n=n_queries, dim=DIM)
    keys = np.random.default_rng(seed).permutation(1000)[: len(rows)]
    allowed = np.random.default_rng(seed).random(N) < share if share < 1 else ALL_ALLOWED
    parts = np.array_split(np.arange(len(rows)), 4)
    made = [
        built(rows[part], kind)
        for part, kind in zip(parts, ["codes", "groups", "floats"], strict=False)
    ]
    made.append(PlainRows(StoredRows.of(rows[parts[3]])))
    scopes = [
        Scope(source, keys[part], allowed[part] if len(allowed) else ALL_ALLOWED)
        for source, part in zip(made, parts, strict=True)
    ]
    every = brute_force(rows, queries, N, allowed)
    named = naive.merged([[[(keys[i], score) for i, score in row] for row in every]], n_queries)
    expected = [naive.best(row, k) for row in named]
    for order in (scopes, scopes[::-1]):
        assert nearest(order, queries, k, plan_of(60.0, (0.5,))) == expected


def test_a_query_is_answered_alike_in_every_company(sources):
    queries, plan = cloud(8, n=40, dim=DIM), plan_of(0.8, (0.6, 0.2))
    scopes = [
        Scope(sources("two units a vector"), np.arange(N)),
        Scope(PlainRows(StoredRows.of(rows_with_copies(4))), np.arange(N, 2 * N)),
    ]
    together = nearest(scopes, queries, 5, plan, 2)
    assert together == [nearest(scopes, query[np.newaxis], 5, plan)[0] for query in queries]


def test_fewer_members_are_scored_than_there_are(sources):
    source, queries = sources("codes"), rows_with_copies(1)[:20]
    best = np.full((20, 3), -np.inf)
    found = source.nearest(queries, NO_CUTS, plan_of(1.0).thresholds, best, 1)
    assert found.spent[:, 4].mean() < N / 4
    assert (best.max(axis=1) > 0.99).all()


def test_no_queries_have_no_nearest(sources):
    none = np.empty((0, DIM), dtype=np.float32)
    assert nearest([Scope(sources("codes"))], none, 3, plan_of(1.0, (0.5,))) == []
