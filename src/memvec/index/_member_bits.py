"""How many bits an entry the codes of members have: as many as cost least time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.codes import estimate_noise, n_code_bytes
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.kernels import WORD, UnitRows, blocks
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
# What a fine code must save in time: of all that members cost after their first words, and of what
# a search costs whatever the index.
_WORTH, _WORTH_OF_QUERY = 0.2, 0.2
# Or in exact products: more than matches, and so many. On 115,659 sentence embeddings above 0.6 it
# saved 34 of 42, and no time.
_SPARED = 30


def choose_member_bits(
    rows: UnitRows, similarity: float, config: IndexConfig, costs: MachineCosts
) -> int:
    """Return the bits of least expected time for members whose first words have passed.

    It is 1 where others spare neither time nor many exact products. The paper's codes, of the signs
    of vectors and of queries, have 1.
    """
    papers = config.codes != "estimate" or config.symmetric or config.rotation == "none"
    if papers or len(rows) < 2:
        return 1
    law = _MemberLaw(_drawn_cosines(rows, config.seed), similarity, *rows.shape)
    times = {bits: law.time(bits, int(config.member_words), costs) for bits in _CHOICES}
    best = min(times, key=lambda bits: times[bits])
    saved = times[1] - times[best]
    spared = law.n_passed(law.padded, 1) - law.n_passed(law.padded, best)
    is_faster = saved > max(_WORTH * times[1], _WORTH_OF_QUERY * costs.query)
    return best if is_faster or spared > law.n_matches + _SPARED else 1


def _drawn_cosines(rows: UnitRows, seed: int) -> Float64Array:
    rng = np.random.default_rng([seed, 4])
    found = []
    for start, stop in blocks(min(_PAIRS_EACH * len(rows), _MOST_PAIRS), _PAIRS_A_BLOCK):
        left, right = rng.integers(len(rows), size=(2, stop - start))
        products = np.einsum("ij,ij->i", rows[left], rows[right], dtype=np.float64)
        # A vector drawn twice is no match of itself: it counts as a pair of cosine 0.
        found.append(np.where(left != right, products, 0.0))
    return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class _MemberLaw:
    """How many members pass codes of some bits, and what that costs.

    An estimate of b bits is Gaussian around the cosine, with the standard deviation of
    `estimate_noise`. Members in units that are not visited are counted, too: those near enough to
    pass codes rarely are in such units.
    """

    cosines: Float64Array
    similarity: float
    n_vectors: int
    dim: int

    @property
    def padded(self) -> int:
        """Entries of a rotated vector."""
        return -(-self.dim // WORD) * WORD

    @property
    def n_matches(self) -> float:
        """Matches of a query."""
        return self.n_vectors * float((self.cosines >= self.similarity).mean())

    def n_passed(self, n_entries: int, bits: int) -> float:
        """Return how many members pass a code of some entries."""
        noise = estimate_noise(n_entries, bits)
        spread = noise * np.sqrt(np.maximum(1e-9, 1.0 - np.minimum(1.0, self.cosines**2)))
        limit = self.similarity - _SLACK * noise
        return self.n_vectors * float(special.ndtr((self.cosines - limit) / spread).mean())

    def time(self, bits: int, first_words: int, costs: MachineCosts) -> float:
        """Return the nanoseconds that members cost after their first words."""
        first = min(WORD * first_words, self.padded)
        n_first, n_whole = self.n_passed(first, 1), self.n_passed(self.padded, 1)
        if bits == 1:
            return n_first * costs.member_code + n_whole * costs.row(4 * self.dim)
        whole = n_first * costs.member_code if first < self.padded else 0.0
        fine = n_whole * costs.row(n_code_bytes(self.padded, bits))
        return whole + fine + self.n_passed(self.padded, bits) * costs.row(4 * self.dim)
