"""Figure 9: the same after PCA.

Command: ``python -m paper fig09-pca``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.index import IndexConfig
from paper.data_sets import pca_pairs
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig07_retrieval import RATIOS
from paper.quality_curves import (
    mean_table,
    over_runs,
    paper_config,
    quality_table,
    ratio_to_reach,
    spread,
)
from paper.table import Cell, Table

_KEPT, _SHARE, _SAME = 0.95, 0.99, 0.1

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dim": 48, "runs": 2, "ratios": (0.12, 0.2, 0.4, 0.7)},
    "small": {"dim": 1024, "runs": 5, "ratios": RATIOS},
    "paper": {"dim": 1024, "runs": 5, "ratios": RATIOS},
}


def compute(run: Run) -> Table:
    """Return curves of the full vectors and of reduced ones, k-means with pinv."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pca_pairs(run.data, run.scale, run.settings["dim"]):
        for data in pair:
            found = quality_table(run, f"fig09-pca, {data.name}", [data], _variants)
            name = f"d = {data.vectors.shape[1]}"
            rows += [(row[0], name, *row[2:]) for row in found.rows]
    return Table("Quality after PCA", found.columns, tuple(rows))


def _variants(seed: int) -> dict[str, IndexConfig]:
    return {"pinv": paper_config("kmeans", "pinv", 10, seed)}


def check(table: Table) -> Verdict:
    """Test that the reduced vectors lose little, and need no more of the data."""
    findings = []
    for data in table.values("data"):
        part = table.where(data=data)
        full, reduced = part.values("variant")
        before, after = (part.where(variant=name).column("baseline")[0] for name in (full, reduced))
        reached = [over_runs(part, ratio_to_reach, data, name, _SHARE) for name in (full, reduced)]
        findings += [
            Finding(
                f"after PCA the exhaustive quality is at least {100 * _KEPT:.0f} % of that of all "
                "dimensions",
                bool(after >= _KEPT * before),
                f"{after:.3f} ({reduced}) and {before:.3f} ({full})",
                main=True,
                data=str(data),
            ),
            Finding(
                f"it reaches {100 * _SHARE:.0f} % of that at about the same C/N (at most {_SAME} "
                "more)",
                bool(reached[1].mean() <= reached[0].mean() + _SAME < np.inf),
                f"{spread(reached[1], 2)} and {spread(reached[0], 2)}",
                main=True,
                data=str(data),
            ),
        ]
    return Verdict(tuple(findings), reason="data: other photographs than the paper's")


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    rows: list[tuple[Cell, ...]] = []
    for data in table.values("data"):
        means = mean_table(table.where(data=data))
        full, reduced = means.values("variant")
        names = {full: "all dimensions", reduced: str(reduced).replace("d", "d′", 1)}
        rows += [(row[0], names[row[1]], *row[2:]) for row in means.rows]
    return quality_figure(Table(table.title, means.columns, tuple(rows)))


FIG09 = Experiment(
    "fig09-pca",
    "Figure 9",
    "After PCA to d′ = 1024, quality and savings are close to those of all dimensions.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["FIG09"]
