"""Figure 1: what a search costs, against the size of random units.

Command: ``python -m paper fig01-cost-random``. The protocol, the paper's and the one here, stands
in `paper.protocols`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from memvec.index import Index
from memvec.theory import cost_curve, sample_sphere, unit_design
from memvec.types import Float32Array, Float64Array
from paper.drawing import finish, new_panels, share_legend, style
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.quality_curves import paper_config
from paper.simulated_queries import passing_rates, planted_queries
from paper.table import Cell, Table, plain

_MISS_RATE = 0.01
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
_CONSTRUCTIONS = ("sum", "pinv")
_RELATIVE = 0.02

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 200, "largest": 60, "units": 60, "simulated": (5, 20)},
    "small": {"dim": 1000, "largest": 200, "units": 200, "simulated": (5, 15, 40, 100)},
    "paper": {"dim": 1000, "largest": 200, "units": 1000, "simulated": (5, 10, 20, 40, 80, 150)},
}

_COLUMNS = ("kind", "construction", "similarity", "unit_size", "cost", "error", "missed")


def compute(run: Run) -> Table:
    """Return the theory's cost of every unit size, and measured costs of some."""
    rows = _theory(run.settings["dim"], run.settings["largest"], run.settings["simulated"])
    rng = np.random.default_rng(run.seed)
    with run.bar("fig01-cost-random", len(run.settings["simulated"])) as advance:
        for unit_size in run.settings["simulated"]:
            rows += _simulated(run, unit_size, rng)
            advance(1)
    return Table("Cost against the size of random units", _COLUMNS, tuple(rows))


def _theory(dim: int, largest: int, also: tuple[int, ...]) -> list[tuple[Cell, ...]]:
    sizes = np.union1d(np.geomspace(2, largest, 40).astype(int), also).tolist()
    rows = []
    for construction in _CONSTRUCTIONS:
        for similarity in _SIMILARITIES:
            curve = cost_curve(
                construction,  # type: ignore[arg-type]
                sizes,
                dim=dim,
                similarity=similarity,
                miss_rate=_MISS_RATE,
            )
            rows += [
                plain(["theory", construction, similarity, made.unit_size, made.cost_ratio, 0, 0])
                for made in curve
            ]
    return rows


def _simulated(run: Run, unit_size: int, rng: np.random.Generator) -> list[tuple[Cell, ...]]:
    vectors = sample_sphere(run.settings["units"] * unit_size, run.settings["dim"], rng)
    rows = []
    for construction in _CONSTRUCTIONS:
        config = paper_config("random", construction, unit_size, 0)
        index = Index.build(vectors.astype(np.float32), config=config)
        for similarity in _SIMILARITIES:
            rows.append(_measured(index, vectors.astype(np.float32), similarity, rng))
    return rows


def _measured(
    index: Index, vectors: Float32Array, similarity: float, rng: np.random.Generator
) -> tuple[Cell, ...]:
    """Return the cost of unrelated queries, and the share of planted ones that is missed."""
    construction, unit_size = str(index.config.construction), int(index.config.unit_size)
    made = unit_design(
        construction,  # type: ignore[arg-type]
        unit_size=unit_size,
        dim=index.dim,
        similarity=similarity,
        miss_rate=_MISS_RATE,
    )
    rates = passing_rates(index.unit_vectors, made.threshold)
    firsts = np.array([np.flatnonzero(index.labels == unit)[0] for unit in range(len(rates))])
    planted = planted_queries(vectors[firsts], similarity, rng)
    scores = np.sum(planted * index.unit_vectors, axis=1)
    error = rates.std(ddof=1) / np.sqrt(len(rates))
    missed = np.mean(scores < made.threshold)
    cost = 1 / unit_size + rates.mean()
    return plain(["simulated", construction, similarity, unit_size, cost, error, missed])


def check(table: Table) -> Verdict:
    """Test that the lines are right, and what the paper reads off them."""
    return Verdict((*_check_simulation(table), *_check_lines(table)))


def _check_simulation(table: Table) -> list[Finding]:
    dots, lines = table.where(kind="simulated"), table.where(kind="theory")
    gaps = []
    for row in dots.to_records():
        curve = lines.where(construction=row["construction"], similarity=row["similarity"])
        sizes, costs = curve.column("unit_size"), curve.column("cost")
        [expected] = costs[sizes == float(row["unit_size"])]
        gaps.append(cost_gap(float(row["cost"]), float(expected), float(row["error"])))
    return simulated_findings(gaps, dots.column("missed"), _MISS_RATE)


