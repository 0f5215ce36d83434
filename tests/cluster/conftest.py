"""Fixtures of the tests of shards; those of Ray need the extra, and run in `make test-extras`."""

import shutil
from importlib.util import find_spec

import numpy as np
import pytest

import memvec
from memvec import cluster
from memvec.evaluation import load_sample

collect_ignore = (
    []
    if find_spec("ray")
    else [
        "test_ray.py",
        "test_ray_benchmark.py",
        "test_ray_faults.py",
        "test_ray_files.py",
    ]
)

# Filling shards takes most of a minute, and so does searching a collection of the same items.
SLOW_FIXTURES = {"template", "whole", "root"}


def pytest_collection_modifyitems(items):
    """Leave tests of filled shards to `make test-extras`, which runs all of this folder."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())) and "cluster" in item.path.parts:
            item.add_marker(pytest.mark.slow)


N_SHARDS = 3
N_ITEMS = 2400
# Units that are not designed: trials take most of the time of so small a segment.
SETTINGS = {
    "dim": 384,
    "similarity": 0.6,
    "miss_rate": 0.05,
    "seal_at": 0,
    "config": memvec.IndexConfig(unit_size=8, levels=1, codes="estimate"),
}


@pytest.fixture(scope="session")
def sample():
    vectors = load_sample().vectors
    return vectors[np.random.default_rng(0).permutation(len(vectors))]


@pytest.fixture(scope="session")
def queries(sample):
    return sample[5000:5200]


def filled(collection, sample):
    """Two segments a shard, items that wait, and some deleted."""
    names = [f"n{row}" if row % 2 else row for row in range(N_ITEMS)]
    rows = [{"year": 2000 + row % 20} for row in range(N_ITEMS)]
    for start, stop in ((0, 1600), (1600, 2200), (2200, N_ITEMS)):
        collection.add(sample[start:stop], names[start:stop], rows[start:stop])
        if stop < N_ITEMS:
            collection.seal()
    collection.delete(names[10:2300:100])


@pytest.fixture(scope="session")
def template(tmp_path_factory, sample):
    """Shards with segments, waiting items and deleted ones; only read, or copied."""
    root = tmp_path_factory.mktemp("shards") / "root"
    with open_local(root, shards=N_SHARDS, **SETTINGS) as sharded:
        filled(sharded, sample)
    return root


@pytest.fixture
def root(template, tmp_path):
    """A copy of them to change."""
    shutil.copytree(template, tmp_path / "root")
    return tmp_path / "root"


def open_local(root, **options):
    return cluster.open(root, local=True, **options)


@pytest.fixture(scope="session")
def whole(tmp_path_factory, sample):
    """The same items in one collection."""
    path = tmp_path_factory.mktemp("whole") / "whole.mv"
    with memvec.open(path, **SETTINGS) as collection:
        filled(collection, sample)
        yield collection


def lists_of(hits):
    """Return ids and scores of each query; equal scores come by id."""
    assert np.all(np.diff(hits.offsets) >= 0)
    return [(row.ids.tolist(), row.scores.tolist()) for row in hits]


@pytest.fixture(scope="session")
def ray_cluster():
    """One cluster of two nodes and a head without CPUs for all tests; shut down at the end."""
    import ray
    from ray.cluster_utils import Cluster

    # A node that is gone refuses connections, and is given up after two seconds; one on a machine
    # that is busy answers late.
    checks = {"initial_delay_ms": 1000, "period_ms": 500, "timeout_ms": 10_000}
    checks["failure_threshold"] = 3
    config = {f"health_check_{name}": value for name, value in checks.items()}
    head = {"num_cpus": 0, "object_store_memory": 100_000_000, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args={**head, "_system_config": config})
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=2, object_store_memory=100_000_000)
        ray.init(nodes.address, logging_level="ERROR", log_to_driver=False)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()
