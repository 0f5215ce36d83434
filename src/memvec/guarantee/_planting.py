"""Planted evidence: queries made from stored vectors, where too few known ones have matches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from memvec import checks
from memvec.cache import Cache
from memvec.guarantee._bounds import Rule
from memvec.guarantee._cascade import Cascade, seen_by_stages
from memvec.guarantee._table import CalibrationTable
from memvec.kernels import StoredRows, blocks
from memvec.storage import forget_array
from memvec.types import Float32Array, Float64Array, IntArray

# Queries planted: at most so many for each member, and more than a small miss rate needs.
_PLANTED, _MOST_PLANTED = 2000, 20_000
_PLANTED_SHARE = 4
_MORE_THAN_NEEDED = 2
# Tables that are kept, in bytes: one of 2,000 queries and four stages takes 150,000.
PLANTED_BYTES = 4 << 20
_ALIKE = 1e-6
# Vectors in the noise of a planted query: enough for its law to be that of the data.
_NOISE_TERMS = 8
# Queries that are made at a time: 64 of 384 entries in float64 stay in the second-level cache.
_BLOCK = 64


class Planting:
    """Plants queries near the vectors of some cascades; what was planted is kept.

    Parameters
    ----------
    cascades : sequence of Cascade
        What is searched, as one.
    seed : int
        Fixes what is planted.
    """

    def __init__(self, cascades: Sequence[Cascade], seed: int) -> None:
        self._cascades, self._seed = cascades, seed
        self._tables: Cache[tuple[float, int, int], CalibrationTable] = Cache(
            PLANTED_BYTES, lambda table: table.n_bytes
        )

    def n_plantable(self, rule: Rule) -> int:
        """Return how many queries are planted to support a rule."""
        n_vectors = sum(len(cascade.vectors) for cascade in self._cascades)
        wanted = max(_PLANTED, _MORE_THAN_NEEDED * rule.queries_needed)
        return min(wanted, _MOST_PLANTED, _PLANTED_SHARE * n_vectors)

    def table(self, similarity: float, rule: Rule, purpose: int) -> CalibrationTable:
        """Return the rows of queries planted at a similarity, drawn apart for each purpose."""
        n_queries = self.n_plantable(rule)
        seed = [self._seed, round(similarity * 1e9), purpose]
        return self._tables.get(
            (similarity, n_queries, purpose),
            lambda: planted_table(self._cascades, similarity, n_queries, seed),
        )


def planted_table(
    cascades: Sequence[Cascade], similarity: float, n_queries: int, seed: Sequence[int]
) -> CalibrationTable:
    """Return rows of queries y = αx + βz, x a member and z noise with the data's covariance."""
    rng = np.random.default_rng(list(seed))
    sizes = np.array([len(cascade.vectors) for cascade in cascades])
    shares = np.bincount(
        rng.choice(len(sizes), n_queries, p=sizes / sizes.sum()), minlength=len(sizes)
    )
    tables, first = [], 0
    for cascade, count in zip(cascades, shares.tolist(), strict=True):
        chosen = rng.integers(len(cascade.vectors), size=count)
        queries = _planted_queries(cascade.vectors, chosen, similarity, rng)
        seen = cascade, queries, np.arange(count), chosen
        scores, slopes = seen_by_stages(*seen, similarity)
        tables.append(
            CalibrationTable(
                np.arange(first, first + count),
                np.full(count, similarity),
                np.zeros(count, dtype=np.int64),
                cascade.keys[chosen],
                np.ones(count, dtype=np.float32),
                scores,
                slopes,
            )
        )
        first += count
        if len(cascades) > 1:  # of all together, a look here and there reads nearly everything
            forget_array(cascade.vectors.data)
    return tables[0] if len(tables) == 1 else CalibrationTable.merged(tables)


def _planted_queries(
    vectors: StoredRows, chosen: IntArray, similarity: float, rng: np.random.Generator
) -> Float32Array:
    """Return queries at a cosine of given members, the rest a random mixture of the data."""
    n_queries, dim = len(chosen), vectors.shape[1]
    # Weights that sum to zero leave out the common direction, which members have already.
    weights = rng.standard_normal((n_queries, _NOISE_TERMS))
    weights -= weights.mean(axis=1, keepdims=True)
    others = [rng.integers(len(vectors), size=n_queries) for _ in range(_NOISE_TERMS)]
    queries = np.empty((n_queries, dim), dtype=np.float32)
    for start, stop in blocks(n_queries, _BLOCK):
        members = vectors[chosen[start:stop]].astype(np.float64)
        noise = np.zeros_like(members)
        for term, mixed in enumerate(others):
            noise += weights[start:stop, term, np.newaxis] * vectors[mixed[start:stop]]
        noise = _orthogonal(noise, members, rng)
        planted = similarity * members + math.sqrt(1 - similarity**2) * noise
        queries[start:stop] = checks.unit_rows(planted, "queries", "calibration")
    return queries


def _orthogonal(
    noise: Float64Array, members: Float64Array, rng: np.random.Generator
) -> Float64Array:
    """Return the directions of the noise that are orthogonal to members."""
    noise -= np.einsum("ij,ij->i", noise, members)[:, np.newaxis] * members
    # Vectors that are all alike have no mixture but themselves.
    alike = np.linalg.norm(noise, axis=1) < _ALIKE
    noise[alike] = rng.standard_normal((int(alike.sum()), noise.shape[1]))
    noise -= np.einsum("ij,ij->i", noise, members)[:, np.newaxis] * members
    return np.asarray(noise / np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-12))
