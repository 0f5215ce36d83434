"""The stream in units: waiting vectors, tested by memory vectors that are kept up to date."""

from __future__ import annotations

import threading
from statistics import NormalDist

import numpy as np

from memvec.collection._state import Part
from memvec.collection._waiting import Waiting
from memvec.constructions import OnlineUnit
from memvec.kernels import score_units
from memvec.matches import Matches
from memvec.search import PlainRows, StageView
from memvec.theory import MatchLaw
from memvec.types import BoolArray, Float32Array, Float64Array

UNIT_SIZE = 10
# Units that take vectors at the same time: what comes one after the other is put apart.
_OPEN_AT_ONCE = 16
# Of scores in float32.
_ROUNDING = 1e-5


class OpenUnits:
    """Units that follow the waiting vectors of a collection (the paper's online indexing).

    Each vector goes into one of the units that have room, at random. A query visits the units whose
    score reaches τ = αa + Φ⁻¹(ε)σ, the paper's law of the score of a match with a unit of mean a
    and spread σ.

    Parameters
    ----------
    dim : int
        Dimension of the vectors.
    unit_size : int
        Vectors that a unit has room for.
    seed : int
        Fixes the random assignment.
    """

    def __init__(self, dim: int, unit_size: int, seed: int) -> None:
        self._dim, self._unit_size, self._seed = dim, unit_size, seed
        self._lock = threading.Lock()
        self._restart()

    def _restart(self) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._units: list[OnlineUnit] = []
        self._taken: list[int] = []
        self._open: list[int] = []
        self._unit_of: dict[int, int] = {}
        self._changed: set[int] = set()
        self._vectors = np.empty((0, self._dim), dtype=np.float32)
        self._means = self._variances = np.empty(0)

    def __len__(self) -> int:
        return len(self._units)

    def search(
        self,
        part: Part[Waiting],
        queries: Float32Array,
        similarity: float,
        miss_rate: float,
        threads: int | None,
        allowed: BoolArray,
    ) -> Matches:
        """Return the matches among the members of the units that each query visits, by row."""
        with self._lock:
            self._follow(part)
            units = [self._unit_of.get(key, -1) for key in part.keys.tolist()]
            unit_of = np.array(units, dtype=np.int64)
            law, scores = self._law(), self._scores(queries)
        rows, answers = PlainRows(part.rows.rows), []
        for query, visited in enumerate(scores >= _thresholds(law, similarity, miss_rate)):
            chosen = allowed & np.append(visited, False)[unit_of]
            row = queries[query : query + 1]
            answers.append(rows.compare_all(row, similarity, threads, chosen))
            answers[-1].spent[0, :2] = len(visited), visited.sum()
        return Matches.stacked(answers)

    def stages(
        self,
        part: Part[Waiting],
        query: Float32Array,
        row: int,
        similarity: float,
        miss_rate: float,
    ) -> tuple[StageView, ...]:
        """Return what the unit of a waiting vector tells of it and a query."""
        with self._lock:
            self._follow(part)
            unit = self._unit_of[int(part.keys[row])]
            law, scores = self._law(), self._scores(query[np.newaxis])
        # In units of the similarity. Members that cancel each other out have a mean of 0.
        mean = float(law.means[unit])
        scale = mean if mean > 0 else 1.0
        threshold = float(_thresholds(law, similarity, miss_rate)[unit])
        spread = float(law.spread(similarity)[unit])
        score = float(scores[0, unit])
        return (StageView("unit", score / scale, threshold / scale, spread / scale),)

    def _law(self) -> MatchLaw:
        squared = (self._vectors**2).sum(axis=1)
        return MatchLaw.of_units(self._means, self._variances, squared, self._dim)

    def _scores(self, queries: Float32Array) -> Float32Array:
        scores = np.empty((len(queries), len(self._units)), dtype=np.float32)
        for query, row in zip(queries, scores, strict=True):
            score_units(query, self._vectors, row)
        return scores

    def _follow(self, part: Part[Waiting]) -> None:
        """Take in what has come, and forget what was deleted or sealed."""
        alive = dict(zip(part.keys[part.alive].tolist(), np.flatnonzero(part.alive), strict=True))
        gone = self._unit_of.keys() - alive.keys()
        still_here, rows = part.find(np.array(sorted(gone), dtype=np.int64))
        if still_here.all():
            for row in rows:
                self._forget(int(part.keys[row]), part.rows.rows[row])
        else:  # sealed
            self._restart()
        for key, row in alive.items():
            if key not in self._unit_of:
                self._put(key, part.rows.rows[row])
        self._measure()

    def _put(self, key: int, vector: Float32Array) -> None:
        while len(self._open) < _OPEN_AT_ONCE:
            self._open.append(len(self._units))
            self._units.append(OnlineUnit(self._dim))
            self._taken.append(0)
        place = int(self._rng.integers(len(self._open)))
        unit = self._open[place]
        self._units[unit].add(vector)
        self._taken[unit] += 1
        self._unit_of[key] = unit
        self._changed.add(unit)
        if self._taken[unit] == self._unit_size:
            del self._open[place]

    def _forget(self, key: int, vector: Float32Array) -> None:
        """Take a deleted vector out of its unit."""
        unit = self._unit_of.pop(key)
        self._units[unit].remove(vector)
        self._changed.add(unit)

    def _measure(self) -> None:
        """Look again at the units that have changed."""
        n_more = len(self._units) - len(self._vectors)
        if n_more:
            empty = np.zeros((n_more, self._dim), dtype=np.float32)
            self._vectors = np.concatenate([self._vectors, empty])
            self._means = np.concatenate([self._means, np.zeros(n_more)])
            self._variances = np.concatenate([self._variances, np.zeros(n_more)])
        for unit in self._changed:
            self._vectors[unit] = self._units[unit].vector
            scores = self._units[unit].vectors @ self._vectors[unit]
            self._means[unit] = scores.mean() if len(scores) else 0.0
            self._variances[unit] = scores.var() if len(scores) else 0.0
        self._changed.clear()


def _thresholds(law: MatchLaw, similarity: float, miss_rate: float) -> Float64Array:
    """Return τ of each unit, less what rounding may take."""
    quantile = NormalDist().inv_cdf(miss_rate)
    return np.asarray(similarity * law.means + quantile * law.spread(similarity) - _ROUNDING)
