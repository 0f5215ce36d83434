"""Death at every step, at random times, and a disk that is full: nothing acknowledged is lost."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

import memvec
from collection import faults, soak
from memvec.errors import StorageError

needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork") or not faults.can_reach_sqlite(),
    reason="needs fork, and a SQLite whose system calls can be replaced",
)


def run(program, *arguments):
    command = [sys.executable, "-W", "ignore", program.__file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def check_deaths(folder, operation, moments):
    """Each death left the old state up to one step and the new one from there on."""
    seen = run(faults, folder, operation, ",".join(moments))
    for moment in moments:
        states = [state for when, _, state in seen if when == moment]
        commit = states.index("new")
        assert states == ["old"] * commit + ["new"] * (len(states) - commit)
    return Counter(step for when, step, _ in seen if when == moments[0])


@needs_fork
@pytest.mark.parametrize(
    ("operation", "moments", "n_steps"),
    [("add", ["before", "half"], 25), ("seal", ["before"], 70)],
)
def test_death_before_any_step_leaves_old_or_new(quick_path, operation, moments, n_steps):
    steps = check_deaths(quick_path, operation, moments)
    assert sum(steps.values()) >= n_steps
    assert steps["pwrite"] + steps["pwrite64"] + steps["write"] >= 10
    assert steps["unlink"] >= 1


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("operation", list(faults.OPERATIONS))
def test_death_at_any_step_and_moment_leaves_old_or_new(quick_path, operation):
    check_deaths(quick_path, operation, ["before", "half", "after"])


@needs_fork
@pytest.mark.parametrize(("kills", "seed"), [(20, 1), pytest.param(200, 2, marks=pytest.mark.slow)])
def test_writer_killed_at_random_loses_nothing(quick_path, kills, seed):
    assert run(soak, quick_path, kills, seed) >= kills


def fails_for_lack_of_space(operation, collection):
    try:
        faults.OPERATIONS[operation](collection)
    except OSError as error:
        if not ("full" in str(error) or "No space left" in str(error)):
            raise
        return True
    return False


@needs_fork
@pytest.mark.parametrize(
    ("operation", "lasting"),
    [
        ("add", False),
        ("delete", True),
        ("seal", True),
        pytest.param("add", True, marks=pytest.mark.slow),
        pytest.param("upsert", False, marks=pytest.mark.slow),
        pytest.param("upsert", True, marks=pytest.mark.slow),
        pytest.param("delete", False, marks=pytest.mark.slow),
        pytest.param("seal", False, marks=pytest.mark.slow),
        pytest.param("merge", False, marks=pytest.mark.slow),
        pytest.param("merge", True, marks=pytest.mark.slow),
        pytest.param("compact", False, marks=pytest.mark.slow),
        pytest.param("compact", True, marks=pytest.mark.slow),
    ],
)
def test_full_disk_at_any_step_changes_nothing(quick_path, operation, lasting):
    """The operation fails and leaves the old state, or works; done again, it works."""
    template = quick_path / "template"
    faults.make_template(template, operation)
    old, new, _ = faults.states(quick_path, template, operation)
    failures = 0
    for number in range(10_000):
        folder = quick_path / str(number)
        shutil.copytree(template, folder)
        with memvec.open(folder) as collection:
            with faults.Faults(faults.disk_is_full, number, lasting=lasting) as disk:
                failed = fails_for_lack_of_space(operation, collection)
                found = faults.content(collection)
            assert found == (old if failed else new)
            if failed:
                faults.OPERATIONS[operation](collection)
                assert faults.content(collection) == new
        assert faults.survey(folder) == new
        shutil.rmtree(folder)
        failures += failed
        if len(disk.taken) <= number:
            break
    assert failures >= 5


def test_full_catalog_is_a_typed_error(tmp_path):
    with memvec.open(tmp_path / "c.mv", dim=faults.DIM) as collection:
        collection.add(faults.VECTORS[:5])
        [(pages,)] = collection._store.catalog.rows("PRAGMA page_count")
        collection._store.catalog.rows(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageError, match=r"catalog.sqlite: database or disk is full"):
            collection.add(np.ones((10_000, faults.DIM)))
        assert list(collection) == [0, 1, 2, 3, 4]
        collection._store.catalog.rows("PRAGMA max_page_count = 1000000")
        collection.add(faults.VECTORS)
        assert len(list(collection)) == 65
