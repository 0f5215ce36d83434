"""How many bits an entry the codes of members have: as many as cost least time."""

from __future__ import annotations

import numpy as np

from memvec.codes import estimate_noise, n_code_bytes
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.kernels import UnitRows, blocks
from memvec.lazy import special
from memvec.types import Float64Array

# Others take as many bytes as the next of these, and tell less.
_CHOICES = (1, 4, 8)
# Pairs drawn: for each of few vectors, and in all; among a million, one stands for five matches.
_PAIRS_EACH, _MOST_PAIRS = 50, 200_000
_PAIRS_A_BLOCK = 10_000
# The slack that calibration leaves to codes of members, in standard deviations, as seen at a miss
# rate of 1 %.
_SLACK = 1.7
# What a fine code must save of all that members cost after their first words.
_WORTH = 0.2


def choose_member_bits(
    rows: UnitRows, similarity: float, config: IndexConfig, costs: MachineCosts
) -> int:
    """Return the bits of least expected time for members whose first words have passed.

    The paper's codes, of the signs of vectors and of queries, have one.
    """
    papers = config.codes != "estimate" or config.symmetric or config.rotation == "none"
    if papers or len(rows) < 2:
        return 1
    cosines = _drawn_cosines(rows, config.seed)
    times = {
        bits: _member_time(bits, cosines, similarity, rows.shape, config, costs)
        for bits in _CHOICES
    }
    best = min(times, key=lambda bits: times[bits])
    return best if times[best] < (1 - _WORTH) * times[1] else 1


def _drawn_cosines(rows: UnitRows, seed: int) -> Float64Array:
    rng = np.random.default_rng([seed, 4])
    found = []
    for start, stop in blocks(min(_PAIRS_EACH * len(rows), _MOST_PAIRS), _PAIRS_A_BLOCK):
        left, right = rng.integers(len(rows), size=(2, stop - start))
        products = np.einsum("ij,ij->i", rows[left], rows[right], dtype=np.float64)
        # A vector drawn twice is no match of itself: it counts as a pair of cosine 0.
        found.append(np.where(left != right, products, 0.0))
    return np.concatenate(found)


def _member_time(
    bits: int,
    cosines: Float64Array,
    similarity: float,
    shape: tuple[int, int],
    config: IndexConfig,
    costs: MachineCosts,
) -> float:
    """Return the nanoseconds that members cost after their first words, by the law of codes.

    An estimate of b bits is Gaussian around the cosine, with the standard deviation of
    `estimate_noise`. First words of a share of the bits have more noise by the root of that share.
    Members in units that are not visited are counted, too: those near enough to pass codes rarely
    are in such units.
    """
    n_vectors, dim = shape
    padded = -(-dim // 64) * 64
    first_bits = min(64 * int(config.member_words), padded)
    n_first = n_vectors * _passed(cosines, similarity, estimate_noise(first_bits, 1))
    n_whole = n_vectors * _passed(cosines, similarity, estimate_noise(padded, 1))
    if bits == 1:
        return n_first * costs.member_code + n_whole * costs.row(4 * dim)
    n_fine = n_vectors * _passed(cosines, similarity, estimate_noise(padded, bits))
    whole = n_first * costs.member_code if first_bits < padded else 0.0
    fine = n_whole * costs.row(n_code_bytes(padded, bits))
    return whole + fine + n_fine * costs.row(4 * dim)


def _passed(cosines: Float64Array, similarity: float, noise: float) -> float:
    """Return the share of pairs whose estimate passes."""
    spread = noise * np.sqrt(np.maximum(1e-9, 1.0 - np.minimum(1.0, cosines**2)))
    limit = similarity - _SLACK * noise
    return float(special.ndtr((cosines - limit) / spread).mean())
