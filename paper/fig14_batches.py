"""Figure 14: k-means in batches of several sizes.

Command: ``python -m paper fig14-batches``. The protocol, the paper's and the one here, stands in
`paper.protocols`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.index import IndexConfig
from paper.data_sets import batched_sets
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
from paper.retrieval_sets import RetrievalSet
from paper.table import Table

_CLEAR, _STEADY = 0.01, 0.03
# A batch of fewer vectors holds few units; those of the paper hold a thousand.
_SIZE, _LEAST = 10, 200

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"vectors": 1500, "batches": (5,), "runs": 2, "ratios": (0.12, 0.2, 0.4, 0.7)},
    # K-means of everything takes time that grows with the square of the number.
    "small": {"vectors": 40_000, "batches": (100, 10), "runs": 5, "ratios": RATIOS},
    # WordNet has 117,659 synsets; some of them ask.
    "paper": {"vectors": 117_000, "batches": (100, 10), "runs": 5, "ratios": RATIOS},
}


def compute(run: Run) -> Table:
    """Return the curves of random units, of batches and of k-means of everything."""
    sets = batched_sets(run.data, run.scale, run.seed, run.settings["vectors"])
    tables = [_of_set(run, data) for data in sets]
    rows = tuple(row for table in tables for row in table.rows)
    return Table("Quality with batches", tables[0].columns, rows)


def _of_set(run: Run, data: RetrievalSet) -> Table:
    sizes = {f"batches of N/{part}": len(data.vectors) // part for part in run.settings["batches"]}
    batches = {name: size for name, size in sizes.items() if size >= _LEAST}

    def variants(seed: int) -> dict[str, IndexConfig]:
        return {
            "random": paper_config("random", "pinv", _SIZE, seed),
            **{
                name: paper_config("kmeans", "pinv", _SIZE, seed, batch_size=size)
                for name, size in {**batches, "full": None}.items()
            },
        }

    return quality_table(run, f"fig14-batches, {data.name}", [data], variants)


def check(table: Table) -> Verdict:
    """Test that batches improve on random units, and that runs agree."""
    findings = [
        finding
        for data in table.values("data")
        for finding in _of_batches(str(data), table.where(data=data))
    ]
    return Verdict(tuple(findings), reason="data: by day random units leave little to improve on")


def _of_batches(data: str, part: Table) -> list[Finding]:
    names = [str(name) for name in part.values("variant")]
    heights = {name: over_runs(part, mean_height, data, name) for name in names}
    batches = [heights[name].mean() for name in names if name.startswith("batches")]
    text = ", ".join(f"{name} {spread(values)}" for name, values in heights.items())
    deviation = mean_table(part).column("deviation").max()
    return [
        Finding(
            f"every batch size finds more than random units (by {_CLEAR})",
            bool(min(batches) >= heights["random"].mean() + _CLEAR),
            text,
            main=True,
            data=data,
        ),
        Finding(
            "larger batches find at least as much, up to k-means of everything (within 0.01)",
            bool(np.all(np.diff([*batches, heights["full"].mean()]) >= -0.01)),
            text,
            of_paper=False,
            data=data,
        ),
        Finding(
            f"runs differ little (deviation of the quality at most {_STEADY})",
            bool(deviation <= _STEADY),
            f"at most {deviation:.3f}",
            of_paper=False,
            data=data,
        ),
    ]


def plot(table: Table) -> Any:
    """Draw one panel a data set, one curve a batch size."""
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
