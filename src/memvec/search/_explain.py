"""Why a vector was, or was not, returned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from memvec.display import html_table, html_text, new_figure
from memvec.errors import InvalidValueError
from memvec.guarantee import Certificate, Significance, Thresholds
from memvec.kernels import MATCH_SLACK
from memvec.metric import Metric, cosine_of, radius_of
from memvec.search._code_units import CodeUnits
from memvec.search._float_units import FloatUnits
from memvec.types import Float32Array, IntArray

_STAGE_TITLES = {
    "group": "memory vector of its group",
    "unit": "memory vector of its unit",
    "prefix": "first words of its code",
    "code": "whole code",
    "fine": "fine code",
}


@dataclass(frozen=True)
class StageView:
    """The test of a pair at one stage, on the scale of the similarity.

    Attributes
    ----------
    name : {"group", "unit", "prefix", "code", "fine"}
        The stage.
    score : float
        The estimate of the similarity.
    threshold : float
        τ, the lowest score that passes.
    spread : float
        σ, the standard deviation of the estimate of a match.
    """

    name: str
    score: float
    threshold: float
    spread: float

    @property
    def margin(self) -> float:
        """The distance of the score above the threshold, in standard deviations."""
        return (self.score - self.threshold) / self.spread if self.spread > 0 else np.inf

    @property
    def passed(self) -> bool:
        """Whether the pair went on to the next stage."""
        return self.score >= self.threshold


@dataclass(frozen=True, eq=False)
class Explanation:
    """The tests that one vector passes or fails for one query.

    Attributes
    ----------
    id : int or str
        The vector.
    score : float
        The cosine of the two, or their distance.
    similarity : float
        The similarity asked for, as a cosine.
    stages : tuple of StageView
        The tests, in order. There is no test of units if the vector is in no unit, and no test at
        all if everything is visited.
    significance : Significance
        How likely an unrelated vector is to score as high.
    certificate : Certificate
        The promise of the search.
    unit_scores : ndarray of shape (n_units,)
        The scores of all units, on the scale of the similarity.
    """

    id: int | str
    score: float
    similarity: float
    stages: tuple[StageView, ...]
    significance: Significance
    certificate: Certificate
    unit_scores: Float32Array = field(repr=False)

    @property
    def metric(self) -> Metric:
        """Whether the score is a cosine or a distance."""
        return self.certificate.metric

    @property
    def matches(self) -> bool:
        """Whether the score reaches the similarity."""
        return cosine_of(self.metric, self.score) >= self.similarity - MATCH_SLACK

    @property
    def stopped_by(self) -> StageView | None:
        """The first stage at which the pair failed; None if it passed all."""
        return next((stage for stage in self.stages if not stage.passed), None)

    @property
    def returned(self) -> bool:
        """Whether the search returns the vector."""
        return self.matches and self.stopped_by is None

    @property
    def reason(self) -> str:
        """The outcome, in one sentence."""
        if not self.matches:
            short = "below" if self.metric == "cosine" else "beyond"
            return f"Not returned: its {self._score_text} is {short} {self._limit:g}."
        if self.stopped_by is None:
            return "Returned."
        stage = self.stopped_by
        return (
            f"Missed: the {_STAGE_TITLES[stage.name]} scored {stage.score:.3f}, "
            f"below its threshold {stage.threshold:.3f}."
        )

    @property
    def _score_text(self) -> str:
        return f"{'score' if self.metric == 'cosine' else 'distance'} {self.score:.4f}"

    @property
    def _limit(self) -> float:
        return self.similarity if self.metric == "cosine" else radius_of(self.similarity)

    def plot(self) -> Any:
        """Return a matplotlib figure of the unit test.

        It shows the scores of all units, the law of a match's score, the threshold, and the score
        of this vector's unit.
        """
        view = next((stage for stage in self.stages if stage.name == "unit"), None)
        if view is None:
            raise InvalidValueError(
                f"Vector {self.id} has no unit test to plot: it is compared without one."
            )
        return draw_unit_test(view, self.similarity, self.unit_scores)

    @property
    def _outcome(self) -> list[str]:
        return [
            f"Vector {self.id}: {self.reason}",
            f"  {self._score_text} for {self._limit:g} asked; {self.significance}",
        ]

    def _repr_html_(self) -> str:
        header = ["stage", "score", "threshold", "margin", ""] if self.stages else []
        rows = (
            [
                _STAGE_TITLES[stage.name],
                f"{stage.score:.3f}",
                f"{stage.threshold:.3f}",
                f"{stage.margin:.1f} σ",
                "" if stage.passed else "stops here",
            ]
            for stage in self.stages
        )
        return html_text("\n".join(self._outcome)) + html_table(header, rows)

    def __str__(self) -> str:
        lines = self._outcome
        if self.stages:
            lines.append(f"  {'stage':<28}{'score':>8}{'threshold':>11}{'margin':>10}")
        for stage in self.stages:
            mark = "" if stage.passed else "  stops here"
            lines.append(
                f"  {_STAGE_TITLES[stage.name]:<28}{stage.score:>8.3f}{stage.threshold:>11.3f}"
                f"{stage.margin:>8.1f} σ{mark}"
            )
        return "\n".join(lines)


def stage_views(
    cascade: CodeUnits | FloatUnits,
    query: Float32Array,
    row: IntArray,
    thresholds: Thresholds,
) -> tuple[StageView, ...]:
    """Return what each stage sees of a query, shape (1, dim), and a member, by its row.

    Of two homes, the one by which the search finds the member is shown, or else the better one.
    """
    only = np.zeros(1, np.int64)
    seen = [*cascade.see_homes(query, only, row), cascade.see(query, only, row)]
    [scores], [slopes] = next((view for view in seen if thresholds.passes(*view).all()), seen[-1])
    return tuple(
        StageView(
            name,
            float(score / slope),
            float((thresholds.at - thresholds.slack[:, stage] / slope).min()),
            float(1 / slope),
        )
        for stage, (name, score, slope) in enumerate(
            zip(cascade.stage_names, scores, slopes, strict=True)
        )
        if slope > 0
    )


def draw_unit_test(view: StageView, similarity: float, scores: Float32Array) -> Any:
    """Return a figure of the unit test: all units' scores, the law of a match, τ, and the pair.

    Parameters
    ----------
    view : StageView
        The unit test of the pair.
    similarity : float
        α₀, where the scores of matches lie.
    scores : ndarray of shape (n_units,)
        The query's scores on all units: what unrelated units score.
    """
    figure = new_figure("Explanation.plot()")
    axes = figure.subplots()
    axes.hist(scores, bins=60, density=True, color="0.8", label="all units (H0)")
    spread = max(view.spread, 1e-6)
    low = min(float(scores.min()), view.score, view.threshold) - spread
    grid = np.linspace(low, similarity + 4 * spread, 400)
    law = np.exp(-0.5 * ((grid - similarity) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
    axes.plot(grid, law, color="0.2", label=f"matches at {similarity:g} (H1)")
    axes.axvline(view.threshold, color="0.2", linestyle="--", label="threshold τ")
    axes.axvline(view.score, color="tab:red", label="this vector's unit")
    axes.set_xlabel("score of a unit, on the scale of the similarity")
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return figure
