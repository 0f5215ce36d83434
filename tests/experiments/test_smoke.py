"""Every experiment runs on a fresh clone: at the smallest scale, without data of its own.

It has the packaged sample and photographs that the command makes up.
"""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from memvec.cli import main
from memvec.experiments import EXPERIMENTS, DataFolders, Run
from memvec.experiments._fig17_100m import FIG17, MadeUpStream


def test_names_are_those_of_the_paper():
    figures = [name.split("-")[0] for name in EXPERIMENTS if name.startswith("fig")]
    assert figures == [f"fig{number:02d}" for number in range(1, 20)]
    assert {"tab01-imbalance", "flann", "time", "errata"} <= EXPERIMENTS.keys()


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One folder of results, so that photographs are made up once."""
    return tmp_path_factory.mktemp("results")


def reproduce(out, *arguments):
    given = ["reproduce", "--scale", "smoke", "--out", str(out), *arguments]
    result = CliRunner().invoke(main, [*given, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_runs_at_the_smallest_scale(name, out):
    found = reproduce(out, name)[name]
    assert found["findings"], found["note"]
    assert all(isinstance(finding["holds"], bool) for finding in found["findings"])
    files = {path.suffix for path in (out / "smoke").glob(f"{name}.*")}
    assert {".json", ".csv"} <= files
    assert EXPERIMENTS[name].plot is None or {".svg", ".png"} <= files
    # Photographs that were made up, not vectors in their place.
    if EXPERIMENTS[name].photographs:
        sets = {str(row["data"]) for row in found["rows"]}
        assert any(data.startswith("made-up walk") for data in sets)
        assert not any("vectors" in data for data in sets)


def test_made_up_photographs_can_be_found_again(out):
    rows = reproduce(out, "fig07-retrieval")["fig07-retrieval"]["rows"]
    whole = {row["data"]: row["baseline"] for row in rows}
    # Seen: mAP 0.980 and 0.906, 4-recall@4 4.000.
    assert whole["made-up walk, day"] > 0.9
    assert whole["made-up walk, night"] > 0.8
    assert whole["made-up objects"] > 3.9


def test_every_scale_has_settings():
    for experiment in EXPERIMENTS.values():
        assert set(experiment.settings) == {"smoke", "small", "paper"}


def test_stream_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    settings = {"vectors": 900, "batch": 300, "dim": 32, "queries": 30, "rounds": 2}

    def run(folder):
        return FIG17.compute(Run(settings, "smoke", 0, DataFolders(), folder))

    whole = run(tmp_path / "whole")
    made = MadeUpStream.batch

    def fails_at_the_third(stream, number, size):
        if number == 2:
            raise KeyboardInterrupt
        return made(stream, number, size)

    monkeypatch.setattr(MadeUpStream, "batch", fails_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts")
    asked = []
    monkeypatch.setattr(
        MadeUpStream, "batch", lambda *given: (asked.append(given[1]), made(*given))[1]
    )
    resumed = run(tmp_path / "parts")
    assert asked == [3, 2]  # the queries, which follow the last batch, and what was left
    for name in ("ratio", "found", "matches", "vectors"):
        np.testing.assert_array_equal(resumed.column(name), whole.column(name))


def test_stream_reads_the_descriptors_that_are_given(tmp_path):
    folder = tmp_path / "yahoo100m"
    folder.mkdir()
    rows = MadeUpStream(500, 32, 0).batch(0, 500)
    np.save(folder / "a.npy", rows[:250])
    np.save(folder / "b.npy", rows[250:])
    settings = {"vectors": 10**8, "batch": 200, "dim": 32, "queries": 30, "rounds": 2}
    table = FIG17.compute(Run(settings, "small", 0, DataFolders((tmp_path,))))
    assert table.column("vectors")[0] == 500
