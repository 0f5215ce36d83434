"""The path of one query: units → members → canonical scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memvec.index._build import Units
from memvec.kernels import collect_best, collect_matches, score_units, select_units
from memvec.types import Float32Array, Float64Array, IntArray


@dataclass(frozen=True, eq=False)
class Found:
    """What one query found, the best first, and what it spent."""

    ids: IntArray
    scores: Float64Array
    units_visited: int
    members_scored: int


def units_above(units: Units, query: Float32Array, thresholds: Float32Array) -> IntArray:
    """Return the units on which the query passes the test yᵀm ≥ τ."""
    selected = np.empty(len(units.unit_vectors), dtype=np.int64)
    count = select_units(query, units.unit_vectors, thresholds, selected)
    return selected[:count]


def best_units(units: Units, query: Float32Array, count: int) -> IntArray:
    """Return the `count` units of highest score, the highest first; ties by number."""
    return np.argsort(-unit_scores(units, query), kind="stable")[:count]


def unit_scores(units: Units, query: Float32Array) -> Float32Array:
    """Return yᵀm of every unit."""
    scores = np.empty(len(units.unit_vectors), dtype=np.float32)
    score_units(query, units.unit_vectors, scores)
    return scores


def matches_in(units: Units, query: Float32Array, selected: IntArray, similarity: float) -> Found:
    """Return the members of the selected units that match, ordered by score and then by id."""
    n_members = int((units.offsets[selected + 1] - units.offsets[selected]).sum())
    rows = np.empty(n_members, dtype=np.int64)
    scores = np.empty(n_members)
    count = collect_matches(query, units.vectors, units.offsets, selected, similarity, rows, scores)
    ids, scores = units.keys[rows[:count]], scores[:count]
    order = np.lexsort((ids, -scores))
    return Found(ids[order], scores[order], len(selected), n_members)


def best_in(
    units: Units, query: Float32Array, selected: IntArray, potentials: Float64Array, k: int
) -> Found:
    """Return the best k members of the units, visited in order while a better one is possible."""
    rows, keys = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
    scores = np.empty(k)
    found, visited, scored = collect_best(
        query,
        units.vectors,
        units.keys,
        units.offsets,
        selected,
        potentials,
        rows,
        keys,
        scores,
    )
    return Found(keys[:found], scores[:found], visited, scored)


__all__ = ["Found", "best_in", "best_units", "matches_in", "unit_scores", "units_above"]
