"""Compiled loops, and the sources of those for GPUs. The only room that imports numba."""

from memvec.kernels._best_first import nearest_codes
from memvec.kernels._bounded import search_bounded
from memvec.kernels._calibrate import calibrate_codes, estimate_scores, see_fine
from memvec.kernels._cascade import (
    CODE_STAGE,
    FINE_STAGE,
    GROUP_STAGE,
    N_STAGES,
    PREFIX_STAGE,
    STAGES_BEFORE_FINE,
    UNIT_STAGE,
    search_codes,
)
from memvec.kernels._code_tests import CodeTests
from memvec.kernels._codes import WORD, balance_rows, disagreement, encode_rows, quantise_query
from memvec.kernels._compile import Kernel
from memvec.kernels._cuda import cuda_source
from memvec.kernels._fine import (
    MOST_DEVIATIONS,
    encode_fine,
    fine_limit,
    fine_queries,
    members_by_fine_codes,
)
from memvec.kernels._lines import stage_lines
from memvec.kernels._nearby import (
    best_of_named,
    nearest_of_groups,
    nearest_of_shared,
    second_of_units,
)
from memvec.kernels._nearest import try_units
from memvec.kernels._packed import Packed
from memvec.kernels._place import private_folder
from memvec.kernels._query_blocks import (
    ALL_ALLOWED,
    ANYTHING,
    Room,
    room_for,
    search_blocks,
)
from memvec.kernels._rotation import RADIX, centre_queries, rotate, rotate_rows
from memvec.kernels._runs import BLOCK, in_blocks, tests_whole_codes
from memvec.kernels._scan import LOOK, RUN, SCANNED_WORDS, scan_codes
from memvec.kernels._scores import float32_slack
from memvec.kernels._search import (
    MATCH_SLACK,
    N_COUNTS,
    calibrate_vectors,
    collect_matches,
    score_units,
    search_vectors,
)
from memvec.kernels._solve import EIGENVALUE_CUT
from memvec.kernels._stored import (
    ROW_TYPES,
    RowBlocks,
    StoredRows,
    UnitRows,
    are_stored_rows,
    canonical_score_pairs,
    check_dim,
    checked_unit_rows,
    rounded_rows,
    some_rows,
)
from memvec.kernels._threads import THREADS, blocks, default_threads, run_blocks
from memvec.kernels._units import solve_units, sum_units

__all__ = [
    "ALL_ALLOWED",
    "ANYTHING",
    "BLOCK",
    "CODE_STAGE",
    "EIGENVALUE_CUT",
    "FINE_STAGE",
    "GROUP_STAGE",
    "LOOK",
    "MATCH_SLACK",
    "MOST_DEVIATIONS",
    "N_COUNTS",
    "N_STAGES",
    "PREFIX_STAGE",
    "RADIX",
    "ROW_TYPES",
    "RUN",
    "SCANNED_WORDS",
    "STAGES_BEFORE_FINE",
    "THREADS",
    "UNIT_STAGE",
    "WORD",
    "CodeTests",
    "Kernel",
    "Packed",
    "Room",
    "RowBlocks",
    "StoredRows",
    "UnitRows",
    "are_stored_rows",
    "balance_rows",
    "best_of_named",
    "blocks",
    "calibrate_codes",
    "calibrate_vectors",
    "canonical_score_pairs",
    "centre_queries",
    "check_dim",
    "checked_unit_rows",
    "collect_matches",
    "cuda_source",
    "default_threads",
    "disagreement",
    "encode_fine",
    "encode_rows",
    "estimate_scores",
    "fine_limit",
    "fine_queries",
    "float32_slack",
    "in_blocks",
    "members_by_fine_codes",
    "nearest_codes",
    "nearest_of_groups",
    "nearest_of_shared",
    "private_folder",
    "quantise_query",
    "room_for",
    "rotate",
    "rotate_rows",
    "rounded_rows",
    "run_blocks",
    "scan_codes",
    "score_units",
    "search_blocks",
    "search_bounded",
    "search_codes",
    "search_vectors",
    "second_of_units",
    "see_fine",
    "solve_units",
    "some_rows",
    "stage_lines",
    "sum_units",
    "tests_whole_codes",
    "try_units",
]
