"""Slow, obvious twins of the evaluation room. Imports nothing from the package."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np


def unit_rows(rows) -> np.ndarray:
    """Scale rows to norm 1 in float64, by the largest entry first, and round to float32."""
    wide = np.ascontiguousarray(rows, dtype=np.float64)
    wide = wide / np.abs(wide).max(axis=1, keepdims=True)
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return (wide / norms[:, None]).astype(np.float32)


def canonical_score(left: np.ndarray, right: np.ndarray) -> float:
    """Add entry j to partial sum j % 8, then the partial sums from the first to the last."""
    parts = [0.0] * 8
    for j in range(len(left)):
        parts[j % 8] += float(left[j]) * float(right[j])
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def sorted_scores(vectors, query, hidden=None) -> list[tuple[int, float]]:
    """Return (id, canonical score) of all vectors but one, by falling score, then rising id."""
    rows, [unit] = unit_rows(vectors), unit_rows([query])
    pairs = [(i, canonical_score(row, unit)) for i, row in enumerate(rows) if i != hidden]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def matches(vectors, query, similarity: float, hidden=None) -> list[tuple[int, float]]:
    ranked = sorted_scores(vectors, query, hidden)
    return [(i, score) for i, score in ranked if score >= similarity - 1e-6]


def misses(truth: list[list[int]], answer: list[list[int]]) -> tuple[float, float]:
    """Return the miss rate and the pair miss; 0 where there is nothing to miss."""
    shares, n_missed, n_pairs = [], 0, 0
    for true, given in zip(truth, answer, strict=True):
        missed = len(set(true) - set(given))
        n_missed, n_pairs = n_missed + missed, n_pairs + len(true)
        if true:
            shares.append(missed / len(true))
    return sum(shares) / max(len(shares), 1), n_missed / max(n_pairs, 1)


def trapezoid_average_precision(ranking, relevant, ignored=()) -> float:
    """Walk down the ranking and add the trapezoid of each step of the precision-recall curve."""
    area, old_recall, old_precision, n_found, n_seen = 0.0, 0.0, 1.0, 0, 0
    for item in ranking:
        if item in ignored:
            continue
        n_seen += 1
        n_found += item in relevant
        recall, precision = n_found / len(relevant), n_found / n_seen
        area += (recall - old_recall) * (old_precision + precision) / 2
        old_recall, old_precision = recall, precision
    return area


def plain_average_precision(ranking, relevant, ignored=()) -> float:
    kept = [item for item in ranking if item not in ignored]
    precisions = [
        sum(other in relevant for other in kept[: i + 1]) / (i + 1)
        for i, item in enumerate(kept)
        if item in relevant
    ]
    return sum(precisions) / len(relevant)


def mann_whitney(scores_h0, scores_h1) -> float:
    """Return the share of pairs in which H1 scores higher, ties counting one half."""
    wins = [(high > low) + (high == low) / 2 for low in scores_h0 for high in scores_h1]
    return sum(wins) / len(wins)


def complexity_ratio(unit_scores, unit_sizes, threshold: float) -> list[float]:
    ratios = []
    for scores in unit_scores:
        cost = len(unit_sizes)
        for score, size in zip(scores, unit_sizes, strict=True):
            if score > threshold:
                cost += size
        ratios.append(cost / sum(unit_sizes))
    return ratios


def write_vecs(path: Path, rows, kind: str) -> None:
    """Write .fvecs (kind "f"), .ivecs ("i") or .bvecs ("B"): the dimension, then the entries."""
    with path.open("wb") as file:
        for row in rows:
            file.write(struct.pack("<i", len(row)))
            file.write(struct.pack(f"<{len(row)}{kind}", *row))
