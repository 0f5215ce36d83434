"""Figure 3: cost against the unit size where the vectors of a unit share a spherical cap.

Data: vectors uniform on a cap, d = 1000, ε = 0.01. The paper does not say how wide its caps are:
here η = 0.3, a cosine of about 0.09 between members. Beside it, the best cost of each dimension.
Command: ``memvec reproduce fig03-cost-caps``. Expected outcome: sum and pinv alike, larger units
than random ones. Known drift: none known.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from memvec.experiments._experiment import Experiment, Finding, Run, Verdict
from memvec.experiments._figures import draw_lines, finish, new_panels, style
from memvec.experiments._simulate import cap_scores
from memvec.experiments._table import Cell, Table, plain
from memvec.theory import cap_design, cost_curve, designs_by_dimension

_MISS_RATE = 0.01
_CAP = 0.3
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
_CONSTRUCTIONS = ("sum", "pinv")
_DIMS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 1000, "largest": 300, "units": 40, "simulated": (20,)},
    "small": {"dim": 1000, "largest": 300, "units": 400, "simulated": (10, 30, 100)},
    "paper": {"dim": 1000, "largest": 300, "units": 4000, "simulated": (10, 20, 50, 100, 200)},
}

_COLUMNS = ("panel", "kind", "construction", "similarity", "x", "cost", "error", "missed")


def compute(run: Run) -> Table:
    """Return costs against n in caps, and the best cost against d on the whole sphere."""
    dim = run.settings["dim"]
    sizes = np.unique(np.geomspace(2, run.settings["largest"], 40).astype(int)).tolist()
    rows: list[tuple[Cell, ...]] = []
    rng = np.random.default_rng(run.seed)
    with run.bar("fig03-cost-caps", len(_SIMILARITIES)) as advance:
        for similarity in _SIMILARITIES:
            for construction in _CONSTRUCTIONS:
                rows += _theory(construction, similarity, dim, sizes)
            rows += _simulated(run, similarity, rng)
            advance(1)
    for construction in _CONSTRUCTIONS:
        found = designs_by_dimension(construction, _DIMS, similarity=0.7)  # type: ignore[arg-type]
        rows += [
            plain(["dimension", "theory", construction, 0.7, made.dim, made.cost_ratio, 0, 0])
            for made in found
        ]
    return Table("Cost of units in caps", _COLUMNS, tuple(rows))


def _theory(
    construction: str, similarity: float, dim: int, sizes: list[int]
) -> list[tuple[Cell, ...]]:
    in_caps = [
        cap_design(
            construction,  # type: ignore[arg-type]
            unit_size=size,
            dim=dim,
            similarity=similarity,
            cap_cosine=_CAP,
            miss_rate=_MISS_RATE,
        )
        for size in sizes
    ]
    at_random = cost_curve(construction, sizes, dim=dim, similarity=similarity)  # type: ignore[arg-type]
    return [
        plain(["unit size", kind, construction, similarity, made.unit_size, made.cost_ratio, 0, 0])
        for kind, designs in (("theory", in_caps), ("random", at_random))
        for made in designs
    ]


def _simulated(run: Run, similarity: float, rng: np.random.Generator) -> list[tuple[Cell, ...]]:
    """Draw units, take the threshold that misses ε of their matches, count what else passes."""
    dim, n_units = run.settings["dim"], run.settings["units"]
    rows = []
    for size in run.settings["simulated"]:
        for construction in _CONSTRUCTIONS:
            made = cap_design(
                construction,  # type: ignore[arg-type]
                unit_size=size,
                dim=dim,
                similarity=similarity,
                cap_cosine=_CAP,
                miss_rate=_MISS_RATE,
            )
            unrelated, related = cap_scores(
                construction,  # type: ignore[arg-type]
                size,
                n_units,
                dim,
                similarity,
                _CAP,
                rng,
            )
            rate = made.false_positive_rate
            cost = 1 / size + np.mean(unrelated >= made.threshold)
            error = math.sqrt(max(rate, 1 / n_units) / n_units)
            missed = np.mean(related < made.threshold)
            row = ["unit size", "simulated", construction, similarity, size, cost, error, missed]
            rows.append(plain(row))
    return rows


def check(table: Table) -> Verdict:
    """Test that sum and pinv agree, that units may be larger, and that dimension helps."""
    part = table.where(panel="unit size")
    best = {
        (kind, name, level): _best(part, kind, name, level)
        for kind in ("theory", "random")
        for name in _CONSTRUCTIONS
        for level in _SIMILARITIES
    }
    ratios = [
        best["theory", "sum", level][1] / best["theory", "pinv", level][1]
        for level in _SIMILARITIES
    ]
    at_random = [
        best["random", "sum", level][1] / best["random", "pinv", level][1]
        for level in _SIMILARITIES
    ]
    larger = [
        best["theory", "pinv", level][0] / best["random", "pinv", level][0]
        for level in _SIMILARITIES
    ]
    gaps = _gaps(part)
    missed = part.where(kind="simulated").column("missed")
    falls = [
        bool(np.all(np.diff(table.where(panel="dimension", construction=name).column("cost")) < 0))
        for name in _CONSTRUCTIONS
    ]
    costs = table.where(panel="dimension", construction="pinv").column("cost")
    return Verdict(
        (
            Finding(
                "in caps, sum and pinv cost the same at their best n (within 5 %)",
                max(abs(ratio - 1) for ratio in ratios) <= 0.05,
                "sum over pinv for α₀ 0.5 to 0.9: "
                + ", ".join(f"{ratio:.3f}" for ratio in ratios)
                + "; random units: "
                + ", ".join(f"{ratio:.3f}" for ratio in at_random),
            ),
            Finding(
                "units hold more vectors than random ones at their best n",
                min(larger) > 1,
                "times as many, pinv: " + ", ".join(f"{ratio:.1f}" for ratio in larger),
            ),
            Finding(
                "simulated costs lie on the lines (4 standard errors and 0.002)",
                max(gaps) <= 1,
                f"largest gap {max(gaps):.2f} of that, over {len(gaps)} points",
            ),
            Finding(
                "simulated matches at cosine α₀ are missed as often as asked, 1 % (within 0.5 %)",
                bool(abs(missed.mean() - _MISS_RATE) <= 0.005),
                f"missed {100 * missed.mean():.2f} %",
            ),
            Finding(
                "the best cost falls with the dimension at fixed α₀ and ε (random units)",
                all(falls),
                f"pinv, α₀ = 0.7, from d = 50 to 10,000: {costs[0]:.3f} to {costs[-1]:.4f}",
            ),
        )
    )


def _best(table: Table, kind: str, construction: str, similarity: float) -> tuple[float, float]:
    curve = table.where(kind=kind, construction=construction, similarity=similarity)
    place = int(np.argmin(curve.column("cost")))
    return float(curve.column("x")[place]), float(curve.column("cost")[place])


def _gaps(table: Table) -> list[float]:
    gaps = []
    for row in table.where(kind="simulated").to_records():
        curve = table.where(
            kind="theory", construction=row["construction"], similarity=row["similarity"]
        )
        sizes, size = curve.column("x"), float(row["x"])
        rates = curve.column("cost") - 1 / sizes
        expected = 1 / size + np.interp(size, sizes, rates)
        gaps.append(abs(float(row["cost"]) - float(expected)) / (4 * float(row["error"]) + 0.002))
    return gaps


def plot(table: Table) -> Any:
    """Draw cost against n in caps, and against d."""
    figure, panels = new_panels(("sum in caps", "pinv in caps", "best cost, random units"))
    for panel, construction in zip(panels, _CONSTRUCTIONS, strict=False):
        for place, similarity in enumerate(_SIMILARITIES):
            part = table.where(panel="unit size", construction=construction, similarity=similarity)
            look = style(place)
            line, dots = part.where(kind="theory"), part.where(kind="simulated")
            panel.plot(
                line.column("x"),
                line.column("cost"),
                color=look["color"],
                linestyle=look["linestyle"],
                label=f"α₀ = {similarity}",
            )
            look["linestyle"] = "none"
            panel.plot(dots.column("x"), dots.column("cost"), **look)
        finish(panel, ("unit size n", "cost C/N"), "xy")
    draw_lines(panels[2], table.where(panel="dimension"), "x", "cost", "construction")
    finish(panels[2], ("dimension d", "cost C/N at n*"), "xy")
    return figure


FIG03 = Experiment(
    "fig03-cost-caps",
    "Figure 3",
    "Where the vectors of a unit share a cap, sum and pinv cost the same, and units can hold more "
    "vectors than random ones. In higher dimension a search costs less.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="The paper does not give the width of its caps; here η = 0.3.",
)

__all__ = ["FIG03"]
