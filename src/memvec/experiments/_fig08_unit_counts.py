"""Figure 8: quality against complexity for several numbers of units.

Data: Gardens Point by day. Command: ``memvec reproduce fig08-unit-counts``. Expected outcome: with
k-means, few large units still find most; with random assignment they do not. Known drift: the
paper's data is Oxford5k.
"""

from __future__ import annotations

from typing import Any

from memvec.experiments._curves import (
    CURVE_COLUMNS,
    curve_rows,
    paper_config,
    quality_at,
    search_units,
)
from memvec.experiments._data import visual_sets
from memvec.experiments._experiment import Experiment, Finding, Run, Verdict
from memvec.experiments._figures import quality_figure
from memvec.experiments._table import Cell, Table

_RATIOS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9, 1.1)

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"sizes": (10, 40), "ratios": (0.05, 0.12, 0.2, 0.4, 1.1)},
    "small": {"sizes": (5, 10, 20, 50), "ratios": _RATIOS},
    "paper": {"sizes": (5, 10, 20, 50, 100), "ratios": _RATIOS},
}


def compute(run: Run) -> Table:
    """Return one curve for each assignment and size; the panels are the assignments."""
    data = visual_sets(run.data, run.scale)[0]
    rows: list[tuple[Cell, ...]] = []
    with run.bar("fig08-unit-counts", 2 * len(run.settings["sizes"])) as advance:
        for assignment in ("random", "kmeans"):
            for size in run.settings["sizes"]:
                units = search_units(data, paper_config(assignment, "pinv", size, run.seed))
                ratios = [ratio for ratio in run.settings["ratios"] if ratio > 1 / size]
                drawn = curve_rows(data, f"N/{size}", units, ratios)
                rows += [(f"{data.name}, {assignment}", *row[1:]) for row in drawn]
                advance(1)
    return Table("Quality for several numbers of units", CURVE_COLUMNS, tuple(rows))


def check(table: Table) -> Verdict:
    """Test that the fewest units serve k-means and not random assignment."""
    at_random, with_kmeans = table.values("data")
    few, ten = table.values("variant")[-1], "N/10"
    large = {name: quality_at(table, name, few, 0.2) for name in (at_random, with_kmeans)}
    usual = {name: quality_at(table, name, ten, 0.2) for name in (at_random, with_kmeans)}
    return Verdict(
        (
            Finding(
                f"with {few} units, k-means keeps most of the quality at ratio 0.2 (at least 90 %)",
                large[with_kmeans] >= 0.9,
                f"k-means {large[with_kmeans]:.3f}, random {large[at_random]:.3f} of the "
                "exhaustive quality",
            ),
            Finding(
                f"with {few} units, random assignment loses more against {ten} than k-means does",
                usual[at_random] - large[at_random] > usual[with_kmeans] - large[with_kmeans],
                f"random {usual[at_random]:.3f} to {large[at_random]:.3f}, k-means "
                f"{usual[with_kmeans]:.3f} to {large[with_kmeans]:.3f}",
            ),
        )
    )


def plot(table: Table) -> Any:
    """Draw one panel an assignment."""
    return quality_figure(table)


FIG08 = Experiment(
    "fig08-unit-counts",
    "Figure 8",
    "K-means can do with fewer and larger units and still find most; random assignment cannot.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="{photographs}",
)

__all__ = ["FIG08"]
