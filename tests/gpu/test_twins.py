"""The twins that judge a GPU agree with the CPU's kernels and with answers found by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from gpu.codes_made import balanced_codes, common_counts, join_case, near_copies
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
    given = codes, [(1, 0), (1, 1)], [0, 2], [2, 4], codes, [1, 1, 1, 1]
    assert naive.passing_members(*given, once=False) == {(1, 0), (1, 1), (1, 2)}
    assert naive.passing_members(*given, once=True) == {(1, 2)}


def test_int8_score_by_hand():
    assert naive.int8_score([3, -4], 0.5, [1, 2], 0.25) == -0.625


def test_int8_scores_are_those_of_the_cpu_bit_for_bit():
    generator = np.random.default_rng(5)
    rows = naive.unit_rows(generator.standard_normal((30, 77)))
    stored = StoredRows.of(rows, "int8")
    left, right = generator.integers(0, 30, (2, 200))
    expected = [
        naive.int8_score(*(part[i] for part in sides), *(part[j] for part in sides))
        for sides in [(stored.data, stored.scales)]
        for i, j in zip(left, right, strict=True)
    ]
    np.testing.assert_array_equal(canonical_score_pairs(stored, stored, left, right), expected)


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
