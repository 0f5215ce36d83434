"""Projections, sign codes of rotated vectors, and the estimates of inner products they give."""

from memvec.codes._fine import FineCodes, estimate_noise, n_code_bytes
from memvec.codes._projection import Projection
from memvec.codes._space import CodeSpace, Encoded, Estimates

__all__ = [
    "CodeSpace",
    "Encoded",
    "Estimates",
    "FineCodes",
    "Projection",
    "estimate_noise",
    "n_code_bytes",
]
