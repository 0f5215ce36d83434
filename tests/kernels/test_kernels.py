import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.kernels import (
    blocks,
    canonical_score_pairs,
    collect_best,
    collect_matches,
    default_threads,
    run_blocks,
    score_units,
    select_units,
)
from strategies import seeds


@settings(deadline=None)
@given(seed=seeds, dim=st.integers(1, 40))
def test_canonical_score_equals_its_twin_to_the_last_bit(seed, dim):
    rows = np.random.default_rng(seed).standard_normal((6, dim)).astype(np.float32)
    left, right = np.array([0, 1, 5]), np.array([3, 1, 2])
    found = canonical_score_pairs(rows, rows, left, right)
    expected = [naive.canonical_score(rows[i], rows[j]) for i, j in zip(left, right, strict=True)]
    assert found.tolist() == expected


@settings(deadline=None)
@given(seed=seeds, dim=st.integers(1, 70))
def test_unit_test_equals_its_twin(seed, dim):
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((20, dim)))
    query, limits = rows[0], rng.uniform(-1, 1, 20).astype(np.float32)
    scores, selected = np.empty(20, dtype=np.float32), np.empty(20, dtype=np.int64)
    score_units(query, rows, scores)
    np.testing.assert_allclose(scores, rows.astype(np.float64) @ query, atol=1e-6)
    if np.abs(scores - limits).min() > 1e-5:
        count = select_units(query, rows, limits, selected)
        assert selected[:count].tolist() == naive.unit_test(rows, query, limits)


def test_members_at_the_limit_are_decided_by_the_canonical_score():
    """Float32 sums of these rows are off by more than the slack of a match."""
    rng = np.random.default_rng(1)
    rows = naive.unit_rows(rng.standard_normal((2000, 300)))
    query = rows[0]
    exact = np.array([naive.canonical_score(query, row) for row in rows])
    for similarity in exact[exact > 0][:50]:
        found, scores = np.empty(2000, dtype=np.int64), np.empty(2000)
        for limit, at_limit in (
            (similarity + 1e-6 - 1e-12, True),
            (similarity + 1e-6 + 1e-12, False),
        ):
            count = collect_matches(
                query, rows, np.array([0, 2000]), np.array([0]), limit, found, scores
            )
            expected = np.flatnonzero(exact >= limit - 1e-6)
            np.testing.assert_array_equal(found[:count], expected)
            assert (similarity in scores[:count]) == at_limit


def test_best_members_stop_where_nothing_better_is_possible():
    rows = naive.unit_rows([[1, 0], [0.9, 0.1], [0.5, 0.5], [0, 1]])
    out = np.empty(1, dtype=np.int64), np.empty(1, dtype=np.int64), np.empty(1)
    for potential, visited in ((0.9, 1), (1.0, 2)):
        counts = collect_best(
            rows[0],
            rows,
            np.arange(4),
            np.array([0, 2, 4]),
            np.array([0, 1]),
            np.array([1.0, potential]),
            *out,
        )
        assert counts == (1, visited, 2 * visited)
        assert out[0].tolist() == [0]


@given(n_items=st.integers(0, 50), block=st.integers(1, 20))
def test_blocks_cover_everything_once(n_items, block):
    spans = list(blocks(n_items, block))
    assert [i for start, stop in spans for i in range(start, stop)] == list(range(n_items))


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_run_blocks_runs_all_and_reports(threads):
    seen, reported = np.zeros(100, dtype=int), []

    def work(start, stop):
        seen[start:stop] += 1

    run_blocks(work, 100, 7, threads=threads, done=reported.append)
    assert (seen == 1).all()
    assert sum(reported) == 100


@pytest.mark.parametrize("threads", [None, 1])
def test_run_blocks_raises_the_first_error(threads):
    def work(start, stop):
        raise ValueError(f"block {start}")

    with pytest.raises(ValueError, match="block 0"):
        run_blocks(work, 10, 5, threads=threads)


def test_number_of_threads_follows_the_environment(monkeypatch):
    monkeypatch.setenv("MEMVEC_THREADS", "5")
    assert default_threads() == 5
    monkeypatch.setenv("MEMVEC_THREADS", "many")
    assert default_threads() >= 1


def test_a_forked_child_gets_its_own_pool():
    code = """
import os, numpy as np
from memvec.kernels import run_blocks
run_blocks(lambda a, b: None, 10, 1, threads=None)
child = os.fork()
if child == 0:
    run_blocks(lambda a, b: None, 10, 1, threads=None)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MEMVEC_THREADS": "2"},
    )
    assert done.stdout.strip() == "7", done.stderr


def test_compiling_is_announced_once(caplog):
    from memvec.kernels._compile import _CompileNotice

    class Event:
        def __init__(self, module):
            function = type("Function", (), {"__module__": module})
            self.data = {"dispatcher": type("Dispatcher", (), {"py_func": function})}

    notice = _CompileNotice()
    with caplog.at_level(logging.INFO, logger="memvec"):
        notice.on_start(Event("other.module"))
        assert caplog.text == ""
        notice.on_start(Event("memvec.kernels._scores"))
        notice.on_start(Event("memvec.kernels._scores"))
    assert caplog.text.count("compiling its loops") == 1
