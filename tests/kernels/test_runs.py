"""Runs of codes of any width, and searches of any dimension, against what they stand for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memvec
import naive
from memvec import IndexConfig
from memvec.guarantee import Thresholds
from memvec.kernels._bits import fill_disagreements, passing
from memvec.kernels._compile import kernel
from memvec.kernels._runs import codes_to_ask, forget_rows, new_rows, room_for_seen
from strategies import cloud, seeds

SIMILARITY = 0.5
CONFIGS = {
    "codes": {"codes": "estimate"},
    "groups": {"codes": "estimate", "levels": 2, "group_size": 4},
    "two units a vector": {"codes": "estimate", "units_per_vector": 2},
    "balanced": {"codes": "balanced", "code_bits": 130},
    "float32": {"codes": "none"},
}


@kernel
def _fill(run, stride, n_words, planes, totals):
    fill_disagreements(run, stride, n_words, planes, totals)


@kernel
def _passing(run, stride, n_words, planes, limit, size):
    return passing(run, stride, n_words, planes, limit, size)


def some_codes(rng, n_words, n_codes, spare):
    """Return a run and the planes of a query. It ends with the last word of its last code."""
    stride = n_codes + spare
    words = rng.integers(2**64, size=(n_words - 1) * stride + n_codes, dtype=np.uint64)
    return words, stride, n_words, rng.integers(2**64, size=(3, n_words + 1), dtype=np.uint64)


def totals_of(words, stride, n_words, planes, n_codes):
    signs, low, high = (naive.unpack(plane[:n_words]) for plane in planes)
    codes = [naive.unpack(words[code :: stride or 1][:n_words]) for code in range(n_codes)]
    return [naive.disagreement(bits, signs, low + 2 * high) for bits in codes]


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n_words=st.integers(1, 9), n_codes=st.integers(0, 70), spare=st.integers(0, 5))
def test_disagreements_of_a_run_equal_those_of_its_codes(seed, n_words, n_codes, spare):
    codes = some_codes(np.random.default_rng(seed), n_words, n_codes, spare)
    wanted = totals_of(*codes, n_codes)
    # What lies behind the totals is left as it is.
    for fill in (_fill, fill_disagreements):
        totals = np.full(n_codes + 3, -1, dtype=np.int32)
        fill(*codes, totals[:n_codes])
        assert totals.tolist() == [*wanted, -1, -1, -1]


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n_words=st.integers(1, 4), size=st.integers(0, 64), spare=st.integers(0, 5))
def test_bits_of_a_run_tell_which_codes_pass(seed, n_words, size, spare):
    codes = some_codes(np.random.default_rng(seed), n_words, size, spare)
    wanted = totals_of(*codes, size)
    for limit in (-1, *sorted(wanted)[::7], 10**6):
        bits = sum(1 << code for code in range(size) if wanted[code] <= limit)
        assert _passing(*codes, limit, size) == bits
        assert passing(*codes, limit, size) == bits


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n_rows=st.integers(1, 200), n_slots=st.integers(0, 300))
def test_rows_of_slots_are_kept_once_and_forgotten(seed, n_rows, n_slots):
    rng = np.random.default_rng(seed)
    rows = rng.integers(n_rows, size=n_slots).astype(np.int32)
    run_rows = np.where(rng.random(n_slots) < 0.5, rows, -1 - rows).astype(np.int32)
    slots = rng.permutation(n_slots).astype(np.int32)
    seen = room_for_seen(n_rows, run_rows)
    for _ in range(2):
        candidates = slots.copy()
        count = new_rows(candidates, run_rows, seen)
        assert candidates[:count].tolist() == list(dict.fromkeys(rows[slots].tolist()))
        forget_rows(candidates[:count], seen)
        assert not seen.any()


def test_slots_are_rows_where_every_row_has_one():
    candidates, none = np.array([3, 1, 2], dtype=np.int32), np.empty(0, dtype=np.int32)
    seen = room_for_seen(10, none)
    assert new_rows(candidates, none, seen) == 3
    forget_rows(candidates, seen)
    assert candidates.tolist() == [3, 1, 2]


def test_large_codes_are_asked_for_whole_and_small_ones_not_at_all():
    """Codes that are in the second cache anyway, in the third, and in memory."""
    assert [_asked(n_words) for n_words in (1 << 17, 1 << 20, 1 << 23)] == [0, 64, 1 << 23]


@kernel
def _asked(n_words):
    return codes_to_ask(n_words)


def some_rows(rng, n_rows, dim):
    centres = rng.standard_normal((-(-n_rows // 4), dim))
    near = np.repeat(centres, 4, axis=0)[:n_rows] + 0.4 * rng.standard_normal((n_rows, dim))
    return naive.unit_rows(near)


@pytest.mark.parametrize("kind", CONFIGS)
@settings(deadline=None, max_examples=12)
@given(
    seed=seeds,
    dim=st.one_of(st.integers(1, 70), st.sampled_from([127, 128, 129, 193, 320, 321])),
    n_rows=st.integers(1, 90),
    unit_size=st.integers(1, 40),
)
def test_searches_of_any_dimension_find_what_the_stages_let_pass(
    kind, seed, dim, n_rows, unit_size
):
    rng = np.random.default_rng(seed)
    rows = some_rows(rng, n_rows, dim)
    config = IndexConfig(unit_size=unit_size, **CONFIGS[kind])
    index = memvec.Index.build(rows, similarity=SIMILARITY, config=config, progress=False)
    # Neither written to nor contiguous, as users may have them.
    queries = np.repeat(rows[:7], 2, axis=0)[::2]
    queries.flags.writeable = False
    cascade = index.units.cascade
    expected = [naive.matches(rows, query, SIMILARITY) for query in queries]
    for slack in (np.inf, 1.0):
        lines = Thresholds.one(SIMILARITY, np.full(len(cascade.stage_names), slack))
        found = [
            cascade.search(np.ascontiguousarray(queries), SIMILARITY, lines, threads)
            for threads in (1, 2)
        ]
        assert found[0].ids.tolist() == found[1].ids.tolist()
        got = [list(zip(*map(np.ndarray.tolist, row), strict=True)) for row in found[0]]
        if slack == np.inf:
            assert got == expected
        else:
            assert_passed(cascade, queries, expected, got, lines)
    hits = index.range_search(queries, guarantee="exact")
    assert [row.ids.tolist() for row in hits] == [[key for key, _ in one] for one in expected]


def assert_passed(cascade, queries, expected, got, lines):
    """What is found are the matches whose slack suffices at every stage, up to rounding.

    A second home may find more.
    """
    two_homes = len(cascade.units.run_rows) > 0
    for q, matches in enumerate(expected):
        places = np.array([cascade.units.places[key] for key, _ in matches], dtype=np.int64)
        if not len(places):
            assert got[q] == []
            continue
        seen = cascade.see(np.ascontiguousarray(queries), np.full(len(places), q), places)
        found = {key for key, _ in got[q]}
        for (key, _), scores, slopes in zip(matches, *seen, strict=True):
            left = naive.slack_left(scores, slopes, lines.at, lines.slack)
            if left > 1e-3:
                assert key in found
            elif left < -1e-3 and not two_homes:
                assert key not in found


def test_more_hits_than_there_is_room_for_are_all_returned(monkeypatch):
    monkeypatch.setattr("memvec.kernels._query_blocks._ROOM", 1000)
    vectors = cloud(25, n=3000, near=0.1)
    index = memvec.Index.build(vectors)
    hits = index.range_search(vectors[:32], 0.01, threshold=-np.inf)
    wanted = [len(naive.matches(vectors, query, 0.01)) for query in vectors[:32]]
    assert hits.counts.tolist() == wanted
    assert hits.counts[:16].sum() > 1000
