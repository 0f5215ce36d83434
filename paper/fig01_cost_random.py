"""Figure 1: what a search costs, against the size of random units.

Data: uniform vectors, d = 1000, ε = 0.01. Command: ``python -m paper fig01-cost-random``. Expected
outcome: simulated searches on the lines of the theory. Known drift: the lines are the exact laws,
not the paper's Gaussian ones; at this dimension they differ by less than the width of a line.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from memvec.index import Index
from memvec.theory import cost_curve, sample_sphere, unit_design
from memvec.types import Float32Array, Float64Array
from paper.drawing import finish, new_panels, style
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.quality_curves import paper_config
from paper.simulated_queries import planted_queries
from paper.table import Cell, Table, plain

_MISS_RATE = 0.01
_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
_CONSTRUCTIONS = ("sum", "pinv")

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 200, "largest": 60, "units": 40, "queries": 60, "simulated": (5, 20)},
    "small": {
        "dim": 1000,
        "largest": 200,
        "units": 60,
        "queries": 200,
        "simulated": (5, 15, 40, 100),
    },
    "paper": {
        "dim": 1000,
        "largest": 200,
        "units": 200,
        "queries": 1000,
        "simulated": (5, 10, 20, 40, 80, 150),
    },
}

_COLUMNS = ("kind", "construction", "similarity", "unit_size", "cost", "error", "missed")


def compute(run: Run) -> Table:
    """Return the theory's cost of every unit size, and measured costs of some."""
    rows = _theory(run.settings["dim"], run.settings["largest"])
    rng = np.random.default_rng(run.seed)
    with run.bar("fig01-cost-random", len(run.settings["simulated"])) as advance:
        for unit_size in run.settings["simulated"]:
            rows += _simulated(run, unit_size, rng)
            advance(1)
    return Table("Cost against the size of random units", _COLUMNS, tuple(rows))


def _theory(dim: int, largest: int) -> list[tuple[Cell, ...]]:
    sizes = np.unique(np.geomspace(2, largest, 40).astype(int)).tolist()
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
    dim, n_queries = run.settings["dim"], run.settings["queries"]
    vectors = sample_sphere(run.settings["units"] * unit_size, dim, rng).astype(np.float32)
    queries = sample_sphere(n_queries, dim, rng)
    rows = []
    for construction in _CONSTRUCTIONS:
        index = Index.build(vectors, config=paper_config("random", construction, unit_size, 0))
        for similarity in _SIMILARITIES:
            rows.append(_measured(index, vectors, queries, similarity, rng))
    return rows


def _measured(
    index: Index,
    vectors: Float32Array,
    queries: Any,
    similarity: float,
    rng: np.random.Generator,
) -> tuple[Cell, ...]:
    """Search unrelated queries for their cost and planted ones for their misses."""
    construction, unit_size = str(index.config.construction), int(index.config.unit_size)
    made = unit_design(
        construction,  # type: ignore[arg-type]
        unit_size=unit_size,
        dim=index.dim,
        similarity=similarity,
        miss_rate=_MISS_RATE,
    )
    work = index.range_search(queries, similarity, threshold=made.threshold).work
    chosen = rng.choice(len(vectors), min(len(queries), len(vectors)), replace=False)
    planted = planted_queries(vectors[chosen], similarity, rng)
    found = index.range_search(planted, 0.99 * similarity, threshold=made.threshold)
    missed = np.mean([own not in row.ids for own, row in zip(chosen, found, strict=True)])
    rate = made.false_positive_rate
    error = math.sqrt(rate * (1 - rate) / (len(queries) * len(index.unit_sizes)))
    cost = work.cost_ratio
    return plain(["simulated", construction, similarity, unit_size, cost, error, missed])


def check(table: Table) -> Verdict:
    """Test that the lines are right, and what the paper reads off them."""
    return Verdict((*_check_simulation(table), *_check_lines(table)))


def _check_simulation(table: Table) -> list[Finding]:
    dots, lines = table.where(kind="simulated"), table.where(kind="theory")
    gaps: list[float] = []
    for row in dots.to_records():
        curve = lines.where(construction=row["construction"], similarity=row["similarity"])
        # The line is drawn at some sizes; 1/n + P_fp between them by its two smooth parts.
        sizes, costs = curve.column("unit_size"), curve.column("cost")
        size, error = float(row["unit_size"]), float(row["error"])
        expected = 1 / size + float(np.interp(size, sizes, costs - 1 / sizes))
        gaps.append(abs(float(row["cost"]) - expected) / (4 * error + 0.002))
    missed = dots.column("missed")
    return simulated_findings(gaps, missed, _MISS_RATE)


def simulated_findings(gaps: list[float], missed: Float64Array, miss_rate: float) -> list[Finding]:
    """Return whether simulated costs lie on the lines, and matches are missed as often as asked.

    Gaps are in shares of what is allowed: 4 standard errors and 0.002.
    """
    return [
        Finding(
            "simulated costs lie on the lines (4 standard errors and 0.002)",
            max(gaps) <= 1,
            f"largest gap {max(gaps):.2f} of that, over {len(gaps)} points",
        ),
        Finding(
            "simulated matches at cosine α₀ are missed as often as asked, "
            f"{100 * miss_rate:g} % (within 0.5 %)",
            bool(abs(missed.mean() - miss_rate) <= 0.005),
            f"missed {100 * missed.mean():.2f} %",
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
        ),
        Finding(
            "at the best n the cost is below one tenth of an exhaustive search, even at α₀ = 0.5",
            max(costs) < 0.1,
            f"pinv: {text}; sum at 0.5: {sums[0]:.3f}",
        ),
        Finding(
            "pinv costs less than sum at its best n, for every α₀",
            all(pinv < total for pinv, total in zip(costs, sums, strict=True)),
            f"pinv over sum from {min(np.divide(costs, sums)):.2f} "
            f"to {max(np.divide(costs, sums)):.2f}",
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
    return figure


FIG01 = Experiment(
    "fig01-cost-random",
    "Figure 1",
    "With random units, the cost of a search has a minimum at a unit size that grows with the "
    "similarity; even at 0.5 it is below one tenth of that of an exhaustive search.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="Uniform vectors. The lines are the exact laws of the scores, not the Gaussian ones "
    "of the paper.",
)

__all__ = ["FIG01"]
