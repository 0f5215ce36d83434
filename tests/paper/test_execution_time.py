"""The experiment on execution time does not start where it would not fit."""

import shutil
from collections import namedtuple

import numpy as np
import pytest

from memvec.errors import StorageError
from paper import EXPERIMENTS, Run, Table, run_experiment
from paper import execution_time as module
from paper_tables import MADE

TIME = EXPERIMENTS["time"]
LARGE = Run(TIME.settings["paper"], "paper")
Usage = namedtuple("Usage", "total used free")


def test_too_little_disk_is_refused(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 4 * 10**9))
    with pytest.raises(StorageError, match=r"needs 4.1 GB of disk in .* There are 4.0 GB"):
        TIME.compute(LARGE)


def test_too_little_memory_is_refused(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 10**12))
    monkeypatch.setattr(module, "available_memory", lambda: 5 * 10**9)
    with pytest.raises(StorageError, match=r"needs 9.0 GB of memory. There are 5.0 GB"):
        TIME.compute(LARGE)


def test_result_says_why_it_did_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "available_memory", lambda: 10)
    result = run_experiment(TIME, "smoke", tmp_path)
    assert result.verdict(TIME).outcome == "not-run"
    assert "GB of memory" in result.verdict(TIME).note


def test_memory_is_that_of_the_system_or_unknown(monkeypatch):
    found = module.available_memory()
    assert found is None or found > 10**6

    def fails(*given, **options):
        raise OSError

    monkeypatch.setattr(module.Path, "read_text", fails)
    assert module.available_memory() is None


def test_calls_take_turns_on_every_query():
    made = []
    calls = [lambda query, name=name: made.append((name, float(query[0]))) for name in "ab"]
    times = module.in_turns(np.array([[0.0], [1.0]], dtype=np.float32), *calls)
    assert made == [(name, query) for query in (0.0, 1.0) for _ in range(3) for name in "ab"]
    assert [each.shape for each in times] == [(2,), (2,)]


@pytest.mark.parametrize(("load", "tested"), [(1.0, True), (1.1, False), (float("nan"), True)])
def test_times_of_a_busy_machine_tell_nothing(load, tested):
    table = MADE["time"](True)
    busy = Table("t", table.columns, tuple((*row[:-1], load) for row in table.rows))
    findings = TIME.check(busy).findings
    assert [each.tested for each in findings] == [tested, tested]
    assert ("1.1 processes shared a core" in findings[0].numbers) is not tested


def test_search_that_spares_products_is_not_compared():
    table = MADE["time"](True)
    place = table.columns.index("cost")
    rows = [(*row[:place], 0.115, *row[place + 1 :]) for row in table.rows[2:]]
    verdict = TIME.check(Table("t", table.columns, (*table.rows[:2], *rows)))
    memory, codes = verdict.findings
    assert memory.holds
    assert not codes.tested
    assert "0.115 N products in place of 0.2 N" in codes.numbers
    assert verdict.reason == "paper silent on its codes' thresholds; here fewer pass"
