import copy
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.kernels import (
    blocks,
    canonical_score_pairs,
    collect_matches,
    default_threads,
    run_blocks,
    score_units,
)
from memvec.kernels._bits import as_bits, lane_products, room
from memvec.kernels._compile import fast_kernel, kernel
from memvec.kernels._search import keep_matches, sort_hits
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
@given(seed=seeds, dim=st.integers(1, 40), n_rows=st.integers(0, 11))
def test_candidates_that_match_are_kept_with_their_canonical_scores(seed, dim, n_rows):
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((12, dim)))
    candidates = rng.permutation(12)[:n_rows].astype(np.int32)
    ids, scores = np.empty(12, dtype=np.int64), np.empty(12)
    query = rows[0].astype(np.float64)
    keys = np.arange(100, 112)
    members = rows, np.empty(0), keys
    count = keep_matches(query, 1.0, candidates, *members, 0.1, ids, scores, 1)
    exact = [(100 + row, naive.canonical_score(rows[0], rows[row])) for row in candidates]
    expected = [pair for pair in exact if pair[1] >= 0.1 - 1e-6]
    assert list(zip(ids[1:count].tolist(), scores[1:count].tolist(), strict=True)) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_damaged_row_is_no_hit_and_harms_no_others(value):
    """Hits are put in order by their scores: NaN has no place among them."""
    rows = np.ones((40, 4), dtype=np.float32) / 2
    rows[7] = value * np.array([1, -1, 1, -1], dtype=np.float32)
    query, keys = rows[0], np.arange(40)
    ids, scores = np.empty(40, dtype=np.int64), np.empty(40)
    places, allowed = (np.array([0, 40]), np.array([0])), np.empty(0, dtype=bool)
    expected = [row for row in range(40) if row != 7]
    with np.errstate(invalid="ignore"):
        n = collect_matches(query, rows, np.empty(0), keys, *places, 0.5, allowed, ids, scores)
    assert ids[:n].tolist() == expected
    wide, candidates = query.astype(np.float64), np.arange(40, dtype=np.int32)
    n = keep_matches(wide, 1.0, candidates, rows, np.empty(0), keys, 0.5, ids, scores, 0)
    assert ids[:n].tolist() == expected


@settings(deadline=None)
@given(seed=seeds, dim=st.integers(1, 40))
def test_products_by_lanes_mean_the_canonical_score(seed, dim):
    rows = np.random.default_rng(seed).standard_normal((3, dim)).astype(np.float32)
    expected = tuple(naive.canonical_score(rows[0], row) for row in rows[:2])
    assert lane_products(rows[0], rows, (0, dim)) == expected


@settings(deadline=None)
@given(
    seed=seeds,
    n_hits=st.integers(0, 200),
    levels=st.sampled_from([1, 2, 30, 10**9]),
    far=st.booleans(),
)
def test_hits_are_sorted_by_falling_score_then_by_id(seed, n_hits, levels, far):
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=n_hits + 5) / levels
    if far:  # one far from all others puts these into one bin
        scores[rng.integers(n_hits + 5)] = -1e6
    ids = rng.permutation(n_hits + 5)
    stop = n_hits + 2
    expected = sorted(zip(-scores[2:stop], ids[2:stop], strict=True))
    kept = scores[stop:].tolist(), ids[:2].tolist()
    sort_hits(ids, scores, 2, stop)
    assert list(zip(-scores[2:stop], ids[2:stop], strict=True)) == expected
    assert (scores[stop:].tolist(), ids[:2].tolist()) == kept


_FAST_CALLER = """
import numpy as np
from memvec.kernels import canonical_score_pairs
from memvec.kernels._compile import fast_kernel
from memvec.kernels._scores import canonical_score

@fast_kernel
def fast_caller(left, right):
    return canonical_score(left, right)

rows = np.random.default_rng(0).standard_normal((2, 399)).astype(np.float32)
fast_caller(rows[0], rows[1])
print(canonical_score_pairs(rows, rows, np.array([0]), np.array([1]))[0].hex())
"""


