"""Figure 8: quality against complexity for several numbers of units.

Command: ``python -m paper fig08-unit-counts``. The protocol, the paper's and the one here, stands
in `paper.protocols`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.index import IndexConfig
from paper.data_sets import closed_sets
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.quality_curves import (
    mean_table,
    over_runs,
    paper_config,
    quality_at,
    quality_table,
    spread,
)
from paper.retrieval_sets import RetrievalSet
from paper.table import Table

_ASSIGNMENTS = {"random": "random", "kmeans": "k-means"}
_RATIOS = (0.03, 0.05, 0.07, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7)
_RATIO, _KEPT = 0.2, 0.9

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"sizes": (10, 40), "runs": 2, "ratios": (0.05, 0.12, 0.2, 0.4)},
    "small": {"sizes": (10, 50), "runs": 5, "ratios": _RATIOS},
    "paper": {"sizes": (5, 10, 20, 50, 100), "runs": 5, "ratios": _RATIOS},
}


def compute(run: Run) -> Table:
    """Return one curve for each assignment, number of units and run."""

    def variants(seed: int) -> dict[str, IndexConfig]:
        return {
            f"{word}, M = N/{size}": paper_config(assignment, "pinv", size, seed)
            for assignment, word in _ASSIGNMENTS.items()
            for size in run.settings["sizes"]
        }

    sets = _searched(closed_sets(run.data, run.scale))
    return quality_table(run, "Quality for several numbers of units", sets, variants)


def _searched(sets: list[RetrievalSet]) -> list[RetrievalSet]:
    """Return the paper's set, or, without it, the sets of figure 7."""
    return [data for data in sets if data.name == "Oxford5k"] or sets


def check(table: Table) -> Verdict:
    """Test that the fewest units serve k-means and not random assignment."""
    few = str(table.values("variant")[-1]).rpartition(", ")[2]
    findings = []
    for data in table.values("data"):
        kept = {
            word: over_runs(table, quality_at, data, f"{word}, {few}", _RATIO)
            for word in _ASSIGNMENTS.values()
        }
        text = f"k-means {spread(kept['k-means'])}, random {spread(kept['random'])}"
        where = f"with {few} units at C/N = {_RATIO}, "
        findings += [
            Finding(
                f"{where}k-means keeps {100 * _KEPT:.0f} % of the exhaustive quality",
                bool(kept["k-means"].mean() >= _KEPT),
                text,
                main=True,
                data=str(data),
            ),
            Finding(
                f"{where}random assignment does not",
                bool(np.mean(kept["random"]) < _KEPT),
                text,
                main=True,
                data=str(data),
            ),
        ]
    return Verdict(tuple(findings), reason=REASON)


REASON = "data: random units find the 14 objects of UKB-56 as well"


def plot(table: Table) -> Any:
    """Draw one panel for each data set and assignment."""
    means = mean_table(table)
    rows = tuple(
        (f"{row[0]}, {name.partition(', ')[0]}", name.partition(", ")[2], *row[2:])
        for row in means.rows
        if (name := str(row[1]))
    )
    return quality_figure(Table(means.title, means.columns, rows), per_row=2)


FIG08 = Experiment(
    "fig08-unit-counts",
    "Figure 8",
    "With k-means, fewer and larger units still find most; with random assignment they do not.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["FIG08"]
