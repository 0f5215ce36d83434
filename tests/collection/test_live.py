"""What a collection sees of live queries: drift, misses compared in the shadow, calibrations."""

import gc
import shutil
import threading
import warnings
import weakref
from functools import partial

import numpy as np
import pytest

import memvec
from clouds import around
from memvec.errors import DriftWarning, InvalidValueError
from memvec.evaluation import count_misses, exact_range
from memvec.guarantee import DriftWatch

DIM = 32
CENTRES = np.random.default_rng(1).standard_normal((200, DIM))
tight, loose = partial(around, CENTRES, 0.5), partial(around, CENTRES, 0.85)
SIZE = 4000


@pytest.fixture(scope="module")
def template_live(tmp_path_factory):
    """Two segments of 4,000 items, 500 that wait, and some deleted."""
    path = tmp_path_factory.mktemp("live") / "live.mv"
    with memvec.open(path, dim=DIM, similarity=0.6, miss_rate=0.05, seal_at=0) as made:
        for seed in (2, 3):
            made.add(tight(seed, SIZE), ids=range(seed * SIZE, (seed + 1) * SIZE))
            made.seal(progress=False)
        made.add(tight(4, 500))
        made.delete(range(2 * SIZE, 2 * SIZE + 100))
    return path


@pytest.fixture
def collection(template_live, quick_path):
    shutil.copytree(template_live, quick_path / "live.mv")
    with memvec.open(quick_path / "live.mv", background=False) as opened:
        yield opened


def search_all(collection, *batches, **how):
    for some in batches:
        collection.range_search(some, **how)


