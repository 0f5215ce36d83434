"""Faults of a real cluster of several nodes on this machine: the same answer, or an error."""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from cluster.conftest import N_SHARDS, lists_of, open_local
from memvec import cluster
from memvec.errors import LockedError, ShardError, StorageError


def links_of(collection):
    return collection.shards.links


def test_actor_killed_in_a_search_comes_back_with_the_same_answer(root, queries, ray_cluster):
    import ray

    with cluster.open(root, cpus=0.1) as collection:
        before = collection.range_search(queries)
        link = links_of(collection)[1]
        killed = process_of(link)
        waiting = threading.Timer(0.02, lambda: ray.kill(link.actor, no_restart=False))
        waiting.start()
        while waiting.is_alive():
            assert lists_of(collection.range_search(queries)) == lists_of(before)
        assert lists_of(collection.range_search(queries)) == lists_of(before)
        assert process_of(link) != killed


def process_of(link):
    import ray

    return ray.get(link.actor.__ray_call__.remote(lambda actor: os.getpid()))


def test_shard_that_dies_and_cannot_come_back_is_an_error_or_left_out(root, queries, ray_cluster):
    import ray

    with cluster.open(root, cpus=0.1, partial=True) as collection:
        assert collection.range_search(queries).certificate.missing_shards == ()
        link = links_of(collection)[2]
        shutil.rmtree(root / "shard-0002")
        ray.kill(link.actor, no_restart=False)
        hits = collection.range_search(queries)
        assert hits.certificate.missing_shards == (2,)
        assert {cluster.shard_of(name, N_SHARDS) for name in hits.ids} == {0, 1}
        with pytest.raises(ShardError, match="Shard 2"):
            collection.add(queries[:1], ["another"])


def test_actor_killed_in_an_add_acknowledges_each_item_once(root, sample, ray_cluster):
    """What add returned is there once, however often actors died meanwhile."""
    import ray

    with cluster.open(root, cpus=0.1) as collection:
        known = len(collection)
        stop = threading.Event()

        def kill():
            number = 0
            while not stop.wait(0.3):
                ray.kill(links_of(collection)[number % N_SHARDS].actor, no_restart=False)
                number += 1
                if number == 4:
                    return

        killer = threading.Thread(target=kill)
        killer.start()
        names = [f"new{number}" for number in range(600)]
        for start in range(0, 600, 50):
            collection.add(sample[start : start + 50], names[start : start + 50])
            collection.delete(names[start : start + 2])
        stop.set()
        killer.join()
        left = [name for number, name in enumerate(names) if number % 50 > 1]
        assert len(collection) == known + len(left)
        listed = [name for name in collection if str(name).startswith("new")]
        assert sorted(listed) == sorted(left)
        assert collection.check().ok


def test_stream_of_a_reader_keeps_its_state_until_its_actor_is_killed(root, sample, ray_cluster):
    """Then the reader moves to what is committed, and the stream says that its state is gone."""
    import ray

    with (
        open_local(root) as writer,
        cluster.open(root, cpus=0.1, read_only=True) as reader,
    ):
        asked = {"similarity": 0.999, "guarantee": "exact"}
        before = len(reader.range_search(sample[:40], **asked).ids)
        held = [reader.iter_range(sample[:40], **asked) for _ in range(2)]
        for round_number in range(6):
            names = [f"{round_number}-{row}" for row in range(40)]
            writer.add(sample[:40], names)
            reader.refresh()
            found = reader.range_search(sample[:40], **asked).ids
            assert len(found) == before + 40 * (round_number + 1)
        assert len(list(held[0])) == before
        for link in links_of(reader):
            ray.kill(link.actor, no_restart=False)
        assert len(reader.range_search(sample[:40], **asked).ids) == before + 40 * 6
        with pytest.raises(StorageError, match="A shard was restarted"):
            list(held[1])


def test_shard_with_a_wrong_checksum_is_an_error_or_left_out(root, queries, ray_cluster):
    [codes] = (root / "shard-0002" / "segments" / "200000000001").glob("g*/codes.npy")
    content = bytearray(codes.read_bytes())
    content[-1] ^= 1
    codes.write_bytes(bytes(content))
    with (
        cluster.open(root, cpus=0.1) as collection,
        pytest.raises(ShardError, match="Shard 2.*checksum"),
    ):
        collection.range_search(queries)
    with cluster.open(root, cpus=0.1, partial=True) as collection:
        hits = collection.range_search(queries)
        assert hits.certificate.missing_shards == (2,)
        assert {cluster.shard_of(name, N_SHARDS) for name in hits.ids} == {0, 1}


WRITER = """
import sys, numpy as np
from memvec import cluster
from memvec.evaluation import load_sample
if address := sys.argv[2]:
    import ray
    ray.init(address, logging_level="ERROR", log_to_driver=False)
vectors = load_sample().vectors
with cluster.open(sys.argv[1], local=not address, cpus=0.1) as collection:
    for start in range(0, 10000, 40):
        names = [f"w{number}" for number in range(start, start + 40)]
        collection.add(vectors[start : start + 40], names)
        print(start + 40, flush=True)
"""


@pytest.mark.parametrize("on_ray", [False, True])
def test_writer_killed_in_an_add_across_shards_loses_nothing_acknowledged(root, request, on_ray):
    address = request.getfixturevalue("ray_cluster").address if on_ray else ""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), address],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    for _ in range(10):
        acknowledged = int(process.stdout.readline())
    time.sleep(0.01)
    process.kill()
    rest = process.communicate()[0].split()
    acknowledged = int(rest[-1]) if rest else acknowledged
    with opened_once_unlocked(root) as collection:
        names = [name for name in collection if str(name).startswith("w")]
        assert len(set(names)) == len(names)
        wanted = {f"w{number}" for number in range(acknowledged)}
        assert wanted <= set(names) <= wanted | {f"w{acknowledged + one}" for one in range(40)}
        # What was cut short is added by an upsert, and is there once.
        block = [f"w{acknowledged + one}" for one in range(40)]
        collection.upsert([collection.get("n1").vector] * 40, block)
        assert len(set(collection)) == len(list(collection))
        assert collection.check().ok


def opened_once_unlocked(root):
    """Open shards whose actors Ray ends a moment after their driver."""
    end = time.monotonic() + 60
    while True:
        try:
            return open_local(root)
        except LockedError:
            assert time.monotonic() < end
            time.sleep(0.2)


def test_node_removed_moves_its_shards(root, queries, ray_cluster):
    with cluster.open(root, cpus=0.5) as collection:
        before = collection.range_search(queries)
        gone = ray_cluster.list_all_nodes()[-1]
        ray_cluster.remove_node(gone, allow_graceful=False)
        try:
            assert lists_of(collection.range_search(queries)) == lists_of(before)
        finally:
            ray_cluster.add_node(num_cpus=2, object_store_memory=100_000_000)
