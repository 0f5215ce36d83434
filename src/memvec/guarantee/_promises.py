"""From what a search asks for to the plan that keeps the promise, or to a lower promise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from memvec import checks
from memvec.cache import Cache
from memvec.errors import InvalidValueError
from memvec.guarantee._bounds import Rule
from memvec.guarantee._calibration import Calibration
from memvec.guarantee._evidence import LARGEST_K
from memvec.guarantee._needed import NeededSlack
from memvec.guarantee._plan import Plan, complete_plan
from memvec.guarantee._planting import PLANTED_BYTES
from memvec.guarantee._solved import KeptRanges
from memvec.kernels import MATCH_SLACK
from memvec.types import Float64Array

# Answers that are kept, in bytes: a thousand or more.
_MOST_KEPT = 4 << 20
# Ranges are solved before they are asked for at similarities of so many to one.
_AHEAD = 20

Guarantee = Literal["model", "expected", "high_probability", "exact"]


class Request(NamedTuple):
    """What a search asks for.

    Attributes
    ----------
    miss_rate : float
        ε.
    guarantee : {"model", "expected", "high_probability", "exact"}
        The level.
    confidence : float
        1 − δ of "high_probability".
    explicit : bool
        Whether the search named the level. Then it is kept or refused; the level of the build is
        lowered where there is too little evidence, and the certificate names the lower one.
    """

    miss_rate: float
    guarantee: Guarantee
    confidence: float
    explicit: bool

    @property
    def allowed(self) -> float:
        """The miss rate that an answer may have."""
        return 0.0 if self.guarantee == "exact" else self.miss_rate

    def lowered(self) -> Request:
        """Return a request for what is expected, as far as the evidence supports it."""
        return self._replace(guarantee="expected", explicit=False)

    def replaced(
        self,
        miss_rate: float | None,
        guarantee: Guarantee | None,
        confidence: float | None,
        where: str,
    ) -> Request:
        """Return what a search asks for that names some of it, checked."""
        if miss_rate is None and guarantee is None and confidence is None:
            return self
        rate, level, sure, _ = self
        if miss_rate is not None:
            rate = checks.miss_rate(miss_rate, where)
        if guarantee is not None:
            level = checks.choice(guarantee, "guarantee", where, get_args(Guarantee))
        if confidence is not None:
            sure = checks.miss_rate(confidence, where, "confidence")
        return Request(rate, level, sure, guarantee is not None)


@dataclass(eq=False)
class Promises:
    """Answers requests; what was answered is kept.

    Attributes
    ----------
    calibration : Calibration
        Solves for thresholds.
    default : Request
        What is asked for by a search that says nothing.
    kept : KeptRanges or None
        Ranges that some process has solved before; None keeps what is solved in memory alone.
    """

    calibration: Calibration
    default: Request
    kept: KeptRanges | None = None
    _kept: Cache[tuple[float, Request, str], Plan] = field(
        default_factory=lambda: Cache(_MOST_KEPT, lambda plan: plan.n_bytes)
    )

    def for_range(self, similarity: float, request: Request, where: str) -> Plan:
        """Return how to find everything above a similarity."""
        key = (similarity, request, where)
        return self._kept.get(key, lambda: self._known_range(similarity, request, where))

    def for_best(self, k: int, request: Request, where: str) -> Plan:
        """Return how to find the k nearest vectors."""
        key = (-float(k), request, where)
        return self._kept.get(key, lambda: self._best(k, request, where))

    @property
    def n_bytes(self) -> int:
        """What the table takes, as it is and in order of the cosine, and what is planted."""
        table = self.calibration.table
        return PLANTED_BYTES + (0 if table is None else 2 * table.n_bytes)

    @property
    def queries_needed(self) -> int:
        """Calibration queries with matches that the default promise needs, at least."""
        if self.default.guarantee == "high_probability":
            return self._rule(self.default).queries_needed
        return Rule("expected", self.default.miss_rate).queries_needed

    def needed_slack(
        self, similarity: float, request: Request
    ) -> tuple[NeededSlack, Float64Array] | None:
        """Return how to tell the slack that matches need, and that of one match of each query.

        None where evidence is planted or too little: it has nothing to drift from.
        """
        needed = self.for_range(similarity, request, "the watch for drift").needed
        if needed is None or (table := self.calibration.table) is None:
            return None
        return needed, needed.of_queries(table, self.calibration.seed)

    def solve_ahead(self) -> None:
        """Solve ranges before they are asked for, and keep them: those of the default promise.

        They are at the similarity of the build, and at the multiples of 0.05 above it.
        """
        kept, default = self.kept, self.default
        if kept is None or not _needs_solving(default):
            return
        built_for = self.calibration.designed_for
        above = [step / _AHEAD for step in range(_AHEAD + 1) if step / _AHEAD > built_for]
        missing = [one for one in (built_for, *above) if kept.find(one, default) is None]
        if missing:
            kept.keep({one: self._range(one, default, "solve_ahead") for one in missing}, default)

    def _known_range(self, similarity: float, request: Request, where: str) -> Plan:
        """Return the plan of a range, solved by whichever process, or now."""
        if self.kept is None or not _needs_solving(request):
            return self._range(similarity, request, where)
        plan = self.kept.find(similarity, request)
        if plan is None:
            plan = self._range(similarity, request, where)
            self.kept.keep({similarity: plan}, request)
        return plan

    def _range(self, similarity: float, request: Request, where: str) -> Plan:
        calibration = self.calibration
        if request.guarantee == "exact":
            return complete_plan(similarity, calibration.evidence.state)
        if request.guarantee == "model":
            return calibration.by_model(similarity, request.miss_rate)
        if request.guarantee == "high_probability":
            named = [
                one for one in calibration.similarities if abs(one - similarity) <= MATCH_SLACK
            ]
            listed = bool(named)
            plan = self._surely(named[0], request) if listed else None
            if plan is not None:
                return plan
            if request.explicit and not listed:
                raise InvalidValueError(_not_listed(similarity, calibration.similarities, where))
        if request.guarantee == "expected" or not request.explicit:
            plan = calibration.for_range(similarity, Rule("expected", request.miss_rate))
            if plan is not None:
                return self._around_sure_ranges(plan, similarity, request)
        if request.explicit:
            rule = self._rule(request)
            have = calibration.n_calibration_queries(similarity)
            raise InvalidValueError(
                _too_little(request, rule, have, self._n_plantable(rule), where)
            )
        if calibration.is_small:
            return calibration.everything(similarity, request.miss_rate)
        plan = calibration.by_model(similarity, request.miss_rate)
        return self._around_sure_ranges(plan, similarity, request)

    def _around_sure_ranges(self, plan: Plan, similarity: float, request: Request) -> Plan:
        """Return the plan of a lowered level, for ranges that contain the surer ones above."""
        if request.guarantee != "high_probability":
            return plan
        for above in self.calibration.similarities:
            surer = self._surely(above, request) if above > similarity else None
            if surer is not None:
                plan = self.calibration.widened(plan, surer)
        return plan

    def _surely(self, similarity: float, request: Request) -> Plan | None:
        """Return the plan of a promise with high probability, which says what was asked."""
        plan = self.calibration.for_range(similarity, self._rule(request))
        if plan is None:
            return None
        certificate = replace(plan.certificate, confidence=request.confidence)
        return replace(plan, certificate=certificate)

    def _rule(self, request: Request) -> Rule:
        if request.guarantee == "expected":
            return Rule("expected", request.miss_rate)
        # Bonferroni: the promise is about all similarities of the list at once.
        delta = (1 - request.confidence) / len(self.calibration.similarities)
        return Rule("high_probability", request.miss_rate, 1 - delta)

    def _n_plantable(self, rule: Rule) -> int:
        """Return how many planted queries may take the place of others."""
        return self.calibration.n_plantable(rule) if rule.promise == "expected" else 0

    def _best(self, k: int, request: Request, where: str) -> Plan:
        if request.guarantee == "exact":
            # The nearest that are likely: what is as good as the last of them holds all k.
            likely = self._best(k, request.lowered(), where)
            return complete_plan(None, self.calibration.evidence.state, likely)
        promise: Literal["expected", "high_probability"] = "expected"
        if request.guarantee == "high_probability":
            promise = "high_probability"
        plan = None
        if request.guarantee != "model":
            rule = Rule(promise, request.miss_rate, request.confidence)
            plan = self.calibration.for_best(k, rule)
        if plan is None and not request.explicit and promise == "high_probability":
            plan = self.calibration.for_best(k, Rule("expected", request.miss_rate))
        if plan is None and request.explicit and k <= LARGEST_K:
            if request.guarantee == "model":
                expected = "another level: the paper's law says nothing about the nearest vectors"
                raise checks.bad_value("guarantee", where, expected, "'model'")
            have = 0 if self.calibration.table is None else self.calibration.table.n_queries
            raise InvalidValueError(_too_little(request, rule, have, 0, where))
        return self.calibration.everything(None, request.miss_rate) if plan is None else plan


def _needs_solving(request: Request) -> bool:
    """Tell whether a request rests on evidence; the others take no time."""
    return request.guarantee in ("expected", "high_probability")


def _not_listed(similarity: float, listed: tuple[float, ...], where: str) -> str:
    names = ", ".join(f"{one:g}" for one in listed)
    expected = (
        f"one of {names} for guarantee='high_probability', which is promised for these at once "
        "(similarities= of the build)"
    )
    return checks.message("similarity", where, expected, f"{similarity:g}")


def _too_little(request: Request, rule: Rule, have: int, planted: int, where: str) -> str:
    expected = (
        f"a level that the evidence supports; {request.guarantee!r} with miss_rate="
        f"{request.miss_rate:g} needs {rule.queries_needed:,} calibration queries with matches"
    )
    if max(have, planted) >= rule.queries_needed:
        # Codes have a limit to their slack: what they lose beyond it, no threshold finds.
        expected += f", and no thresholds keep their miss rate at {request.miss_rate:g}"
    got = f"{have:,}"
    if planted:
        got += f", and {planted:,} that can be made of stored vectors,"
    return checks.message("guarantee", where, expected, got)
