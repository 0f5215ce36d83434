"""The monitor of live queries by itself, on simulated searches."""

import warnings

import numpy as np
import pytest
from scipy.special import ndtri

import memvec
from memvec.errors import DriftWarning
from memvec.guarantee import Monitor

DIM = 4
AT_ONCE = 250


class Needed:
    """The first entry of a query is the slack that its only hit needs."""

    @staticmethod
    def of_pairs(scores, slopes):
        return scores[:, 0].astype(np.float64)


class Question:
    place = "one"

    def __init__(self, reference, version=0):
        self.reference = reference
        self.version = version

    def begin(self):
        return Needed, self.reference

    def seen(self, queries, query_of, ids):
        return queries[query_of, :1], np.zeros((len(query_of), 1), dtype=np.float32)


class Found:
    """One hit for each query."""

    offsets, ids, scores = np.arange(AT_ONCE + 1), np.zeros(AT_ONCE, dtype=int), np.zeros(AT_ONCE)


def search(monitor, question, scores, rng):
    """Pass queries of given scores to the monitor; return how many were looked at."""
    looked_at = 0
    for some in scores.reshape(-1, AT_ONCE):
        rows = rng.random((AT_ONCE, DIM)).astype(np.float32)
        rows[:, 0] = some
        chosen, _ = monitor.count(AT_ONCE)
        looked_at += len(chosen)
        monitor.look_at(chosen, rows, Found, question)
    return looked_at


def slack(rng, n, rate, shift=0.0):
    """Gaussian slack of matches that are found, where a share of all is missed."""
    drawn = rng.normal(loc=shift, size=2 * n + 100)
    return drawn[drawn < -ndtri(rate)][:n]


def services(n_services, rate, n_before, n_after, *, n_reference, seed=1):
    """Return where an alarm came before and after a doubling of the miss rate, and looks before."""
    rng = np.random.default_rng(seed)
    shift = ndtri(2 * rate) - ndtri(rate)
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        for number in range(n_services):
            monitor, question = Monitor(number), Question(slack(rng, n_reference, rate))
            looks = search(monitor, question, slack(rng, n_before, rate), rng)
            early = monitor.drifted
            search(monitor, question, slack(rng, n_after, rate, shift), rng)
            seen.append((early, monitor.drifted, looks))
    return np.array(seen).T


@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_a_doubled_miss_rate_is_seen_within_5000_queries(rate):
    """Seen in 98 and 100 % of services."""
    _, seen, _ = services(60, rate, 0, 5000, n_reference=1500)
    assert seen.mean() >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_a_late_change_is_seen_within_5000_queries(rate):
    early, seen, looks = services(200, rate, 40_000, 5000, n_reference=1000)
    assert early.mean() <= 0.005 + 2 * np.sqrt(0.005 / 200)
    assert seen.mean() >= 0.95
    assert 40_000 / 12 < looks.mean() < 40_000 / 8


def test_watches_are_given_up_where_what_is_searched_changes():
    """The p-value counts the watches started, and nothing seen is forgotten."""
    rng = np.random.default_rng(1)
    monitor, reference = Monitor(0), rng.normal(size=200)
    for version in range(3):
        search(monitor, Question(reference, version), rng.normal(size=2000), rng)
    assert 250 < monitor.health.drift.n_queries < 1500
    [watch] = monitor._watches.values()
    assert watch.number == 3


def test_suspicious_queries_are_looked_at_more_often():
    rng = np.random.default_rng(2)
    monitor, question = Monitor(0), Question(rng.normal(size=1000))
    search(monitor, question, rng.normal(size=4000), rng)
    with pytest.warns(DriftWarning):
        looks = search(monitor, question, rng.normal(loc=0.5, size=4000), rng)
    assert looks > 1000


def test_warning_points_to_the_line_of_the_user(tmp_path, monkeypatch):
    """However many functions of the package lie between."""
    nothing = [], []
    monkeypatch.setattr(Monitor, "count", lambda monitor, *_: monitor._warn("drifted") or nothing)
    rows = np.eye(8, dtype=np.float32)
    with memvec.open(tmp_path / "c.mv", dim=8) as collection:
        collection.add(rows)
        for owner in (memvec.Index.build(rows), collection):
            with pytest.warns(DriftWarning) as caught:
                owner.range_search(rows)
            assert [warning.filename for warning in caught] == [__file__]
