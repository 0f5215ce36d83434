"""Promises judged on a calibration table: some queries set the thresholds, the others judge them.

A table tells of each match whether given thresholds let it pass, so that a promise can be tried on
hundreds of draws of calibration queries without a search. Given the pool of queries, those that
calibrate and those that judge are exchangeable: what "expected" promises holds over the draws.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memvec import Index
from memvec.guarantee import Calibration, CalibrationTable, Rule, Thresholds, build_table
from memvec.kernels import blocks
from memvec.types import BoolArray, Float32Array, Float64Array, IntArray

# Queries whose hundred nearest vectors are in memory at once.
_QUERIES_AT_ONCE = 4096
# Draws that judge "model", whose thresholds are the same for all of them.
_MODEL_DRAWS = 10
# Thresholds for a similarity rest on rows this much below it, too.
_BELOW = 0.1


@dataclass(frozen=True)
class OracleRule(Rule):
    """What queries must satisfy that are themselves judged: their own miss rate is ε at most."""

    def holds(self, n_queries: Float64Array, missed: Float64Array) -> BoolArray:
        return np.asarray(missed <= self.miss_rate * np.asarray(n_queries) + 1e-9)


@dataclass(frozen=True, eq=False)
class Draw:
    """One split of the pool.

    Attributes
    ----------
    calibration : Calibration
        Of the queries that set thresholds.
    judges : CalibrationTable
        The matches of the others, at the similarity asked for.
    """

    calibration: Calibration
    judges: CalibrationTable
    similarity: float

    def lines(self, level: str, miss_rate: float) -> Thresholds:
        """Return the thresholds of a level; "oracle" takes the best that hold for the judges."""
        if level == "model":
            return self.calibration.by_model(self.similarity, miss_rate).thresholds
        if level == "oracle":
            return self._oracle(miss_rate)
        rule = Rule(level, miss_rate)  # type: ignore[arg-type]
        slack = self.calibration.for_range(self.similarity, rule)
        if slack is None or slack.certificate.synthetic:
            raise ValueError(f"Too few of the queries have matches for {rule}.")
        return slack.thresholds

    def _oracle(self, miss_rate: float) -> Thresholds:
        solver, rule = self.calibration, OracleRule("expected", miss_rate)
        family = solver.family(self.similarity, rule.miss_rate, natural=True)
        value = self.judges.solve(family.needed(self.judges, self.similarity), rule.holds)
        return Thresholds.one(self.similarity, family.slack(value))

    def missed(self, lines: Thresholds) -> float:
        """Return the miss rate of the judges."""
        return miss_rate_of(self.judges, lines)


def miss_rate_of(rows: CalibrationTable, lines: Thresholds) -> float:
    """Return the mean share of a query's rows that thresholds do not let pass."""
    # Most rows pass by the first line, and need no other.
    first = Thresholds(lines.at[:1], lines.slack[:1])
    failed = ~first.passes(rows.scores, rows.slopes)
    failed[failed] = ~lines.passes(rows.scores[failed], rows.slopes[failed])
    return rows.missed(failed)[0] / float(rows.weights.sum())


@dataclass(frozen=True)
class Held:
    """What was missed over draws.

    Attributes
    ----------
    asked : float
        ε.
    missed : tuple of float
        The miss rate of each draw's judges.
    """

    asked: float
    missed: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the draws."""
        return float(np.mean(self.missed))

    @property
    def standard_error(self) -> float:
        """Of the mean, over draws of one pool."""
        return float(np.std(self.missed, ddof=1) / np.sqrt(len(self.missed)))

    @property
    def above(self) -> float:
        """The share of draws that miss more than was asked."""
        return float(np.mean(np.array(self.missed) > self.asked))


@dataclass(frozen=True, eq=False)
class Pool:
    """An index with the rows of many queries.

    Attributes
    ----------
    index : Index
        What is judged.
    table : CalibrationTable
        The matches of the pool's queries, down to 0.1 below the similarity or as far as they are
        looked for.
    similarity : float
        What is asked for.
    """

    index: Index
    table: CalibrationTable
    similarity: float

    @classmethod
    def of(cls, index: Index, queries: Float32Array) -> Pool:
        """Return the pool of queries at the similarity that an index is built for."""
        similarity = index.design.similarity
        tables = [
            _rows_of(index, queries[start:stop], start)
            for start, stop in blocks(len(queries), _QUERIES_AT_ONCE)
        ]
        return cls(index, CalibrationTable.merged(tables), similarity)

    @cached_property
    def matches(self) -> CalibrationTable:
        """The rows that match at the similarity."""
        return self.table.above(self.similarity)

    @cached_property
    def matched(self) -> IntArray:
        """The queries that have matches, in order."""
        return np.unique(self.matches.queries)

    def draws(self, n_draws: int, n_calibrating: int, seed: int = 0) -> Iterator[Draw]:
        """Yield splits: so many queries with matches calibrate, and all others judge."""
        rng = np.random.default_rng(seed)
        matched = self.matched
        for _ in range(n_draws):
            chosen = rng.choice(matched, n_calibrating, replace=False)
            calibrates = np.zeros(int(self.table.queries.max()) + 1, dtype=bool)
            calibrates[chosen] = True
            yield self.draw(self.table.rows(calibrates[self.table.queries]), ~calibrates)

    def draw(self, rows: CalibrationTable, judging: BoolArray) -> Draw:
        """Return the split that calibrates on given rows, judged by given queries."""
        judges = self.matches.rows(judging[self.matches.queries])
        return Draw(self.calibration(rows), judges, self.similarity)

    def calibration(self, rows: CalibrationTable) -> Calibration:
        """Return the calibration of the index on given rows instead of its own."""
        return self._own.with_table(rows)

    @cached_property
    def _own(self) -> Calibration:
        index, design = self.index, self.index.design
        cascades, seed = (index.units.cascade,), index.config.seed
        return Calibration(cascades, index.evidence, design.similarity, design.similarities, seed)


def _rows_of(index: Index, queries: Float32Array, first: int) -> CalibrationTable:
    similarity = index.design.similarity
    table = build_table(index.units.cascade, queries, None, similarity, False)
    lowest = max(index.evidence.floor, similarity - _BELOW)
    # The hundred nearest are in a table even where they are far away.
    kept = table.rows(table.cosines >= lowest)
    return dataclasses.replace(kept, queries=kept.queries + first)


def held(
    pool: Pool, levels: Sequence[str], rates: Sequence[float], n_draws: int, n_calibrating: int
) -> dict[tuple[str, float], Held]:
    """Return what each level misses at each miss rate, over draws of calibration queries."""
    missed: dict[tuple[str, float], list[float]] = {
        (level, rate): [] for level in levels for rate in rates
    }
    for number, draw in enumerate(pool.draws(n_draws, n_calibrating)):
        for (level, rate), of in missed.items():
            # The paper's law looks at no query, and takes much time to judge on so many.
            if level != "model" or number < _MODEL_DRAWS:
                of.append(draw.missed(draw.lines(level, rate)))
    return {(level, rate): Held(rate, tuple(of)) for (level, rate), of in missed.items()}
