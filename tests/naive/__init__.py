"""Slow, obvious twins of everything fast. Nothing here imports the package."""

from naive.codes import (
    disagreement,
    fine_levels,
    fine_values,
    levels,
    most_disagreement,
    passes,
    sign_bits,
    slack_left,
    unpack,
    unpack_fine,
    unrotated,
    whole_numbers,
)
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
from naive.joins import array_groups, array_pairs
from naive.matches import best, in_order, merged
from naive.scores import canonical_score, matches, sorted_scores, unit_rows
from naive.units import (
    best_units,
    imbalance,
    memory_vector,
    pinv_memory_vector,
    range_in_units,
    ridge_memory_vector,
    second_losses,
    unit_test,
    units_of_groups,
)

__all__ = [
    "DictCollection",
    "array_groups",
    "array_pairs",
    "best",
    "best_units",
    "canonical_score",
    "complexity_ratio",
    "disagreement",
    "fine_levels",
    "fine_values",
    "imbalance",
    "in_order",
    "levels",
    "mann_whitney",
    "matches",
    "memory_vector",
    "merged",
    "misses",
    "most_disagreement",
    "passes",
    "passes_filter",
    "pinv_memory_vector",
    "plain_average_precision",
    "range_in_units",
    "ridge_memory_vector",
    "second_losses",
    "sign_bits",
    "slack_left",
    "sorted_scores",
    "trapezoid_average_precision",
    "unit_rows",
    "unit_test",
    "units_of_groups",
    "unpack",
    "unpack_fine",
    "unrotated",
    "whole_numbers",
    "write_vecs",
]
