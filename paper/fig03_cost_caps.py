"""Figure 3: cost against the unit size where the vectors of a unit share a spherical cap.

Two sets of lines: those of the printed formulas, and those of the corrected ones. Command: ``python
-m paper fig03-cost-caps``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from memvec.theory import (
    cap_design,
    cap_moments,
    cost_curve,
    designs_by_dimension,
    pinv_cap_scores,
)
from paper.drawing import finish, new_panels, share_legend, style
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig01_cost_random import cost_gap, simulated_findings
from paper.simulated_queries import cap_units, passing_rates, planted_queries
from paper.table import Cell, Table, plain

_MISS_RATE = 0.01
# The paper does not say how wide its caps are; the narrowest of these is the one that counts.
_CAPS = (0.1, 0.2, 0.3)
_NARROW = _CAPS[-1]
_WHOLE_SPHERE = -1.0
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
_SHOWN = (0.5, 0.7, 0.9)
_CONSTRUCTIONS = ("sum", "pinv")
_DIMS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
# Costs this near count as the same; a best unit size this much larger counts as larger. Beyond
# 0.3 d the exact norm of pinv grows without bound, which the paper's lower bound cannot show.
_SAME, _LARGER, _FAR_FROM_D = 0.05, 1.2, 0.3
# How the figure tells constructions by width and mark, formulas by dash.
_WIDTHS = {"pinv": 1.8, "sum": 0.8}
_DASHES: dict[str, Any] = {"exact": "-", "printed": (0, (4, 2))}
_MARKS = {"pinv": "o", "sum": "x"}

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 1000, "units": 40, "sizes": 30, "simulated": (20,)},
    "small": {"dim": 1000, "units": 100, "sizes": 60, "simulated": (10, 100, 300)},
    "paper": {"dim": 1000, "units": 1000, "sizes": 60, "simulated": (10, 20, 50, 100, 200, 300)},
}

_COLUMNS = ("panel", "kind", "construction", "similarity", "cap", "x", "cost", "error", "missed")


def compute(run: Run) -> Table:
    """Return costs against n, printed, exact and simulated, and the best cost against d."""
    dim, sizes = run.settings["dim"], unit_sizes(run)
    rows = _random(dim, sizes)
    rng = np.random.default_rng(run.seed)
    with run.bar("fig03-cost-caps", len(_CAPS)) as advance:
        for cap in _CAPS:
            for similarity in _SIMILARITIES:
                for name in _CONSTRUCTIONS:
                    for kind, cost in (("printed", printed_cost), ("exact", _exact_cost)):
                        facts = ("unit size", kind, name, similarity, cap)
                        rows += [
                            plain([*facts, n, cost(name, n, dim, similarity, cap), 0, 0])
                            for n in sizes
                        ]
            rows += _simulated(run, cap, rng)
            advance(1)
    return Table("Cost of units in caps", _COLUMNS, tuple(rows + _by_dimension()))


def unit_sizes(run: Run) -> list[int]:
    """Return the unit sizes of the curves, up to d − 3, where the pinv vector still has a norm."""
    largest = run.settings["dim"] - 3
    grid = np.geomspace(2, largest, run.settings["sizes"]).astype(int)
    return [int(size) for size in np.union1d(grid, run.settings["simulated"])]


def printed_cost(construction: str, size: int, dim: int, similarity: float, cap: float) -> float:
    """Return 1/n + P_fp by the paper's printed formulas, Sections 4.2, 6.4 and 6.5.

    For pinv its lower bounds stand for the variances. docs/errata.md tells which of the terms of
    sum are wrong one by one; their sum is nearly right.
    """
    moments, n, d = cap_moments(cap, dim), size, dim
    first, second = moments.mean**2, moments.second
    noise = (1 - similarity**2) * (n - 1) / (d - 1)
    if construction == "sum":
        mean, null = similarity * (1 + (n - 1) * first), n * (1 + (n - 1) * first) / d
        match = (
            similarity**2 * (n - 1) * (second**2 - first**2)
            + similarity**2 * (n - 1) / (d - 1) * (1 - second) ** 2
            + noise * (1 - second) * second
            + noise * (1 - second) * (1 + (n - 2) * first)
        )
    else:
        found = pinv_cap_scores(n, dim=d, similarity=similarity, cap_cosine=cap)
        mean, null = similarity, found.null_variance_bound
        match = found.match_variance_bound
    threshold = mean + math.sqrt(match) * float(special.ndtri(_MISS_RATE))
    return 1 / n + float(special.ndtr(-threshold / math.sqrt(null)))


def _exact_cost(construction: str, size: int, dim: int, similarity: float, cap: float) -> float:
    return float(_design(construction, size, dim, similarity, cap).cost_ratio)


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


def _by_dimension() -> list[tuple[Cell, ...]]:
    rows = []
    for construction in _CONSTRUCTIONS:
        found = designs_by_dimension(construction, _DIMS, similarity=0.7)  # type: ignore[arg-type]
        facts = ("dimension", "theory", construction, 0.7, _WHOLE_SPHERE)
        rows += [plain([*facts, made.dim, made.cost_ratio, 0, 0]) for made in found]
    return rows


def _simulated(run: Run, cap: float, rng: np.random.Generator) -> list[tuple[Cell, ...]]:
    """Draw units; at the threshold of the exact line, take the closed form of what passes."""
    dim, n_units = run.settings["dim"], run.settings["units"]
    rows = []
    for size in run.settings["simulated"]:
        for construction in _CONSTRUCTIONS:
            members, vectors = cap_units(construction, size, n_units, dim, cap, rng)  # type: ignore[arg-type]
            for similarity in _SHOWN:
                threshold = _design(construction, size, dim, similarity, cap).threshold
                rates = passing_rates(vectors, threshold)
                planted = planted_queries(members[::size], similarity, rng)
                missed = np.mean(np.sum(planted * vectors, axis=1) < threshold)
                error = rates.std(ddof=1) / math.sqrt(n_units)
                facts = ("unit size", "simulated", construction, similarity, cap, size)
                rows.append(plain([*facts, 1 / size + rates.mean(), error, missed]))
    return rows


def curve(table: Table, kind: str, construction: str, level: float, cap: float) -> Table:
    """Return one line: its unit sizes and costs."""
    return table.where(kind=kind, construction=construction, similarity=level, cap=cap)


def best_size(table: Table, kind: str, construction: str, level: float, cap: float) -> float:
    """Return the cheapest unit size of one line."""
    line = curve(table, kind, construction, level, cap)
    return float(line.column("x")[int(np.argmin(line.column("cost")))])


def farthest(table: Table, kind: str, cap: float, most: float = np.inf) -> float:
    """Return how far sum over pinv comes from 1, at any α₀ and any n up to a size."""
    gaps = []
    for level in _SIMILARITIES:
        total, pinv = (curve(table, kind, name, level, cap) for name in _CONSTRUCTIONS)
        kept = total.column("x") <= most
        gaps.append(np.abs(total.column("cost")[kept] / pinv.column("cost")[kept] - 1).max())
    return float(max(gaps))


def check(table: Table) -> Verdict:
    """Test that sum and pinv agree, that units may be larger, and that dimension helps."""
    part = table.where(panel="unit size")
    most = _FAR_FROM_D * float(part.column("x").max())
    printed = {cap: farthest(part, "printed", cap) for cap in _CAPS}
    findings = [
        _alike("printed formulas, n up to d − 3", printed[_NARROW]),
        _alike(f"exact formulas, n up to {most:.0f}", farthest(part, "exact", _NARROW, most)),
        Finding(
            "sum and pinv come closer the narrower the cap",
            bool(np.all(np.diff([printed[cap] for cap in _CAPS]) < 0)),
            "farthest, printed: " + _listed(printed),
            main=True,
        ),
        _larger(part),
        _better_when_narrower(part),
        _of_dimension(table),
        *_of_simulation(part),
        *_wider(part, most),
    ]
    return Verdict(tuple(findings), reason="paper silent on η")


def _alike(which: str, gap: float, cap: float = _NARROW, counted: bool = True) -> Finding:
    return Finding(
        f"η = {cap}, {which}: the same cost (within {100 * _SAME:.0f} %)",
        gap <= _SAME,
        f"at most {100 * gap:.1f} % apart",
        of_paper=counted,
        main=counted,
    )


def _wider(part: Table, most: float) -> list[Finding]:
    """Return what is shown beside: wider caps, and n near d by the exact formulas."""
    shown = [
        _alike("printed formulas, every n", farthest(part, "printed", cap), cap, counted=False)
        for cap in _CAPS[:-1]
    ]
    near = _alike("exact formulas, n up to d − 3", farthest(part, "exact", _NARROW), counted=False)
    return [*shown, near]


def _listed(values: dict[float, float]) -> str:
    return ", ".join(f"{100 * value:.1f} % at η = {cap}" for cap, value in values.items())


def _larger(part: Table) -> Finding:
    times = [
        best_size(part, "printed", "pinv", level, _NARROW)
        / best_size(part, "random", "pinv", level, _WHOLE_SPHERE)
        for level in _SIMILARITIES
    ]
    return Finding(
        f"η = {_NARROW}: the best n is larger than with random units ({_LARGER} times)",
        min(times) >= _LARGER,
        f"{min(times):.0f} to {max(times):.0f} times",
        main=True,
    )


def _better_when_narrower(part: Table) -> Finding:
    kinds = (("random", _WHOLE_SPHERE), *(("printed", cap) for cap in _CAPS))
    costs = np.array(
        [
            [curve(part, kind, name, level, cap).column("cost").min() for kind, cap in kinds]
            for name in _CONSTRUCTIONS
            for level in _SIMILARITIES
        ]
    )
    return Finding(
        "both constructions cost less the narrower the cap, at their best n",
        bool(np.all(np.diff(costs, axis=1) < 1e-9)),
        "mean of the best costs, random and η = 0.1, 0.2, 0.3: "
        + ", ".join(f"{value:.4f}" for value in costs.mean(axis=0)),
        main=True,
    )


def _of_dimension(table: Table) -> Finding:
    costs = {
        name: table.where(panel="dimension", construction=name).column("cost")
        for name in _CONSTRUCTIONS
    }
    return Finding(
        "the best cost of random units falls with the dimension",
        all(bool(np.all(np.diff(each) < 0)) for each in costs.values()),
        f"pinv, d = 50 to 10,000: {costs['pinv'][0]:.3f} to {costs['pinv'][-1]:.4f}",
        of_paper=False,  # it is of the abstract, not of this figure
    )


def _of_simulation(part: Table) -> list[Finding]:
    dots = part.where(kind="simulated")
    gaps = []
    for row in dots.to_records():
        facts = (str(row["construction"]), float(row["similarity"]), float(row["cap"]))
        [expected] = curve(part, "exact", *facts).where(x=row["x"]).column("cost")
        gaps.append(cost_gap(float(row["cost"]), float(expected), float(row["error"])))
    return simulated_findings(gaps, dots.column("missed"), _MISS_RATE)


def plot(table: Table) -> Any:
    """Draw cost against n in each cap."""
    figure, panels = new_panels([f"cap η = {cap}" for cap in _CAPS])
    for panel, cap in zip(panels, _CAPS, strict=True):
        _draw_cap(panel, table.where(panel="unit size"), cap)
        finish(panel, ("unit size n", "cost C/N"), "xy")
    _explain(panels[0])
    share_legend(figure, panels)
    return figure


def _explain(panel: Any) -> None:
    """Name what a colour, a width, a dash and a mark mean; each line has all but the last."""
    for place, level in enumerate(_SHOWN):
        panel.plot([], [], "-", color=style(place)["color"], label=f"α₀ = {level}")
    for name, width in _WIDTHS.items():
        panel.plot([], [], "k-", linewidth=width, label=name)
    for kind, dash in _DASHES.items():
        panel.plot([], [], linestyle=dash, color="black", linewidth=1.1, label=f"{kind} formulas")
    for name, mark in _MARKS.items():
        panel.plot([], [], mark, color="black", markersize=3.5, label=f"{name}, simulated")


def _draw_cap(panel: Any, table: Table, cap: float) -> None:
    """Draw printed lines dashed and exact ones solid, thin for sum; dots are simulated."""
    for place, level in enumerate(_SHOWN):
        color = style(place)["color"]
        for name, width in _WIDTHS.items():
            for kind, dash in _DASHES.items():
                line = curve(table, kind, name, level, cap)
                look = {"linestyle": dash, "color": color, "linewidth": width}
                panel.plot(line.column("x"), line.column("cost"), **look)
            dots = curve(table, "simulated", name, level, cap)
            look = {"color": color, "markersize": 3.5}
            panel.plot(dots.column("x"), dots.column("cost"), _MARKS[name], **look)


FIG03 = Experiment(
    "fig03-cost-caps",
    "Figure 3",
    "Within a cap sum and pinv cost the same, less the narrower it is, and units can hold many "
    "more vectors than random ones.",
    SETTINGS,
    compute,
    check,
    plot,
)

__all__ = ["FIG03", "best_size", "farthest", "printed_cost"]
