"""Sources, and the one path through them: by thresholds or bounds, a range or the k nearest."""

from memvec.kernels import ALL_ALLOWED, ANYTHING
from memvec.search._bounds import BoundedSearch, Caps
from memvec.search._centring import SHIFT_ARRAYS, Centring
from memvec.search._code_units import CodeUnits
from memvec.search._explain import Explanation, StageView, stage_views
from memvec.search._float_units import FloatUnits
from memvec.search._groups import Components, Grouping
from memvec.search._hits import HitRow, Hits, IdArray, Searched, TopHits, Work
from memvec.search._join_results import (
    DuplicateGroup,
    DuplicateRows,
    Duplicates,
    SimilarPair,
    SimilarPairs,
    expected_missed,
)
from memvec.search._nearest import find_nearest
from memvec.search._plain_rows import PlainRows, scan_rows
from memvec.search._prepared import PreparedRanges
from memvec.search._searcher import (
    Scope,
    Target,
    compare_scopes,
    explain,
    find_range,
    measure,
    observe_nearest,
    observe_range,
    rate_of_recall,
    sampled,
    search_scopes,
)
from memvec.search._selected import (
    Select,
    promise_of_selection,
    search_selected,
    selection,
    some_unit_selected,
)
from memvec.search._self_join import Copies, Pairs, SelfJoin, find_copies
from memvec.search._source import (
    Source,
    UnitSource,
    are_few,
    built_on,
    check_device,
    register_device,
    source_on,
    taker_of,
)
from memvec.search._stage_lines import StageLines
from memvec.search._units import Units

__all__ = [
    "ALL_ALLOWED",
    "ANYTHING",
    "SHIFT_ARRAYS",
    "BoundedSearch",
    "Caps",
    "Centring",
    "CodeUnits",
    "Components",
    "Copies",
    "DuplicateGroup",
    "DuplicateRows",
    "Duplicates",
    "Explanation",
    "FloatUnits",
    "Grouping",
    "HitRow",
    "Hits",
    "IdArray",
    "Pairs",
    "PlainRows",
    "PreparedRanges",
    "Scope",
    "Searched",
    "Select",
    "SelfJoin",
    "SimilarPair",
    "SimilarPairs",
    "Source",
    "StageLines",
    "StageView",
    "Target",
    "TopHits",
    "UnitSource",
    "Units",
    "Work",
    "are_few",
    "built_on",
    "check_device",
    "compare_scopes",
    "expected_missed",
    "explain",
    "find_copies",
    "find_nearest",
    "find_range",
    "measure",
    "observe_nearest",
    "observe_range",
    "promise_of_selection",
    "rate_of_recall",
    "register_device",
    "sampled",
    "scan_rows",
    "search_scopes",
    "search_selected",
    "selection",
    "some_unit_selected",
    "source_on",
    "stage_views",
    "taker_of",
]
