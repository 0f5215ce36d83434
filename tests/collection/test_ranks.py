"""The k nearest that pass a filter: what the calibration queries know of them."""

from functools import partial

import numpy as np
import pytest

import memvec
import naive
from clouds import around
from memvec.guarantee import CalibrationTable, known_ranks

DIM, N, K = 16, 6000, 5
CENTRES = np.random.default_rng(1).standard_normal((60, DIM))
clustered = partial(around, CENTRES, 0.6)
VECTORS, QUERIES = clustered(2, N), clustered(3, 800)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Two segments of 3,000, with metadata to let some of them pass."""
    path = tmp_path_factory.mktemp("ranks") / "c.mv"
    with memvec.open(path, dim=DIM, similarity=0.8, miss_rate=0.05, seal_at=0) as collection:
        for start in range(0, N, 3000):
            ids = range(start, start + 3000)
            some = [{"third": i % 3 == 0, "twelfth": i % 12 == 0, "n": i} for i in ids]
            collection.add(VECTORS[ids], ids, some)
            collection.seal()
        yield collection


def table_of(rows):
    """Return the table of (query, cosine, key, copies)."""
    queries, cosines, keys, copies = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.zeros((len(rows), 1), dtype=np.float32)
    ranks, copies = np.zeros(len(rows), dtype=np.int64), copies.astype(np.float32)
    table = CalibrationTable(queries, cosines, ranks, keys, copies, nothing, nothing)
    return CalibrationTable.merged([table])


def test_known_ranks_by_hand():
    """Keys below 100 lie in the first segment, of which there is more than the table holds."""
    table = table_of(
        [
            (0, 0.9, 1, 1),
            (0, 0.8, 100, 1),
            (0, 0.7, 2, 1),  # how far the first segment is known
            (0, 0.6, 101, 1),
            (1, 0.9, 3, 1),
            (1, 0.8, 4, 5),  # stands for five: there are gaps behind it
            (1, 0.7, 5, 1),
            (1, 0.5, 100, 1),
            (1, 0.4, 101, 1),
        ]
    )
    places = [np.flatnonzero(table.keys < 100), np.flatnonzero(table.keys >= 100)]

    def known(passing, k, second=2):
        found = known_ranks(table, places, [50, second], np.isin(table.keys, passing), k)
        rows = [] if found.table is None else found.table
        listed = (
            []
            if found.table is None
            else list(
                zip(rows.queries.tolist(), rows.keys.tolist(), rows.ranks.tolist(), strict=True)
            )
        )
        return listed, found.n_unknown

    everything = [1, 2, 3, 4, 5, 100, 101]
    assert known(everything, 3) == ([(0, 1, 0), (0, 100, 1), (0, 2, 2), (0, 101, 3)], 1)
    assert known([2, 100, 101], 2) == ([(0, 100, 0), (0, 2, 1), (0, 101, 2)], 1)
    assert known([2, 100, 101], 3) == ([], 2)
    assert known([1, 3], 1) == ([(0, 1, 0), (1, 3, 0)], 0)
    assert known([101], 1) == ([], 2)
    # Of three in the second segment the farthest may be anywhere below; that changes nothing.
    assert known([2, 100, 101], 2, second=3) == known([2, 100, 101], 2)


@pytest.mark.parametrize("level", [None, "expected", "high_probability"])
@pytest.mark.parametrize("where", [{"third": True}, {"n": {"$gte": 4500}}], ids=["third", "last"])
def test_filtered_nearest_are_missed_as_seldom_as_promised(collection, where, level):
    top = collection.search(QUERIES, K, where=where, guarantee=level)
    exact = collection.search(QUERIES, K, where=where, guarantee="exact")
    certificate = top.certificate
    assert (certificate.level, certificate.k) == (level or "expected", K)
    assert certificate.filter == "calibrated on the matches that pass"
    assert certificate.bound <= 0.05
    missed = [1 - len(set(a) & set(b)) / K for a, b in zip(top.ids, exact.ids, strict=True)]
    error = np.std(missed) / np.sqrt(len(missed))
    assert np.mean(missed) <= 0.05 + 4 * error
    assert top.work.exact_products < exact.work.exact_products


def test_queries_whose_nearest_are_unknown_count_as_missed(collection):
    promises, state = collection._searches.live.promises, collection._store.state
    n_queries = promises._whole(state, promises._samples.of(state), -np.inf).table.n_queries
    near = collection.search(QUERIES[:1], K, where={"third": True}).certificate
    assert near.n_queries == n_queries
    deep = collection.search(QUERIES[:1], 60, where={"third": True}).certificate
    assert (deep.filter, deep.k) == ("not calibrated", 60)


def test_few_that_pass_are_all_compared(collection):
    where = {"twelfth": True}
    top = collection.search(QUERIES[:50], K, where=where)
    assert (top.certificate.level, top.certificate.filter) == ("exact", None)
    for query, ids in zip(QUERIES[:50], top.ids, strict=True):
        best = [12 * row for row, _ in naive.matches(VECTORS[::12], query, -2)[:K]]
        assert ids.tolist() == best


def test_filtered_ranks_are_solved_once(collection, monkeypatch):
    where = {"third": False}
    first = collection.search(QUERIES[:3], 4, where=where)
    monkeypatch.setattr(type(collection._searches.live.promises), "_solved", None)
    again = collection.search(QUERIES[:3], 4, where=where)
    assert again.certificate == first.certificate
    assert again.ids.tolist() == first.ids.tolist()


def test_what_was_solved_goes_with_its_segments(tmp_path):
    with memvec.open(tmp_path / "c.mv", dim=DIM, miss_rate=0.05, seal_at=0) as collection:
        collection.add(VECTORS[:3000], metadata=[{"half": i % 2 == 0} for i in range(3000)])
        collection.seal()
        collection.search(QUERIES[:1], K, where={"half": True})
        assert len(collection._searches.live.promises._ranked) == 1
        collection.compact()
        assert not len(collection._searches.live.promises._ranked)
