"""What k-means units would let pass, tried on a sample of the vectors: the design step reads it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memvec.codes import Projection
from memvec.guarantee import Thresholds
from memvec.index._config import IndexConfig
from memvec.index._encode import encode_units
from memvec.index._kmeans_design import Trial
from memvec.index._units import build_units
from memvec.kernels import CODE_STAGE, PREFIX_STAGE, StoredRows, UnitRows
from memvec.search import CodeUnits, Units
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Vectors of a sample, or as many as have so many entries, at most this share of all, and others
# that it is searched for. A trial of 384 dimensions takes 0.15 s of CPU.
_SAMPLE, _SAMPLE_ENTRIES, _SAMPLE_SHARE, _QUERIES = 4000, 1_500_000, 0.2, 512
# Where matches of these queries are looked for: a sample has too few of its own.
_POOL = 20_000
# Pairs count as matches down to this much below the similarity, so many a query at most. With fewer
# than so many pairs or vectors a trial would be a matter of luck.
_NEARLY, _PAIRS_EACH = 0.1, 4
_FEWEST_PAIRS, _SMALLEST_SAMPLE = 100, 500
# Rounds of k-means; the rest of them changes units little.
_ROUNDS = 4
# What tests of units, first words and whole codes may lose of the pairs. It is more than the miss
# rates that are usually asked for: less of so few pairs would be a matter of luck, too. Codes of
# members have Gaussian noise: the 0.4 and 0.07 % that calibration leaves them take so much more.
_LOST = (0.0, 0.02, 0.01, 0.01, 0.0)
_STRETCH = (1.0, 1.0, 1.15, 1.37, 1.0)


class Trials:
    """Tries kinds of k-means units on one sample of vectors.

    Parameters
    ----------
    rows : StoredRows of shape (n_vectors, dim)
        What is searched.
    among : ndarray of shape (n_drawn,)
        Rows that may be drawn: what is calibrated on is not among them.
    similarity : float
        What is asked for.
    seed : int
        Fixes the sample.

    Attributes
    ----------
    common : float
        ‖μ‖² of the sample's mean, less what it is for vectors without one.
    """

    def __init__(self, rows: StoredRows, among: IntArray, similarity: float, seed: int) -> None:
        rng = np.random.default_rng([seed, 5])
        drawn = rng.permutation(among)[: _QUERIES + _POOL]
        self._similarity = similarity
        self._tried: dict[IndexConfig, Trial] = {}
        self._built: tuple[IndexConfig, Units, UnitRows] | None = None
        self._queries, pool = rows[drawn[:_QUERIES]], rows[drawn[_QUERIES:]]
        affordable = max(2 * _SMALLEST_SAMPLE, _SAMPLE_ENTRIES // rows.shape[1])
        size = min(_SAMPLE, affordable, int(_SAMPLE_SHARE * len(rows)))
        self._rows, self._pairs = pool[:size], np.empty((0, 3))
        # How much of the pool is near each query.
        self._near_share = np.zeros(len(self._queries))
        some = rows[drawn[:_SAMPLE]]
        mean = some.mean(axis=0, dtype=np.float64)
        self.common = max(0.0, float(mean @ mean) - 1.0 / len(some))
        if size >= _SMALLEST_SAMPLE:
            pairs = self._near(pool, rng)
            # The sample holds all vectors of these pairs, and others.
            held = np.unique(pairs[:, 1].astype(np.int64))
            others = np.setdiff1d(np.arange(len(pool)), held)[: max(0, size - len(held))]
            self._rows = pool[np.concatenate([held, others])]
            self._pairs = pairs.copy()
            self._pairs[:, 1] = np.searchsorted(held, pairs[:, 1])
        # How many of the sample are near each query, those of its pairs among them.
        self._near_held = self._is_near(self._queries @ self._rows.T).sum(axis=1)

    @property
    def tell(self) -> bool:
        """Whether there are enough vectors and pairs to try anything."""
        return len(self._pairs) >= _FEWEST_PAIRS

    def of(self, config: IndexConfig) -> Trial:
        """Try a configuration in which everything is decided, without groups and batches."""
        if config not in self._tried:
            self._tried[config] = self._outcome(config)
        return self._tried[config]

    def _outcome(self, config: IndexConfig) -> Trial:
        made = replace(
            config,
            levels=1,
            group_size=config.unit_size,
            batch_size=None,
            iterations=min(_ROUNDS, config.iterations),
        )
        units, tested = self._units(made)
        cascade = encode_units(units, tested, self._similarity, made, False)
        needed, slack = self._slack(cascade)
        lines = Thresholds.one(self._similarity, slack)
        found = cascade.search(self._queries, self._similarity, lines, None)
        visited = found.spent[:, 1].mean()
        # Vectors that no unit stands for are visited always.
        untested = len(units.offsets) - 1 - units.n_tested
        passed = np.logical_and.accumulate(needed <= slack, axis=1)
        return Trial(
            len(self._rows),
            float(visited - untested) / units.n_tested,
            self._share(found.spent[:, 3], passed[:, PREFIX_STAGE]),
            self._share(found.spent[:, 4], passed[:, CODE_STAGE]),
        )

    def _share(self, counts: IntArray, passed: BoolArray) -> float:
        """Return the share of all vectors that pass, by how many of the sample do for each query.

        The sample holds more near vectors than others do: the pairs of a query stand for as many
        as are near in the pool, and what is not near in the sample for all others.
        """
        owner = self._pairs[:, 0].astype(np.int64)
        n_queries = len(self._queries)
        own = np.bincount(owner, minlength=n_queries)
        near = np.bincount(owner, passed, n_queries) / np.maximum(own, 1)
        n_others = np.maximum(1, len(self._rows) - self._near_held)
        others = np.clip((counts - near * self._near_held) / n_others, 0.0, 1.0)
        return float(np.mean(near * self._near_share + others * (1.0 - self._near_share)))

    def _units(self, config: IndexConfig) -> tuple[Units, UnitRows]:
        """Return units of a configuration; the last are kept, for other words of their codes."""
        kind = replace(config, unit_words="auto", member_words="auto")
        if self._built is not None and self._built[0] == kind:
            return self._built[1:]
        projection: Projection | None = None
        tested: UnitRows = self._rows
        if config.projects:
            projection = Projection.fit(
                self._rows, config.pca_dim, center=config.center is True, whiten=config.whiten
            )
            tested = projection.apply(self._rows)
        no_reserve = np.empty(0, dtype=np.int64)
        stored = StoredRows.of(self._rows)
        units, tested = build_units(stored, no_reserve, projection, tested, config, False)
        self._built = kind, units, tested
        return units, tested

    def _is_near(self, scores: Float32Array) -> BoolArray:
        """Tell which scores are those of a match, or nearly so."""
        return np.asarray(scores >= self._similarity - _NEARLY)

    def _near(self, pool: Float32Array, rng: np.random.Generator) -> Float64Array:
        """Return pairs that match or nearly so, one per row: query, place in the pool, cosine."""
        found = []
        for query, scores in enumerate(self._queries @ pool.T):
            near: IntArray = np.flatnonzero(self._is_near(scores))
            self._near_share[query] = len(near) / len(pool)
            some = rng.permutation(near)[:_PAIRS_EACH]
            found += [(query, place, scores[place]) for place in some.tolist()]
        return np.array(found, dtype=np.float64).reshape(-1, 3)

    def _slack(self, cascade: CodeUnits) -> tuple[Float64Array, Float64Array]:
        """Return what each pair needs to pass each stage, and what is given to the stage.

        With that slack, each stage loses its share of the pairs at their own cosine.
        """
        queries, members = (self._pairs[:, column].astype(np.int64) for column in (0, 1))
        rows = cascade.units.places[members].astype(np.int64)
        scores, slopes = cascade.see(self._queries, queries, rows)
        # Those that are not tested need nothing.
        own, asked = (
            np.where(np.isfinite(needed), needed, -np.inf)
            for needed in (at * slopes - scores for at in (self._pairs[:, 2:], self._similarity))
        )
        slack = np.array(
            [
                stretch * np.quantile(own[:, stage], 1 - lost, method="higher")
                for stage, (lost, stretch) in enumerate(zip(_LOST, _STRETCH, strict=True))
            ]
        )
        slack = np.where(np.isfinite(slack), slack, 0.0)
        return asked, np.minimum(slack, cascade.most_slack)
