"""Members tested by fine codes, against the estimate itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.codes import FineCodes
from memvec.kernels import rotate_rows
from memvec.kernels._bits import half_level_product, level_product
from memvec.kernels._fine import (
    fine_limit,
    fine_product,
    fine_queries,
    members_by_fine_codes,
)
from strategies import seeds


@settings(deadline=None, max_examples=40)
@given(seed=seeds, bits=st.integers(2, 8), dim=st.integers(2, 150), at=st.floats(-0.5, 0.9))
def test_members_whose_estimate_is_high_enough_are_kept(seed, bits, dim, at):
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((20, dim)))
    fine = FineCodes.of(rows, bits, seed=0)
    query = naive.unit_rows(rows[:1] + 0.5 * rng.standard_normal((1, dim)))
    [entries], [offset], [step] = fine_queries(query, fine.flips, fine.n_levels)
    rotated = np.empty((1, fine.flips.shape[1]), dtype=np.float32)
    rotate_rows(query, fine.flips, rotated)
    twin, steps = naive.whole_numbers(rotated[0])
    assert entries.tolist() == twin
    assert step == np.float32(steps)

    candidates = rng.permutation(20)[:15].astype(np.int32)
    products = {
        row: np.dot(naive.fine_values(naive.unpack_fine(fine.codes[row], len(twin)), 2**bits), twin)
        for row in candidates.tolist()
    }
    estimates = {row: products[row] / (steps * float(fine.scales[row])) for row in products}
    limit = np.float32(at * steps)
    kept = candidates.copy()
    reaches = np.empty(15, dtype=np.float32)
    count = members_by_fine_codes(
        kept, fine.codes, fine.scales, entries, offset, limit, rows, reaches
    )
    sure = {row for row, estimate in estimates.items() if estimate >= at + 1e-5}
    possible = [row for row in candidates.tolist() if estimates[row] >= at - 1e-5]
    assert sure <= set(kept[:count].tolist()) <= set(possible)
    assert kept[:count].tolist() == [row for row in possible if row in set(kept[:count].tolist())]
    wanted = [estimates[row] for row in kept[:count].tolist()]
    np.testing.assert_allclose(reaches[:count] / steps, wanted, rtol=1e-5, atol=1e-6)


@settings(deadline=None, max_examples=20)
@given(seed=seeds, bits=st.integers(2, 8), dim=st.integers(2, 150))
def test_scales_of_fine_codes_are_summed_in_a_fixed_order(seed, bits, dim):
    rows = naive.unit_rows(np.random.default_rng(seed).standard_normal((3, dim)))
    fine = FineCodes.of(rows, bits, seed=0)
    rotated = np.empty((3, fine.flips.shape[1]), dtype=np.float32)
    rotate_rows(rows, fine.flips, rotated)
    for row in range(3):
        levels = naive.unpack_fine(fine.codes[row], rotated.shape[1])
        values = np.array(naive.fine_values(levels, 2**bits), dtype=np.float64)
        assert fine.scales[row] == np.float32(naive.sum_in_lanes(values * rotated[row]))


def test_limit_is_the_lowest_of_all_lines():
    slack, at = np.array([1.0, 4.0], np.float32), np.array([0.7, 0.8], np.float32)
    noise, step = np.float32(0.1), np.float32(10.0)
    assert fine_limit(slack, at, noise, step, 0.7) == np.float32(4.0)
    everything = np.array([1.0, np.inf], np.float32)
    assert fine_limit(everything, at, noise, step, 0.7) == -np.inf


def test_limit_is_at_most_six_deviations_below_what_is_asked():
    slack, at = np.array([1.0], np.float32), np.array([0.2], np.float32)
    noise, step = np.float32(0.05), np.float32(10.0)
    assert fine_limit(slack, at, noise, step, 0.8) == pytest.approx(5.0, rel=1e-6)
    assert fine_limit(slack, at, noise, step, 0.45) == pytest.approx(1.5, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, n_words=st.integers(1, 9), row=st.integers(0, 2))
def test_products_of_levels_equal_their_meaning(seed, n_words, row):
    """At the largest levels and entries, too: nothing overflows."""
    rng = np.random.default_rng(seed)
    dim = 64 * n_words
    entries = rng.integers(-127, 128, dim).astype(np.int16)
    codes = rng.integers(0, 256, (3, dim)).astype(np.uint8)
    codes[0], entries[: dim // 2] = 255, 127
    halves = np.ascontiguousarray(codes[:, : dim // 2])
    offset = np.int32(7)
    assert fine_product(codes, row, entries, offset) == (
        2 * level_product(codes, row * dim, entries) - 7
    )
    assert fine_product(halves, row, entries, offset) == (
        2 * half_level_product(halves, row * dim // 2, entries) - 7
    )
    levels = naive.unpack_fine(halves[row], dim)
    assert half_level_product(halves, row * dim // 2, entries) == np.dot(levels, entries)
    assert level_product(codes, row * dim, entries) == np.dot(codes[row].astype(int), entries)
