"""Shards as actors of Ray: bit for bit what shards in one process answer."""

import numpy as np
import pytest

from cluster.conftest import N_SHARDS, SETTINGS, lists_of, open_local
from memvec import cluster
from memvec.errors import InvalidValueError, LockedError, ShardError

WHERE = {"year": {"$gte": 2010}}


@pytest.fixture(scope="module")
def pair(template, tmp_path_factory, ray_cluster):
    """The same shards twice: on Ray, and in this process."""
    import shutil

    copy = tmp_path_factory.mktemp("copy") / "root"
    shutil.copytree(template, copy)
    with cluster.open(copy, cpus=0.5) as remote, open_local(template) as local:
        yield remote, local


@pytest.mark.parametrize("where", [None, WHERE])
@pytest.mark.parametrize("guarantee", [None, "exact", "model"])
def test_ranges_are_equal_bit_for_bit(pair, queries, where, guarantee):
    remote, local = (one.range_search(queries, where=where, guarantee=guarantee) for one in pair)
    assert lists_of(remote) == lists_of(local)
    assert np.array_equal(remote.scores, local.scores)
    assert remote.certificate.to_json() == local.certificate.to_json()
    assert np.array_equal(remote.work.unit_tests, local.work.unit_tests)


def test_the_nearest_are_equal_bit_for_bit(pair, queries):
    remote, local = (one.search(queries, 10, include="metadata") for one in pair)
    assert np.array_equal(remote.ids, local.ids)
    assert np.array_equal(remote.scores, local.scores)
    assert remote.certificate.to_json() == local.certificate.to_json()
    assert remote.metadata == local.metadata


def test_joins_are_equal(pair):
    remote, local = (list(one.self_join(0.7)) for one in pair)
    assert remote == local
    assert len(remote) > 20
    remote, local = (one.deduplicate(0.7) for one in pair)
    assert remote.groups == local.groups
    assert remote.certificate.to_json() == local.certificate.to_json()


def test_other_answers_are_equal(pair, queries, sample):
    remote, local = pair
    assert np.array_equal(remote.count(queries), local.count(queries))
    assert np.array_equal(remote.contains(queries), local.contains(queries))
    assert list(remote) == list(local)
    assert list(remote.iter_range(queries)) == list(local.iter_range(queries))
    assert str(remote.measure(queries)) == str(local.measure(queries))
    ours, theirs = (one.get(["n1", 2]) for one in pair)
    assert [str(one) for one in ours] == [str(one) for one in theirs]
    assert remote.stats() == local.stats()
    assert remote.check() == local.check()
    assert remote.explain(sample[1], "n1").reason == local.explain(sample[1], "n1").reason


def test_queries_of_many_bytes_go_through_the_object_store(pair, sample):
    remote, local = (one.range_search(sample[:1000]) for one in pair)
    assert lists_of(remote) == lists_of(local)


def test_shards_are_created_filled_and_sealed_on_ray(tmp_path, sample, queries, ray_cluster):
    """What actors write is what one process writes."""
    settings, found = SETTINGS | {"seal_at": 300}, []
    for local in (False, True):
        path = tmp_path / f"grown-{local}"
        options = {"local": local, "background": False, **settings}
        if not local:
            options["cpus"] = 0.5
        with cluster.open(path, shards=2, **options) as collection:
            for start in range(0, 1200, 300):
                collection.add(sample[start : start + 300])
                assert start in collection.range_search(sample[start], 0.999).ids
            collection.upsert(sample[7000:7001], [5])
            collection.delete([7, 8])
            hits = collection.range_search(queries)
            found.append((lists_of(hits), hits.certificate.n_matches, collection.stats().n_items))
    assert found[0] == found[1]


def test_errors_are_those_of_one_process(pair, root, sample, ray_cluster):
    remote, _ = pair
    with pytest.raises(InvalidValueError, match="ids that are new; upsert"):
        remote.add(sample[:1], ["n1"])
    with pytest.raises(InvalidValueError, match="'k' parameter of Collection.search"):
        remote.search(sample[:1], 0)
    with open_local(root), pytest.raises(LockedError):
        cluster.open(root, cpus=0.1)
    with cluster.open(root, read_only=True, cpus=0.1) as reader:
        assert reader.read_only


def test_ray_is_not_started_twice(pair, monkeypatch):
    import ray

    def refuse(**options):
        raise AssertionError("ray.init was called")

    monkeypatch.setattr(ray, "init", refuse)
    remote, _ = pair
    assert remote.n_shards == N_SHARDS


def test_lost_shard_is_named(root, queries, ray_cluster):
    import shutil

    shutil.rmtree(root / "shard-0001")
    with pytest.raises(ShardError, match="Shard 1, in .*shard-0001, does not answer: There is no"):
        cluster.open(root, cpus=0.1)
    with cluster.open(root, cpus=0.1, partial=True) as collection:
        hits = collection.range_search(queries)
        assert hits.certificate.missing_shards == (1,)
    with open_local(root, partial=True) as local:
        there = local.range_search(queries)
        assert lists_of(there) == lists_of(hits)
        assert there.certificate.to_json() == hits.certificate.to_json()
