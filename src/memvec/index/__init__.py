"""The index of a fixed set of vectors: design, build, search, results."""

from memvec.index._calibration import Slack, lowest_cosine
from memvec.index._config import IndexConfig
from memvec.index._costs import MachineCosts
from memvec.index._design import IndexDesign
from memvec.index._evidence import RESERVE_SHARE, Evidence, largest_reserve
from memvec.index._explain import Explanation, StageView, stage_views
from memvec.index._found import Found
from memvec.index._index import Index
from memvec.index._inspect import check_enough, share_of_queries
from memvec.index._joint import (
    CodeScan,
    JointPromise,
    explain_pair,
    scan_by_codes,
    search_bounds,
    search_everything,
    search_lines,
    seen_pairs,
)
from memvec.index._lines import Lines
from memvec.index._monitor import Asked, Health, Verification
from memvec.index._needed import NeededSlack
from memvec.index._profile import profile_machine
from memvec.index._promises import Guarantee, Request
from memvec.index._results import HitRow, Hits, TopHits, Work
from memvec.index._top import likely_similarities, search_best
from memvec.index._watch import Monitor, shadow_share

__all__ = [
    "RESERVE_SHARE",
    "Asked",
    "CodeScan",
    "Evidence",
    "Explanation",
    "Found",
    "Guarantee",
    "Health",
    "HitRow",
    "Hits",
    "Index",
    "IndexConfig",
    "IndexDesign",
    "JointPromise",
    "Lines",
    "MachineCosts",
    "Monitor",
    "NeededSlack",
    "Request",
    "Slack",
    "StageView",
    "TopHits",
    "Verification",
    "Work",
    "check_enough",
    "explain_pair",
    "largest_reserve",
    "likely_similarities",
    "lowest_cosine",
    "profile_machine",
    "scan_by_codes",
    "search_best",
    "search_bounds",
    "search_everything",
    "search_lines",
    "seen_pairs",
    "shadow_share",
    "share_of_queries",
    "stage_views",
]
