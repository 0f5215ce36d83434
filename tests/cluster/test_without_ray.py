"""What is said where Ray is missing, and what needs none."""

import logging
import socket
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import memvec
from memvec import cluster
from memvec.cli import main
from memvec.cluster._datasets import files_of
from memvec.cluster._files import RayCalls
from memvec.cluster._ray import memory_of_worker, warn_of_cpus
from memvec.collection import Asked
from memvec.errors import (
    CorruptIndexError,
    InvalidTypeError,
    InvalidValueError,
    MemvecError,
    MissingExtraError,
)
from memvec.progress import heeds_progress


@pytest.fixture
def no_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)


def test_missing_ray_says_its_pip_line(no_ray, tmp_path):
    with pytest.raises(MissingExtraError, match=r"pip install 'memvec\[ray\]'"):
        cluster.open(tmp_path / "shards", shards=2, dim=3)
    np.save(tmp_path / "rows.npy", np.eye(3))
    with pytest.raises(MissingExtraError, match=r"memvec.cluster.deduplicate needs .*\[ray\]"):
        cluster.self_join(tmp_path / "rows.npy", tmp_path / "pairs")
    with pytest.raises(MissingExtraError, match=r"memvec.cluster.join needs .*\[ray\]"):
        cluster.join(tmp_path / "rows.npy", tmp_path / "rows.npy", tmp_path / "pairs")
    command = ["cluster", "dedup", str(tmp_path / "rows.npy"), "--out", str(tmp_path / "pairs")]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, "memvec[ray]" in done.output) == (1, True)


@pytest.mark.parametrize(
    "raised", [ValueError("Invalid address format"), ConnectionError("Ray Cluster not found")]
)
def test_address_of_no_cluster_is_told(tmp_path, monkeypatch, raised):
    def init():
        raise raised

    monkeypatch.setitem(
        sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, init=init)
    )
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    with pytest.raises(InvalidValueError, match=f"RAY_ADDRESS must .*Got 'nowhere' .*{raised}"):
        cluster.open(tmp_path / "shards", shards=2, dim=3)
    monkeypatch.delenv("RAY_ADDRESS")
    with pytest.raises(type(raised)):
        cluster.open(tmp_path / "shards", shards=2, dim=3)


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "127.0.0.1:99{}"])
def test_address_that_nobody_listens_at_is_told_at_once(tmp_path, monkeypatch, address):
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    monkeypatch.setenv("RAY_ADDRESS", address.format(free))
    with pytest.raises(InvalidValueError, match="RAY_ADDRESS must be the address of a running"):
        cluster.self_join(_rows(tmp_path), tmp_path / "pairs")
    assert not (tmp_path / "pairs").exists()


def _rows(folder):
    np.save(folder / "rows.npy", np.eye(3))
    return folder / "rows.npy"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["none-*.npy"], "Invalid value for 'FILE...': it must be paths of files, or patterns"),
        (["rows.npy", "--similarity", "2"], "Invalid value for '--similarity'"),
    ],
)
def test_command_refuses_files_and_flags_before_ray_is_needed(
    no_ray, tmp_path, monkeypatch, flags, text
):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.eye(3))
    done = CliRunner().invoke(main, ["cluster", "dedup", *flags, "--out", "pairs"])
    assert (done.exit_code, text in done.output) == (2, True), done.output
    assert not (tmp_path / "pairs").exists()


def test_folder_of_something_else_is_refused_before_ray_is_needed(no_ray, tmp_path):
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "thesis.tex").write_text("mine")
    text = r"'out' parameter of memvec\.cluster\.{} must be a new folder.*which holds 'thesis.tex'"
    with pytest.raises(InvalidValueError, match=text.format("deduplicate")):
        cluster.self_join(_rows(tmp_path), tmp_path / "pairs")
    with pytest.raises(InvalidValueError, match=text.format("join")):
        cluster.join(_rows(tmp_path), _rows(tmp_path), tmp_path / "pairs")


class LosesWorkers:
    """Ray where every worker dies."""

    class exceptions:  # noqa: N801 - as Ray calls the module
        RayError = type("RayError", (Exception,), {})
        RayTaskError = type("RayTaskError", (RayError,), {})

    def get(self, reference):
        raise self.exceptions.RayError("Task was killed due to the node running low on memory.\nX")


def test_worker_that_is_lost_for_good_is_told():
    calls = object.__new__(RayCalls)
    calls._ray = LosesWorkers()
    with pytest.raises(
        MemvecError, match=r"A worker was lost, .*low on memory\. The same call goes"
    ):
        calls._get("a task")


def test_command_wants_scores_for_the_best(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(3))
    command = ["cluster", "dedup", str(tmp_path / "rows.npy"), "--out", "x", "--keep", "best"]
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, "--keep best needs --scores" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (["rows.npy", "-"], "Standard input does not go with a join of files."),
        (["rows.npy", "."], "A collection does not go with a join of files."),
        (["rows.npy", "none.npy"], "none.npy"),
    ],
)
def test_join_command_wants_two_sets_of_files(tmp_path, monkeypatch, files, text):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.eye(3))
    done = CliRunner().invoke(main, ["cluster", "join", *files, "--out", "x"])
    assert (done.exit_code, text in done.output) == (2, True), done.output


