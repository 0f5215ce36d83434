"""How many bits per entry the codes of members have: as many as cost least time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memvec.codes import estimate_noise, n_code_bytes
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._kmeans_design import Trial
from memvec.kernels import WORD, StoredRows
from memvec.lazy import special
from memvec.types import Float64Array, IntArray

# Others take as many bytes as the next of these, and tell less.
_CHOICES = (1, 4, 8)
# Pairs drawn: so many vectors, each with so many others. Among a million vectors, one pair stands
# for one match.
_LEFT, _RIGHT = 256, 4096
# Cosines are counted in steps of this.
_STEPS = 1000
# The slack that calibration leaves to codes of members, in standard deviations, as seen at a miss
# rate of 1 %.
_SLACK = 1.7
# What a fine code must save in time: of all that members cost after their first words, and of what
# a search costs whatever the index.
_WORTH, _WORTH_OF_QUERY = 0.2, 0.5
# Or in exact products: more than matches, and so many. Thresholds of little evidence let up to 1.8
# times as many through as expected here. On 115,659 sentence embeddings above 0.6 fine codes saved
# 34 of 42, and no time.
_SPARED = 60


def choose_member_bits(
    rows: StoredRows,
    among: IntArray,
    similarity: float,
    config: IndexConfig,
    costs: MachineCosts,
    trial: Trial | None = None,
) -> int:
    """Return the bits of least expected time for members whose first words have passed.

    It is 1 where others spare neither time nor many exact products. The paper's codes, of the signs
    of vectors and of queries, have 1.

    Parameters
    ----------
    rows : StoredRows of shape (n_vectors, dim)
        What is searched.
    among : ndarray of int
        Rows that may be drawn: what is calibrated on is not among them.
    trial : Trial or None
        What passed codes of one bit on a sample, which counts where more passed than by the law:
        vectors of one neighbourhood share what their codes do not tell.
    """
    papers = config.codes != "estimate" or config.symmetric or config.rotation == "none"
    if papers or len(among) < 2:
        return 1
    law = _MemberLaw.of(rows, among, similarity, config)
    if trial is not None:
        law = replace(law, seen=(len(rows) * trial.codes, len(rows) * trial.products))
    times = {bits: law.time(bits, int(config.member_words), costs) for bits in _CHOICES}
    best = min(_CHOICES[1:], key=lambda bits: times[bits])
    is_faster = times[1] - times[best] > max(_WORTH * times[1], _WORTH_OF_QUERY * costs.query)
    spared = law.n_whole - law.n_passed(law.padded, best)
    return best if is_faster or spared > law.n_matches + _SPARED else 1


@dataclass(frozen=True, eq=False)
class _MemberLaw:
    """How many members pass codes of some bits, and what that costs.

    An estimate of b bits is Gaussian around the cosine, with the standard deviation of
    `estimate_noise`. Of centred sign codes it is less: they estimate (q − μ)ᵀ(x − μ), and the norms
    of both, about √(1 − ‖μ‖²), scale the noise. Fine codes are never centred. Members in units that
    are not visited are counted, too: those near enough to pass codes rarely are in such units.

    Attributes
    ----------
    cosines, shares : ndarray of shape (n_steps,)
        Cosines of pairs, and the share of pairs that have each.
    similarity : float
        What is asked for.
    n_vectors, dim, row_bytes : int
        What is searched, and what it takes to read a vector.
    common : float
        ‖μ‖², as far as sign codes are centred; else 0.
    seen : (float, float)
        Members that passed first words and whole codes on a sample; by the law there may be more.
    """

    cosines: Float64Array
    shares: Float64Array
    similarity: float
    n_vectors: int
    dim: int
    row_bytes: int
    common: float
    seen: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(
        cls, rows: StoredRows, among: IntArray, similarity: float, config: IndexConfig
    ) -> _MemberLaw:
        """Draw pairs of different vectors, and count their cosines."""
        rng = np.random.default_rng([config.seed, 4])
        drawn = rng.permutation(among)[: _LEFT + _RIGHT]
        n_left = min(_LEFT, len(drawn) // 2)
        left, right = rows[drawn[:n_left]], rows[drawn[n_left:]]
        products = np.clip(left @ right.T, -1.0, 1.0)
        steps = np.rint(products * _STEPS).astype(np.int64) + _STEPS
        counts = np.bincount(steps.ravel(), minlength=2 * _STEPS + 1)
        seen = np.flatnonzero(counts)
        mean = right.mean(axis=0, dtype=np.float64)
        return cls(
            (seen - _STEPS) / _STEPS,
            counts[seen] / counts.sum(),
            similarity,
            len(rows),
            rows.shape[1],
            rows.data.itemsize * rows.shape[1],
            float(mean @ mean) if config.is_centred else 0.0,
        )

    @property
    def padded(self) -> int:
        """Entries of a rotated vector."""
        return -(-self.dim // WORD) * WORD

    @property
    def n_matches(self) -> float:
        """Matches of a query."""
        return self.n_vectors * float(self.shares[self.cosines >= self.similarity].sum())

    @property
    def n_whole(self) -> float:
        """Return how many members pass whole codes of one bit."""
        return max(self.seen[1], self.n_passed(self.padded, 1))

    def n_passed(self, n_entries: int, bits: int) -> float:
        """Return how many members pass a code of some entries."""
        common = self.common if bits == 1 else 0.0
        noise, left = estimate_noise(n_entries, bits), 1.0 - common
        # What is left of a pair once both are centred, and the part of it that codes do not know.
        unknown = np.sqrt(np.maximum(1e-9, left**2 - np.minimum(left, self.cosines - common) ** 2))
        limit = self.similarity - _SLACK * noise * left
        passed = special.ndtr((self.cosines - limit) / (noise * unknown))
        return self.n_vectors * float(self.shares @ passed)

    def time(self, bits: int, first_words: int, costs: MachineCosts) -> float:
        """Return the nanoseconds that members cost after their first words."""
        first = min(WORD * first_words, self.padded)
        n_first, n_whole = max(self.seen[0], self.n_passed(first, 1)), self.n_whole
        product = costs.row(self.row_bytes, self.n_vectors)
        code = costs.whole_code(self.padded / WORD, self.n_vectors)
        if bits == 1:
            return n_first * code + n_whole * product
        whole = n_first * code if first < self.padded else 0.0
        fine = n_whole * costs.row(n_code_bytes(self.padded, bits), self.n_vectors)
        return whole + fine + self.n_passed(self.padded, bits) * product
