"""An index as a picture: the cost of unit sizes, and the scores of units."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from memvec.display import new_figure
from memvec.index._design import IndexDesign
from memvec.index._parts import IndexParts
from memvec.theory import cost_curve
from memvec.types import Float32Array, Float64Array

_SIZES = np.unique(np.geomspace(1, 300, 60).astype(np.int64))
_QUERIES = 50
_BINS = 60


def draw_index(parts: IndexParts) -> Any:
    """Return a figure of matplotlib: cost against unit size, and the scores of units."""
    figure = new_figure("Index.plot()", 11)
    of_costs, of_scores = figure.subplots(1, 2)
    _draw_costs(of_costs, parts.design)
    _draw_scores(of_scores, parts)
    return figure


def _draw_costs(axes: Any, design: IndexDesign) -> None:
    """Draw C_H0/N = 1/n + P_fp(n) of random units in the effective dimension of the data."""
    drawn: tuple[tuple[Literal["sum", "pinv"], str], ...] = (("sum", "0.6"), ("pinv", "0.2"))
    for construction, colour in drawn:
        curve = cost_curve(
            construction,
            _SIZES[design.effective_dim - 1 > _SIZES].tolist() or [1],
            dim=design.effective_dim,
            similarity=design.similarity,
            miss_rate=design.miss_rate,
        )
        points = [(point.unit_size, point.cost_ratio) for point in curve]
        axes.plot(*zip(*points, strict=True), color=colour, label=construction)
    kind = "k-means" if design.config.assignment == "kmeans" else "random"
    chosen = f"chosen: {kind} units of {design.unit_size}"
    axes.axvline(design.unit_size, color="tab:red", linestyle="--", label=chosen)
    axes.set(xscale="log", ylim=(0, None), xlabel="unit size n", ylabel="vectors compared, share")
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:g}")
    title = f"law of random units, effective dimension {design.effective_dim:.0f}"
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False)


def _draw_scores(axes: Any, parts: IndexParts) -> None:
    """Draw the scores of units that hold a match of a calibration query, and of all units."""
    matches, all_units = _matches(parts), _all_units(parts)
    both = np.concatenate([matches, all_units])
    if len(both):
        edges = np.linspace(float(both.min()), float(both.max()) + 1e-6, _BINS + 1)
        drawn = (
            (all_units, "all units (H0)", {"color": "0.8"}),
            (matches, "matches (H1)", {"color": "0.2", "histtype": "step"}),
        )
        for values, label, style in drawn:
            if len(values):  # nothing has no density
                axes.hist(values, edges, density=True, label=label, **style)
        axes.legend(frameon=False)
    axes.axvline(parts.design.similarity, color="tab:red", linestyle="--")
    axes.set(xlabel="score of a unit, on the scale of the similarity", ylabel="density")
    axes.set_title("calibration queries", fontsize=10)


def _matches(parts: IndexParts) -> Float64Array:
    """Return what the unit of a match scores, at the similarity of the build and above."""
    table = parts.evidence.table
    if table is None:
        return np.empty(0)
    stage = parts.units.cascade.stage_names.index("unit")
    slopes = table.slopes[:, stage].astype(np.float64)
    tested = (slopes > 0) & (table.cosines >= parts.design.similarity)
    return np.asarray(table.scores[tested, stage] / slopes[tested])


def _all_units(parts: IndexParts) -> Float32Array:
    """Return what some vectors that no unit holds score on all units."""
    units = parts.units.cascade.units
    outside = np.flatnonzero(units.unit_of(np.arange(len(units.keys))) >= units.n_tested)
    queries = units.vectors[outside[-_QUERIES:]]
    scores = [parts.units.cascade.unit_similarities(query) for query in queries]
    return np.concatenate([*scores, np.empty(0, np.float32)])
