"""Figure 5: how many matches a unit holds that holds one, against its rank.

Command: ``python -m paper fig05-matches-per-unit``. The protocol, the paper's and the one here,
stands in `paper.protocols`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from paper.drawing import lines_figure
from paper.experiment import Experiment, Finding, Run, Verdict, unless_collapsed
from paper.fig04_unit_probability import FIG04
from paper.match_ranks import KMEANS, largest_units, rank_table
from paper.table import Table

SETTINGS = FIG04.settings
# What counts as about one, and how much more as more.
_ABOUT_ONE, _MORE = 1.1, 1.1
# Ranks at which a smaller share of the queries has a match show single units; they are not drawn.
_SHOWN = 0.02


def compute(run: Run) -> Table:
    """Return the mean number of matches of each rank."""
    return rank_table(run, "Matches in a positive unit, by rank")


def check(table: Table) -> Verdict:
    """Test that random units hold about one match and the first k-means units more."""
    findings = []
    for data in table.values("data"):
        random = table.where(data=data, variant="random")
        mean, chance = (float(random.column(name)[0]) for name in ("mean matches", "by chance"))
        findings.append(
            Finding(
                f"a random unit that holds a match holds about one (at most {_ABOUT_ONE})",
                mean <= _ABOUT_ONE,
                f"{mean:.3f}, by chance {chance:.3f}",
                main=True,
                data=str(data),
            )
        )
        by_chance = _of_the_best(random, mean)
        for name in (str(name) for name in table.values("variant") if name != "random"):
            part = table.where(data=data, variant=name)
            held = _of_the_best(part, 0.0)
            finding = Finding(
                f"among the three best units of {name}, those with a match hold more matches than "
                f"random ones (by {100 * (_MORE - 1):.0f} %)",
                held >= _MORE * by_chance,
                f"{held:.2f}, random {by_chance:.2f}",
                of_paper=name in KMEANS,
                main=True,
                data=str(data),
            )
            findings.append(unless_collapsed(finding, float(part.column("largest unit")[0])))
    reason = "paper silent on rounds: plain sums grow uneven (Table 1)"
    return Verdict(tuple(findings), largest_units(table), reason)


def _of_the_best(part: Table, otherwise: float) -> float:
    """Return the mean number of matches in those of the three best units that hold one."""
    weights = part.column("probability")[:3]
    held = weights > 0
    if not held.any():
        return otherwise
    return float(np.average(part.column("matches")[:3][held], weights=weights[held]))


def plot(table: Table) -> Any:
    """Draw one panel a data set, up to the rank at which few queries have a match."""
    labels = ("rank of the unit", "matches, if any")
    rows = [row for part in _curves(table) for row in _until_rare(part).rows]
    shown = Table(table.title, table.columns, tuple(rows))
    return lines_figure(shown, "rank", "matches", "variant", panel="data", labels=labels, log="x")


def _curves(table: Table) -> list[Table]:
    names = itertools.product(table.values("data"), table.values("variant"))
    return [table.where(data=data, variant=name) for data, name in names]


def _until_rare(curve: Table) -> Table:
    rare = np.flatnonzero(curve.column("probability") < _SHOWN)
    last = int(rare[0]) if len(rare) else len(curve.rows)
    return Table(curve.title, curve.columns, curve.rows[:last])


FIG05 = Experiment(
    "fig05-matches-per-unit",
    "Figure 5",
    "A random unit that holds a match holds about one; k-means units hold several, most of all "
    "those ranked first.",
    SETTINGS,
    compute,
    check,
    plot,
    photographs=True,
)

__all__ = ["FIG05"]
