"""One promise for all segments together."""

import dataclasses
import json
import shutil
from functools import partial

import numpy as np
import pytest

import memvec
import naive
from clouds import around
from memvec.collection import _joint_table, _promises, check_collection, repair_collection
from memvec.errors import CorruptIndexError, InvalidValueError
from memvec.evaluation import count_misses, exact_range
from memvec.matches import Matches

DIM, N = 32, 9000
CENTRES = np.random.default_rng(1).standard_normal((150, DIM))
clustered = partial(around, CENTRES, 0.55)
VECTORS, QUERIES = clustered(2, N), clustered(3, 1200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three segments of 3,000 and 500 vectors that wait; every other item is even."""
    folder = tmp_path_factory.mktemp("promise") / "parts.mv"
    with memvec.open(folder, dim=DIM, similarity=0.7, miss_rate=0.05, seal_at=0) as collection:
        for start in range(0, N, 3000):
            ids = range(start, start + 3000)
            collection.add(VECTORS[ids], ids, [{"even": i % 2 == 0} for i in ids])
            collection.seal()
        ids = range(N, N + 500)
        collection.add(clustered(4, 500), ids, [{"even": i % 2 == 0} for i in ids])
    return folder


@pytest.fixture
def collection(folder):
    with memvec.open(folder, read_only=True) as opened:
        yield opened


def everything():
    return np.concatenate([VECTORS, clustered(4, 500)])


def misses_of(hits, truth):
    return count_misses(truth, Matches.from_rows([row.ids.astype(np.int64) for row in hits]))


def test_the_miss_rate_of_all_segments_together_is_held(collection):
    truth = exact_range(everything(), QUERIES, 0.7)
    for level in ("expected", "high_probability"):
        hits = collection.range_search(QUERIES, guarantee=level)
        misses = misses_of(hits, truth)
        assert hits.certificate.level == level
        assert hits.certificate.source == "reserve"
        assert misses.extra.sum() == 0
        assert misses.miss_rate <= 0.05 + 4 * misses.standard_error
    assert misses_of(collection.range_search(QUERIES), truth).miss_rate >= 0.05 / 3
    exact = collection.range_search(QUERIES, guarantee="exact")
    assert misses_of(exact, truth).n_missed == 0
    # Three reserves of 150 vectors each, asked of all three segments.
    assert 300 < collection.range_search(QUERIES[:1]).certificate.n_queries <= 450


def test_measured_misses_are_those_of_brute_force(collection):
    truth = exact_range(everything(), QUERIES, 0.7)
    measured = collection.measure(QUERIES)
    assert measured.n_missed == misses_of(collection.range_search(QUERIES), truth).n_missed
    assert measured.n_matches == truth.counts.sum()
    assert collection.measure(QUERIES, sample=50).n_queries == 50


def test_a_filter_is_calibrated_on_the_matches_that_pass(collection):
    even = {"even": True}
    hits = collection.range_search(QUERIES, where=even)
    assert hits.certificate.filter == "calibrated on the matches that pass"
    truth = exact_range(everything()[::2], QUERIES, 0.7)
    doubled = truth.named(2 * np.arange(len(everything())))
    misses = misses_of(hits, doubled)
    assert misses.extra.sum() == 0
    assert misses.miss_rate <= 0.05 + 4 * misses.standard_error
    rare = collection.range_search(QUERIES[:1], 0.97, where=even)
    assert rare.certificate.filter == "not calibrated"
    top = collection.search(QUERIES[:1], 3, where=even)
    assert top.certificate.filter == "calibrated on the matches that pass"
    assert collection.range_search(QUERIES[:1]).certificate.filter is None


def test_top_k_of_all_parts(collection):
    exact = collection.search(QUERIES[:200], 10, guarantee="exact")
    for query, ids in zip(QUERIES[:10], exact.ids, strict=False):
        assert ids.tolist() == [i for i, _ in naive.matches(everything(), query, -2)[:10]]
    top = collection.search(QUERIES[:200], 10)
    assert top.certificate.level == "expected"
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(top.ids, exact.ids, strict=True)])
    assert recall >= 0.93
    assert top.work.exact_products < exact.work.exact_products


def test_explanations_agree_with_the_search(collection):
    hits = collection.range_search(QUERIES[:60])
    truth = exact_range(everything(), QUERIES[:60], 0.7)
    for query in range(60):
        found = set(hits[query].ids)
        for key in truth[query].ids[:4].tolist():
            told = collection.explain(QUERIES[query], key)
            assert told.returned == (key in found)
            assert told.id == key
    waiting = collection.explain(QUERIES[0], N + 3)
    assert waiting.stages == ()
    with pytest.raises(InvalidValueError, match=r"'id' .* must be in the collection. Got 'nobody'"):
        collection.explain(QUERIES[0], "nobody")


def test_calibration_follows_merges_and_deletes(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy.mv")
    with memvec.open(tmp_path / "copy.mv") as collection:
        before = collection.range_search(QUERIES[:1]).certificate
        collection.delete(range(0, N, 3))
        fewer = collection.range_search(QUERIES[:1]).certificate
        assert fewer.n_matches < before.n_matches
        collection.compact()
        after = collection.range_search(QUERIES).certificate
        assert after.level == "expected"
        assert after.state != before.state
        [(left,)] = collection._store.catalog.rows("SELECT count(*) FROM calibration")
        assert left == 0


def test_damaged_calibration_is_named_and_repaired(folder, tmp_path):
    broken = tmp_path / "broken.mv"
    shutil.copytree(folder, broken)
    with memvec.open(broken) as collection:
        catalog = collection._store.catalog
        catalog.execute("UPDATE calibration SET rows = zeroblob(99) WHERE segment = 2", [])
    with pytest.raises(CorruptIndexError, match="the calibration of segment 2 by 1 has checksum"):
        memvec.open(broken, read_only=True)
    assert not check_collection(broken).ok
    assert any("It was made again" in text for text in repair_collection(broken).actions)
    with memvec.open(broken) as collection, memvec.open(folder, read_only=True) as whole:
        repaired = collection.range_search(QUERIES[:1]).certificate
        assert repaired == whole.range_search(QUERIES[:1]).certificate
        assert repaired.source == "reserve"


def test_deletes_that_no_calibration_query_matches_solve_nothing_again(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy.mv")
    with memvec.open(tmp_path / "copy.mv") as collection:
        collection.range_search(QUERIES[:1])
        promises, state = collection._searches.live.promises, collection._store.state
        sample = promises._samples.of(state)
        table = promises._whole(state, sample, promises._least).table
        used = [*table.keys.tolist(), *sample.keys.tolist()]
        strangers = sorted(set(range(N)) - set(used))
        kept = len(collection._searches.live.promises._kept)
        collection.delete(strangers[:5])
        collection.range_search(QUERIES[:1])
        assert len(collection._searches.live.promises._kept) == kept
        collection.delete([int(table.keys[0])])
        collection.range_search(QUERIES[:1])
        assert len(collection._searches.live.promises._kept) == kept + 1


def test_ties_at_rank_k_go_by_id(tmp_path):
    with memvec.open(tmp_path / "ties.mv", dim=DIM, seal_at=0) as collection:
        copies = np.repeat(VECTORS[:1], 40, axis=0)
        collection.add(np.concatenate([VECTORS[1:4001], copies]), ids=range(5000, 960, -1))
        collection.seal()
        top = collection.search(VECTORS[0], 5)
        best = collection.search(VECTORS[0], 5, guarantee="exact")
        assert top.ids.tolist() == best.ids.tolist() == [[961, 962, 963, 964, 965]]


def test_waiting_vectors_are_scanned_by_codes(tmp_path):
    more = clustered(5, 5000)
    with memvec.open(tmp_path / "codes.mv", dim=DIM, miss_rate=0.05, seal_at=0) as collection:
        collection.add(VECTORS[:3000])
        collection.seal()
        collection.add(more)
        hits = collection.range_search(QUERIES)
        truth = exact_range(np.concatenate([VECTORS[:3000], more]), QUERIES, 0.7)
        misses = misses_of(hits, truth)
        assert misses.extra.sum() == 0
        assert 0 < misses.miss_rate <= 0.05 + 4 * misses.standard_error
        # Two chunks of 2,048 by codes, the other 904 in float32. Seen: 0.38 of all. Codes of so few
        # bits pass many, as no match that waits may be lost to thresholds.
        assert hits.work.exact_products < 0.45 * len(QUERIES) * 8000
        exact = collection.range_search(QUERIES, guarantee="exact")
        assert misses_of(exact, truth).n_missed == 0
        told = {True: 0, False: 0}
        for query in range(300):
            found = set(hits[query].ids)
            for key in truth[query].ids[-5:].tolist():
                returned = collection.explain(QUERIES[query], key).returned
                assert returned == (key in found)
                told[returned] += 1
        assert told[False] > 0
        few = collection.range_search(QUERIES[:50], where={"no": 1})
        assert few.counts.sum() == 0
        top = collection.search(QUERIES[:50], 5)
        best = collection.search(QUERIES[:50], 5, guarantee="exact")
        same = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(top.ids, best.ids, strict=True)])
        assert same >= 0.9


def test_rows_that_do_not_pass_are_spared(folder, tmp_path):
    """What a filter or a deletion takes out is not scored, and the rest is answered alike."""
    path = shutil.copytree(folder, tmp_path / "c.mv")
    with memvec.open(path, seal_at=0) as collection:
        collection.add(clustered(5, 2500), metadata=[{"even": i % 2 == 0} for i in range(2500)])
        whole = collection.range_search(QUERIES, guarantee="model")
        even = collection.range_search(QUERIES, where={"even": True}, guarantee="model")
        assert rows_of(even) == [[name for name in row if name % 2 == 0] for row in rows_of(whole)]
        assert even.work.units_visited == whole.work.units_visited
        assert even.work.codes_tested < 0.52 * whole.work.codes_tested  # seen: 0.503
        assert even.work.exact_products < 0.52 * whole.work.exact_products  # seen: 0.501
        collection.delete([item.id for item in collection.items(where={"even": False})])
        left = collection.range_search(QUERIES, guarantee="model")
        assert rows_of(left) == rows_of(even)
        assert left.work.exact_products == even.work.exact_products


def rows_of(hits):
    return [row.ids.tolist() for row in hits]


def test_what_counts_is_looked_up_once(folder, tmp_path, monkeypatch):
    path, asked = shutil.copytree(folder, tmp_path / "c.mv"), []
    look_up = _joint_table.JointTable.counting
    monkeypatch.setattr(
        _joint_table.JointTable, "counting", lambda *args: asked.append(1) or look_up(*args)
    )
    with memvec.open(path, seal_at=0) as collection:
        for where, n_asked in ((None, 1), ({"even": True}, 2), (None, 2), ({"even": True}, 2)):
            collection.range_search(QUERIES[:2], where=where)
            assert len(asked) == n_asked
        collection.add(clustered(6, 1))
        collection.range_search(QUERIES[:2], where={"even": True})
        assert len(asked) == 2
        collection.delete([0])
        for _ in range(2):
            collection.range_search(QUERIES[:2])
        assert len(asked) == 3
    monkeypatch.setattr(_promises, "_MOST_KEPT", 1)
    with memvec.open(path) as collection:
        for even in (True, False):
            collection.range_search(QUERIES[:2], where={"even": even})
        assert (
            len(collection._searches.live.promises._recent)
            == len(collection._searches.live.promises._kept)
            == 1
        )


def test_collection_is_created_for_a_level_and_a_list_of_similarities(tmp_path):
    asked = {"guarantee": "high_probability", "confidence": 0.9, "similarities": [0.8, 0.7, 0.8]}
    path = tmp_path / "c.mv"
    with memvec.open(path, dim=DIM, miss_rate=0.1, seal_at=0, **asked) as collection:
        collection.add(VECTORS[:6000])
        collection.seal()
    with memvec.open(path, **asked) as collection:
        assert collection.settings.similarities == (0.7, 0.8)
        for similarity in (0.7, 0.8):
            certificate = collection.range_search(QUERIES[:5], similarity).certificate
            assert (certificate.level, certificate.confidence) == ("high_probability", 0.9)
        # One that is not listed is searched at the next lower level, or refused if it is named.
        assert collection.range_search(QUERIES[:5], 0.75).certificate.level == "expected"
        with pytest.raises(InvalidValueError, match="similarit"):
            collection.range_search(QUERIES[:5], 0.75, guarantee="high_probability")
    # Of the segment, opened by itself, the same is promised.
    assert memvec.Index.open(path / "segments" / "000001").design.similarities == (0.7, 0.8)


def test_all_settings_are_written_and_read_as_they_were(tmp_path):
    with memvec.open(tmp_path / "c.mv", dim=DIM) as collection:
        made = collection.settings
        written = json.loads(made.to_json())
        # Folders of float32 rows are written as they were before there were others.
        assert written.keys() | {"dtype"} == {field.name for field in dataclasses.fields(made)}
        assert made.listed == (0.7,)
    with memvec.open(tmp_path / "c.mv") as collection:
        assert collection.settings == made


def test_exact_collection_misses_nothing(tmp_path):
    with memvec.open(tmp_path / "c.mv", dim=DIM, guarantee="exact", seal_at=0) as collection:
        collection.add(VECTORS[:2000])
        collection.seal()
        assert collection.range_search(QUERIES[:5]).certificate.level == "exact"
        assert collection.search(QUERIES[:5], 3).certificate.level == "exact"