def test_canonical_score_keeps_its_order_when_a_fast_kernel_compiles_it_first(tmp_path):
    """Numba hands fastmath down to callees that do not set it."""
    script = tmp_path / "fast_caller.py"
    script.write_text(_FAST_CALLER)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "MEMVEC_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    rows = np.random.default_rng(0).standard_normal((2, 399)).astype(np.float32)
    assert float.fromhex(done.stdout) == naive.canonical_score(rows[0], rows[1])


@settings(deadline=None)
@given(seed=seeds, dim=st.integers(1, 70))
def test_unit_scores_equal_their_twin(seed, dim):
    rows = naive.unit_rows(np.random.default_rng(seed).standard_normal((20, dim)))
    scores = np.empty(20, dtype=np.float32)
    score_units(rows[0], rows, scores)
    np.testing.assert_allclose(scores, rows.astype(np.float64) @ rows[0], atol=1e-6)


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
                query,
                rows,
                np.empty(0),
                np.arange(2000),
                np.array([0, 2000]),
                np.array([0]),
                limit,
                np.empty(0, dtype=bool),
                found,
                scores,
            )
            expected = np.flatnonzero(exact >= limit - 1e-6)
            np.testing.assert_array_equal(np.sort(found[:count]), expected)
            assert (np.diff(scores[:count]) <= 0).all()
            assert (similarity in scores[:count]) == at_limit


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


@fast_kernel
def _doubled(number):
    return 2 * number


@fast_kernel
def _sum_of_doubled(number):
    return _doubled(3) + _doubled(number) + _doubled(4)


def test_callee_is_compiled_once_whatever_numbers_it_is_given():
    assert _sum_of_doubled(5) == 24
    [compiled] = _doubled._callee.overloads.values()
    # Machine code would be called by its name, in place of what callers have made of it.
    assert list(compiled.library.get_defined_functions()) == []
    assert _doubled(7) == 14  # Python calls it, too


def test_kernel_that_threads_call_first_at_once_is_made_once(monkeypatch):
    from memvec.kernels import _dispatcher

    made, n_threads = [], 4
    barrier = threading.Barrier(n_threads)

    def slowly(function, options):
        made.append(function)
        time.sleep(0.05)
        return function

    def call(number):
        barrier.wait()
        return double(number)

    monkeypatch.setattr(_dispatcher, "dispatcher", slowly)
    double = kernel(lambda x: 2 * x)
    with ThreadPoolExecutor(n_threads) as pool:
        assert list(pool.map(call, range(n_threads))) == [0, 2, 4, 6]
    assert len(made) == 1


def test_kernel_can_be_copied():
    assert copy.copy(collect_matches)._function is collect_matches._function


@kernel
def _filled(n_rows, n_columns):
    flat, table, single = (
        room(n_rows, np.int64),
        room((n_rows, 3), np.float32),
        room((2, 2), np.bool_),
    )
    cube = room((n_rows, 2, n_columns), np.uint64)
    for i in range(n_rows):
        flat[i] = i
        for j in range(n_columns):
            cube[i, 0, j], cube[i, 1, j] = i, j
        for j in range(3):
            table[i, j] = np.float32(i * 3 + j)
    single[:] = True
    return flat, table, single, cube, as_bits(table)


@pytest.mark.parametrize(("n_rows", "n_columns"), [(0, 4), (1, 1), (5, 7)])
def test_arrays_of_kernels_are_those_of_numpy(n_rows, n_columns):
    made, expected = _filled(n_rows, n_columns), _filled.function(n_rows, n_columns)
    for one, other in zip(made, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.flags.c_contiguous
        assert one.tolist() == other.tolist()


def test_bits_outlive_the_floats_they_lie_in():
    """The array that is read again is freed with its last reader, and no earlier."""
    bits = _filled(200, 1)[4]
    _filled(200, 1)
    expected = np.arange(600, dtype=np.float32).reshape(200, 3).view(np.int32)
    assert (bits == expected).all()


def test_array_that_no_memory_holds_is_an_error():
    with pytest.raises(MemoryError):
        _filled(1 << 50, 1)
