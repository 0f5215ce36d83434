"""Figure 3: cost against the unit size where the vectors of a unit share a spherical cap.

Data: vectors uniform on a cap, d = 1000, ε = 0.01. The paper does not say how wide its caps are:
here η = 0.1, 0.2 and 0.3, cosines of about η² between members, and a finer grid of η for the ratio
of sum to pinv. Beside it, the best cost of each dimension. Command: ``python -m paper
fig03-cost-caps``. Expected outcome: sum and pinv alike, larger units than random ones. Known drift:
none known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from memvec.theory import cap_design, cost_curve, designs_by_dimension
from memvec.types import Float64Array
from paper.drawing import draw_lines, finish, new_panels, style
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig01_cost_random import simulated_findings
from paper.simulated_queries import cap_scores
from paper.table import Cell, Table, plain

_MISS_RATE = 0.01
_CAPS = (0.1, 0.2, 0.3)
_WHOLE_SPHERE = -1.0
_WIDEST, _NARROWEST = 0.0, 0.6
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
_SHOWN = (0.5, 0.7, 0.9)
_CONSTRUCTIONS = ("sum", "pinv")
_DIMS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
# Costs this near count as the same; a best unit size this much larger counts as larger.
_SAME = 0.05
_LARGER = 1.2

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 1000, "units": 40, "sizes": 30, "widths": 7, "simulated": (20,)},
    "small": {"dim": 1000, "units": 200, "sizes": 60, "widths": 31, "simulated": (10, 100, 300)},
    "paper": {
        "dim": 1000,
        "units": 2000,
        "sizes": 60,
        "widths": 31,
        "simulated": (10, 20, 50, 100, 200, 400),
    },
}

_COLUMNS = ("panel", "kind", "construction", "similarity", "cap", "x", "cost", "error", "missed")


def compute(run: Run) -> Table:
    """Return costs against n in caps, their ratio against η, and the best cost against d."""
    sizes = unit_sizes(run)
    rows = _random(run.settings["dim"], sizes)
    rng = np.random.default_rng(run.seed)
    with run.bar("fig03-cost-caps", len(_CAPS) + 1) as advance:
        for cap in _CAPS:
            for similarity in _SIMILARITIES:
                for construction in _CONSTRUCTIONS:
                    costs = _costs(construction, similarity, cap, run.settings["dim"], sizes)
                    rows += [
                        plain(["unit size", "theory", construction, similarity, cap, n, cost, 0, 0])
                        for n, cost in zip(sizes, costs, strict=True)
                    ]
            rows += _simulated(run, cap, rng)
            advance(1)
        rows += _by_width(run.settings["dim"], sizes, run.settings["widths"])
        advance(1)
    return Table("Cost of units in caps", _COLUMNS, tuple(rows + _by_dimension()))


def unit_sizes(run: Run) -> list[int]:
    """Return the unit sizes of the curves, up to d − 3, where the pinv vector still has a norm."""
    largest = run.settings["dim"] - 3
    grid = np.geomspace(2, largest, run.settings["sizes"]).astype(int)
    # The norm of pinv vectors grows without bound towards n = d: more points there.
    tail = np.linspace(largest / 2, largest, run.settings["sizes"] // 2).astype(int)
    every = np.concatenate([grid, tail, run.settings["simulated"]])
    return [int(size) for size in np.unique(every)]


def _costs(
    construction: str, similarity: float, cap: float, dim: int, sizes: list[int]
) -> Float64Array:
    return np.array([_design(construction, n, dim, similarity, cap).cost_ratio for n in sizes])


def _design(construction: str, size: int, dim: int, similarity: float, cap: float) -> Any:
    return cap_design(
        construction,  # type: ignore[arg-type]
        unit_size=size,
        dim=dim,
        similarity=similarity,
        cap_cosine=cap,
        miss_rate=_MISS_RATE,
    )


def _random(dim: int, sizes: list[int]) -> list[tuple[Cell, ...]]:
    rows = []
    for construction in _CONSTRUCTIONS:
        for level in _SIMILARITIES:
            made = cost_curve(construction, sizes, dim=dim, similarity=level)  # type: ignore[arg-type]
            facts = ("unit size", "random", construction, level, _WHOLE_SPHERE)
            rows += [plain([*facts, each.unit_size, each.cost_ratio, 0, 0]) for each in made]
    return rows


def _by_width(dim: int, sizes: list[int], n_widths: int) -> list[tuple[Cell, ...]]:
    """Return, for many widths, the ratio of the best costs, and the largest ratio at any n."""
    rows = []
    for cap in np.linspace(_WIDEST, _NARROWEST, n_widths):
        for similarity in _SIMILARITIES:
            costs = [_costs(name, similarity, float(cap), dim, sizes) for name in _CONSTRUCTIONS]
            ratios = {"best": costs[0].min() / costs[1].min(), "any n": _farthest(*costs)}
            rows += [
                plain(["width", kind, "sum over pinv", similarity, cap, cap, ratio, 0, 0])
                for kind, ratio in ratios.items()
            ]
    return rows


def _farthest(first: Float64Array, second: Float64Array) -> float:
    """Return the ratio of two curves at the point where it is farthest from 1."""
    ratios = first / second
    return float(ratios[np.argmax(np.abs(np.log(ratios)))])


def _by_dimension() -> list[tuple[Cell, ...]]:
    rows = []
    for construction in _CONSTRUCTIONS:
        found = designs_by_dimension(construction, _DIMS, similarity=0.7)  # type: ignore[arg-type]
        facts = ("dimension", "theory", construction, 0.7, _WHOLE_SPHERE)
        rows += [plain([*facts, made.dim, made.cost_ratio, 0, 0]) for made in found]
    return rows


def _simulated(run: Run, cap: float, rng: np.random.Generator) -> list[tuple[Cell, ...]]:
    """Draw units, take the threshold that misses ε of their matches, count what else passes."""
    dim, n_units = run.settings["dim"], run.settings["units"]
    rows = []
    for size in run.settings["simulated"]:
        for similarity in _SHOWN:
            for construction in _CONSTRUCTIONS:
                made = _design(construction, size, dim, similarity, cap)
                unrelated, related = cap_scores(
                    construction,  # type: ignore[arg-type]
                    size,
                    n_units,
                    dim,
                    similarity,
                    cap,
                    rng,
                )
                cost = 1 / size + np.mean(unrelated >= made.threshold)
                error = math.sqrt(max(made.false_positive_rate, 1 / n_units) / n_units)
                missed = np.mean(related < made.threshold)
                facts = ("unit size", "simulated", construction, similarity, cap, size)
                rows.append(plain([*facts, cost, error, missed]))
    return rows


@dataclass(frozen=True)
class Best:
    """The cheapest unit size of a curve.

    Attributes
    ----------
    size, cost : float
        n* and the cost there.
    is_inside : bool
        Whether larger units were tried.
    """

    size: float
    cost: float
    is_inside: bool

    @property
    def text(self) -> str:
        """The size, or that it is at least that."""
        return f"{self.size:.0f}" if self.is_inside else f"{self.size:.0f} or more"


def best_size(table: Table, kind: str, construction: str, similarity: float, cap: float) -> Best:
    """Return the cheapest unit size of one curve."""
    curve = table.where(kind=kind, construction=construction, similarity=similarity, cap=cap)
    place = int(np.argmin(curve.column("cost")))
    size, cost = curve.column("x")[place], curve.column("cost")[place]
    return Best(float(size), float(cost), place < len(curve.rows) - 1)


def check(table: Table) -> Verdict:
    """Test that sum and pinv agree, that units may be larger, and that dimension helps."""
    part = table.where(panel="unit size")
    findings = [finding for cap in _CAPS for finding in _of_cap(part, cap)]
    findings += [_better_when_narrower(part), *_of_simulation(part), _of_dimension(table)]
    note = (
        f"{_where_alike(table)} At first only η = 0.3 and n up to 300 were looked at, where both "
        "constructions were cheapest at the largest n of the grid: there they cost 1/n, whatever "
        "they are. Beyond n = d/5 the formula for pinv is checked by the simulated points alone."
    )
    return Verdict(tuple(findings), note)


def _of_cap(part: Table, cap: float) -> list[Finding]:
    """Return how sum and pinv compare in one cap, and how large units are in it."""
    best = {
        (name, level): best_size(part, "theory", name, level, cap)
        for name in _CONSTRUCTIONS
        for level in _SIMILARITIES
    }
    inside = [
        level
        for level in _SIMILARITIES
        if any(best[name, level].is_inside for name in _CONSTRUCTIONS)
    ]
    ratios = {level: best["sum", level].cost / best["pinv", level].cost for level in inside}
    at_best = Finding(
        f"η = {cap}: sum and pinv cost the same at their best n (within {100 * _SAME:.0f} %)",
        all(_alike(ratio) for ratio in ratios.values()),
        _listed("sum over pinv", ratios) if inside else "every n* is the largest of the grid",
        main=True,
        tested=bool(inside),
    )
    anywhere = {level: _farthest(*_both(part, level, cap)) for level in _SIMILARITIES}
    at_any = Finding(
        f"η = {cap}: sum and pinv cost the same at every n (within {100 * _SAME:.0f} %)",
        all(_alike(ratio) for ratio in anywhere.values()),
        _listed("sum over pinv where they differ most", anywhere)
        + "; up to the larger n* of the two: "
        + ", ".join(f"{ratio:.3f}" for ratio in _up_to_best(part, cap, best)),
    )
    return [at_best, at_any, _larger(part, cap, best)]


def _up_to_best(part: Table, cap: float, best: dict[tuple[str, float], Best]) -> list[float]:
    """Return the ratios farthest from 1 among unit sizes that are not larger than need be."""
    ratios = []
    for level in _SIMILARITIES:
        most = max(best[name, level].size for name in _CONSTRUCTIONS)
        sizes = part.where(kind="theory", construction="sum", similarity=level, cap=cap).column("x")
        first, second = _both(part, level, cap)
        ratios.append(_farthest(first[sizes <= most], second[sizes <= most]))
    return ratios


def _larger(part: Table, cap: float, best: dict[tuple[str, float], Best]) -> Finding:
    times = {
        level: best["pinv", level].size
        / best_size(part, "random", "pinv", level, _WHOLE_SPHERE).size
        for level in _SIMILARITIES
    }
    sizes = ", ".join(best["pinv", level].text for level in _SIMILARITIES)
    return Finding(
        f"η = {cap}: units hold more vectors than random ones at their best n (at least {_LARGER} "
        "times as many)",
        min(times.values()) >= _LARGER,
        f"n* of pinv for α₀ 0.5 to 0.9: {sizes}; " + _listed("times those of random units", times),
        main=True,
    )


def _both(part: Table, level: float, cap: float) -> tuple[Float64Array, Float64Array]:
    first, second = (
        part.where(kind="theory", construction=name, similarity=level, cap=cap).column("cost")
        for name in _CONSTRUCTIONS
    )
    return first, second


def _alike(ratio: float) -> bool:
    return abs(ratio - 1) <= _SAME


def _listed(what: str, values: dict[float, float]) -> str:
    levels = ", ".join(f"{level}" for level in values)
    return f"{what} for α₀ {levels}: " + ", ".join(f"{value:.3f}" for value in values.values())


def _better_when_narrower(part: Table) -> Finding:
    kinds = (("random", _WHOLE_SPHERE), *(("theory", cap) for cap in _CAPS))
    costs = np.array(
        [
            [best_size(part, kind, name, level, cap).cost for kind, cap in kinds]
            for name in _CONSTRUCTIONS
            for level in _SIMILARITIES
        ]
    )
    mean = ", ".join(f"{value:.4f}" for value in costs.mean(axis=0))
    return Finding(
        "both constructions cost less the narrower the cap, at their best n",
        bool(np.all(np.diff(costs, axis=1) < 1e-9)),
        f"mean of the best costs, random units and η = 0.1, 0.2, 0.3: {mean}",
    )


def _of_simulation(part: Table) -> list[Finding]:
    missed = part.where(kind="simulated").column("missed")
    return simulated_findings(_gaps(part), missed, _MISS_RATE)


def _of_dimension(table: Table) -> Finding:
    costs = {
        name: table.where(panel="dimension", construction=name).column("cost")
        for name in _CONSTRUCTIONS
    }
    return Finding(
        "the best cost falls with the dimension at fixed α₀ and ε (random units)",
        all(bool(np.all(np.diff(each) < 0)) for each in costs.values()),
        f"pinv, α₀ = 0.7, from d = 50 to 10,000: {costs['pinv'][0]:.3f} to {costs['pinv'][-1]:.4f}",
    )


def _where_alike(table: Table) -> str:
    """Return from which η on the constructions cost the same at all similarities."""
    words = []
    for kind, where in (("best", "at their best n"), ("any n", "at every n")):
        part = table.where(panel="width", kind=kind)
        alike = [
            all(_alike(ratio) for ratio in part.where(cap=cap).column("cost"))
            for cap in part.values("cap")
        ]
        differing = [cap for cap, same in zip(part.values("cap"), alike, strict=True) if not same]
        last = max((float(cap) for cap in differing), default=-1.0)
        beyond = [float(cap) for cap in part.values("cap") if float(cap) > last]
        words.append(f"{where} from η = {beyond[0]:.2f} on" if beyond else f"{where} for no η")
    return (
        f"Within {100 * _SAME:.0f} % at all five α₀, sum and pinv are alike {' and '.join(words)}."
    )


def _gaps(table: Table) -> list[float]:
    gaps = []
    for row in table.where(kind="simulated").to_records():
        [line] = table.where(
            kind="theory",
            construction=row["construction"],
            similarity=row["similarity"],
            cap=row["cap"],
            x=row["x"],
        ).to_records()
        gap = abs(float(row["cost"]) - float(line["cost"]))
        gaps.append(gap / (4 * float(row["error"]) + 0.002))
    return gaps


def plot(table: Table) -> Any:
    """Draw cost against n in caps and at random, sum over pinv against η, and cost against d."""
    titles = [f"η = {cap}" for cap in _CAPS]
    figure, panels = new_panels((*titles, "best costs, sum over pinv", "random units"), per_row=3)
    for panel, cap in zip(panels, _CAPS, strict=False):
        _draw_cap(panel, table.where(panel="unit size"), cap)
        finish(panel, ("unit size n", "cost C/N"), "xy")
    width = table.where(panel="width", kind="best")
    draw_lines(panels[3], width, "x", "cost", "similarity", markersize=0)
    finish(panels[3], ("η", "C/N of sum over that of pinv"))
    draw_lines(panels[4], table.where(panel="dimension"), "x", "cost", "construction")
    finish(panels[4], ("dimension d", "cost C/N at n*"), "xy")
    return figure


def _draw_cap(panel: Any, table: Table, cap: float) -> None:
    """Draw pinv solid and sum dashed, random units of pinv dotted."""
    lines = (("pinv", "theory", cap, "-"), ("sum", "theory", cap, "--"))
    for place, similarity in enumerate(_SHOWN):
        color = style(place)["color"]
        for name, kind, width, dash in (*lines, ("pinv", "random", _WHOLE_SPHERE, ":")):
            part = table.where(kind=kind, construction=name, similarity=similarity, cap=width)
            label = f"{name}{', random' if kind == 'random' else ''}, α₀ = {similarity}"
            x, y = part.column("x"), part.column("cost")
            # One legend serves the three panels.
            named = {"label": label} if cap == _CAPS[-1] else {}
            panel.plot(x, y, dash, color=color, linewidth=1.0, **named)
        for name, mark in (("pinv", "o"), ("sum", "x")):
            part = table.where(kind="simulated", construction=name, similarity=similarity, cap=cap)
            panel.plot(part.column("x"), part.column("cost"), mark, color=color, markersize=3)


FIG03 = Experiment(
    "fig03-cost-caps",
    "Figure 3",
    "Where the vectors of a unit share a cap, sum and pinv cost the same, and units can hold more "
    "vectors than random ones. In higher dimension a search costs less.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="The paper does not give the width of its caps; here η = 0.1, 0.2 and 0.3. Points "
    "are simulated.",
)

__all__ = ["FIG03", "Best", "best_size"]
