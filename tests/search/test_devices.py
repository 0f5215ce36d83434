"""A device that is made known answers for an index: the seam, with a source of a dozen lines."""

from functools import cache

import numpy as np
import pytest

import naive
from memvec import Index
from memvec.errors import InvalidValueError
from memvec.matches import N_COUNTS, Matches
from memvec.search import ALL_ALLOWED, ANYTHING, UnitSource, _source, register_device
from strategies import cloud

ROWS, QUERIES = cloud(1, n=300, dim=12), cloud(2, n=20, dim=12)
LEVELS = ["expected", "exact", "model"]


class ToySource:
    """Rows in the order of their ids, scored one by one in Python."""

    def __init__(self, units: UnitSource) -> None:
        held = units.cascade.units
        self.rows = held.vectors[held.places]
        self.asked = []

    def __len__(self):
        return len(self.rows)

    def search(self, queries, similarity, thresholds, threads, allowed=ALL_ALLOWED):
        self.asked.append("exactly" if thresholds is None else "likely")
        return self._all(queries, similarity, allowed)

    def compare_all(self, queries, similarity, threads=None, allowed=ALL_ALLOWED, progress=False):
        self.asked.append("compared")
        return self._all(queries, similarity, allowed)

    def see(self, queries, query_of, ids):
        raise NotImplementedError("the units of the host are looked at")

    def stages(self, query, row, thresholds):
        raise NotImplementedError("the units of the host are looked at")

    def _all(self, queries, similarity, allowed):
        rows = [
            naive.matches(self.rows, query, similarity, None, allowed if len(allowed) else None)
            for query in queries
        ]
        ids, scores = ([[pair[i] for pair in row] for row in rows] for i in (0, 1))
        found = Matches.from_rows(ids, scores)
        spent = np.tile([0, 0, len(self), 0, len(self)], (len(queries), 1))
        assert spent.shape[1] == N_COUNTS
        return Matches(found.offsets, found.ids, found.scores, spent)


@pytest.fixture
def made(monkeypatch):
    """What was made of a device named "toy", known for as long as a test takes."""
    monkeypatch.setattr(_source, "_DEVICES", dict(_source._DEVICES))
    sources = []

    def make(units, device):
        sources.append(ToySource(units))
        return sources[-1]

    register_device("toy", make)
    return sources


@pytest.fixture(scope="module")
def index():
    asked = cloud(4, n=150, dim=12)
    return Index.build(ROWS, similarity=0.8, miss_rate=0.05, queries=asked, progress=False)


def pairs_of(hits):
    return [list(zip(row.ids.tolist(), row.scores.tolist(), strict=True)) for row in hits]


@cache
def expected(similarity):
    return [
        [(i, float(np.float32(score))) for i, score in naive.matches(ROWS, query, similarity)]
        for query in QUERIES
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_ranges_are_answered_by_the_device(index, made, level):
    moved = index.to("toy")
    hits = moved.range_search(QUERIES, 0.8, guarantee=level, miss_rate=0.05, shadow=0.0)
    assert pairs_of(hits) == expected(0.8)
    assert hits.counts.sum() > 100
    assert (
        hits.certificate
        == index.range_search(QUERIES, 0.8, guarantee=level, miss_rate=0.05).certificate
    )
    [toy] = made
    assert toy.asked == ["exactly" if level == "exact" else "likely"]
    # The work is the device's, too.
    assert hits.work.exact_products == len(ROWS) * len(QUERIES)


@pytest.mark.parametrize("level", ["expected", "exact"])
@pytest.mark.parametrize("k", [1, 7, 300])
def test_the_nearest_are_answered_by_the_device(index, made, level, k):
    found = index.to("toy").search(QUERIES, k, guarantee=None if k > 100 else level)
    for query, ids in enumerate(found.ids.tolist()):
        assert ids == [i for i, _ in expected(ANYTHING)[query][:k]]
    [toy] = made
    assert toy.asked


def test_counts_measures_and_shadows_are_answered_by_the_device(index, made):
    moved = index.to("toy")
    [toy] = made
    assert moved.count(QUERIES, 0.8).tolist() == [len(row) for row in expected(0.8)]
    assert moved.contains(QUERIES, 0.8).all()
    assert moved.measure(QUERIES, 0.8, progress=False).n_missed == 0
    assert toy.asked == ["likely"] * 3 + ["compared"]
    moved.range_search(QUERIES, 0.8, shadow=1.0)
    assert toy.asked[4:] == ["likely", "compared"]
    assert moved.health.shadow.n_missed == 0


def test_a_device_is_loaded_once(index, made):
    """Units are large: a new calibration leaves them where they are."""
    moved = index.to("toy")
    moved.range_search(QUERIES)
    moved.recalibrate(cloud(3, n=300, dim=12), progress=False)
    moved.range_search(QUERIES)
    [toy] = made
    assert toy.asked == ["likely", "likely"]


def test_an_index_on_a_device_explains_and_saves_as_before(index, made, tmp_path):
    moved = index.to("toy")
    assert moved.explain(QUERIES[0], 5).reason == index.explain(QUERIES[0], 5).reason
    moved.save(tmp_path / "moved.mv")
    opened = Index.open(tmp_path / "moved.mv")
    assert pairs_of(opened.range_search(QUERIES)) == pairs_of(index.range_search(QUERIES))
    assert len(made) == 1


def test_the_first_index_stays_where_it_is(index, made):
    moved = index.to("toy")
    index.range_search(QUERIES)
    back = moved.to("cpu")
    assert pairs_of(back.range_search(QUERIES)) == pairs_of(index.range_search(QUERIES))
    [toy] = made
    assert toy.asked == []


def test_unknown_devices_are_named_with_those_known(index, made):
    with pytest.raises(InvalidValueError, match="'device'.*Index.to.*'cpu' or .*'toy'.*'quantum'"):
        index.to("quantum")
    assert made == []


def test_index_on_a_device_keeps_its_shadow():
    index = Index.build(ROWS, progress=False)
    index.shadow = 0.5
    assert index.to("cpu").shadow == 0.5


@pytest.mark.parametrize(
    "device", [["cpu"], {}, None, "gpu", "cuda:x", "cuda:-1", "cuda: 1", "cuda:١", "cpu:0", "toy:"]
)
def test_device_that_is_none_is_named(device):
    with pytest.raises(InvalidValueError, match="'device' parameter of Index.to must be 'cpu'"):
        Index.build(ROWS, progress=False).to(device)
