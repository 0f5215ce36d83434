"""Figure 10: deep descriptors.

Command: ``python -m paper fig10-deep``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

from typing import Any

from memvec.index import IndexConfig
from paper.data_sets import visual_sets
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig07_retrieval import FIG07
from paper.quality_curves import (
    KMEANS_PINV,
    mean_table,
    over_runs,
    paper_config,
    quality_table,
    ratio_to_reach,
    spread,
)
from paper.table import Table

# The paper names 0.3 for memory vectors beside FLANN; for this figure it names nothing.
_SHARE, _BELOW = 0.99, 0.3
_RANDOM_PINV = "random pinv"

SETTINGS = FIG07.settings


def compute(run: Run) -> Table:
    """Return one curve for each data set, assignment and run."""
    size = run.settings["unit_size"]

    def variants(seed: int) -> dict[str, IndexConfig]:
        return {
            _RANDOM_PINV: paper_config("random", "pinv", size, seed),
            KMEANS_PINV: paper_config("kmeans", "pinv", size, seed),
        }

    sets = visual_sets(run.data, run.scale, "gem1280")
    return quality_table(run, "Quality with deep descriptors", sets, variants)


def check(table: Table) -> Verdict:
    """Test that a part of the exhaustive cost is enough."""
    findings = []
    for data in table.values("data"):
        reached, random = (
            over_runs(table, ratio_to_reach, data, name, _SHARE)
            for name in (KMEANS_PINV, _RANDOM_PINV)
        )
        findings.append(
            Finding(
                f"k-means pinv reaches {100 * _SHARE:.0f} % of the exhaustive quality below C/N = "
                f"{_BELOW}",
                bool(reached.mean() < _BELOW),
                f"at {spread(reached, 2)}; random pinv at {spread(random, 2)}",
                main=True,
                data=str(data),
            )
        )
    return Verdict(tuple(findings), reason="data: another network than the paper's")


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    return quality_figure(mean_table(table))


FIG10 = Experiment(
    "fig10-deep",
    "Figure 10",
    "The complexity falls with deep descriptors as it does with others.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["FIG10"]
