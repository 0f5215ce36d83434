"""Figure 9: the same after PCA.

Data: Gardens Point by day and by night and UKB-56; PCA learned on the data searched. Command:
``python -m paper fig09-pca``. Expected outcome: quality close to that of all dimensions, at the
same complexity ratios. Known drift: the paper reduces 8064 dimensions to 1024, an eighth; here 1920
are reduced to 128 and 256, since there are fewer than 1024 photographs to learn from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.codes import Projection
from paper.data_sets import visual_sets
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig07_retrieval import RATIOS
from paper.quality_curves import (
    CURVE_COLUMNS,
    curve_rows,
    paper_config,
    ratio_to_reach,
    search_units,
)
from paper.table import Cell, Table

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"dims": (48,), "ratios": (0.12, 0.2, 0.4, 0.7, 1.1)},
    "small": {"dims": (128, 256), "ratios": RATIOS},
    "paper": {"dims": (256, 512, 1024), "ratios": RATIOS},
}


def compute(run: Run) -> Table:
    """Return curves of the full vectors and of reduced ones, k-means with pinv."""
    sets = visual_sets(run.data, run.scale)
    rows: list[tuple[Cell, ...]] = []
    with run.bar("fig09-pca", len(sets)) as advance:
        for data in sets:
            dim = data.vectors.shape[1]
            reduced = {f"d = {dim}": data}
            for out_dim in run.settings["dims"]:
                if out_dim >= min(data.vectors.shape):
                    continue  # there are not so many directions to learn
                projection = Projection.fit(data.vectors, out_dim, seed=run.seed)
                reduced[f"PCA to {out_dim}"] = data.projected(projection, data.name)
            for variant, part in reduced.items():
                units = search_units(part, paper_config("kmeans", "pinv", 10, run.seed))
                rows += curve_rows(part, variant, units, run.settings["ratios"])
            advance(1)
    return Table("Quality after PCA", CURVE_COLUMNS, tuple(rows))


def check(table: Table) -> Verdict:
    """Test that the largest reduced dimension loses little, and needs no more of the data."""
    findings = []
    for data in table.values("data"):
        part = table.where(data=data)
        full, *others = part.values("variant")
        if not others:
            claim = f"{data}: after PCA the quality is that of all dimensions"
            few = "there are no more vectors than dimensions to reduce to"
            findings.append(Finding(claim, False, few, main=True, tested=False))
            continue
        reduced = others[-1]
        before, after = (part.where(variant=name).column("baseline")[0] for name in (full, reduced))
        reached = ratio_to_reach(table, data, full), ratio_to_reach(table, data, reduced)
        findings += [
            Finding(
                f"{data}: {reduced} has the quality of {full} (at least 95 %)",
                bool(after >= 0.95 * before),
                f"{after:.3f} and {before:.3f}, exhaustive",
                main=True,
            ),
            Finding(
                f"{data}: it comes to 99 % of its exhaustive quality at about the same ratio "
                "(within 0.1)",
                reached[1] <= reached[0] + 0.1 < np.inf,
                f"{reached[1]:.2f} and {reached[0]:.2f}",
            ),
        ]
    return Verdict(tuple(findings))


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    return quality_figure(table)


FIG09 = Experiment(
    "fig09-pca",
    "Figure 9",
    "After PCA the quality is close to that of all dimensions, and memory vectors save as much.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="{photographs} The paper reduces 8064 dimensions to 1024; PCA finds no more "
    "directions than there are vectors to learn from, and here learns from those searched.",
    photographs=True,
)

__all__ = ["FIG09"]
