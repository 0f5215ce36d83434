"""Figure 14: k-means in batches of several sizes.

Command: ``python -m paper fig14-batches``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.index import IndexConfig
from paper.data_sets import large_set
from paper.drawing import quality_figure
from paper.experiment import Experiment, Finding, Run, Verdict
from paper.fig07_retrieval import RATIOS
from paper.quality_curves import (
    mean_height,
    mean_table,
    over_runs,
    paper_config,
    quality_table,
    spread,
)
from paper.table import Table

_CLEAR, _STEADY = 0.01, 0.03

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"vectors": 1500, "batches": (300,), "runs": 2, "ratios": (0.12, 0.2, 0.4, 0.7)},
    # WordNet has 117,659 synsets; some of them ask.
    "small": {"vectors": 117_000, "batches": (1170, 11_700), "runs": 5, "ratios": RATIOS},
    "paper": {"vectors": 117_000, "batches": (1170, 11_700), "runs": 5, "ratios": RATIOS},
}


def compute(run: Run) -> Table:
    """Return the curves of random units, of batches and of k-means of everything."""
    data = large_set(run.data, run.scale, run.seed, run.settings["vectors"])
    # Among fewer vectors, such as the packaged sample, the larger batches would be all of them.
    sizes = [size for size in run.settings["batches"] if size < len(data.vectors)]

    def variants(seed: int) -> dict[str, IndexConfig]:
        batches = {f"batches of {size:,}": size for size in sizes}
        return {
            "random": paper_config("random", "pinv", 10, seed),
            **{
                name: paper_config("kmeans", "pinv", 10, seed, batch_size=size)
                for name, size in {**batches, "full": None}.items()
            },
        }

    return quality_table(run, "Quality with batches", [data], variants)


def check(table: Table) -> Verdict:
    """Test that batches improve on random units, and that runs agree."""
    [data] = table.values("data")
    names = [str(name) for name in table.values("variant")]
    heights = {name: over_runs(table, mean_height, data, name) for name in names}
    batches = [heights[name].mean() for name in names if name.startswith("batches")]
    text = ", ".join(f"{name} {spread(values)}" for name, values in heights.items())
    means = mean_table(table)
    return Verdict(
        (
            Finding(
                f"every batch size finds more than random units (by {_CLEAR})",
                bool(min(batches) >= heights["random"].mean() + _CLEAR),
                text,
                main=True,
            ),
            Finding(
                "larger batches find at least as much, up to k-means of everything (within 0.01)",
                bool(np.all(np.diff([*batches, heights["full"].mean()]) >= -0.01)),
                text,
                of_paper=False,
            ),
            Finding(
                f"runs differ little (deviation of the quality at most {_STEADY})",
                bool(means.column("deviation").max() <= _STEADY),
                f"at most {means.column('deviation').max():.3f}",
                of_paper=False,
            ),
        ),
        reason="data: embeddings of texts in place of images",
    )


def plot(table: Table) -> Any:
    """Draw one curve a batch size."""
    return quality_figure(mean_table(table))


FIG14 = Experiment(
    "fig14-batches",
    "Figure 14",
    "K-means in batches improves on random units, while the clustering stays manageable.",
    SETTINGS,
    compute,
    check,
    plot,
)

__all__ = ["FIG14"]
