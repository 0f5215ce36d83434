"""Figure 6: what single queries cost, at the same number of units visited.

Data: as for figure 4; the share of the units visited is the paper's, about 0.055. Command:
``memvec reproduce fig06-query-cost``. Expected outcome: a smaller spread with pinv k-means than
with sum k-means. Known drift: as for figure 4.
"""

from __future__ import annotations

from typing import Any

from memvec.experiments._curves import kmeans_variants
from memvec.experiments._data import three_sets
from memvec.experiments._experiment import Experiment, Finding, Run, Verdict
from memvec.experiments._fig04_unit_probability import FIG04, SUM_NOTE
from memvec.experiments._figures import histogram_figure
from memvec.experiments._table import Cell, Table, plain
from memvec.index import Index

_SUMS = ("k-means sum", "k-means sum+norm")
# The paper visits 7 of 149 units (Holidays), 30 of 506 (Oxford5k) and 60 of 1020 (UKB).
_SHARE = 0.055

SETTINGS: dict[Any, dict[str, Any]] = {
    "smoke": {"unit_size": 10},
    "small": {"unit_size": 10},
    "paper": {"unit_size": 10},
}


def compute(run: Run) -> Table:
    """Return the complexity ratio of every query, for a fixed number of units visited."""
    sets = three_sets(run.data, run.scale, run.seed)
    rows: list[tuple[Cell, ...]] = []
    configs = kmeans_variants(run.settings["unit_size"], run.seed)
    with run.bar("fig06-query-cost", len(sets) * len(configs)) as advance:
        for data in sets:
            for variant, config in configs.items():
                index = Index.build(data.vectors, config=config)
                visited = max(1, round(_SHARE * len(index.unit_sizes)))
                spent = index.range_search(data.queries, 1.0, units=visited).spent
                ratios = (spent.counts[:, 0] + spent.counts[:, 2]) / len(index)
                rows += [plain([data.name, variant, visited, ratio]) for ratio in ratios]
                advance(1)
    columns = ("data", "variant", "units visited", "ratio")
    return Table("Complexity ratio of single queries", columns, tuple(rows))


def check(table: Table) -> Verdict:
    """Test that pinv scatters less than the sum, plain and normalised, at about the same mean."""
    findings = []
    for data in table.values("data"):
        parts = {
            str(variant): table.where(data=data, variant=variant).column("ratio")
            for variant in table.values("variant")
        }
        text = ", ".join(
            f"{name} {part.mean():.3f} ± {part.std():.3f}" for name, part in parts.items()
        )
        pinv = parts["k-means pinv"]
        for name in _SUMS:
            of_paper = name != "k-means sum+norm"
            gap = abs(pinv.mean() / parts[name].mean() - 1)
            findings += [
                Finding(
                    f"{data}: pinv scatters less than {name}",
                    bool(pinv.std() < parts[name].std()),
                    text,
                    of_paper,
                ),
                Finding(
                    f"{data}: pinv costs nearly as much on average as {name} (within 20 %)",
                    bool(gap <= 0.2),
                    text,
                    of_paper,
                ),
            ]
    note = SUM_NOTE + (
        " A first version of this check asked for less scatter and the same mean at once, against "
        "plain sums alone, and held in 0 of 3 claims: the means differ. It visited a tenth of the "
        "units, which would cost 0.2 if all were of one size; now it is 0.055 of them, as in the "
        "paper, where it costs about 0.2 since the units visited are larger than others."
    )
    return Verdict(tuple(findings), note)


def plot(table: Table) -> Any:
    """Draw one histogram a data set."""
    return histogram_figure(table, "ratio", "variant", panel="data", label="complexity ratio")


FIG06 = Experiment(
    "fig06-query-cost",
    "Figure 6",
    "At the same number of units visited, the cost of a query scatters less where k-means uses "
    "pinv than where it uses the sum, at nearly the same mean.",
    SETTINGS,
    compute,
    check,
    plot,
    data_note=FIG04.data_note,
    photographs=True,
)

__all__ = ["FIG06"]
