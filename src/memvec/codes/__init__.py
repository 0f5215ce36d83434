"""Projections, codes of rotated vectors (signs, balanced, of more bits), and their estimates."""

from memvec.codes._fine import FineCodes, estimate_noise, n_code_bytes
from memvec.codes._projection import ProjectedRows, Projection, as_tested
from memvec.codes._space import CodeSpace, Encoded, Estimates

__all__ = [
    "CodeSpace",
    "Encoded",
    "Estimates",
    "FineCodes",
    "ProjectedRows",
    "Projection",
    "as_tested",
    "estimate_noise",
    "n_code_bytes",
]
