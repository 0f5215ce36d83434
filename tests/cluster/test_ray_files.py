"""Files deduplicated on Ray: the bytes of the single machine, through crashes of all kinds."""

import glob
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from click.testing import CliRunner

import memvec
from memvec import cluster
from memvec.cli import main
from memvec.collection import deduplicate_files, join_files
from memvec.errors import FileFormatError, InvalidValueError

# Ray Data warns of what it does itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
MEMORY = "660MB"
JOIN = {"similarity": 0.9, "field": "vector", "ids": "id", "memory": "655MB", "progress": False}


@pytest.fixture(scope="session")
def parts(tmp_path_factory, sample):
    """Three Parquet files of rows, near-duplicates and copies of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(2)
    noisy = sample[:9000] + 0.01 * rng.standard_normal((9000, 384)).astype(np.float32)
    rows = np.concatenate([sample[:9000], noisy, sample[:300]])
    rows = rows[rng.permutation(len(rows))]
    for number, some in enumerate(np.array_split(rows, 3)):
        first = number * len(some)
        table = {"id": [f"r{first + row}" for row in range(len(some))], "vector": list(some)}
        pq.write_table(pa.table(table), folder / f"part-{number}.parquet")
    return str(folder / "part-*.parquet")


def asked(folder):
    return {
        "similarity": 0.9,
        "out": folder / "pairs",
        "keep_list": folder / "kept.parquet",
        "field": "vector",
        "ids": "id",
        "memory": MEMORY,
        "progress": False,
    }


def bytes_of(folder):
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture(scope="session")
def single(tmp_path_factory, parts):
    """The result of the single machine, and the bytes it wrote."""
    folder = tmp_path_factory.mktemp("single")
    result = deduplicate_files(parts, **asked(folder))
    assert result.n_blocks > 1
    assert result.n_groups > 8000
    return result, bytes_of(folder)


def test_bytes_are_those_of_the_single_machine(parts, single, tmp_path, ray_cluster):
    result = cluster.deduplicate(parts, **asked(tmp_path))
    assert result == single[0]
    assert bytes_of(tmp_path) == single[1]


@pytest.fixture(scope="session")
def dataset_of(ray_cluster):
    """Return what reads files as a dataset, a block for each, in blocks that end out of order."""
    import pyarrow.parquet as pq
    import ray

    def late(batch):
        time.sleep(0.5 * (batch["id"][0] == "r0"))
        return batch

    def read(files):
        rows = ray.data.from_arrow([pq.read_table(file) for file in sorted(glob.glob(files))])
        # Tensors, as embedders make them.
        return rows.map_batches(late).map_batches(
            lambda batch: {**batch, "vector": np.stack(list(batch["vector"]))}
        )

    return read


def pairs_of(content):
    return {name: some for name, some in content.items() if "_manifest" not in name}


def test_dataset_is_deduplicated_as_its_files_are(parts, single, tmp_path, dataset_of):
    for _ in range(2):  # the second call finds the work done
        assert cluster.deduplicate(dataset_of(parts), **asked(tmp_path)) == single[0]
        assert pairs_of(bytes_of(tmp_path)) == pairs_of(single[1])
    with pytest.raises(InvalidValueError, match="holds another deduplication"):
        cluster.deduplicate(dataset_of(parts).limit(9000), **asked(tmp_path))


def test_dataset_goes_on_after_a_crash(parts, single, tmp_path, dataset_of, monkeypatch):
    from memvec.cluster import _files

    def crash(work, calls):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_files, "_label", crash)
        with pytest.raises(KeyboardInterrupt):
            cluster.deduplicate(dataset_of(parts), **asked(tmp_path))
    receipts = sorted((tmp_path / "pairs" / "_work").glob("join-*.json"))
    times = [path.stat().st_mtime_ns for path in receipts]
    (tmp_path / "pairs" / "_work" / "dataset-rows" / "rows-000001.parquet").unlink()
    options = asked(tmp_path) | {"keep_work": True}
    assert cluster.deduplicate(dataset_of(parts), **options) == single[0]
    assert [path.stat().st_mtime_ns for path in receipts] == times != []
    names = {name for name in bytes_of(tmp_path) if "_work" not in name}
    assert {name: bytes_of(tmp_path)[name] for name in pairs_of(dict.fromkeys(names))} == pairs_of(
        single[1]
    )


def test_datasets_are_joined_as_their_files_are(joined, tmp_path, dataset_of):
    files, result, content = joined
    assert cluster.join(dataset_of(files[0]), files[1], tmp_path / "pairs", **JOIN) == result
    assert pairs_of(bytes_of(tmp_path)) == pairs_of(content)


def test_dataset_is_written_to_no_folder_of_somebody_else(parts, tmp_path, dataset_of):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(InvalidValueError, match="'out' parameter .*which holds 'mine'"):
        cluster.self_join(dataset_of(parts), tmp_path, 0.9)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_stars_and_joins_are_those_of_the_single_machine(parts, tmp_path, ray_cluster):
    (tmp_path / "here").mkdir()
    options = asked(tmp_path) | {"groups": "star", "keep": "last", "keep_list": None}
    ours = cluster.self_join(parts, **options)
    theirs = deduplicate_files(parts, **options | {"out": tmp_path / "here" / "pairs"})
    assert ours == theirs
    assert bytes_of(tmp_path / "pairs") == bytes_of(tmp_path / "here" / "pairs")


def test_node_removed_in_a_join_changes_no_byte(parts, single, tmp_path, ray_cluster):
    def remove():
        while not list((tmp_path / "pairs").glob("_work/index-*.json")):
            time.sleep(0.05)
        ray_cluster.remove_node(ray_cluster.list_all_nodes()[-1], allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    try:
        result = cluster.deduplicate(parts, **asked(tmp_path))
    finally:
        remover.join()
        ray_cluster.add_node(num_cpus=2, object_store_memory=100_000_000)
    assert result == single[0]
    assert bytes_of(tmp_path) == single[1]


DRIVER = """
import os, sys, json, ray
from memvec import cluster
ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
cluster.deduplicate(sys.argv[2], **json.loads(sys.argv[3]))
"""


def killed_once_there(program, nodes, files, asked, folder, receipts):
    """Run a driver, and kill it once there are receipts of some tasks."""
    arguments = [sys.executable, "-c", program, nodes.address, files, asked]
    driver = subprocess.Popen(arguments, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    done = folder / "pairs" / "_work"
    end = time.monotonic() + 120
    while not list(done.glob(receipts)) and time.monotonic() < end:
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert list(done.glob(receipts))


def test_driver_killed_is_resumed(parts, single, tmp_path, ray_cluster):
    paths = {name: str(asked(tmp_path)[name]) for name in ("out", "keep_list")}
    plain = asked(tmp_path) | paths
    killed_once_there(DRIVER, ray_cluster, parts, json.dumps(plain), tmp_path, "index-*.json")
    assert not (tmp_path / "kept.parquet").exists()
    assert cluster.deduplicate(parts, **asked(tmp_path)) == single[0]
    assert bytes_of(tmp_path) == single[1]


def test_command_writes_the_same_bytes(parts, single, tmp_path, ray_cluster):
    flags = ["--column", "vector", "--id", "id", "--similarity", "0.9", "--memory", MEMORY]
    paths = ["--out", str(tmp_path / "pairs"), "--keep-list", str(tmp_path / "kept.parquet")]
    done = CliRunner().invoke(main, ["cluster", "dedup", parts, *flags, *paths, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["groups"] == single[0].n_groups
    assert bytes_of(tmp_path) == single[1]


@pytest.fixture(scope="session")
def joined(tmp_path_factory, parts):
    """The join of two sets on the single machine, and the bytes it wrote."""
    folder = tmp_path_factory.mktemp("joined")
    files = parts, parts.replace("part-*", "part-[01]")
    result = join_files(*files, out=folder / "pairs", **JOIN)
    assert result.n_blocks == 4
    assert result.certificate.source == "queries"
    assert result.n_pairs > 20_000
    return files, result, bytes_of(folder)


def test_join_writes_the_bytes_of_the_single_machine(joined, tmp_path, ray_cluster):
    files, result, content = joined
    assert cluster.join(*files, tmp_path / "pairs", **JOIN) == result
    assert bytes_of(tmp_path) == content


def test_join_whose_driver_was_killed_is_resumed(joined, tmp_path, ray_cluster):
    files, result, content = joined
    program = DRIVER.replace(
        "cluster.deduplicate(sys.argv[2]", "cluster.join(*json.loads(sys.argv[2])"
    )
    asked = json.dumps({**JOIN, "out": str(tmp_path / "pairs")})
    killed_once_there(program, ray_cluster, json.dumps(files), asked, tmp_path, "index-*.json")
    assert cluster.join(*files, tmp_path / "pairs", **JOIN) == result
    assert bytes_of(tmp_path) == content


def test_join_command_writes_the_same_bytes(joined, tmp_path, ray_cluster):
    files, result, content = joined
    flags = ["--column", "vector", "--id", "id", "--similarity", "0.9", "--memory", "655MB"]
    command = ["cluster", "join", *files, *flags, "--out", str(tmp_path / "pairs"), "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pairs"] == result.n_pairs
    assert bytes_of(tmp_path) == content


def test_error_of_a_worker_is_that_of_the_single_machine(tmp_path, ray_cluster):
    rows = np.eye(3, dtype=np.float32)
    rows[1] = np.nan
    np.save(tmp_path / "bad.npy", rows)
    with pytest.raises(memvec.MemvecError, match="NaN"):
        cluster.deduplicate(tmp_path / "bad.npy", out=tmp_path / "pairs")
    assert issubclass(FileFormatError, memvec.MemvecError)


def test_operator_finds_what_the_collection_finds(tmp_path, sample, ray_cluster):
    import ray

    with memvec.open(tmp_path / "some.mv", dim=384, similarity=0.8) as collection:
        collection.add(sample[:500])
        hits = collection.range_search(sample[400:600], 0.8)
    rows = ray.data.from_items([{"n": row, "vector": sample[row]} for row in range(400, 600)])
    step = {"path": str(tmp_path / "some.mv"), "column": "vector", "similarity": 0.8}
    found = rows.map_batches(
        cluster.FindSimilar, fn_constructor_kwargs=step, concurrency=1, batch_size=64
    )
    by_row = {row["n"]: row for row in found.take_all()}
    assert [by_row[row]["n_similar"] for row in range(400, 600)] == np.diff(hits.offsets).tolist()
    assert [list(by_row[row]["similar_ids"]) for row in range(400, 600)] == [
        row.ids.tolist() for row in hits
    ]
