"""Shards as actors of Ray: bit for bit what shards in one process answer."""

import logging
import os

import numpy as np
import pytest

from cluster.conftest import N_SHARDS, SETTINGS, lists_of, open_local
from memvec import cluster
from memvec.cluster._ray_links import RayLink, ray_links
from memvec.cluster._wire import PIECE_BYTES
from memvec.collection import Sought
from memvec.errors import InvalidValueError, LockedError, ShardError
from memvec.guarantee import Request

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


def test_large_answers_come_in_pieces(pair, sample, monkeypatch):
    """Six million matches, in pieces of at most 4 MB: no answer lies in the object store whole."""
    import ray

    pieces = []
    get = ray.get

    def sized(reference, **options):
        found = get(reference, **options)
        pieces.extend([found.nbytes] if isinstance(found, np.ndarray) else [])
        return found

    monkeypatch.setattr(ray, "get", sized)
    remote, local = (one.range_search(sample[:3000], 0.001, guarantee="exact") for one in pair)
    assert max(pieces) == PIECE_BYTES
    assert sum(pieces) >= 12 * len(remote.scores) > 70_000_000
    assert np.array_equal(remote.scores, local.scores)
    assert np.array_equal(remote.ids, local.ids)


def test_answer_that_nobody_fetches_does_not_hold_up_the_shard(pair, sample):
    """A driver thread that is interrupted between two pieces leaves the actor free."""
    remote, _ = pair
    link = remote.shards.links[0]
    state = remote.shards.state.of_shards[0]
    sought = Sought(state.change, -1.0, None, Request(0.0, "exact", 0.95, False), None, 1)
    held = ray_get(link.actor.find_shared.remote(sample[:8000], sought))
    options = {"num_returns": "streaming", "_generator_backpressure_num_objects": 1}
    stream = link.actor.pieces.options(**options).remote(held.token)
    ray_get(next(stream))
    del stream
    assert len(remote.range_search(sample[0], 0.999).ids) == 1


def test_result_of_a_held_answer_that_is_lost_is_asked_for_again(pair, sample, monkeypatch):
    asked = []
    fetched = RayLink._fetched

    def once_lost(link, held):
        asked.append(link.number)
        return None if asked.count(link.number) == 1 else fetched(link, held)

    monkeypatch.setattr(RayLink, "_fetched", once_lost)
    hits = [one.range_search(sample[:50], 0.001, guarantee="exact") for one in pair]
    assert sorted(asked) == [0, 0, 1, 1, 2, 2]
    assert lists_of(hits[0]) == lists_of(hits[1])


def test_shards_that_wait_for_cpus_are_told_of(root, ray_cluster, caplog):
    """They would wait in silence; what never answered is ended without being asked to close."""
    links = ray_links(_root_of(root), {"read_only": True}, 1.5)
    with caplog.at_level(logging.WARNING, logger="memvec"):
        pending = ray_links(_root_of(root), {"read_only": True}, 1.5)
    assert "3 shards reserve 1.5 CPUs each; the cluster has 4" in caplog.text
    for link in (*links, *pending):
        link.begin("close")()


def _root_of(path):
    from memvec.cluster._root import read_root

    return read_root(path)


def ray_get(reference):
    import ray

    return ray.get(reference, timeout=60)


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
    with pytest.raises(ShardError, match="Shard 1, in .*-0001, does not answer: its folder is"):
        cluster.open(root, cpus=0.1)
    with cluster.open(root, cpus=0.1, partial=True) as collection:
        hits = collection.range_search(queries)
        assert hits.certificate.missing_shards == (1,)
    with open_local(root, partial=True) as local:
        there = local.range_search(queries)
        assert lists_of(there) == lists_of(hits)
        assert there.certificate.to_json() == hits.certificate.to_json()


ADDRESSED = """
import json, ray
from memvec.cluster._ray import require_ray
require_ray("a test")
print(json.dumps([node["Resources"].get("mark", 0) for node in ray.nodes()]))
"""


def test_ray_address_names_the_cluster_that_is_used():
    """A second cluster runs beside that of the other tests; it alone has the resource."""
    import json
    import os
    import subprocess
    import sys

    from ray.cluster_utils import Cluster

    arguments = {"num_cpus": 1, "resources": {"mark": 7}, "include_dashboard": False}
    other = Cluster(
        initialize_head=True, head_node_args={**arguments, "object_store_memory": 100_000_000}
    )
    try:
        environment = {**os.environ, "RAY_ADDRESS": other.address, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(
            [sys.executable, "-c", ADDRESSED],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    finally:
        other.shutdown()
    assert json.loads(done.stdout.splitlines()[-1]) == [7.0]


def test_builds_of_a_worker_take_its_threads_alone(tmp_path, monkeypatch):
    from memvec.cluster import _files
    from memvec.kernels import THREADS, default_threads

    seen = []
    plan = {"files": [], "asked": {}, "dim": 1, "memory": 1, "n_blocks": 1}
    monkeypatch.setattr(_files.BlockPlan, "of_record", lambda record: None)
    monkeypatch.setattr(_files.WorkFolder, "is_whole", lambda work, task: False)
    monkeypatch.setattr(_files, "do_task", lambda *given: seen.append(default_threads()))
    for before in ("9", None):
        monkeypatch.setenv(THREADS, before) if before else monkeypatch.delenv(THREADS)
        _files._do(str(tmp_path), plan, ("read",), 3)
        assert os.environ.get(THREADS) == before  # other tasks run in the process afterwards
    assert seen == [3, 3]
