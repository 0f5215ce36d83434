"""What is said where Ray is missing, and what needs none."""

import sys

import numpy as np
import pytest
from click.testing import CliRunner

import memvec
from memvec import cluster
from memvec.cli import main
from memvec.errors import InvalidValueError, MissingExtraError


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
    assert (done.exit_code, "run the same command to go on" in done.output) == (130, True)


def test_operator_takes_columns_of_lists_and_names_the_one_it_misses(tmp_path):
    with memvec.open(tmp_path / "two.mv", dim=2) as collection:
        collection.add([[1.0, 0.0], [0.0, 1.0]], ids=["east", "north"])
    step = cluster.FindSimilar(tmp_path / "two.mv", "vector", 0.8)
    vectors = np.empty(1, dtype=object)
    vectors[0] = [1.0, 0.1]
    assert step({"vector": vectors})["similar_ids"].tolist() == [["east"]]
    with pytest.raises(InvalidValueError, match=r"one of the columns of the batch, \['other'\]"):
        step({"other": vectors})
