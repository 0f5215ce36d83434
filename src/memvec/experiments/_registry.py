"""Which experiments there are."""

from __future__ import annotations

from memvec.experiments._errata import errata_table
from memvec.experiments._table import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("errata", "formulas of the paper against simulation", errata_table),
    )
}

__all__ = ["EXPERIMENTS"]
