"""What a search promises, and on what evidence."""

from memvec.guarantee._bounds import (
    Promise,
    Rule,
    hoeffding_bentkus,
    lower_limit,
    upper_limit,
)
from memvec.guarantee._cells import (
    edges_above,
    lower_end,
    planted_end,
    sizes_of_strata,
    upper_end,
)
from memvec.guarantee._certificate import Certificate, Level, Source
from memvec.guarantee._drift import Drift, DriftWatch
from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._null_law import NullLaw, Significance, significance, uniform_tail
from memvec.guarantee._profile import MissBand, MissProfile
from memvec.guarantee._table import CalibrationTable

__all__ = [
    "CalibrationTable",
    "Certificate",
    "Drift",
    "DriftWatch",
    "Level",
    "MissBand",
    "MissProfile",
    "NullLaw",
    "Promise",
    "Rule",
    "Significance",
    "Source",
    "ThresholdFamily",
    "edges_above",
    "hoeffding_bentkus",
    "lower_end",
    "lower_limit",
    "planted_end",
    "significance",
    "sizes_of_strata",
    "uniform_tail",
    "upper_end",
    "upper_limit",
]
