"""The units of the codes nearest to those of vectors, of all units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.kernels import BLOCK, LOOK, RUN, SCANNED_WORDS, in_blocks, scan_codes
from strategies import seeds


def scanned(codes, of_units, n_best):
    found, distances = np.empty((2, len(codes), n_best), dtype=np.int32)
    blocks = in_blocks(np.asarray(of_units, dtype=np.uint64))
    scan_codes(np.asarray(codes, np.uint64), blocks, len(of_units), RUN, LOOK, found, distances)
    return found.tolist(), distances.tolist()


def drawn(rng, n_codes, n_bits):
    """Codes in which few bits differ, so that many are as near as others."""
    codes = np.zeros((n_codes, SCANNED_WORDS), dtype=np.uint64)
    for word in range(SCANNED_WORDS):
        codes[:, word] = rng.integers(2**n_bits, size=n_codes, dtype=np.uint64)
    return codes


def test_nearest_by_hand():
    """One code differs from the first in the last bit of all, and from the second in none."""
    none, last = [0, 0, 0, 0], [0, 0, 0, 1 << 63]
    far = [2**64 - 1] * 4
    assert scanned([last], [none, last, far], 2) == ([[1, 0]], [[0, 1]])
    assert scanned([far], [none, far], 3) == ([[1, 0, -1]], [[0, 256, 257]])


@pytest.mark.parametrize("n_units", [1, LOOK, RUN + 1, BLOCK, 3 * BLOCK + RUN + 5])
def test_padding_is_no_unit(n_units):
    """The codes that fill the last block are zero: nearest of all to a code of zeros."""
    units = np.full((n_units, SCANNED_WORDS), 2**64 - 1, dtype=np.uint64)
    [found], _ = scanned([[0, 0, 0, 0]], units, 4)
    assert found == [*range(min(4, n_units)), *[-1] * (4 - n_units)]


@settings(deadline=None, max_examples=25)
@given(
    seed=seeds,
    n_units=st.integers(1, 2 * BLOCK + 10),
    n_bits=st.sampled_from([1, 4, 62]),
    n_best=st.sampled_from([1, 3, 32]),
)
def test_scan_equals_its_twin(seed, n_units, n_bits, n_best):
    rng = np.random.default_rng(seed)
    units, codes = drawn(rng, n_units, n_bits), drawn(rng, 3, n_bits)
    found, distances = scanned(codes, units, n_best)
    for code, numbers, apart in zip(codes, found, distances, strict=True):
        expected, bits = naive.nearest_by_bits(code, units, n_best)
        assert numbers[: len(expected)] == expected
        assert apart[: len(bits)] == bits
        assert set(numbers[len(expected) :]) <= {-1}
