"""How much slack a search needs, solved on the calibration table when it is asked for.

The slacks of all stages follow from one number λ, by a `ThresholdFamily`. Natural evidence, the
matches of the calibration queries, serves cells of similarities (hundredths, and smaller ones near
1): λ is the smallest with which the promise holds at every similarity of the cell at which enough
queries have matches. The stages test at its lower end, or below it where few have. Where too few
have, matches are planted at the ends of wider cells, each of which serves until the next. Ranges
nest because a search also takes the lines of thresholds of all higher similarities: a stage passes
at a lower similarity all that it passes at a higher one. What those lines find anyway counts where
λ would follow a few queries: above the build's similarity. A promise with high probability is
solved at the similarities of its list, on natural evidence alone, and takes the lines of the
expected one besides: what is found on average is found surely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from memvec.cache import Cache
from memvec.guarantee._bounds import Rule
from memvec.guarantee._cascade import Cascade, joint_shares, seen_by_stages
from memvec.guarantee._cells import Cells, lower_end
from memvec.guarantee._certificate import Certificate, Level
from memvec.guarantee._evidence import LARGEST_K, Evidence, lowest_known
from memvec.guarantee._family import SPARE_WIDTH, Families, ThresholdFamily
from memvec.guarantee._needed import NeededSlack
from memvec.guarantee._nested import ROUNDING, Anchor, NestedLines
from memvec.guarantee._plan import Plan
from memvec.guarantee._planted_solutions import PlantedSolutions
from memvec.guarantee._planting import Planting
from memvec.guarantee._profile import MissProfile
from memvec.guarantee._table import CalibrationTable
from memvec.guarantee._thresholds import Thresholds
from memvec.kernels import MATCH_SLACK, blocks
from memvec.lazy import special
from memvec.types import BoolArray, Float64Array

# From this similarity on, copies are asked for, and every one of them is found.
_COPIES = 1.0 - MATCH_SLACK
_COPIES_BLOCK = 4096
# What is kept of each kind, in bytes: a thousand or more of what was solved.
_MOST_KEPT = 4 << 20
# The k-th nearest of this share of queries is above the similarity looked at first, second, ….
_SHARES = (0.5, 0.9, 0.99, 1.0)
# Where neighbours are as far as this, as a share of the similarity of the build, a look at the
# similarity of the build comes first.
_FAR = 0.5
# So few vectors are rather visited than searched without a promise.
_FEW_VECTORS = 10_000


def _plans() -> Cache[tuple[float, Rule], Plan | None]:
    return Cache(_MOST_KEPT, lambda plan: 0 if plan is None else plan.n_bytes)


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
    nested : bool
        Whether ranges nest; not where one similarity is all that is ever asked for.
    planted : PlantedSolutions
        What was solved on planted evidence.
    """

    cascades: tuple[Cascade, ...]
    evidence: Evidence
    designed_for: float
    similarities: tuple[float, ...]
    seed: int
    nested: bool = True
    planted: PlantedSolutions = field(default_factory=PlantedSolutions)
    _plans: Cache[tuple[float, Rule], Plan | None] = field(default_factory=_plans)
    _likely: Cache[int, tuple[float, ...]] = field(default_factory=lambda: Cache(_MOST_KEPT))

    @property
    def table(self) -> CalibrationTable | None:
        """The matches of the calibration queries."""
        return self.evidence.table

    @cached_property
    def n_vectors(self) -> int:
        """Everything that is searched."""
        return sum(len(cascade.vectors) for cascade in self.cascades)

    @cached_property
    def cells(self) -> Cells:
        """Which similarities are solved together, and on what evidence."""
        table, floor = self.table, self.evidence.floor
        best = None if table is None else table.best_cosines
        return Cells(best, floor, self.designed_for, self.similarities, self.nested)

    @cached_property
    def _planting(self) -> Planting:
        return Planting(self.cascades, self.seed)

    @cached_property
    def _families(self) -> Families:
        planted = self.planted.families
        return Families(self.cascades, self.table, self._planting, planted, self.designed_for)

    @cached_property
    def _nested_lines(self) -> NestedLines:
        evidence = self.cells, self.table, self._planting
        return NestedLines(*evidence, self._families, self.planted.values, self._least_slopes)

    def with_table(self, table: CalibrationTable) -> Calibration:
        """Return the calibration on other rows.

        What is planted rests on none, and is shared, and so is what was solved on it.
        """
        evidence = replace(self.evidence, table=table)
        made = Calibration(
            self.cascades,
            evidence,
            self.designed_for,
            self.similarities,
            self.seed,
            self.nested,
            self.planted,
        )
        made._planting = self._planting
        return made

    def family(self, similarity: float, miss_rate: float, *, natural: bool) -> ThresholdFamily:
        """Return how strict the stages are against each other at a similarity."""
        return self._families.at(similarity, miss_rate, natural)

    def for_range(self, similarity: float, rule: Rule) -> Plan | None:
        """Return the slack for everything above a similarity; None where evidence is too little."""
        return self._plans.get((similarity, rule), lambda: self._solve_range(similarity, rule))

    def by_model(self, similarity: float, miss_rate: float) -> Plan:
        """Return the slack of Gaussian noise alone, each stage with its share of the misses."""
        spreads = np.max([one.model_spreads(similarity) for one in self.cascades], axis=0)
        stages = _gaussian_slack(joint_shares(self.cascades), miss_rate) * spreads + ROUNDING
        certificate = self._certificate("model", similarity, miss_rate, stages)
        return Plan(Thresholds.one(similarity, stages), certificate)

    def everything(self, similarity: float | None, miss_rate: float) -> Plan:
        """Return the slack that lets everything pass."""
        stages = np.full(len(self.cascades[0].stage_names), np.inf)
        certificate = self._certificate("exact", similarity, miss_rate, stages, complete=True)
        return Plan(Thresholds.one(similarity or 0.0, stages), certificate)

    @property
    def is_small(self) -> bool:
        """Whether a visit of everything costs next to nothing."""
        return self.n_vectors <= _FEW_VECTORS

    def widened(self, plan: Plan, other: Plan) -> Plan:
        """Return a plan whose thresholds also pass what those of another pass."""
        assert plan.thresholds is not None
        return replace(plan, thresholds=self._joined(plan.thresholds, other))

    def _joined(self, lines: Thresholds, other: Plan) -> Thresholds:
        assert other.thresholds is not None
        return lines.joined(other.thresholds, self._least_slopes)

    def for_best(self, k: int, rule: Rule) -> Plan | None:
        """Return the slack for the k nearest vectors, at the similarity of the k-th."""
        return self._plans.get((-float(k), rule), lambda: self._solve_best(k, rule))

    def likely_similarities(self, k: int) -> tuple[float, ...]:
        """Return similarities that the k-th nearest is likely to reach, falling."""
        return self._likely.get(min(k, LARGEST_K), lambda: self._reached(min(k, LARGEST_K)))

    def _reached(self, k: int) -> tuple[float, ...]:
        if self.table is None:
            return ()
        last = self.table.cosines[self.table.ranks == k - 1]
        if not len(last):
            return ()
        reached: list[float] = np.quantile(last, 1 - np.array(_SHARES)).tolist()
        # Copies reach a little more than 1 in float32.
        tries = [min(similarity, 1.0) for similarity in reached if similarity > 0]
        if reached[0] < _FAR * self.designed_for:
            # A query may have what it was built for all the same, and that is seen quickly.
            tries.insert(0, self.designed_for)
        return tuple(tries)

    def n_calibration_queries(self, similarity: float) -> int:
        """Return how many calibration queries have a match at a similarity; 0 where unknown."""
        return self.cells.n_queries(similarity)

    def n_plantable(self, rule: Rule) -> int:
        """Return how many queries would be planted to support a rule."""
        return self._planting.n_plantable(rule)

    def _solve_range(self, similarity: float, rule: Rule) -> Plan | None:
        anchor = self._nested_lines.anchor(
            similarity, rule, self.cells.is_natural(similarity, rule)
        )
        lines = self._used_lines(similarity, rule, anchor.natural)
        if lines is None:
            return None
        needed = None
        if anchor.natural and math.isfinite(anchor.value):
            family = self.family(anchor.at, rule.miss_rate, natural=True)
            needed = NeededSlack(similarity, anchor.at, family, anchor.value)
        return Plan(lines, self._supported(similarity, lines, anchor, rule), needed=needed)

    def _used_lines(self, similarity: float, rule: Rule, natural: bool) -> Thresholds | None:
        """Return the lines of a range; None if evidence is too little."""
        lines = self._nested_lines.lines_from(similarity, rule, natural)
        if lines is None:
            return None
        if similarity >= _COPIES:
            lines = replace(lines, slack=np.maximum(lines.slack, self._slack_of_copies))
        return lines if rule.promise == "expected" else self._with_expected(lines, similarity, rule)

    def _with_expected(self, lines: Thresholds, similarity: float, rule: Rule) -> Thresholds:
        """Return lines that also pass what those of "expected" pass, which see every cell above."""
        expected = self.for_range(similarity, Rule("expected", rule.miss_rate))
        return lines if expected is None else self._joined(lines, expected)

    def _supported(
        self, similarity: float, lines: Thresholds, anchor: Anchor, rule: Rule
    ) -> Certificate:
        """Return what the evidence says about the lines as they will be used."""
        if anchor.natural:
            assert self.table is not None
            rows = self.table.above(similarity)
            failed = ~lines.passes(rows.scores, rows.slopes)
        else:
            # Judged where they were planted, by the lines that were solved for them.
            rows = self._nested_lines.planted_rows(anchor.cell, rule)
            solved = self._nested_lines.lines_from(anchor.cell, rule, False)
            assert solved is not None
            failed = ~solved.passes(rows.scores, rows.slopes)
        return self._on_evidence(similarity, lines, rows, failed, rule, planted=not anchor.natural)

    def _on_evidence(
        self,
        similarity: float | None,
        lines: Thresholds,
        rows: CalibrationTable,
        failed: BoolArray,
        rule: Rule,
        *,
        planted: bool,
    ) -> Certificate:
        missed, pair_miss = rows.missed(failed)
        n_queries, n_matches = rows.n_queries, round(float(rows.copies.sum()))
        source = "synthetic" if planted else self.evidence.source
        return self._certificate(
            rule.promise,
            similarity,
            rule.miss_rate,
            lines.slack[0],
            # What is planted elsewhere in the cell may be missed a little more often.
            bound=rule.miss_rate if planted else rule.bound(n_queries, missed),
            confidence=rule.confidence if rule.promise == "high_probability" else None,
            n_queries=n_queries,
            n_matches=n_matches,
            n_synthetic=n_matches if planted else 0,
            source=source,
            observed=missed / n_queries,
            pair_miss=pair_miss,
            left_out=0 if planted else self.evidence.left_out,
            interval=None if planted else rule.interval(n_queries, missed),
            estimated=similarity != lower_end(similarity or 0.0) and bool((rows.copies > 1).any()),
            profile=MissProfile.of_pairs(rows.queries, rows.cosines, failed, rows.copies),
            population=self.n_vectors if source == "reserve" else None,
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

    def _solve_best(self, k: int, rule: Rule) -> Plan | None:
        if self.table is None or k > LARGEST_K:
            return None
        rows = self.table.nearest(k)
        last = np.full(int(rows.queries.max()) + 1, -1.0)
        last[rows.queries[rows.ranks == k - 1]] = rows.cosines[rows.ranks == k - 1]
        at = last[rows.queries]
        family = self.family(self.designed_for, rule.miss_rate, natural=True)
        value = rows.solve(family.needed(rows, at), rule.holds)
        if value == math.inf:
            return None
        lines = Thresholds.one(0.0, family.slack(value) + ROUNDING)
        failed = np.any(rows.needed(at) > lines.slack, axis=1)
        certificate = self._on_evidence(None, lines, rows, failed, rule, planted=False)
        return Plan(lines, replace(certificate, k=k), self.likely_similarities(k))

    @cached_property
    def _used(self) -> BoolArray:
        """Which stages test anything."""
        return joint_shares(self.cascades) > 0

    @cached_property
    def _least_slopes(self) -> Float64Array:
        """What a similarity lower by 1 is worth to every unit and member, at each stage."""
        return np.asarray(np.min([one.least_slopes for one in self.cascades], axis=0))

    @cached_property
    def _slack_of_copies(self) -> Float64Array:
        """The slack with which every vector finds itself."""
        most = np.full(len(self.cascades[0].stage_names), -np.inf)
        for cascade in self.cascades:
            vectors = cascade.vectors
            for start, stop in blocks(len(vectors), _COPIES_BLOCK):
                rows = np.arange(start, stop)
                pairs = vectors[start:stop], rows - start, rows
                scores, slopes = seen_by_stages(cascade, *pairs, 1.0)
                most = np.maximum(most, (slopes.astype(np.float64) - scores).max(axis=0))
        return most + ROUNDING


def lowest_cosine(similarity: float) -> float:
    """Return the cosine below which no row of a table bears on ranges.

    The similarity is that of the build; searches for the k nearest need the other rows.
    """
    return min(lowest_known(similarity), similarity - SPARE_WIDTH) - MATCH_SLACK


def _gaussian_slack(stage_shares: Float64Array, miss_rate: float) -> Float64Array:
    """Return −Φ⁻¹ of each stage's share of the miss rate; none for a stage without a share."""
    return np.where(stage_shares > 0, -special.ndtri(stage_shares * miss_rate), 0.0)
