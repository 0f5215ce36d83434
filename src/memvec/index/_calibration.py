"""How much slack a search needs: solved on the matches of vectors that no unit has seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import special

from memvec import checks
from memvec.evaluation import exact_range, exact_top_k
from memvec.guarantee import CalibrationTable, Certificate
from memvec.index._cascades import Cascade
from memvec.kernels import MATCH_SLACK, blocks
from memvec.types import Float32Array, Float64Array, IntArray

# The reserve: at most so many vectors, and this share of the data; fewer than 100 say too little.
_LARGEST_RESERVE = 2000
_RESERVE_SHARE = 0.05
_SMALLEST_RESERVE = 100
# Products spent on finding the matches of the reserve; 10¹² take about ten seconds.
_GROUND_TRUTH_PRODUCTS = 1e12
# Matches below this share of the similarity asked at the build are not looked for.
_LOWEST_SHARE = 0.75
# Ranks that are calibrated for top-k searches.
LARGEST_K = 100
# Matches drawn of a query that has many, besides its nearest: a table stays under 10⁶ rows.
_DRAWN_MATCHES = 400
_CROWDED_PAIRS = 20_000_000
# Queries planted where the reserve has too few matches, at most so many for each member.
_PLANTED = 2000
_PLANTED_SHARE = 4
# Vectors in the noise of a planted query: enough for its law to be that of the data.
_NOISE_TERMS = 8
# From this similarity on, copies are asked for, and every one of them is found.
_COPIES = 1.0 - MATCH_SLACK
_COPIES_BLOCK = 4096
# Ranges nest where the higher similarity is a multiple of this.
_LATTICE = 0.05
# Pairs this much below a similarity are spare, if so many queries have some.
_SPARE_WIDTH = 0.1
_FEWEST_SPARE = 200
# What is planted for the direction is drawn apart from what is planted for the promise.
_FOR_PROMISE, _FOR_DIRECTION = 0, 1
# A stage that hardly misses anything is still given this much, in standard deviations.
_LEAST_DIRECTION = 0.5
# The table and the search add up in float32, in different order; this covers both, and costs
# nothing: it is a thousandth of a standard deviation.
_ROUNDING = 1e-3
# No stage is ever given more slack than this, in standard deviations.
_LARGEST_RELIEF = 8.0


def reserve_size(n_vectors: int, dim: int) -> int:
    """Return how many vectors to keep out of the units."""
    affordable = int(_GROUND_TRUTH_PRODUCTS / (n_vectors * dim))
    size = min(_LARGEST_RESERVE, int(_RESERVE_SHARE * n_vectors), affordable)
    return size if size >= _SMALLEST_RESERVE else 0


def build_table(
    cascade: Cascade, queries: Float32Array, own: IntArray, similarity: float, progress: bool | None
) -> CalibrationTable:
    """Find the matches of calibration queries, and what the stages see of them.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, dim)
        The calibration queries.
    own : ndarray of shape (n_queries,)
        Their rows among the members, which are no matches of theirs.
    similarity : float
        Matches down to three quarters of it are looked for.
    """
    vectors = cascade.units.vectors
    rng = np.random.default_rng(len(vectors))
    k = min(LARGEST_K, len(vectors) - 1)
    top = exact_top_k(vectors, queries, k, exclude=own, progress=progress)
    found = [_Matches(*pair, np.ones(k, dtype=np.float32)) for pair in zip(*top, strict=True)]
    floor = _LOWEST_SHARE * similarity
    crowded = np.flatnonzero(top.scores[:, -1] >= floor)
    # So many queries at a time that memory suffices if they match everything.
    for start, stop in blocks(len(crowded), max(1, _CROWDED_PAIRS // len(vectors))):
        some = crowded[start:stop]
        more = exact_range(vectors, queries[some], floor, exclude=own[some], progress=progress)
        for query, row in zip(some, more, strict=True):
            found[query] = _thinned(row.ids, row.scores, rng)
    sizes = np.array([len(one.rows) for one in found])
    query_of = np.repeat(np.arange(len(queries)), sizes)
    row_of = np.concatenate([one.rows for one in found])
    seen, slopes = cascade.calibrate(queries, query_of, row_of)
    return CalibrationTable(
        queries=query_of,
        cosines=np.concatenate([one.cosines for one in found]).astype(np.float64),
        ranks=np.concatenate([np.arange(size) for size in sizes]),
        keys=cascade.units.keys[row_of],
        copies=np.concatenate([one.copies for one in found]),
        scores=seen,
        slopes=slopes,
    )


class _Matches(NamedTuple):
    """The matches of one calibration query, the nearest first."""

    rows: IntArray
    cosines: Float32Array
    copies: Float32Array


def _thinned(rows: IntArray, cosines: Float32Array, rng: np.random.Generator) -> _Matches:
    """Keep the nearest matches, and of the others some that stand for all of them."""
    copies = np.ones(len(rows), dtype=np.float32)
    n_others = len(rows) - LARGEST_K
    if n_others <= _DRAWN_MATCHES:
        return _Matches(rows, cosines, copies)
    drawn = LARGEST_K + np.sort(rng.choice(n_others, _DRAWN_MATCHES, replace=False))
    copies[drawn] = n_others / _DRAWN_MATCHES
    kept = np.concatenate([np.arange(LARGEST_K), drawn])
    return _Matches(rows[kept], cosines[kept], copies[kept])


@dataclass(frozen=True, eq=False)
class Slack:
    """The slack of each stage to search with, and what it promises."""

    stages: Float64Array
    certificate: Certificate


@dataclass(eq=False)
class Calibration:
    """Solves for the slack of a search; what was solved is kept.

    Pairs just short of a match choose the direction, how strict the stages are against each
    other; matches set how strict they are together, so that the promise holds.

    Attributes
    ----------
    cascade : Cascade
        What is searched.
    table : CalibrationTable or None
        The rows of the reserve, if there is one.
    designed_for : float
        The similarity of the build. Under three quarters of it, not all matches of the reserve
        were looked for.
    seed : int
        Fixes what is planted.
    """

    cascade: Cascade
    table: CalibrationTable | None
    designed_for: float
    seed: int
    _solved: dict[tuple[str, float, float], Slack] = field(default_factory=dict)

    def for_range(self, similarity: float, miss_rate: float) -> Slack:
        """Return the slack for everything above a similarity."""
        key = ("range", similarity, miss_rate)
        if key not in self._solved:
            own = self._solve_range(similarity, miss_rate)
            stages = own.stages
            if similarity >= _COPIES:
                stages = np.maximum(stages, self._slack_of_copies())
            # At least what a higher similarity is given, less what the lower one is worth to every
            # unit: ranges nest.
            for higher in _lattice_above(similarity):
                relief = (higher - similarity) * self.cascade.least_slopes
                if relief.min() < _LARGEST_RELIEF:
                    above = self._solve_range(higher, miss_rate)
                    stages = np.maximum(stages, above.stages - relief)
            self._solved[key] = Slack(stages, own.certificate)
        return self._solved[key]

    def by_model(self, similarity: float, miss_rate: float) -> Slack:
        """Return the slack of Gaussian noise alone, each stage with its share of the misses."""
        cascade = self.cascade
        stages = _gaussian_slack(cascade.stage_shares, miss_rate) * cascade.model_spreads(
            similarity
        )
        return Slack(stages + _ROUNDING, Certificate("model", miss_rate))

    def for_best(self, k: int, miss_rate: float) -> Slack:
        """Return the slack for the k nearest vectors, at the similarity of the k-th."""
        key = ("best", float(k), miss_rate)
        if key not in self._solved:
            self._solved[key] = self._solve_best(k, miss_rate)
        return self._solved[key]

    def likely_kth_similarity(self, k: int, share: float) -> float:
        """Return a similarity that the k-th nearest vector reaches for this share of queries."""
        if self.table is None:
            return -1.0
        last = self.table.cosines[self.table.ranks == min(k, LARGEST_K) - 1]
        return float(np.quantile(last, 1 - share)) if len(last) else -1.0

    def _solve_range(self, similarity: float, miss_rate: float) -> Slack:
        key = ("alone", similarity, miss_rate)
        if key not in self._solved:
            rows, spare = self._natural(similarity, miss_rate)
            planted = rows is None
            if rows is None:
                rows = self._planted(similarity, _FOR_PROMISE)
            if spare is None:
                spare = self._planted(similarity, _FOR_DIRECTION)
            needed = rows.needed(similarity)
            self._solved[key] = self._solve(rows, needed, spare, miss_rate, planted)
        return self._solved[key]

    def _solve_best(self, k: int, miss_rate: float) -> Slack:
        if self.table is None or k > LARGEST_K:
            return self._everything()
        rows, spare = self.table.nearest(k), self.table.beyond(k)
        last = np.full(int(rows.queries.max()) + 1, -1.0)
        last[rows.queries[rows.ranks == k - 1]] = rows.cosines[rows.ranks == k - 1]
        needed = rows.needed(last[rows.queries])
        return self._solve(rows, needed, spare, miss_rate, planted=False)

    def _solve(
        self,
        rows: CalibrationTable,
        needed: Float64Array,
        spare: CalibrationTable,
        miss_rate: float,
        planted: bool,
    ) -> Slack:
        """Choose the direction on spare pairs, and λ on the rows that are to be found."""
        direction = _direction(spare, self.cascade.stage_shares, miss_rate)
        value = rows.solve((needed / direction).max(axis=1, initial=-np.inf), miss_rate)
        if value == math.inf:
            return self._everything()
        certificate = Certificate("expected", miss_rate, rows.n_queries, len(rows), planted)
        return Slack(value * direction + _ROUNDING, certificate)

    def _natural(
        self, similarity: float, miss_rate: float
    ) -> tuple[CalibrationTable | None, CalibrationTable | None]:
        """Return the reserve's matches and its pairs just below, each where they are enough."""
        if self.table is None or similarity < _LOWEST_SHARE * self.designed_for:
            return None, None
        rows = self.table.above(similarity)
        spare = self.table.just_below(similarity, _SPARE_WIDTH)
        return (
            rows if rows.n_queries >= 1 / miss_rate - 1 else None,
            spare if spare.n_queries >= _FEWEST_SPARE else None,
        )

    def _slack_of_copies(self) -> Float64Array:
        """Return the slack with which every vector finds itself."""
        vectors = self.cascade.units.vectors
        most = np.full(len(self.cascade.least_slopes), -np.inf)
        for start, stop in blocks(len(vectors), _COPIES_BLOCK):
            rows = np.arange(start, stop)
            scores, slopes = self.cascade.calibrate(vectors[start:stop], rows - start, rows)
            most = np.maximum(most, (slopes.astype(np.float64) - scores).max(axis=0))
        return most + _ROUNDING

    def _everything(self) -> Slack:
        n_stages = len(self.cascade.least_slopes)
        return Slack(np.full(n_stages, np.inf), Certificate("exact", 0.0))

    def _planted(self, similarity: float, purpose: int) -> CalibrationTable:
        """Return rows of queries y = αx + βz, x a member and z noise with the data's covariance."""
        units = self.cascade.units
        n_members = len(units.vectors)
        rng = np.random.default_rng([self.seed, round(similarity * 1e9), purpose])
        n_queries = min(_PLANTED, _PLANTED_SHARE * n_members)
        chosen = rng.integers(n_members, size=n_queries)
        queries = _planted_queries(units.vectors, chosen, similarity, rng)
        query_of = np.arange(n_queries)
        scores, slopes = self.cascade.calibrate(queries, query_of, chosen)
        return CalibrationTable(
            query_of,
            np.full(n_queries, similarity),
            np.zeros(n_queries, dtype=np.int64),
            units.keys[chosen],
            np.ones(n_queries, dtype=np.float32),
            scores,
            slopes,
        )


