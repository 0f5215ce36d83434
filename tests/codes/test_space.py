import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.codes import CodeSpace
from memvec.errors import InvalidValueError
from memvec.kernels import disagreement, quantise_query, rotate_rows
from strategies import seeds


def quantised(space, query):
    """Rotate and quantise one query: its words, and the running sums."""
    [rotated] = space.rotate(query[np.newaxis])
    n_words = space.padded_dim // 64
    words = np.empty((3, n_words), dtype=np.uint64)
    sums = np.empty((2, n_words), dtype=np.float32)
    quantise_query(rotated, np.float32(space.steps), space.top, *words, *sums)
    return rotated, words, sums


@settings(deadline=None, max_examples=30)
@given(seed=seeds, dim=st.integers(1, 400))
def test_rotation_keeps_inner_products(seed, dim):
    rows = naive.unit_rows(np.random.default_rng(seed).standard_normal((6, dim)))
    rotated = CodeSpace.random(dim, seed=seed).rotate(rows)
    assert rotated.shape == (6, -(-dim // 64) * 64)
    np.testing.assert_allclose(rotated @ rotated.T, rows @ rows.T, atol=3e-6)


@settings(deadline=None, max_examples=10)
@given(seed=seeds, dim=st.sampled_from([5, 64, 100]))
def test_rotation_and_sums_follow_a_fixed_order_bit_by_bit(seed, dim):
    rows = naive.unit_rows(np.random.default_rng(seed).standard_normal((2, dim)))
    space = CodeSpace.random(dim, seed=seed)
    rotated, encoded = space.rotate(rows), space.encode(rows, prefix_words=1)
    for row in range(2):
        np.testing.assert_array_equal(rotated[row], naive.rotated(rows[row], space.flips))
        assert encoded.full_sums[row] == naive.sum_in_lanes(abs(rotated[row]))
        assert encoded.prefix_sums[row] == naive.sum_in_lanes(abs(rotated[row, :64]))


@pytest.mark.parametrize("padded", [8, 56, 72, 200, 384, 520])
def test_rotation_of_runs_that_fill_no_whole_register_follows_the_same_order(padded):
    rng = np.random.default_rng(padded)
    rows = rng.standard_normal((2, padded - 3)).astype(np.float32)
    flips = (rng.choice([-1, 1], (3, padded)) / np.sqrt(8)).astype(np.float32)
    rotated = np.empty((2, padded), dtype=np.float32)
    rotate_rows(rows, flips, rotated)
    for row in range(2):
        np.testing.assert_array_equal(rotated[row], naive.rotated(rows[row], flips))


@settings(deadline=None, max_examples=30)
@given(
    seed=seeds,
    dim=st.sampled_from([1, 64, 100, 200]),
    n_bits=st.sampled_from([2, 64, 70, 256, 300]),
    rotates=st.booleans(),
)
def test_balanced_codes_of_rows_and_queries_equal_their_twin(seed, dim, n_bits, rotates):
    """Whole numbers of a few levels, so that many entries are equal where nothing is rotated."""
    rows = np.random.default_rng(seed).integers(-1, 2, size=(4, dim)).astype(np.float32)
    make = CodeSpace.random if rotates else CodeSpace.unrotated
    space = make(dim, balanced=n_bits)
    rotated, codes = space.rotate(rows), space.encode(rows, prefix_words=1)
    assert codes.words.shape == (4, -(-n_bits // 64))
    _, (signs, low, high), (sums, squares) = quantised(space, rows[0])
    for row in range(4):
        bits = naive.unpack(codes.words[row])
        np.testing.assert_array_equal(bits[:n_bits], naive.balanced_bits(rotated[row, :n_bits]))
        assert not bits[n_bits:].any()
        shared = (naive.unpack(codes.words[0]) & bits).sum()
        assert disagreement(codes.words[row], signs, low, high) == n_bits - 2 * shared
    np.testing.assert_array_equal(naive.unpack(signs)[: len(bits)], naive.unpack(codes.words[0]))
    assert sums[-1] == squares[-1] == n_bits


def test_balanced_codes_are_longer_than_vectors_and_shorter():
    """A match of 0.8 shares ones by the arcsine law: (1/4 + asin(0.8)/2π) of the bits."""
    rng = np.random.default_rng(3)
    left = naive.unit_rows(rng.standard_normal((300, 384)))
    noise = rng.standard_normal(left.shape)
    noise -= np.einsum("ij,ij->i", noise, left)[:, np.newaxis] * left
    right = naive.unit_rows(0.8 * left + 0.6 * naive.unit_rows(noise))
    for n_bits in (256, 384, 512, 2048):
        space = CodeSpace.random(384, balanced=n_bits)
        pairs = zip(*(space.encode(rows, 1).words for rows in (left, right)), strict=True)
        shared = [np.unpackbits((one & other).view(np.uint8)).sum() for one, other in pairs]
        expected = n_bits * (0.25 + np.arcsin(0.8) / (2 * np.pi))
        # Standard errors of the mean of 300. Seen: up to 0.8 of them.
        assert np.mean(shared) == pytest.approx(expected, abs=4 * np.std(shared) / np.sqrt(300))


def test_rotation_makes_spikes_gaussian():
    rotated = CodeSpace.random(384).rotate(np.eye(384, dtype=np.float32))
    kurtosis = (rotated**4).mean() / (rotated**2).mean() ** 2
    assert kurtosis == pytest.approx(2.81, abs=0.05)  # Seen: 2.809; a Gaussian has 3, a spike 384


def test_rotation_follows_its_seed():
    row = np.ones((1, 64), dtype=np.float32)
    first, again, other = (CodeSpace.random(64, seed=seed).rotate(row) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@settings(deadline=None, max_examples=30)
@given(
    seed=seeds,
    dim=st.sampled_from([1, 63, 64, 100, 200]),
    symmetric=st.booleans(),
    rotates=st.booleans(),
)
def test_codes_and_queries_equal_their_twins(seed, dim, symmetric, rotates):
    rows = naive.unit_rows(np.random.default_rng(seed).standard_normal((4, dim)))
    if rotates:
        space = CodeSpace.random(dim, symmetric=symmetric, seed=seed)
        rotated = space.rotate(rows)
    else:
        space = CodeSpace.unrotated(dim, symmetric=symmetric)
        rotated = naive.unrotated(rows)
        np.testing.assert_array_equal(space.rotate(rows), rotated)
    assert space.rotates == rotates
    encoded = space.encode(rows, prefix_words=1)
    query, (signs, low, high), (sums, squares) = quantised(space, rows[0])
    levels = naive.levels(query, space.steps, space.top)
    np.testing.assert_array_equal(naive.unpack(low) + 2 * naive.unpack(high), levels)
    assert sums[-1] == levels.sum()
    assert squares[-1] == (levels**2).sum()
    for row in range(4):
        bits = naive.sign_bits(rotated[row])
        np.testing.assert_array_equal(naive.unpack(encoded.words[row]), bits)
        expected = naive.disagreement(bits, naive.sign_bits(query), levels)
        assert disagreement(encoded.words[row], signs, low, high) == expected
        np.testing.assert_allclose(encoded.full_sums[row], np.abs(rotated[row]).sum(), rtol=1e-5)
        prefix = np.abs(rotated[row, :64]).sum()
        np.testing.assert_allclose(encoded.prefix_sums[row], prefix, rtol=1e-5)


def test_symmetric_codes_without_rotation_are_compared_by_hamming_distance():
    """Of the entries themselves: padding agrees with everything and weighs nothing."""
    rows = np.random.default_rng(4).standard_normal((5, 70)).astype(np.float32)
    space = CodeSpace.unrotated(70, symmetric=True)
    codes = space.encode(rows, prefix_words=1).words
    _, words, (sums, _) = quantised(space, rows[0])
    assert sums[-1] == 70
    for row, code in zip(rows, codes, strict=True):
        assert disagreement(code, *words) == ((row > 0) != (rows[0] > 0)).sum()


@pytest.mark.parametrize("dim", [70, 256])
@pytest.mark.parametrize("symmetric", [False, True])
def test_estimate_without_rotation_is_unbiased_for_gaussian_entries(dim, symmetric):
    rng = np.random.default_rng(2)
    space, errors = CodeSpace.unrotated(dim, symmetric=symmetric), []
    for _ in range(60):
        query = naive.unit_rows(rng.standard_normal((1, dim)))[0]
        noise = rng.standard_normal((60, dim))
        noise -= (noise @ query)[:, None] * query
        rows = (0.3 * query + np.sqrt(1 - 0.3**2) * naive.unit_rows(noise)).astype(np.float32)
        found = space.estimate(query, space.encode(rows, 1), np.ones(len(rows)))
        errors.append(found.values - 0.3)
    means = np.mean(errors, axis=1)
    assert means.mean() == pytest.approx(0, abs=4 * means.std() / np.sqrt(len(means)) + 0.01)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("norm", [1.0, 3.0])
def test_estimate_is_unbiased_with_the_stated_noise(symmetric, norm):
    """RaBitQ's estimate: for vectors of any norm, its mean is the inner product."""
    rng = np.random.default_rng(1)
    dim, count, cosine = 256, 4000, 0.3
    query = naive.unit_rows(rng.standard_normal((1, dim)))[0]
    noise = rng.standard_normal((count, dim))
    noise -= (noise @ query)[:, None] * query
    rows = norm * (cosine * query + np.sqrt(1 - cosine**2) * naive.unit_rows(noise))
    errors = []
    for seed in range(8):
        space = CodeSpace.random(dim, symmetric=symmetric, seed=seed)
        encoded = space.encode(rows.astype(np.float32), 1)
        _, words, (sums, _) = quantised(space, query)
        p = np.array([disagreement(code, *words) for code in encoded.words])
        scale = encoded.full_sums / norm**2
        errors.append((sums[-1] - 2 * p) / (space.gain * scale) - norm * cosine)
    errors = np.array(errors)
    # One rotation has an error of its own. Seen for norm 1: means of -0.006
    # to 0.014 for one rotation, 0.001 and 0.005 (symmetric) over the eight.
    assert errors.mean() == pytest.approx(0, abs=4 * errors.mean(axis=1).std() / np.sqrt(8))
    # √(π/2 − 1) = 0.755 for a real query (Section 4 of the design); 4 levels add a little.
    expected = 1.21 if symmetric else 0.80
    assert errors.std() * np.sqrt(dim) / norm == pytest.approx(expected, abs=0.06)


def test_bad_dimension_is_refused():
    with pytest.raises(InvalidValueError, match="'dim' parameter of CodeSpace.random .* Got 0"):
        CodeSpace.random(0)
    with pytest.raises(InvalidValueError, match="of CodeSpace.unrotated .* Got 0"):
        CodeSpace.unrotated(0)
