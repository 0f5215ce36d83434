"""The twins that judge a GPU agree with the CPU's kernels and with answers found by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from gpu import numpy_card
from gpu.codes_made import balanced_codes, common_counts, join_case, near_copies
from memvec import gpu
from memvec.codes import CodeSpace
from memvec.kernels import StoredRows, canonical_score_pairs, rotate_rows


def test_balanced_bits_of_equal_entries_are_the_first():
    assert naive.balanced_bits([0.0, 2.0, -0.0, 0.0, -1.0, 3.0]).tolist() == [
        *(True, True, False),
        *(False, False, True),
    ]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_balanced_bits_are_half_of_all(half):
    row = np.array([*half, *half], dtype=np.float32)
    bits = naive.balanced_bits(row)
    assert bits.sum() == len(half)
    assert row[bits].min() >= row[~bits].max()


def test_packed_bits_fill_words_from_the_lowest_bit():
    bits = [True] + [False] * 31 + [False, True]
    assert naive.packed_bits(bits, 3).tolist() == [1, 2, 0]


@pytest.mark.parametrize("dim", [100, 384, 1000])
def test_mixed_rows_are_those_of_the_cpu_bit_for_bit(dim):
    generator = np.random.default_rng(dim)
    rows = generator.standard_normal((20, dim)).astype(np.float32)
    flips = CodeSpace.random(dim, seed=3).flips
    rotated = np.empty((20, flips.shape[1]), dtype=np.float32)
    rotate_rows(rows, flips, rotated)
    np.testing.assert_array_equal(rotated, naive.mixed_rows(rows, flips, flips.shape[1]))


def test_joined_pairs_by_hand():
    rows = np.array([[0b1100], [0b0011]], dtype=np.uint32)
    columns = np.array([[0b0100], [0b1111], [0b0001]], dtype=np.uint32)
    assert naive.joined(rows, columns, [1, 2, 0]) == {(0, 0), (0, 1), (1, 1), (0, 2), (1, 2)}
    assert naive.joined(rows, columns, [1, 2, 0], stops=[0, 1, 2]) == {(0, 1), (0, 2), (1, 2)}
    assert naive.joined(rows, columns, [1, 2, 0], row_range=(1, 2)) == {(1, 1), (1, 2)}


def test_passing_members_by_hand():
    codes = np.array([[0b1100], [0b0110], [0b0011], [0b1001]], dtype=np.uint32)
    given = codes, [(1, 0), (1, 1)], [0, 2], [2, 4], codes, [2, 2, 2, 2]
    assert naive.passing_members(*given, once=False) == {(1, 0), (1, 1), (1, 2)}
    assert naive.passing_members(*given, once=True) == {(1, 2)}
    assert naive.passing_members(*given, once=False, first=(1, 0)) == {(1, 1)}
    assert naive.passing_members(*given, once=False, slots=[3, 2, 1, 0]) == {(1, 2), (1, 1), (1, 0)}


def test_least_pivot_by_hand():
    assert naive.least_pivot(np.array([[4.0, 2.0], [2.0, 2.0]])) == 1.0
    assert naive.least_pivot(np.ones((2, 2))) < 1e-15


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_scores_of_many_rows_are_those_of_the_cpu_bit_for_bit(dtype):
    generator = np.random.default_rng(5)
    rows = naive.unit_rows(generator.standard_normal((30, 77)))
    stored = StoredRows.of(rows, dtype)
    left, right = generator.integers(0, 30, (2, 200))
    expected = numpy_card.canonical_scores(stored.data[left], stored.data[right])
    if dtype != "float32":
        expected *= stored.scales[left] * stored.scales[right]
    np.testing.assert_array_equal(canonical_score_pairs(stored, stored, left, right), expected)
    some = naive.canonical_score(stored.data[left[0]], stored.data[right[0]])
    assert numpy_card.canonical_scores(stored.data[left[:1]], stored.data[right[:1]]) == [some]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("given", ["float16", "float32", "float64"])
def test_stored_rows_are_those_of_the_cpu_bit_for_bit(monkeypatch, dtype, given):
    card = numpy_card.install(monkeypatch)
    rows = (9 * np.random.default_rng(6).standard_normal((20, 37))).astype(given)
    rows[3] = naive.unit_rows(rows[3:4])[0]
    found = gpu.store_rows(numpy_card.on_card(rows), dtype, card, "test")
    expected = StoredRows.checked(rows, "rows", "test", dtype)
    np.testing.assert_array_equal(found.rows.data[:, :37], expected.data)
    np.testing.assert_array_equal(found.unit_rows, expected[:])
    if dtype != "float32":
        np.testing.assert_array_equal(found.rows.scales, expected.scales)


def test_made_codes_are_balanced_and_zero_past_their_length():
    generator = np.random.default_rng(0)
    codes = balanced_codes(5, 384, generator)
    bits = np.unpackbits(codes.view(np.uint8), axis=1, bitorder="little")
    assert bits.shape == (5, 512)
    assert (bits[:, :384].sum(axis=1) == 192).all()
    assert not bits[:, 384:].any()
    assert naive.common_bits(codes[0], near_copies(codes, 10, generator)[0]) == 182


def test_join_case_holds_pairs_at_their_thresholds_and_a_bit_below():
    rows, columns, thresholds = join_case(30, 40, 256, np.random.default_rng(1))
    common = common_counts(rows, columns)
    assert common[3, 4] == naive.common_bits(rows[3], columns[4])
    pairs = naive.joined(rows, columns, thresholds)
    assert pairs == set(zip(*map(np.ndarray.tolist, np.nonzero(common >= thresholds)), strict=True))
    assert (common == thresholds).any()
    assert (common == thresholds - 1).any()
