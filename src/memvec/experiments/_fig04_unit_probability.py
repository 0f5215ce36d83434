"""Figure 4: the probability that a unit holds a match, against its rank.

Data: Gardens Point by day and UKB-56, WordNet embeddings; units of 10. Command:
``memvec reproduce fig04-unit-probability``. Expected outcome: k-means units have their matches in
the first ranks. Known drift: the paper's data is Holidays, Oxford5k and UKB.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec.experiments._experiment import Experiment, Finding, Run, Verdict
from memvec.experiments._figures import lines_figure
from memvec.experiments._ranks import rank_table
from memvec.experiments._table import Table

# The paper's own two, and one more: plain sums end in very unequal units on this data.
KMEANS = ("k-means sum", "k-means pinv", "k-means sum+norm")
SUM_NOTE = (
    "K-means with plain sums, the paper's, ends in very unequal units on this data, for a reason "
    "given at [tab01-imbalance](#tab01-imbalance): few units hold nearly everything. Normalised "
    "sums, which the paper proposes in a footnote, were added beside it."
)

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"unit_size": 10, "ranks": 60},
    "small": {"unit_size": 10, "ranks": 200},
    "paper": {"unit_size": 10, "ranks": 500},
}


def compute(run: Run) -> Table:
    """Return the probability of each rank."""
    return rank_table(run, "Units that hold a match, by rank")


def check(table: Table) -> Verdict:
    """Test that matches come first, and that they end sooner with k-means."""
    findings = []
    for data in table.values("data"):
        curves = {
            variant: table.where(data=data, variant=variant).column("probability")
            for variant in table.values("variant")
        }
        first = {variant: curve[0] for variant, curve in curves.items()}
        tenth = {
            variant: float(np.mean(curve[min(10, len(curve) - 1) : 20]) / max(curve[0], 1e-9))
            for variant, curve in curves.items()
        }
        for name in KMEANS:
            of_paper = name != "k-means sum+norm"
            findings += [
                Finding(
                    f"{data}: the best unit of {name} holds a match more often than not",
                    bool(first[name] > 0.5),
                    f"{first[name]:.2f}, random {first['random']:.2f}",
                    of_paper,
                ),
                Finding(
                    f"{data}: the probability falls faster with {name} than with random units",
                    tenth[name] < tenth["random"],
                    f"ranks 11 to 20 over rank 1: {tenth[name]:.3f}, random {tenth['random']:.3f}",
                    of_paper,
                ),
            ]
    note = SUM_NOTE + (
        " A first version of this check, without them, held in 5 of 6 claims. How often the best "
        "unit holds a match depends on how many there are: among 20,000 WordNet embeddings, the "
        "scale small, 56 % of the queries have a single one, and k-means with pinv has it in the "
        "best unit for 0.37 of them, for 0.61 of those with two to four; among all 117,000, where "
        "19 % have a single one, the best unit held a match for 0.69 of the queries."
    )
    return Verdict(tuple(findings), note)


def plot(table: Table) -> Any:
    """Draw one panel a data set."""
    labels = ("rank of the unit", "probability of a match")
    return lines_figure(
        table, "rank", "probability", "variant", panel="data", labels=labels, log="x"
    )


FIG04 = Experiment(
    "fig04-unit-probability",
    "Figure 4",
    "Units ranked first very likely hold a match, and the probability falls faster with the rank "
    "where k-means has made the units than where chance has.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note="{photographs} WordNet embeddings, with matches above cosine 0.6, are a third set.",
    photographs=True,
)

__all__ = ["FIG04", "KMEANS", "SUM_NOTE"]
