"""Figure 4: the probability that a unit holds a match, against its rank.

A query that is part of the data is left out of its unit. Command: ``python -m paper
fig04-unit-probability``. The protocol, the paper's and the one here, stands in `paper.protocols`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paper.drawing import lines_figure
from paper.experiment import Experiment, Finding, Run, Verdict, unless_collapsed
from paper.match_ranks import KMEANS, largest_units, rank_table
from paper.table import Table

_FASTER = 0.9
_LIKELY = 0.5

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"unit_size": 10, "rounds": 2, "runs": 2, "ranks": 60},
    "small": {"unit_size": 10, "rounds": 2, "runs": 5, "ranks": 200},
    "paper": {"unit_size": 10, "rounds": 2, "runs": 5, "ranks": 500},
}


def compute(run: Run) -> Table:
    """Return the probability of each rank."""
    return rank_table(run, "Units that hold a match, by rank")


def check(table: Table) -> Verdict:
    """Test that matches come first, and that they end sooner with k-means."""
    findings = []
    for data in table.values("data"):
        curves = {
            str(name): table.where(data=data, variant=name) for name in table.values("variant")
        }
        for name in (name for name in curves if name != "random"):
            made = (
                _first(str(data), name, curves[name], curves["random"]),
                _faster(str(data), name, curves[name], curves["random"]),
            )
            largest = float(curves[name].column("largest unit")[0])
            findings += [unless_collapsed(finding, largest) for finding in made]
    reason = "paper silent on rounds: plain sums grow uneven (Table 1)"
    return Verdict(tuple(findings), largest_units(table), reason)


def _first(data: str, name: str, curve: Table, random: Table) -> Finding:
    (height, other), (error, _) = (
        [float(each.column(column)[0]) for each in (curve, random)]
        for column in ("probability", "deviation")
    )
    return Finding(
        f"the best unit of {name} mostly holds a match, more often than at random",
        height > max(_LIKELY, other),
        f"{height:.2f} ± {error:.2f}, random {other:.2f}",
        of_paper=name in KMEANS,
        main=True,
        data=data,
    )


def _faster(data: str, name: str, curve: Table, random: Table) -> Finding:
    left, other = _later(curve), _later(random)
    return Finding(
        f"the probability falls faster with {name} than at random (ranks 11–20 over 1, at most "
        f"{_FASTER} times)",
        left <= _FASTER * other,
        f"{left:.3f}, random {other:.3f}",
        of_paper=name in KMEANS,
        main=True,
        data=data,
    )


def _later(curve: Table) -> float:
    """Return the probability at ranks 11 to 20, in shares of that at rank 1."""
    heights = curve.column("probability")
    return float(np.mean(heights[min(10, len(heights) - 1) : 20]) / max(heights[0], 1e-9))


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    labels = ("rank of the unit", "probability of a match")
    return lines_figure(
        table, "rank", "probability", "variant", panel="data", labels=labels, log="x"
    )


FIG04 = Experiment(
    "fig04-unit-probability",
    "Figure 4",
    "Units ranked first very likely hold a match; with k-means the probability falls faster.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["FIG04"]
