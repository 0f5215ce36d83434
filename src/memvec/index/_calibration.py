"""How much slack a search needs, solved on the calibration table when it is asked for.

The slacks of all stages follow from one number λ, by a `ThresholdFamily`. Natural evidence, the
matches of the calibration queries, serves cells [a, a + 0.01) of similarities: λ is the smallest
with which the promise holds at every similarity of the cell, and the stages test at its lower end.
Where matches are too few, they are planted at the multiples of 0.05, and from 0.95 on at those of
0.01, each of which serves until the next. Ranges nest because a search also takes the lines of
thresholds of all higher similarities: a stage passes at a lower similarity all that it passes at a
higher one. A promise with high probability is solved at the similarities of its list, and takes the
lines of the expected one besides: what is found on average is found surely.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from memvec.guarantee import CalibrationTable, Certificate, Level, Rule, ThresholdFamily
from memvec.index._cascades import Cascade
from memvec.index._evidence import LARGEST_K, Evidence, planted_table
from memvec.index._lines import Lines
from memvec.kernels import MATCH_SLACK, blocks
from memvec.types import BoolArray, Float64Array

_CELL = 0.01
_PLANTED_CELL = 0.05
# From here on, planted cells are as small as the natural ones: the noise of a match, √(1 − α²),
# vanishes towards 1, and what a search needs there is also given to those at lower similarities.
_NEAR_COPIES = 0.95
# Queries planted: at most so many for each member, and more than a small miss rate needs.
_PLANTED, _MOST_PLANTED = 2000, 20_000
_PLANTED_SHARE = 4
_MORE_THAN_NEEDED = 2
# From this similarity on, copies are asked for, and every one of them is found.
_COPIES = 1.0 - MATCH_SLACK
_COPIES_BLOCK = 4096
# Pairs this much below a similarity are spare, if so many queries have some.
_SPARE_WIDTH = 0.1
_FEWEST_SPARE = 200
# What is planted for the family is drawn apart from what is planted for the promise.
_FOR_PROMISE, _FOR_FAMILY = 0, 1
# The table and the search add up in float32, in different order; this covers both, and costs
# nothing: it is a thousandth of a standard deviation.
_ROUNDING = 1e-3
# Answers that are kept, of each kind.
_MOST_KEPT = 1000
# So few vectors are rather visited than searched without a promise.
_FEW_VECTORS = 10_000


@dataclass(frozen=True, eq=False)
class Slack:
    """The lines of thresholds to search with, and what they promise."""

    lines: Lines
    certificate: Certificate

    @cached_property
    def is_natural(self) -> bool:
        """Whether the promise rests on calibration queries, which others can drift from."""
        return self.certificate.source in ("reserve", "queries")

    @cached_property
    def marked(self) -> Certificate:
        """The certificate for queries that have drifted from its evidence."""
        return replace(self.certificate, drifted=True)


@dataclass(frozen=True, eq=False)
class _Anchor:
    """λ for a cell of similarities, on some rows; the stages test at `at` or above."""

    at: float
    value: float
    rows: CalibrationTable
    natural: bool


@dataclass(eq=False)
class Calibration:
    """Solves for the slack of a search; what was solved is kept.

    Attributes
    ----------
    cascades : tuple of Cascade
        What is searched, as one.
    evidence : Evidence
        What promises rest on.
    designed_for : float
        The similarity of the build.
    similarities : tuple of float
        Those that "high_probability" is promised for, all at once.
    seed : int
        Fixes what is planted.
    """

    cascades: tuple[Cascade, ...]
    evidence: Evidence
    designed_for: float
    similarities: tuple[float, ...]
    seed: int
    _anchors: dict[tuple[float, Rule, bool], _Anchor] = field(default_factory=dict)
    _lines: dict[tuple[float, Rule], Lines | None] = field(default_factory=dict)
    _slacks: dict[tuple[float, Rule], Slack | None] = field(default_factory=dict)
    _families: dict[tuple[float, float, bool], ThresholdFamily] = field(default_factory=dict)
    _reached: dict[tuple[int, tuple[float, ...]], list[float]] = field(default_factory=dict)

    @property
    def table(self) -> CalibrationTable | None:
        """The matches of the calibration queries."""
        return self.evidence.table

    @cached_property
    def n_vectors(self) -> int:
        """Everything that is searched."""
        return sum(len(cascade.units.vectors) for cascade in self.cascades)

    def for_range(self, similarity: float, rule: Rule) -> Slack | None:
        """Return the slack for everything above a similarity; None where evidence is too little."""
        key = (similarity, rule)
        if key not in self._slacks:
            _forget_if_many(self._slacks)
            self._slacks[key] = self._solve_range(similarity, rule)
        return self._slacks[key]

    def by_model(self, similarity: float, miss_rate: float) -> Slack:
        """Return the slack of Gaussian noise alone, each stage with its share of the misses."""
        cascade = self.cascades[0]
        spreads = np.max([one.model_spreads(similarity) for one in self.cascades], axis=0)
        stages = _gaussian_slack(cascade.stage_shares, miss_rate) * spreads + _ROUNDING
        certificate = self._certificate("model", similarity, miss_rate, stages)
        return Slack(Lines.one(similarity, stages), certificate)

    def everything(self, similarity: float | None, miss_rate: float) -> Slack:
        """Return the slack that lets everything pass."""
        stages = np.full(len(self.cascades[0].stage_names), np.inf)
        certificate = self._certificate("exact", similarity, miss_rate, stages, complete=True)
        return Slack(Lines.one(similarity or 0.0, stages), certificate)

    @property
    def is_small(self) -> bool:
        """Whether a visit of everything costs next to nothing."""
        return self.n_vectors <= _FEW_VECTORS

    def joined(self, lines: Lines, others: Lines) -> Lines:
        """Return lines that pass what any of two sets of lines passes."""
        return lines.joined(others, self._least_slopes)

    def for_best(self, k: int, rule: Rule) -> Slack | None:
        """Return the slack for the k nearest vectors, at the similarity of the k-th."""
        key = (-float(k), rule)
        if key not in self._slacks:
            self._slacks[key] = self._solve_best(k, rule)
        return self._slacks[key]

    def kth_similarities(self, k: int, shares: tuple[float, ...]) -> list[float]:
        """Return what the k-th nearest vector reaches for these shares of calibration queries."""
        if self.table is None:
            return []
        key = (min(k, LARGEST_K), shares)
        if key not in self._reached:
            last = self.table.cosines[self.table.ranks == key[0] - 1]
            reached = np.quantile(last, 1 - np.array(shares)).tolist() if len(last) else []
            self._reached[key] = reached
        return self._reached[key]

    def n_calibration_queries(self, similarity: float) -> int:
        """Return how many calibration queries have a match at a similarity."""
        return 0 if self.table is None else self.table.above(similarity).n_queries

    def n_plantable(self, rule: Rule) -> int:
        """Return how many queries would be planted to support a rule."""
        wanted = max(_PLANTED, _MORE_THAN_NEEDED * rule.queries_needed)
        return min(wanted, _MOST_PLANTED, _PLANTED_SHARE * self.n_vectors)

    def _solve_range(self, similarity: float, rule: Rule) -> Slack | None:
        anchor = self._anchor(similarity, rule)
        lines = self._lines_from(similarity, anchor, rule)
        if lines is None:
            return None
        return Slack(lines, self._supported(similarity, lines, anchor, rule))

    def _lines_from(self, similarity: float, anchor: _Anchor, rule: Rule) -> Lines | None:
        """Return the lines of a cell, and of the points above it; None if evidence is too little.

        Those of a natural cell do not depend on the similarity within it, and are kept.
        """
        key = (anchor.at if anchor.natural else similarity, rule)
        if key not in self._lines:
            _forget_if_many(self._lines)
            self._lines[key] = self._solve_lines(similarity, anchor, rule)
        return self._lines[key]

    def _solve_lines(self, similarity: float, anchor: _Anchor, rule: Rule) -> Lines | None:
        if anchor.value == math.inf:
            return None
        at = [anchor.at if anchor.natural else similarity]
        slack = [self._family(anchor.at, rule, anchor.natural).slack(anchor.value)]
        for point in self._points_above(similarity, rule):
            family = self._family(point, rule, self._is_natural(point, rule))
            enough = self._covered(point, family, at, slack)
            value = self._value_above(point, enough, rule)
            if value == math.inf:
                return None
            if value > enough:
                at.append(point)
                slack.append(family.slack(value))
        given = np.array(slack) + _ROUNDING
        if similarity >= _COPIES:
            given = np.maximum(given, self._slack_of_copies)
        lines = Lines(np.array(at), given)
        return lines if rule.promise == "expected" else self._with_expected(lines, similarity, rule)

    def _with_expected(self, lines: Lines, similarity: float, rule: Rule) -> Lines:
        """Return lines that also pass what those of "expected" pass, which see every cell above."""
        expected = self.for_range(similarity, Rule("expected", rule.miss_rate))
        return lines if expected is None else self.joined(lines, expected.lines)

    def _supported(
        self, similarity: float, lines: Lines, anchor: _Anchor, rule: Rule
    ) -> Certificate:
        """Return what the evidence says about the lines as they will be used."""
        if anchor.natural:
            rows = anchor.rows.above(similarity)
            failed = ~lines.passes(rows.scores, rows.slopes)
        else:
            # Judged where they were planted, by the line that was solved for them.
            rows = anchor.rows
            failed = np.any(rows.needed(anchor.at) > lines.slack[0], axis=1)
        return self._on_evidence(similarity, lines, rows, failed, rule, planted=not anchor.natural)

    def _on_evidence(
        self,
        similarity: float | None,
        lines: Lines,
        rows: CalibrationTable,
        failed: BoolArray,
        rule: Rule,
        *,
        planted: bool,
    ) -> Certificate:
        missed, pair_miss = rows.missed(failed)
        n_matches = round(float(rows.copies.sum()))
        # What is planted elsewhere in the cell may be missed a little more often.
        bound = rule.miss_rate if planted else rule.bound(rows.n_queries, missed)
        return self._certificate(
            rule.promise,
            similarity,
            rule.miss_rate,
            lines.slack[0],
            bound=bound,
            confidence=rule.confidence if rule.promise == "high_probability" else None,
            n_queries=rows.n_queries,
            n_matches=n_matches,
            n_planted=n_matches if planted else 0,
            source="planted" if planted else self.evidence.source,
            observed=missed / rows.n_queries,
            pair_miss=pair_miss,
        )

    def _certificate(
        self,
        level: Level,
        similarity: float | None,
        miss_rate: float,
        stages: Float64Array,
        **evidence: object,
    ) -> Certificate:
        names = self.cascades[0].stage_names
        return Certificate(
            level,
            similarity,
            miss_rate,
            thresholds={
                n: float(s) for n, s, u in zip(names, stages, self._used, strict=True) if u
            },
            calibrated=self.evidence.calibrated,
            state=self.evidence.state,
            **evidence,  # type: ignore[arg-type]
        )

    def _points_above(self, similarity: float, rule: Rule) -> Iterator[float]:
        """Yield the points above a similarity that thresholds are solved at."""
        if rule.promise == "high_probability":
            yield from (other for other in self.similarities if other > similarity)
            return
        follows_natural = self._is_natural(similarity, rule)
        for step in range(_floor_step(similarity, _CELL) + 1, round(1 / _CELL)):
            point = _step_at(step, _CELL)
            natural = self._is_natural(point, rule)
            # Planted matches serve until the next cell of theirs.
            if natural or follows_natural or _is_multiple(point, _planted_cell(point)):
                yield point
            follows_natural = natural

    def _covered(
        self, point: float, family: ThresholdFamily, at: list[float], slack: list[Float64Array]
    ) -> float:
        """Return the most λ at a point with which nothing passes that the lines do not pass."""
        relief = np.outer(point - np.array(at), self._least_slopes)
        levels = family.levels(np.array(slack) + relief)
        return float(levels[:, family.used].min(axis=1).max())

    def _value_above(self, point: float, enough: float, rule: Rule) -> float:
        """Return λ of a higher point, or less than `enough` where that much will do."""
        natural = self._is_natural(point, rule)
        if natural and (self._lower_end(point, rule, natural), rule, natural) not in self._anchors:
            assert self.table is not None
            rows = self.table.above(point)
            needed = self._family(point, rule, natural).needed(rows, point)
            if rows.holds(needed, enough, rule.holds, _since(point, rule)):
                return -math.inf
        return self._anchor(point, rule).value

    def _anchor(self, similarity: float, rule: Rule) -> _Anchor:
        """Return λ of the cell that a similarity lies in."""
        natural = self._is_natural(similarity, rule)
        at = self._lower_end(similarity, rule, natural)
        key = (at, rule, natural)
        if key not in self._anchors:
            rows = self._rows(at, rule, natural)
            since = _since(at, rule) if natural else None
            needed = self._family(at, rule, natural).needed(rows, at)
            value = rows.solve(needed, rule.holds, since)
            self._anchors[key] = _Anchor(at, value, rows, natural)
        return self._anchors[key]

    @staticmethod
    def _lower_end(similarity: float, rule: Rule, natural: bool) -> float:
        if rule.promise == "high_probability":
            return similarity
        width = _CELL if natural else _planted_cell(similarity)
        return _step_at(_floor_step(similarity, width), width) or similarity

    def _rows(self, at: float, rule: Rule, natural: bool) -> CalibrationTable:
        if natural:
            assert self.table is not None
            return self.table.above(at)
        return self._planted(at, self.n_plantable(rule), _FOR_PROMISE)

    def _planted(self, similarity: float, n_queries: int, purpose: int) -> CalibrationTable:
        seed = [self.seed, round(similarity * 1e9), purpose]
        return planted_table(self.cascades, similarity, n_queries, seed)

    def _is_natural(self, similarity: float, rule: Rule) -> bool:
        """Tell whether enough calibration queries have matches all over a cell."""
        low = self._lower_end(similarity, rule, natural=True)
        if self.table is None or low < self.evidence.floor:
            return False
        highest = _since(low, rule) or low
        return self._n_queries_above(highest) >= rule.queries_needed

    def _n_queries_above(self, similarity: float) -> int:
        best = self._best_cosines
        return len(best) - int(np.searchsorted(best, similarity - MATCH_SLACK))

    @cached_property
    def _best_cosines(self) -> Float64Array:
        """The cosine of each calibration query's best match, rising."""
        assert self.table is not None
        best = np.full(int(self.table.queries.max(initial=-1)) + 1, -2.0)
        np.maximum.at(best, self.table.queries, self.table.cosines)
        return np.sort(best)

    def _solve_best(self, k: int, rule: Rule) -> Slack | None:
        if self.table is None or k > LARGEST_K:
            return None
        rows = self.table.nearest(k)
        last = np.full(int(rows.queries.max()) + 1, -1.0)
        last[rows.queries[rows.ranks == k - 1]] = rows.cosines[rows.ranks == k - 1]
        at = last[rows.queries]
        family = self._family(self.designed_for, rule, natural=True)
        value = rows.solve(family.needed(rows, at), rule.holds)
        if value == math.inf:
            return None
        lines = Lines.one(0.0, family.slack(value) + _ROUNDING)
        failed = np.any(rows.needed(at) > lines.slack, axis=1)
        certificate = self._on_evidence(None, lines, rows, failed, rule, planted=False)
        return Slack(lines, replace(certificate, k=k))

    def _family(self, similarity: float, rule: Rule, natural: bool) -> ThresholdFamily:
        """Return how strict the stages are against each other, for natural or planted evidence.

        It comes from pairs just short of a match, or from planted ones: not from those that set λ
        there. Outliers of their units matter more the nearer matches are, so that units need more
        room against codes at similarities above the build's; what is planted does not tell.
        """
        at = max(similarity, self.designed_for) if natural else self.designed_for
        key = (at, rule.miss_rate, natural)
        if key not in self._families:
            _forget_if_many(self._families)
            self._families[key] = self._solve_family(at, rule, natural)
        return self._families[key]

    def _solve_family(self, at: float, rule: Rule, natural: bool) -> ThresholdFamily:
        spare = None
        if natural and self.table is not None:
            spare = self.table.just_below(at, _SPARE_WIDTH)
        if spare is None or spare.n_queries < _FEWEST_SPARE:
            if at > self.designed_for:
                return self._family(self.designed_for, rule, natural)
            n_queries = self.n_plantable(Rule("expected", rule.miss_rate))
            spare = self._planted(at, n_queries, _FOR_FAMILY)
        shares = self.cascades[0].stage_shares
        most = np.max([one.most_slack for one in self.cascades], axis=0)
        return ThresholdFamily.of_pairs(spare, shares, most, rule.miss_rate)

    @cached_property
    def _used(self) -> BoolArray:
        """Which stages test anything."""
        return self.cascades[0].stage_shares > 0

    @cached_property
    def _least_slopes(self) -> Float64Array:
        """What a similarity lower by 1 is worth to every unit and member, at each stage."""
        return np.asarray(np.min([one.least_slopes for one in self.cascades], axis=0))

    @cached_property
    def _slack_of_copies(self) -> Float64Array:
        """The slack with which every vector finds itself."""
        most = np.full(len(self.cascades[0].stage_names), -np.inf)
        for cascade in self.cascades:
            vectors = cascade.units.vectors
            for start, stop in blocks(len(vectors), _COPIES_BLOCK):
                rows = np.arange(start, stop)
                scores, slopes = cascade.calibrate(vectors[start:stop], rows - start, rows)
                most = np.maximum(most, (slopes.astype(np.float64) - scores).max(axis=0))
        return most + _ROUNDING


def _forget_if_many(kept: dict[Any, Any]) -> None:
    """Make room: a service that asks for ever new similarities must not grow."""
    if len(kept) >= _MOST_KEPT:
        kept.clear()


def _since(point: float, rule: Rule) -> float | None:
    """Return where the cell of a point ends; a promise for a list of similarities has no cells."""
    return None if rule.promise == "high_probability" else point + _CELL


def _planted_cell(similarity: float) -> float:
    near = _floor_step(similarity, _CELL) >= round(_NEAR_COPIES / _CELL)
    return _CELL if near else _PLANTED_CELL


def _floor_step(similarity: float, width: float) -> int:
    return math.floor(similarity / width + 1e-9)


def _step_at(step: int, width: float) -> float:
    return round(step * width, 10)


def _is_multiple(point: float, width: float) -> bool:
    return abs(point / width - round(point / width)) < 1e-6


def _gaussian_slack(stage_shares: Float64Array, miss_rate: float) -> Float64Array:
    """Return −Φ⁻¹ of each stage's share of the miss rate; none for a stage without a share."""
    return np.where(stage_shares > 0, -special.ndtri(stage_shares * miss_rate), 0.0)


__all__ = ["Calibration", "Slack"]
