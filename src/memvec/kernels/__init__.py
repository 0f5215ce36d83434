"""Compiled loops. The only room that imports numba."""

from memvec.kernels._nearest import keep_best
from memvec.kernels._scores import canonical_score_pairs
from memvec.kernels._search import (
    FLOAT32_SLACK,
    MATCH_SLACK,
    collect_best,
    collect_matches,
    score_units,
    select_units,
)
from memvec.kernels._solve import EIGENVALUE_CUT, solve_gram
from memvec.kernels._threads import blocks, default_threads, run_blocks
from memvec.kernels._units import CONSTRUCTION_CODES, build_units

__all__ = [
    "CONSTRUCTION_CODES",
    "EIGENVALUE_CUT",
    "FLOAT32_SLACK",
    "MATCH_SLACK",
    "blocks",
    "build_units",
    "canonical_score_pairs",
    "collect_best",
    "collect_matches",
    "default_threads",
    "keep_best",
    "run_blocks",
    "score_units",
    "select_units",
    "solve_gram",
]
