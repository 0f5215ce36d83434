"""Which experiments there are, in the paper's order."""

from __future__ import annotations

from memvec.experiments._errata import ERRATA
from memvec.experiments._experiment import Experiment
from memvec.experiments._fig01_cost_random import FIG01
from memvec.experiments._fig02_roc import FIG02
from memvec.experiments._fig03_cost_caps import FIG03
from memvec.experiments._fig04_unit_probability import FIG04
from memvec.experiments._fig05_matches_per_unit import FIG05
from memvec.experiments._fig06_query_cost import FIG06
from memvec.experiments._fig07_retrieval import FIG07
from memvec.experiments._fig08_unit_counts import FIG08
from memvec.experiments._fig09_pca import FIG09
from memvec.experiments._fig10_deep import FIG10
from memvec.experiments._fig11_codes import FIG11, FIG12
from memvec.experiments._fig13_streaming import FIG13
from memvec.experiments._fig14_batches import FIG14
from memvec.experiments._fig15_minibatch import FIG15
from memvec.experiments._fig16_minibatch_cost import FIG16
from memvec.experiments._fig17_100m import FIG17
from memvec.experiments._fig18_cap_moments import FIG18, FIG19
from memvec.experiments._flann import FLANN
from memvec.experiments._power_law import POWER_LAW
from memvec.experiments._tab01_imbalance import TAB01
from memvec.experiments._time import TIME

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
