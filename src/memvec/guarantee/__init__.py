"""What a search promises, on what evidence, and how live queries bear it out."""

from memvec.guarantee._bounds import Promise, Rule, hoeffding_bentkus, lower_limit, upper_limit
from memvec.guarantee._calibration import Calibration, lowest_cosine
from memvec.guarantee._cascade import Cascade, seen_by_stages
from memvec.guarantee._cells import edges_above, lower_end, planted_end, sizes_of_strata, upper_end
from memvec.guarantee._certificate import Certificate, EvidenceSource, Level
from memvec.guarantee._drift import FALSE_ALARMS, Drift, DriftWatch, drift_level, drift_p_value
from memvec.guarantee._evidence import (
    RESERVE_SHARE,
    Evidence,
    build_table,
    gather_evidence,
    largest_reserve,
    lowest_known,
    reserve_size,
)
from memvec.guarantee._family import ThresholdFamily
from memvec.guarantee._known_ranks import known_ranks
from memvec.guarantee._live import LiveRate
from memvec.guarantee._measurement import Asked, Health, Measurement
from memvec.guarantee._monitor import NOTHING_CHOSEN, Chosen, Monitor, Watched
from memvec.guarantee._narrow_columns import STAGES, narrow_columns, wide_columns
from memvec.guarantee._needed import NeededSlack
from memvec.guarantee._null_law import NullLaw, Significance, significance, uniform_tail
from memvec.guarantee._plan import Plan, complete_plan
from memvec.guarantee._profile import MissBand, MissProfile
from memvec.guarantee._promises import Guarantee, Promises, Request
from memvec.guarantee._recent import Draw, RecentQueries
from memvec.guarantee._solved import SOLVED, KeptRanges, SolvedPlans
from memvec.guarantee._table import CalibrationTable
from memvec.guarantee._thresholds import Thresholds

__all__ = [
    "FALSE_ALARMS",
    "NOTHING_CHOSEN",
    "RESERVE_SHARE",
    "SOLVED",
    "STAGES",
    "Asked",
    "Calibration",
    "CalibrationTable",
    "Cascade",
    "Certificate",
    "Chosen",
    "Draw",
    "Drift",
    "DriftWatch",
    "Evidence",
    "EvidenceSource",
    "Guarantee",
    "Health",
    "KeptRanges",
    "Level",
    "LiveRate",
    "Measurement",
    "MissBand",
    "MissProfile",
    "Monitor",
    "NeededSlack",
    "NullLaw",
    "Plan",
    "Promise",
    "Promises",
    "RecentQueries",
    "Request",
    "Rule",
    "Significance",
    "SolvedPlans",
    "ThresholdFamily",
    "Thresholds",
    "Watched",
    "build_table",
    "complete_plan",
    "drift_level",
    "drift_p_value",
    "edges_above",
    "gather_evidence",
    "hoeffding_bentkus",
    "known_ranks",
    "largest_reserve",
    "lower_end",
    "lower_limit",
    "lowest_cosine",
    "lowest_known",
    "narrow_columns",
    "planted_end",
    "reserve_size",
    "seen_by_stages",
    "significance",
    "sizes_of_strata",
    "uniform_tail",
    "upper_end",
    "upper_limit",
    "wide_columns",
]