def test_interrupted_join_command_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupt(*files, **asked):
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "join", interrupt)
    np.save(tmp_path / "rows.npy", np.eye(3))
    rows = str(tmp_path / "rows.npy")
    done = CliRunner().invoke(main, ["cluster", "join", rows, rows, "--out", "x"])
    assert (done.exit_code, "run the same command to resume" in done.output) == (130, True)


def test_operator_takes_columns_of_lists_and_names_the_one_it_misses(tmp_path):
    with memvec.open(tmp_path / "two.mv", dim=2) as collection:
        collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
    step = cluster.FindSimilar(tmp_path / "two.mv", "vector", 0.8)
    vectors = np.empty(1, dtype=object)
    vectors[0] = [1.0, 0.1]
    assert step({"vector": vectors})["similar_ids"].tolist() == [["east"]]
    with pytest.raises(InvalidValueError, match=r"one of the columns of the batch, \['other'\]"):
        step({"other": vectors})


@pytest.mark.parametrize("name", [1.5, True, None, 1 << 63, "\ud800", "a\0"])
def test_what_is_no_id_has_no_shard(name):
    with pytest.raises((InvalidTypeError, InvalidValueError), match="'name' .* must be an id: an"):
        cluster.shard_of(name, 3)
    with pytest.raises(InvalidValueError, match="'n_shards' .*Got 0 instead"):
        cluster.shard_of("a", 0)


@pytest.mark.parametrize("cpus", [0, -1, float("nan"), "2"])
def test_shard_reserves_a_positive_number_of_cpus(tmp_path, cpus):
    with pytest.raises((InvalidTypeError, InvalidValueError), match="'cpus' parameter"):
        cluster.open(tmp_path / "shards", shards=2, dim=3, local=True, cpus=cpus)
    assert not (tmp_path / "shards").exists()


@pytest.fixture
def data_of_ray(monkeypatch):
    """What stands for ray.data where Ray is not installed."""
    data = SimpleNamespace(Dataset=Dataset)
    monkeypatch.setitem(sys.modules, "ray.data", data)


class Dataset:
    """Keeps in mind which bars were on while it was written."""

    def __init__(self):
        options = SimpleNamespace(preserve_order=False)
        self.context = SimpleNamespace(execution_options=options, enable_progress_bars=True)
        self.seen = []

    def map_batches(self, function, **options):
        return self

    def write_parquet(self, folder):
        told = self.context.execution_options.preserve_order, self.context.enable_progress_bars
        self.seen.append(told)


ROWS = Asked(0.9, None, None, None, "first", "components", 0.01, "expected", 0.95)


def test_dataset_is_written_in_order_and_without_bars_where_none_are_wanted(tmp_path, data_of_ray):
    @heeds_progress
    def write(given, *, progress):
        return files_of(given, tmp_path / "pairs", "rows", ROWS, lambda *calls: [], "here")

    given = Dataset()
    for progress in (None, False):
        assert write(given, progress=progress) == []
    assert given.seen == [(True, True), (True, False)]
    assert given.context.enable_progress_bars
    assert not given.context.execution_options.preserve_order


def test_dataset_removes_nothing_that_a_link_leads_to(tmp_path, data_of_ray):
    """A folder that came from somebody may have a link where the work of datasets is removed."""
    mine = tmp_path / "mine" / "dataset-rows" / "thesis.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "_work").symlink_to(tmp_path / "mine")
    with pytest.raises(CorruptIndexError, match="_work is a link, not a folder"):
        files_of(Dataset(), tmp_path / "pairs", "rows", ROWS, lambda *calls: [], "here")
    assert mine.read_text() == "mine"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["dataset-rows"]


def nodes_of(*resources):
    return SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": one} for one in resources])


def test_workers_of_a_node_share_half_of_its_memory():
    large, small = {"CPU": 16.0, "memory": 64e9}, {"CPU": 3.0, "memory": 9e9}
    assert memory_of_worker(nodes_of(large), 1) == 2_000_000_000
    assert memory_of_worker(nodes_of(large, small), 1) == 1_500_000_000
    assert memory_of_worker(nodes_of(large, small), 2) == 4_000_000_000
    # A head without CPUs has no workers, and a node too small for one none either.
    assert memory_of_worker(nodes_of({"memory": 1e9}, large, small), 4) == 8_000_000_000
    assert memory_of_worker(nodes_of({"CPU": 4.0}), 1) is None


class FewCpus:
    """A cluster of a node with four CPUs and one with two."""

    def nodes(self):
        sizes = {4.0: True, 2.0: True, 64.0: False}
        return [{"Alive": alive, "Resources": {"CPU": n}} for n, alive in sizes.items()]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ((4, 1), ""),
        ((2, 3), ""),
        ((5, 1), "workers reserve 5 CPUs each; the largest node has 4. They wait until a node"),
        ((2, 4), "4 workers reserve 2 CPUs each; the cluster has 6. They wait until it has"),
    ],
)
def test_cpus_that_are_waited_for_are_told_of(caplog, asked, text):
    with caplog.at_level(logging.WARNING, logger="memvec"):
        warn_of_cpus(FewCpus(), "workers", *asked)
    assert text in caplog.text
    assert bool(caplog.text) == bool(text)
