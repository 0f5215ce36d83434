"""Runs are kept, found again and shown."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memvec.errors import FileFormatError
from paper import (
    DataFolders,
    Experiment,
    Finding,
    Table,
    Verdict,
    code_hash,
    latest_result,
    load_result,
    run_experiment,
)
from paper.errors import MissingPackageError


def experiment(calls, name="one", settings=None, holds=True):
    def compute(run):
        calls.append(run)
        return Table("Title", ("x", "y"), ((1, 0.5), (2, float("inf"))))

    def check(table):
        return Verdict((Finding("y grows", holds, "0.5 to inf"),), "A note.")

    return Experiment(
        name,
        "Figure 0",
        "It grows.",
        {scale: settings or {"n": 1} for scale in ("smoke", "small", "paper")},
        compute,
        check,
        show_table=True,
    )


def test_result_is_computed_once(tmp_path):
    calls = []
    first = run_experiment(experiment(calls), "smoke", tmp_path)
    again = run_experiment(experiment(calls), "smoke", tmp_path)
    assert len(calls) == 1
    assert again == first
    assert first.versions.keys() == {"python", "memvec", "numpy", "scipy", "numba"}
    assert (tmp_path / "smoke" / "one.csv").read_text() == "x,y\n1,0.5\n2,inf\n"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"fresh": True},
        {"settings": {"n": 2}},
        {"scale": "small"},
    ],
    ids=str,
)
def test_result_is_computed_again_when_something_changed(tmp_path, change):
    calls = []
    run_experiment(experiment(calls), "smoke", tmp_path / "out")
    changed = experiment(calls, settings=change.pop("settings", None))
    run_experiment(changed, change.pop("scale", "smoke"), tmp_path / "out", **change)
    assert len(calls) == 2


def reads(calls, *names):
    """An experiment that looks for some data."""

    def compute(run):
        calls.append([run.data.find(name) for name in names])
        return Table("Title", ("x",), ((1,),))

    return Experiment("reads", "", "", {"smoke": {}}, compute, lambda table: Verdict())


def runs(calls, out, data, *names):
    run_experiment(reads(calls, *names), "smoke", out, data=DataFolders((data,)))
    return len(calls)


def test_result_is_computed_again_when_a_file_that_was_used_changed(tmp_path):
    data, calls = tmp_path / "data", []
    (data / "set").mkdir(parents=True)
    (data / "set" / "vectors.npy").write_bytes(b"1")
    (data / "other").write_bytes(b"1")
    given = (calls, tmp_path / "out", data, "set", "absent")
    assert [runs(*given), runs(*given)] == [1, 1]
    (data / "other").write_bytes(b"22")  # not looked for
    assert runs(*given) == 1
    (data / "set" / "vectors.npy").write_bytes(b"22")  # another size
    assert [runs(*given), runs(*given)] == [2, 2]
    os.utime(data / "set" / "vectors.npy", ns=(1, 1))  # the same size, written at another time
    assert [runs(*given), runs(*given)] == [3, 3]
    (data / "set" / "more.npy").touch()
    assert [runs(*given), runs(*given)] == [4, 4]
    (data / "absent").touch()  # what was not there is now
    assert [runs(*given), runs(*given)] == [5, 5]
    found = load_result("reads", "smoke", tmp_path / "out")
    assert found.data == "set,absent"
    assert found.files.keys() == {"set", "absent"}


def test_code_is_that_of_a_module_and_of_what_it_leads_to(monkeypatch):
    from paper import fig01_cost_random, flann

    files = {name: Path(inspect.getfile(name)) for name in (flann, fig01_cost_random)}

    def changed(module):
        """Return which of the two a change of a module makes another."""
        before = {name: code_hash.code_hash(file) for name, file in files.items()}
        with monkeypatch.context() as patch:
            text = code_hash.all_sources()[module] + b"# changed"
            patch.setitem(code_hash.all_sources(), module, text)
            return {
                name for name, file in files.items() if code_hash.code_hash(file) != before[name]
            }

    both = {flann, fig01_cost_random}
    assert changed("paper.flann") == {flann}
    assert changed("paper.paper_sets") == {flann}
    assert changed("memvec.index._index") == both
    assert changed("paper.table") == both
    assert changed("paper.drawing") == set()
    assert changed("memvec.collection._collection") == set()
    assert changed("paper.registry") == set()


def test_sources_are_read_once_and_only_when_an_experiment_runs(tmp_path):
    code = (
        "import sys; from pathlib import Path; from paper import EXPERIMENTS, run_experiment; "
        "from paper.code_hash import all_sources; seen = [all_sources.cache_info().misses]; "
        "run = lambda seed: run_experiment(EXPERIMENTS['fig18-cap-sum'], 'smoke', "
        "Path(sys.argv[1]), seed=seed); "
        "run(0); run(1); seen.append(all_sources.cache_info().misses); print(seen)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[0, 1]"


def test_fresh_run_starts_without_checkpoints(tmp_path):
    calls = []
    run_experiment(experiment(calls), "smoke", tmp_path)
    calls[0].checkpoints.mkdir(parents=True)
    (calls[0].checkpoints / "tally.npz").touch()
    run_experiment(experiment(calls), "smoke", tmp_path, fresh=True)
    assert calls[1].checkpoints == calls[0].checkpoints
    assert not calls[1].checkpoints.exists()


def test_missing_package_gives_a_result_that_did_not_run(tmp_path):
    def compute(run):
        raise MissingPackageError("This", "nothing")

    missing = Experiment("m", "", "", {"smoke": {}}, compute, lambda table: Verdict())
    verdict = run_experiment(missing, "smoke", tmp_path).verdict(missing)
    assert verdict.outcome == "not-run"
    assert "pip install --group paper" in verdict.note
    assert latest_result("m", tmp_path) is None


def test_latest_result_is_that_of_the_largest_scale(tmp_path):
    for scale in ("small", "smoke"):
        run_experiment(experiment([]), scale, tmp_path)
    assert latest_result("one", tmp_path).scale == "small"
    assert load_result("one", "paper", tmp_path) is None


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"table": None, "other": 1})])
def test_damaged_result_is_named(tmp_path, text):
    (tmp_path / "smoke").mkdir()
    (tmp_path / "smoke" / "one.json").write_text(text)
    with pytest.raises(FileFormatError, match=r"one.json is no result of an experiment"):
        load_result("one", "smoke", tmp_path)
