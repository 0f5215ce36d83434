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
from memvec.guarantee._drift import (
    FALSE_ALARMS,
    Drift,
    DriftWatch,
    drift_level,
    drift_p_value,
)
from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._live import LiveRate
from memvec.guarantee._null_law import NullLaw, Significance, significance, uniform_tail
from memvec.guarantee._profile import MissBand, MissProfile
from memvec.guarantee._recent import Draw, RecentQueries
from memvec.guarantee._table import CalibrationTable

__all__ = [
    "FALSE_ALARMS",
    "CalibrationTable",
    "Certificate",
    "Draw",
    "Drift",
    "DriftWatch",
    "Level",
    "LiveRate",
    "MissBand",
    "MissProfile",
    "NullLaw",
    "Promise",
    "RecentQueries",
    "Rule",
    "Significance",
    "Source",
    "ThresholdFamily",
    "drift_level",
    "drift_p_value",
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
