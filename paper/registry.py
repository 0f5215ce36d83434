"""Which experiments there are, in the paper's order."""

from __future__ import annotations

from paper.errata import ERRATA
from paper.execution_time import TIME
from paper.experiment import Experiment
from paper.fig01_cost_random import FIG01
from paper.fig02_roc import FIG02
from paper.fig03_cost_caps import FIG03
from paper.fig04_unit_probability import FIG04
from paper.fig05_matches_per_unit import FIG05
from paper.fig06_query_cost import FIG06
from paper.fig07_retrieval import FIG07
from paper.fig08_unit_counts import FIG08
from paper.fig09_pca import FIG09
from paper.fig10_deep import FIG10
from paper.fig11_codes import FIG11, FIG12
from paper.fig13_streaming import FIG13
from paper.fig14_batches import FIG14
from paper.fig15_minibatch import FIG15
from paper.fig16_minibatch_cost import FIG16
from paper.fig17_100m import FIG17
from paper.fig18_cap_moments import FIG18, FIG19
from paper.flann import FLANN
from paper.power_law import POWER_LAW
from paper.tab01_imbalance import TAB01

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        FIG01,
        FIG02,
        FIG03,
        FIG04,
        FIG05,
        TAB01,
        FIG06,
        FIG07,
        FIG08,
        FIG09,
        FIG10,
        FIG11,
        FIG12,
        POWER_LAW,
        FLANN,
        TIME,
        FIG13,
        FIG14,
        FIG15,
        FIG16,
        FIG17,
        FIG18,
        FIG19,
        ERRATA,
    )
}

__all__ = ["EXPERIMENTS"]
