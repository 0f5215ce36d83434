"""Figure 10: deep descriptors.

Data: deep descriptors of Holidays, Oxford5k and UKB (``vectors_deep.*``) where they are given, else
GeM-pooled features of EfficientNet-Lite0 for Gardens Point by day and by night and UKB-56, whitened
to 512 dimensions. Command: ``python -m paper fig10-deep``. Expected outcome: close to the
exhaustive quality at a complexity well below 1. Known drift: the paper's features are the neural
codes of Babenko et al., 4096 dimensions.
"""

from __future__ import annotations

from typing import Any

from paper.data_sets import visual_sets
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig04_unit_probability import SUM_NOTE
from paper.fig07_retrieval import FIG07
from paper.quality_curves import kmeans_variants, quality_table, ratio_to_reach
from paper.table import Table

SETTINGS = FIG07.settings


def compute(run: Run) -> Table:
    """Return one curve for each data set and construction, with k-means units."""
    size = run.settings["unit_size"]
    variants = kmeans_variants(size, run.seed)
    sets = visual_sets(run.data, run.scale, "gem1280")
    return quality_table(run, "Quality with deep descriptors", sets, variants)


def check(table: Table) -> Verdict:
    """Test that half of the exhaustive cost is enough."""
    findings = []
    for data in table.values("data"):
        reached = {name: ratio_to_reach(table, data, name) for name in table.values("variant")}
        findings.append(
            Finding(
                f"{data}: k-means with pinv has 99 % of the exhaustive quality below ratio 0.5",
                reached["k-means pinv"] < 0.5,
                ", ".join(f"{name} {ratio:.2f}" for name, ratio in reached.items()),
                main=True,
            )
        )
    return Verdict(tuple(findings), SUM_NOTE)


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    return quality_figure(table)


FIG10 = Experiment(
    "fig10-deep",
    "Figure 10",
    "Memory vectors reduce the complexity with deep descriptors as they do with others.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="{deep photographs} The paper has neural codes of 4096 dimensions.",
    photographs=True,
)

__all__ = ["FIG10"]
