"""Slow, obvious twins of everything fast. Nothing here imports the package."""

from naive.codes import disagreement, levels, passes, sign_bits, unpack
from naive.collection import DictCollection
from naive.collection import passes as passes_filter
from naive.evaluation import (
    complexity_ratio,
    mann_whitney,
    misses,
    plain_average_precision,
    trapezoid_average_precision,
    write_vecs,
)
from naive.scores import canonical_score, matches, sorted_scores, unit_rows
from naive.units import (
    best_units,
    imbalance,
    memory_vector,
    pinv_memory_vector,
    range_in_units,
    ridge_memory_vector,
    unit_test,
)

__all__ = [
    "DictCollection",
    "best_units",
    "canonical_score",
    "complexity_ratio",
    "disagreement",
    "imbalance",
    "levels",
    "mann_whitney",
    "matches",
    "memory_vector",
    "misses",
    "passes",
    "passes_filter",
    "pinv_memory_vector",
    "plain_average_precision",
    "range_in_units",
    "ridge_memory_vector",
    "sign_bits",
    "sorted_scores",
    "trapezoid_average_precision",
    "unit_rows",
    "unit_test",
    "unpack",
    "write_vecs",
]
