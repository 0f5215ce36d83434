"""Joins of sources with themselves, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memvec.guarantee import complete_plan
from memvec.kernels import StoredRows
from memvec.search import PlainRows, Scope, SelfJoin, _self_join, find_copies
from naive import array_groups, array_pairs, unit_rows


def joined(rows, similarity, n_scopes=1):
    """Return the join of rows that are dealt out to some scopes."""
    keys = [np.arange(len(rows))[number::n_scopes] for number in range(n_scopes)]
    scopes = [Scope(PlainRows(StoredRows.of(rows[some])), some) for some in keys]
    plan = complete_plan(similarity)
    return SelfJoin(scopes, rows.__getitem__, similarity, plan, None, False)


def some_rows(seed, n_rows=40, dim=4):
    rng = np.random.default_rng(seed)
    return unit_rows(rng.standard_normal((n_rows, dim))[rng.integers(n_rows, size=n_rows)])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 99), st.integers(1, 3), st.sampled_from([0.3, 0.8, 1.0]))
def test_pairs_of_scopes_are_those_of_all_rows(seed, n_scopes, similarity):
    rows = some_rows(seed)
    found = [
        (*sorted(pair), score)
        for left, right, scores in joined(rows, similarity, n_scopes).pair_blocks()
        for *pair, score in zip(left.tolist(), right.tolist(), scores.tolist(), strict=True)
    ]
    assert sorted(found) == array_pairs(rows, similarity)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 99), st.integers(1, 3), st.sampled_from([0.3, 0.8, 1.0]))
def test_pairs_of_each_two_scopes_make_all_pairs(seed, n_scopes, similarity):
    rows = some_rows(seed)
    join = joined(rows, similarity, n_scopes)
    found = [
        (*sorted(pair), score)
        for right in range(n_scopes)
        for left in range(right + 1)
        for *keys, scores in join.pairs_between(left, right)
        for *pair, score in zip(*(key.tolist() for key in keys), scores.tolist(), strict=True)
    ]
    assert sorted(found) == array_pairs(rows, similarity)


def test_rows_with_many_matches_are_queries_a_few_at_a_time(monkeypatch):
    """One cluster: 600 rows of 600 matches each, of which 3,000 may be held."""
    rows = unit_rows(np.ones(4) + 0.01 * np.random.default_rng(0).standard_normal((600, 4)))
    monkeypatch.setattr(SelfJoin, "matches_at_once", 3000)
    found = [len(pairs.left) for pairs in joined(rows, 0.9).pairs_between(0, 0)]
    assert sum(found) == 600 * 599 // 2
    assert max(found[1:]) <= 3000


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 99), st.sampled_from(["components", "star"]), st.sampled_from([0.3, 0.8]))
def test_groups_are_those_of_all_pairs(seed, grouping, similarity):
    rows = some_rows(seed)
    join = joined(rows, similarity, 2)
    copies = join.copies()
    ranks = np.random.default_rng(seed).permutation(len(rows))
    found = join.limited_to(copies.distinct).groups(copies, ranks, grouping)
    expected = array_groups(rows, similarity, np.argsort(ranks).tolist(), grouping)
    assert [tuple(some.tolist()) for some in found.members] == expected


@pytest.mark.parametrize("n_hashes", [1, 3, 1000])
def test_copies_are_equal_vectors_whatever_their_hashes(monkeypatch, n_hashes):
    rows = np.repeat(np.eye(4, dtype=np.float32), 3, axis=0)
    real = _self_join._hashes
    monkeypatch.setattr(_self_join, "_hashes", lambda vectors: real(vectors) % n_hashes)
    copies = find_copies(np.arange(12), rows.__getitem__)
    assert (rows[copies.firsts] == rows).all()
    assert (copies.firsts <= copies.keys).all()
    if n_hashes == 1000:
        assert copies.distinct.tolist() == [0, 3, 6, 9]
        assert copies.pairs.left.tolist() == [0, 0, 3, 3, 6, 6, 9, 9]


def test_join_in_small_blocks_is_the_same(monkeypatch):
    rows = some_rows(1)
    whole = [np.concatenate(part) for part in zip(*joined(rows, 0.5).pair_blocks(), strict=True)]
    monkeypatch.setattr(SelfJoin, "products_at_once", 7)
    small = [np.concatenate(part) for part in zip(*joined(rows, 0.5).pair_blocks(), strict=True)]
    assert all(np.array_equal(a, b) for a, b in zip(whole, small, strict=True))


def test_copies_of_wide_rows_are_found_in_small_parts():
    asked = []

    def vectors(keys):
        asked.append(len(keys))
        return np.ones((len(keys), 4096), dtype=np.float32)

    assert not find_copies(np.arange(1500), vectors).firsts.any()
    assert max(asked) * 4096 <= 1 << 21


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 99), dim=st.sampled_from([3, 16, 17, 40]))
def test_copies_are_told_from_rows_that_begin_alike(seed, dim):
    """Rows of few kinds of beginnings and of ends, so that each occurs with several others."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(2, size=(30, dim)).astype(np.float32)
    rows[:, :16] = rows[:, :1]
    rows[:, -2:] = rows[:, -1:]
    found = find_copies(np.arange(30), rows.__getitem__)
    firsts = [next(i for i in range(30) if (rows[i] == row).all()) for row in rows]
    assert found.firsts.tolist() == firsts
