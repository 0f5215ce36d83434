"""What a search promises, and on what evidence."""

from memvec.guarantee._bounds import (
    Promise,
    Rule,
    hoeffding_bentkus,
    lower_limit,
    upper_limit,
)
from memvec.guarantee._certificate import Certificate, Level, Source
from memvec.guarantee._drift import Drift, DriftWatch
from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._null_law import NullLaw, Significance, significance, uniform_tail
from memvec.guarantee._table import CalibrationTable

__all__ = [
    "CalibrationTable",
    "Certificate",
    "Drift",
    "DriftWatch",
    "Level",
    "NullLaw",
    "Promise",
    "Rule",
    "Significance",
    "Source",
    "ThresholdFamily",
    "hoeffding_bentkus",
    "lower_limit",
    "significance",
    "uniform_tail",
    "upper_limit",
]
