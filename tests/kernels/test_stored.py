"""Rows in fewer bytes, and their canonical scores, against the twins."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types
from numba.extending import intrinsic

import naive
from memvec.errors import InvalidValueError
from memvec.kernels import StoredRows, canonical_score_pairs, collect_matches, rounded_rows
from memvec.kernels._bits import has_scales, no_product, plus_product, widened
from memvec.kernels._instructions import half_by_bits, half_by_instruction
from memvec.kernels._scores import dot, row_scale, score_pairs
from memvec.kernels._stored import MOST_INT8_ENTRIES
from strategies import seeds

SMALL = ["float16", "int8"]
DTYPES = ["float32", *SMALL]


def spread_rows(seed, n_rows, dim):
    """Unit rows whose entries differ by many orders of magnitude."""
    rng = np.random.default_rng(seed)
    return naive.unit_rows(rng.standard_normal((n_rows, dim)) * 10.0 ** rng.uniform(-8, 0, dim))


@settings(deadline=None)
@given(seed=seeds, dim=st.integers(1, 40), dtype=st.sampled_from(SMALL))
def test_stored_rows_and_their_scores_equal_their_twins_to_the_last_bit(seed, dim, dtype):
    rows = spread_rows(seed, 6, dim)
    stored = StoredRows.of(rows, dtype)
    assert stored.data.tolist() == [naive.stored_row(row, dtype) for row in rows]
    left, right = np.array([0, 1, 5]), np.array([3, 1, 2])
    found = canonical_score_pairs(stored, stored, left, right)
    expected = [
        naive.stored_score(rows[i], rows[j], dtype) for i, j in zip(left, right, strict=True)
    ]
    assert found.tolist() == expected
    assert found.tolist() == canonical_score_pairs(stored, stored, right, left).tolist()


@settings(deadline=None)
@given(seed=seeds, dim=st.integers(1, 200), dtype=st.sampled_from(SMALL))
def test_unit_rows_of_stored_rows_are_stored_as_the_same_bytes(seed, dim, dtype):
    stored = StoredRows.of(spread_rows(seed, 8, dim), dtype)
    again = stored.like(stored[:])
    assert again.data.tobytes() == stored.data.tobytes()
    assert again.scales.tolist() == stored.scales.tolist()
    norms = np.linalg.norm(stored[:].astype(np.float64), axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scan_finds_each_stored_row_at_its_canonical_score(dtype):
    rows = spread_rows(3, 50, 37)
    stored = StoredRows.of(rows, dtype)
    ids, scores = np.empty(50, dtype=np.int64), np.empty(50)
    places = np.arange(50), np.array([0, 50]), np.array([0])
    query = stored.queries(rows[:1])[0]
    allowed = np.empty(0, dtype=bool)
    n = collect_matches(query, *stored.for_kernel, *places, 0.3, allowed, ids, scores)
    exact = [naive.stored_score(rows[0], row, dtype) for row in rows]
    matches = sorted((-score, i) for i, score in enumerate(exact) if score >= 0.3 - 1e-6)
    assert [(-score, i) for i, score in zip(ids[:n].tolist(), scores, strict=False)] == matches
    assert scores[0] >= 1 - 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_read_one_by_one_in_blocks_and_by_number(dtype):
    stored = StoredRows.of(spread_rows(4, 9, 6), dtype)
    whole = stored[:]
    some = np.array([7, 0, 7])
    for which in (3, slice(2, 5), some, np.array([[1, 2], [3, 4]])):
        assert stored[which].tolist() == whole[which].tolist()
    assert stored.some(some)[:].tolist() == whole[some].tolist()
    assert stored.some(slice(0))[:].shape == (0, 6)
    assert rounded_rows(whole, dtype).tolist() == whole.tolist()
    assert stored.some(slice(0))[:].dtype == np.float32


@pytest.mark.parametrize("dtype", SMALL)
def test_blocks_of_what_a_user_gives_are_stored_as_the_whole(dtype, monkeypatch):
    rows = np.random.default_rng(5).standard_normal((10, 7))
    monkeypatch.setattr("memvec.kernels._stored._BLOCK_ROWS", 3)
    found = StoredRows.checked(rows, "vectors", "here", dtype)
    assert found.data.tolist() == StoredRows.of(naive.unit_rows(rows), dtype).data.tolist()
    rows[8] = 0
    with pytest.raises(InvalidValueError, match=r"'vectors'.*here.*only zeros in row 8"):
        StoredRows.checked(rows, "vectors", "here", dtype)


def test_rows_too_long_for_int8_are_refused():
    rows = np.ones((1, MOST_INT8_ENTRIES + 1), dtype=np.float32)
    with pytest.raises(InvalidValueError, match="'dtype' parameter of here must be .* 65,536 dim"):
        StoredRows.checked(rows, "vectors", "here", "int8")
    assert StoredRows.checked(rows, "vectors", "here", "float16").dtype == "float16"


def test_longest_rows_of_int8_do_not_overflow():
    row = np.full((1, MOST_INT8_ENTRIES), -128, dtype=np.int8)  # as no row is stored
    stored = StoredRows.read(row)
    [score] = canonical_score_pairs(stored, stored, np.array([0]), np.array([0]))
    assert score == pytest.approx(1, abs=1e-12)
    ids, scores = np.empty(1, dtype=np.int64), np.empty(1)
    places = np.arange(1), np.array([0, 1]), np.array([0])
    allowed = np.empty(0, dtype=bool)
    assert collect_matches(row[0], *stored.for_kernel, *places, 1.0, allowed, ids, scores) == 1


@pytest.mark.parametrize("way", [half_by_instruction, half_by_bits])
def test_every_half_is_read_as_numpy_reads_it(way):
    @intrinsic
    def read(context, half):
        return types.float32(types.uint16), lambda _, builder, __, given: way(builder, given[0])

    @numba.njit
    def read_all(halves, floats):
        for i in range(halves.shape[0]):
            floats[i] = read(halves[i])

    halves = np.arange(1 << 16, dtype=np.uint16)
    halves = halves[np.isfinite(halves.view(np.float16))]
    floats = np.empty(len(halves), dtype=np.float32)
    read_all(halves, floats)
    expected = halves.view(np.float16).astype(np.float32)
    assert (floats.view(np.uint32) == expected.view(np.uint32)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_mean_in_python_what_they_compute(dtype):
    """Without a compiler, kernels are the functions that they are written as."""
    stored = StoredRows.of(spread_rows(6, 2, 11), dtype)
    (left, right), _ = stored.for_kernel
    assert has_scales(left) == (dtype != "float32") == (row_scale(left) != 1)
    total = no_product(left)
    for one, other in zip(left, right, strict=True):
        total = plus_product(total, one, other)
    assert type(total) is (np.int32 if dtype == "int8" else np.float32)
    assert dot.function(left, right) == total
    assert float(total) == pytest.approx(float(dot(left, right)), abs=1e-6)
    wide = [float(widened(entry)) for entry in left]
    assert wide == stored.data[0].tolist()
    scores = np.empty(1)
    first = np.zeros(1, dtype=np.int64)
    sides = stored.for_kernel
    score_pairs.function(*sides, *sides, first, first + 1, scores)
    assert scores[0] == pytest.approx(canonical_score_pairs(stored, stored, first, first + 1)[0])
