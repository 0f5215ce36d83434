"""Runs of codes of any width, and searches of any dimension, against what they stand for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memvec
import naive
from memvec import IndexConfig
from memvec.guarantee import Thresholds
from memvec.kernels._codes import disagreements
from strategies import cloud, seeds

SIMILARITY = 0.5
CONFIGS = {
    "codes": {"codes": "estimate"},
    "groups": {"codes": "estimate", "levels": 2, "group_size": 4},
    "two units a vector": {"codes": "estimate", "units_per_vector": 2},
    "balanced": {"codes": "balanced", "code_bits": 130},
    "float32": {"codes": "none"},
}


@settings(deadline=None, max_examples=60)
@given(seed=seeds, n_words=st.integers(1, 9), n_codes=st.integers(0, 70), spare=st.integers(0, 5))
def test_disagreements_of_a_run_equal_those_of_its_codes(seed, n_words, n_codes, spare):
    """The run ends with the last word of its last code: nothing behind it may be read."""
    rng = np.random.default_rng(seed)
    stride = n_codes + spare
    words = rng.integers(2**64, size=(n_words - 1) * stride + n_codes, dtype=np.uint64)
    planes = rng.integers(2**64, size=(3, n_words), dtype=np.uint64)
    totals = np.full(n_codes, -1, dtype=np.int32)
    disagreements(words, stride, n_words, planes, totals)
    signs, low, high = (naive.unpack(plane) for plane in planes)
    for code in range(n_codes):
        bits = naive.unpack(words[code :: stride or 1][:n_words])
        assert totals[code] == naive.disagreement(bits, signs, low + 2 * high)


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
