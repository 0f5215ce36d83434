"""Figure 5: how many matches a unit holds that holds one, against its rank.

Data: as for figure 4. Command: ``memvec reproduce fig05-matches-per-unit``. Expected outcome: about
one with random units, more in the first k-means units. Known drift: as for figure 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.experiments._experiment import Experiment, Finding, Run, Verdict
from memvec.experiments._fig04_unit_probability import FIG04, KMEANS, SUM_NOTE
from memvec.experiments._figures import lines_figure
from memvec.experiments._ranks import rank_table
from memvec.experiments._table import Table

SETTINGS = FIG04.settings


def compute(run: Run) -> Table:
    """Return the mean number of matches of each rank."""
    return rank_table(run, "Matches in a positive unit, by rank")


def check(table: Table) -> Verdict:
    """Test that random units hold one match and the first k-means units more."""
    findings = []
    for data in table.values("data"):
        first = {}
        for variant in table.values("variant"):
            part = table.where(data=data, variant=variant)
            first[variant] = float(np.nanmean(part.column("matches")[:3]))
        random = table.where(data=data, variant="random")
        weights = random.column("probability")
        held = weights > 0
        mean = float(np.average(random.column("matches")[held], weights=weights[held]))
        findings += [
            Finding(
                f"{data}: a random unit that holds a match holds about one (at most 1.2)",
                mean <= 1.2,
                f"{mean:.2f} on average",
            ),
            *(
                Finding(
                    f"{data}: the three best units of {name} hold more matches than random ones",
                    first[name] > first["random"],
                    f"{first[name]:.2f}, random {first['random']:.2f}",
                    of_paper=name != "k-means sum+norm",
                )
                for name in KMEANS
            ),
        ]
    note = SUM_NOTE + " A first version of this check, without them, held in 6 of 6 claims."
    return Verdict(tuple(findings), note)


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