def _direction(
    spare: CalibrationTable, stage_shares: Float64Array, miss_rate: float
) -> Float64Array:
    """Return the slack with which each stage by itself would miss its share of the miss rate."""
    if len(spare) == 0:
        return np.maximum(_gaussian_slack(stage_shares, miss_rate), _LEAST_DIRECTION)
    needed = spare.needed(spare.cosines)
    quantiles = [
        spare.quantile(needed[:, stage], share * miss_rate)
        for stage, share in enumerate(stage_shares)
    ]
    return np.maximum(quantiles, _LEAST_DIRECTION)


def _gaussian_slack(stage_shares: Float64Array, miss_rate: float) -> Float64Array:
    """Return −Φ⁻¹ of each stage's share of the miss rate; none for a stage without a share."""
    return np.where(stage_shares > 0, -special.ndtri(stage_shares * miss_rate), 0.0)


def _lattice_above(similarity: float) -> Float64Array:
    steps = np.arange(1, round(1 / _LATTICE) + 1) * _LATTICE
    return np.round(steps[steps > similarity + 1e-9], 10)


def _planted_queries(
    vectors: Float32Array, chosen: IntArray, similarity: float, rng: np.random.Generator
) -> Float32Array:
    """Return queries at a cosine of given members, the rest a random mixture of the data."""
    members = vectors[chosen].astype(np.float64)
    noise = np.zeros_like(members)
    # Weights that sum to zero leave out the common direction, which members have already.
    weights = rng.standard_normal((len(chosen), _NOISE_TERMS))
    weights -= weights.mean(axis=1, keepdims=True)
    for term in range(_NOISE_TERMS):
        others = vectors[rng.integers(len(vectors), size=len(chosen))]
        noise += weights[:, term, np.newaxis] * others
    noise -= np.einsum("ij,ij->i", noise, members)[:, np.newaxis] * members
    noise /= np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-12)
    queries = similarity * members + math.sqrt(1 - similarity**2) * noise
    return checks.unit_rows(queries, "queries", "calibration")


__all__ = ["LARGEST_K", "Calibration", "Slack", "build_table", "reserve_size"]