def cost_gap(cost: float, expected: float, error: float) -> float:
    """Return how far a simulated cost lies from its line, in shares of what is allowed."""
    return abs(cost - expected) / (_RELATIVE * expected + 4 * error)


def simulated_findings(gaps: list[float], missed: Float64Array, miss_rate: float) -> list[Finding]:
    """Return whether simulated costs lie on the lines, and matches are missed as often as asked."""
    return [
        Finding(
            f"simulated costs lie on the lines ({100 * _RELATIVE:g} % and 4 standard errors)",
            max(gaps) <= 1,
            f"largest gap {max(gaps):.2f} of that, over {len(gaps)} points",
            of_paper=False,
        ),
        Finding(
            f"simulated matches at cosine α₀ are missed as often as asked, {100 * miss_rate:g} % "
            "(within 0.5 %)",
            bool(abs(missed.mean() - miss_rate) <= 0.005),
            f"missed {100 * missed.mean():.2f} %",
            of_paper=False,
        ),
    ]


def _check_lines(table: Table) -> list[Finding]:
    best = {
        (construction, similarity): _best(table, construction, similarity)
        for construction in _CONSTRUCTIONS
        for similarity in _SIMILARITIES
    }
    sizes = [best["pinv", similarity][0] for similarity in _SIMILARITIES]
    costs = [best["pinv", similarity][1] for similarity in _SIMILARITIES]
    sums = [best["sum", similarity][1] for similarity in _SIMILARITIES]
    grow = all(first <= second for first, second in itertools.pairwise(sizes))
    text = ", ".join(f"{cost:.3f}" for cost in costs)
    return [
        Finding(
            "the best n grows with α₀",
            grow,
            "n* of pinv for α₀ 0.5 to 0.9: " + ", ".join(f"{size:g}" for size in sizes),
            main=True,
        ),
        Finding(
            "at the best n the cost is below one tenth of an exhaustive search, even at α₀ = 0.5",
            max(costs) < 0.1,
            f"pinv: {text}; sum at 0.5: {sums[0]:.3f}",
            main=True,
        ),
        Finding(
            "pinv costs less than sum at its best n, for every α₀",
            all(pinv < total for pinv, total in zip(costs, sums, strict=True)),
            f"pinv over sum from {min(np.divide(costs, sums)):.2f} "
            f"to {max(np.divide(costs, sums)):.2f}",
            main=True,
        ),
    ]


def _best(table: Table, construction: str, similarity: float) -> tuple[float, float]:
    curve = table.where(kind="theory", construction=construction, similarity=similarity)
    place = int(np.argmin(curve.column("cost")))
    return float(curve.column("unit_size")[place]), float(curve.column("cost")[place])


def plot(table: Table) -> Any:
    """Draw lines of the theory and points of the simulation, one panel a construction."""
    figure, panels = new_panels(_CONSTRUCTIONS)
    for panel, construction in zip(panels, _CONSTRUCTIONS, strict=True):
        for place, similarity in enumerate(_SIMILARITIES):
            part = table.where(construction=construction, similarity=similarity)
            line, dots = part.where(kind="theory"), part.where(kind="simulated")
            look = style(place)
            panel.plot(
                line.column("unit_size"),
                line.column("cost"),
                color=look["color"],
                linestyle=look["linestyle"],
                label=f"α₀ = {similarity}",
            )
            look["linestyle"] = "none"
            panel.plot(dots.column("unit_size"), dots.column("cost"), **look)
        finish(panel, ("unit size n", "cost C/N"), "xy")
    panels[0].plot([], [], "o", color="black", markersize=3, label="simulated (all marks)")
    share_legend(figure, panels)
    return figure


FIG01 = Experiment(
    "fig01-cost-random",
    "Figure 1",
    "The cost has a minimum at an n that grows with α₀; even at α₀ = 0.5 it is below one tenth of "
    "exhaustive search; pinv costs less than sum.",
    SETTINGS,
    compute,
    check,
    plot,
)

__all__ = ["FIG01", "cost_gap", "simulated_findings"]
