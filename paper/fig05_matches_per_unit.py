"""Figure 5: how many matches a unit holds that holds one, against its rank.

Data: as for figure 4. Command: ``python -m paper fig05-matches-per-unit``. Expected outcome: about
one with random units, more in the first k-means units. Known drift: as for figure 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paper.drawing import lines_figure
from paper.experiment import Experiment, Finding, Run, Verdict, unless_collapsed
from paper.fig04_unit_probability import COLLAPSED_NOTE, FIG04, KMEANS, SUM_NOTE
from paper.match_ranks import rank_table
from paper.table import Table

SETTINGS = FIG04.settings
_CHANCE = 0.05
_MORE = 1.1


def compute(run: Run) -> Table:
    """Return the mean number of matches of each rank."""
    return rank_table(run, "Matches in a positive unit, by rank")


def check(table: Table) -> Verdict:
    """Test that random units hold what chance gives and the first k-means units more."""
    findings = []
    for data in table.values("data"):
        random = table.where(data=data, variant="random")
        mean, chance = (float(random.column(name)[0]) for name in ("mean matches", "by chance"))
        findings.append(
            Finding(
                f"{data}: a random unit that holds a match holds no more than chance gives, about "
                f"one (within {100 * _CHANCE:.0f} %)",
                abs(mean / chance - 1) <= _CHANCE,
                f"{mean:.3f} on average, by chance {chance:.3f}",
            )
        )
        by_chance = _of_the_best(random, mean)
        for name in KMEANS:
            part = table.where(data=data, variant=name)
            held = _of_the_best(part, 0.0)
            finding = Finding(
                f"{data}: the three best units of {name} hold more matches than random ones (by "
                f"at least {100 * (_MORE - 1):.0f} %)",
                held >= _MORE * by_chance,
                f"{held:.2f}, random {by_chance:.2f}",
                main=True,
            )
            findings.append(unless_collapsed(finding, float(part.column("largest unit")[0])))
    note = f"{SUM_NOTE}{COLLAPSED_NOTE}" + (
        " That random units hold about one match was tested against a fixed bound at first, which "
        "nothing could have passed; now against what chance gives with as many matches."
    )
    return Verdict(tuple(findings), note)


def _of_the_best(part: Table, otherwise: float) -> float:
    """Return the mean number of matches in those of the three best units that hold one."""
    weights = part.column("probability")[:3]
    held = weights > 0
    if not held.any():
        return otherwise
    return float(np.average(part.column("matches")[:3][held], weights=weights[held]))


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    labels = ("rank of the unit", "matches, if any")
    return lines_figure(table, "rank", "matches", "variant", panel="data", labels=labels, log="x")


FIG05 = Experiment(
    "fig05-matches-per-unit",
    "Figure 5",
    "A random unit that holds a match holds about one; units made by k-means hold several, most "
    "of all those ranked first.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note=FIG04.data_note,
    photographs=True,
)

__all__ = ["FIG05"]