def quietly(collection, *batches, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search_all(collection, *batches, **how)


def test_queries_like_the_items_raise_no_alarm(collection):
    quietly(collection, *(tight(seed, 2000) for seed in range(10, 13)))
    drift = collection.health.drift
    assert (drift.alarmed, drift.n_questions) == (False, 1)
    assert 300 < drift.n_queries < 1500
    assert not collection.range_search(tight(1, 1)).certificate.drifted


def test_drift_marks_certificates_of_a_collection(collection):
    with pytest.warns(DriftWarning, match="harder to find") as caught:
        search_all(collection, *(loose(seed, 1000) for seed in range(5)))
    assert len(caught) == 1
    assert collection.range_search(tight(1, 1)).certificate.drifted
    assert collection.search(tight(1, 1), 3).certificate.drifted


def test_all_searches_are_counted(collection):
    some = tight(20, 400)
    collection.count(some)
    collection.contains(some)
    list(collection.iter_range(some[:40]))
    collection.search(some, 2)
    collection.range_search(some, guarantee="exact")
    assert collection.health.n_queries == 1640
    collection.measure(some[:10])
    collection.explain(some[0], 2 * SIZE + 200)
    next(collection.self_join(0.95), None)
    assert collection.health.n_queries == 1640


def test_filtered_searches_are_not_watched(collection):
    quietly(collection, loose(1, 3000), where={"year": {"$exists": False}})
    health = collection.health
    assert (health.n_queries, health.drift.n_queries, health.shadows) == (3000, 0, {})


def test_the_watch_starts_again_where_segments_change(collection, monkeypatch):
    begin, begun = DriftWatch.__init__, []
    monkeypatch.setattr(DriftWatch, "__init__", lambda *a: begun.append(a[0]) or begin(*a))

    def watches():
        return len(begun), collection.health.drift.n_questions

    quietly(collection, tight(30, 2000))
    seen = collection.health.drift.n_queries
    assert watches() == (1, 1)
    collection.seal(progress=False)
    quietly(collection, tight(31, 2000))
    assert watches() == (2, 1)
    assert collection.health.drift.n_queries > seen
    # A few deletes leave it as it is, many do not.
    collection.delete(range(2 * SIZE + 100, 2 * SIZE + 110))
    quietly(collection, tight(32, 2000))
    assert watches() == (2, 1)
    collection.delete(range(3 * SIZE, 3 * SIZE + 2000))
    quietly(collection, tight(33, 2000))
    assert watches() == (3, 1)


def test_the_monitor_holds_no_state(collection):
    quietly(collection, tight(34, 50))
    state = weakref.ref(collection._store.state)
    collection.compact(progress=False)
    gc.collect()
    assert state() is None


def living(collection):
    keys = sorted(collection)
    return keys, np.array([item.vector for item in collection.get(keys)])


def test_the_shadow_compares_with_living_items(collection):
    queries = loose(40, 300)
    keys, rows = living(collection)
    truth = exact_range(rows, queries, 0.6)
    with pytest.warns(DriftWarning, match="was asked for"):
        hits = collection.range_search(queries, shadow=1.0)
    places = {key: place for place, key in enumerate(keys)}
    answer = [[places[key] for key in row.ids.tolist()] for row in hits]
    misses = count_misses(truth, type(truth).from_rows(answer))
    seen = collection.health.shadow
    assert (seen.n_matches, seen.n_missed) == (misses.n_pairs, misses.n_missed)
    assert not seen.kept
    certificate = collection.range_search(queries[:1], shadow=0.0).certificate
    assert certificate.live == seen.interval
    assert "Live queries miss more" in str(certificate)
    assert seen.asked == 0.05


def test_default_share_of_a_collection(collection):
    assert 0 < collection.shadow < 0.02
    assert collection.range_search(tight(1, 10)).certificate.live is None
    collection.shadow = 0.5
    collection.range_search(tight(1, 10))
    assert collection.health.shadow.n_queries == 5
    with pytest.raises(InvalidValueError, match=r"'shadow' .*Collection.shadow .* \[0, 1\]"):
        collection.shadow = 2.0


def test_nothing_is_compared_without_segments(tmp_path):
    with memvec.open(tmp_path / "few.mv", dim=DIM) as few:
        few.add(tight(1, 50))
        assert few.shadow == 0.0
        few.range_search(tight(2, 20), shadow=1.0)
        assert few.health.shadows == {}
        with pytest.raises(InvalidValueError, match="Got 0 of 20 queries"):
            few.recalibrate(tight(3, 20))


def test_recalibration_of_a_collection_keeps_the_promise(collection):
    collection.shadow = 0
    with pytest.warns(DriftWarning):
        collection.range_search(loose(50, 6000))
    certificate = collection.recalibrate(progress=False)
    assert (certificate.source, certificate.level) == ("queries", "expected")
    queries = loose(51, 1500)
    assert collection.measure(queries).miss_rate <= 0.05 + 3 * 0.01
    assert collection.health.n_queries == 0
    # Segments that are sealed later are asked, too, and what is deleted leaves.
    collection.add(loose(52, 3000))
    collection.seal(progress=False)
    collection.delete(range(3 * SIZE, 3 * SIZE + 3000))
    seen = collection.measure(queries)
    assert seen.miss_rate <= 0.05 + 3 * 0.01
    after = collection.range_search(queries[:1]).certificate
    assert after.source == "queries"
    assert after.n_matches != certificate.n_matches
    filtered = collection.range_search(queries[:1], where={"year": {"$exists": False}})
    assert filtered.certificate.filter == "calibrated on the matches that pass"


def test_recalibration_of_a_collection_leaves_copies_out(collection):
    _, stored = living(collection)
    given = np.concatenate([loose(60, 100), stored[:30]])
    certificate = collection.recalibrate(given, progress=False)
    assert certificate.n_queries <= 100
    # Queries that are added themselves are copies from the time they are sealed.
    collection.add(given[:50])
    assert collection.range_search(given[:1]).certificate.n_queries == certificate.n_queries
    collection.seal(progress=False)
    assert collection.range_search(given[:1]).certificate.n_queries <= 50


def test_recalibration_of_a_collection_refuses_too_few_queries(collection):
    _, stored = living(collection)
    with pytest.raises(InvalidValueError, match=r"at least 19 queries .* Got 0 of 0 queries"):
        collection.recalibrate()
    with pytest.raises(InvalidValueError, match=r"Got 5 of 9 queries \(4 copies"):
        collection.recalibrate(np.concatenate([tight(1, 5), stored[:4]]), progress=False)
    assert collection.range_search(stored[:1]).certificate.source == "reserve"


def test_searches_go_on_during_recalibration_of_a_collection(collection):
    failures = []

    def search():
        try:
            for seed in range(30):
                collection.range_search(tight(seed, 2))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for seed in range(3):
        collection.recalibrate(tight(seed, 60), progress=False)
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.slow
def test_whole_collections_alarm_where_queries_change_and_only_there(tmp_path):
    """Tight clusters, then loose ones, each sealed: queries like all that is stored, then others.

    Twelve collections, each with 6,000 queries like its items and 5,000 like none of them.
    """
    false, seen = 0, 0
    for seed in range(12):
        path = tmp_path / f"{seed}.mv"
        with memvec.open(path, dim=DIM, similarity=0.65, miss_rate=0.05, seal_at=0) as made:
            for noise in (0.4, 0.55):
                made.add(around(CENTRES, noise, 50 + seed, 8000))
                made.seal(progress=False)
            made.shadow = 0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DriftWarning)
                for part in range(4):
                    like = [around(CENTRES, one, 100 + 9 * seed + part, 750) for one in (0.4, 0.55)]
                    made.range_search(np.random.default_rng(part).permutation(np.concatenate(like)))
                false += made.health.drift.alarmed
                search_all(made, *(around(CENTRES, 0.75, 300 + part, 1000) for part in range(5)))
                seen += made.health.drift.alarmed
    assert false <= 1
    assert seen == 12


def test_recalibration_on_given_queries_keeps_the_recent_ones(collection):
    collection.shadow = 0
    for batch in range(8):
        quietly(collection, tight(70 + batch, 50))
    collection.recalibrate(loose(60, 200), progress=False)
    assert collection.health.n_recent > 0
