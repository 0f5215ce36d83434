"""The watch for drift and the bound of the live miss rate, on simulated services."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from memvec.guarantee import Draw, DriftWatch, LiveRate, RecentQueries, drift_level
from strategies import seeds

LIMIT = 1 / drift_level(1)
SOON = 833


def naive_p_values(reference, scores, uniforms):
    """Each score against all before it, on the grid of the watch, counted one by one."""
    before, p_values = [int(np.floor(100 * one)) for one in reference], []
    for score, uniform in zip(scores, uniforms, strict=True):
        cell = int(np.floor(100 * score))
        larger = sum(one > cell for one in before)
        equal = sum(one == cell for one in before) + 1
        p_values.append((larger + uniform * equal) / (len(before) + 1))
        before.append(cell)
    return p_values


@settings(max_examples=30)
@given(seed=seeds, n_reference=st.integers(0, 20), n_scores=st.integers(1, 150))
def test_p_values_count_all_scores_before(seed, n_reference, n_scores):
    rng = np.random.default_rng(seed)
    draw = lambda n: rng.integers(-9, 9, size=n) / 4  # noqa: E731 - many of them equal
    reference, scores, uniforms = draw(n_reference), draw(n_scores), rng.random(n_scores)
    seen = []
    watch = DriftWatch(reference)
    inner = watch._p_values
    watch._p_values = lambda *some: seen.append(inner(*some)) or seen[-1]
    watch.saw(scores, uniforms)
    np.testing.assert_allclose(
        np.concatenate(seen), naive_p_values(reference, scores, uniforms), rtol=1e-12
    )


def test_scores_beyond_the_grid_are_equal():
    watch = DriftWatch(np.full(50, 100.0))
    watch.saw(np.full(500, 1e9), np.full(500, 0.5))
    assert watch.highest == 1.0
    watch.saw(np.empty(0), np.empty(0))
    assert watch.n_queries == 500


def service(rng, n_reference, n_live, *, rate, shift=0.0, step=0.0, pool=0):
    """Return the highest wealth over a service whose matches need Gaussian slack below a limit."""
    limit = -ndtri(rate)

    def draw(n, shift):
        scores = np.empty(0)
        while len(scores) < n:
            more = rng.normal(loc=shift, size=2 * n)
            scores = np.concatenate([scores, more[more < limit]])
        return scores[:n]

    reference, live = draw(n_reference, 0.0), draw(pool or n_live, shift)
    if step:  # codes of few bits: many scores are equal
        reference, live = (np.floor(some / step) * step for some in (reference, live))
    if pool:  # a log with repeats: watched at their first coming
        asked = np.minimum(rng.zipf(1.3, size=n_live), pool) - 1
        _, first = np.unique(asked, return_index=True)
        live = live[asked[np.sort(first)]]
    watch = DriftWatch(reference)
    watch.saw(live, rng.random(len(live)))
    return watch.highest


def alarms(n_services, *, seed, **how):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(100, 2001, size=n_services)
    return np.mean([service(rng, size, rate=0.05, **how) >= LIMIT for size in sizes.tolist()])


def few(level, n):
    """The level, and two standard errors of a share of n."""
    return level + 2 * np.sqrt(level / n)


@pytest.mark.parametrize("step", [0.0, 0.25])
def test_services_like_their_calibration_rarely_alarm(step):
    """The first watch may do so in 0.5 %."""
    assert alarms(500, seed=1, n_live=1000, step=step) <= few(1 / LIMIT, 500)


def test_repeats_of_a_pool_rarely_alarm():
    assert alarms(500, seed=2, n_live=4000, pool=3000, step=0.25) <= few(1 / LIMIT, 500)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"step": 0.25}, {"step": 0.25, "pool": 10_000}])
def test_a_thousand_long_services_rarely_alarm(how):
    assert alarms(1000, seed=3, n_live=20_000, **how) <= few(1 / LIMIT, 1000)


@pytest.mark.parametrize("rate", [0.01, 0.05])
@pytest.mark.parametrize("n_before", [0, 5000])
def test_a_doubled_miss_rate_is_seen_soon(rate, n_before):
    """Seen in 99 or 100 of 100 services."""
    rng = np.random.default_rng(4)
    shift = ndtri(2 * rate) - ndtri(rate)
    found = []
    for _ in range(100):
        limit = -ndtri(rate)
        same, moved = (
            (some := rng.normal(loc=mean, size=20_000))[some < limit] for mean in (0, shift)
        )
        watch = DriftWatch(same[:1500])
        watch.saw(same[1500 : 1500 + n_before], rng.random(n_before))
        assert watch.highest < LIMIT
        watch.saw(moved[:SOON], rng.random(SOON))
        found.append(watch.highest >= LIMIT)
    assert np.mean(found) >= 0.95


def test_queries_that_need_less_raise_no_alarm():
    rng = np.random.default_rng(5)
    watch = DriftWatch(rng.normal(size=1000))
    watch.saw(rng.normal(loc=-1.0, size=3000), rng.random(3000))
    assert watch.highest < 2


def test_levels_of_all_watches_add_up_to_one_percent():
    assert sum(drift_level(number) for number in range(1, 10_000)) == pytest.approx(0.01, rel=1e-3)


def test_recent_queries_are_told_apart_by_their_bytes():
    recent = RecentQueries()
    rows = np.random.default_rng(6).standard_normal((3000, 4)).astype(np.float32)
    digests = [Draw.of(row, 0).digest for row in rows]
    pairs = list(zip(digests, rows, strict=True))
    assert all(recent.add(pairs))
    assert not any(recent.add(pairs))
    np.testing.assert_array_equal(recent.rows(4), rows[1000:])
    recent.remember([7])
    assert recent.add([(7, rows[0])]) == [False]
    recent.add([(digest, rows[0]) for digest in range(10_000, 80_000)])
    assert len(recent._seen) + len(recent._before) <= 1 << 16
    assert recent.add(pairs[:1]) == [True]  # forgotten by now


def test_wide_queries_are_kept_by_their_bytes():
    recent = RecentQueries()
    for number in range(10):
        recent.add([(number, np.full(1 << 21, number, dtype=np.float32))])
    assert recent.rows(1 << 21)[:, 0].tolist() == [6, 7, 8, 9]


def test_draws_follow_from_bytes_and_seed():
    rows = np.random.default_rng(7).standard_normal((2000, 8)).astype(np.float32)
    draws = [Draw.of(row, 3) for row in rows]
    assert draws == [Draw.of(row.copy(), 3) for row in rows]
    assert draws[0] != Draw.of(rows[0], 4)
    places = [one.places(1000, 2)[1] / 1000 for one in draws]
    firsts = [one.place(1000) / 1000 for one in draws]
    for values in ([one.uniform for one in draws], places, firsts):
        assert abs(np.mean(values) - 0.5) < 4 / np.sqrt(12 * 2000)
    assert {place for one in draws for place in one.places(3, 2)} == {0, 1, 2}


def shares(rng, n, rate):
    """Shares missed of three matches, most of them 0."""
    return rng.binomial(3, rate, size=n) / 3


def test_live_interval_holds_at_all_times():
    """Left by the true rate in 0 of 100 services; 5 of 100 may."""
    rng = np.random.default_rng(8)
    left = 0
    for _ in range(100):
        rate = LiveRate()
        for _ in range(10):
            rate.add(shares(rng, 50, 0.04))
        left += not rate.interval[0] <= 0.04 <= rate.interval[1]
    assert left <= 5 + 4


def test_live_interval_closes_in():
    rng = np.random.default_rng(9)
    rate = LiveRate()
    widths = []
    for _ in range(4):
        rate.add(shares(rng, 1000, 0.1))
        widths.append(rate.interval[1] - rate.interval[0])
    assert widths == sorted(widths, reverse=True)
    assert rate.interval[0] > 0.08
    assert rate.interval[1] < 0.12


def test_live_interval_of_extreme_shares():
    none, every = LiveRate(), LiveRate()
    none.add(np.zeros(500))
    every.add(np.ones(500))
    assert none.interval[0] == 0.0
    assert none.interval[1] < 0.05
    assert every.interval[0] > 0.95
    assert every.interval[1] == 1.0


def test_interval_starts_again_where_the_rate_changes():
    rng = np.random.default_rng(4)
    rate = LiveRate()
    rate.add((rng.random(6000) < 0.01).astype(float))
    assert rate.interval[0] <= 0.01 <= rate.interval[1]
    rate.add((rng.random(4000) < 0.3).astype(float))
    low, high = rate.interval
    assert low <= 0.3 <= high
    assert high - low < 0.1
