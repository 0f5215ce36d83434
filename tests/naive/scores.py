"""Twins of the ground: unit rows, the canonical score, matches."""

import math

import numpy as np


def unit_rows(rows):
    """Scale rows to norm 1, by the largest entry first; float32 unit rows stay as they are."""
    given = np.asarray(rows)
    wide = np.ascontiguousarray(given, dtype=np.float64)
    if given.dtype == np.float32 and (np.abs(np.linalg.norm(wide, axis=1) - 1) < 1e-6).all():
        return given
    wide = wide / np.abs(wide).max(axis=1, keepdims=True)
    norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return (wide / norms[:, None]).astype(np.float32)


def unit_row(row):
    """One row over its norm, float64: squares over the largest entry's, added one by one."""
    peak = max(abs(float(x)) for x in row)
    total = 0.0
    for x in row:
        total += (float(x) / peak) ** 2
    return np.array([float(x) / peak / math.sqrt(total) for x in row], dtype=np.float32)


def canonical_score(left, right):
    """Entry j is added to partial sum j % 8; then the partial sums, from first to last."""
    partial = [0.0] * 8
    for j, (a, b) in enumerate(zip(left, right, strict=True)):
        partial[j % 8] += float(a) * float(b)
    total = 0.0
    for value in partial:
        total += value
    return total


def stored_row(row, dtype):
    """Divide by the largest magnitude, times 127 for int8, in float32; round halves to even."""
    peak = max(abs(entry) for entry in row)
    scaled = [np.float32(entry) / np.float32(peak) for entry in row]
    if dtype == "int8":
        return [round(float(entry * np.float32(127))) for entry in scaled]
    return [float(np.float16(entry)) for entry in scaled]


def stored_score(left, right, dtype):
    """Return the canonical score of two unit rows, once they are stored in so many bytes."""
    if dtype == "float32":
        return canonical_score(left, right)
    x, y = stored_row(left, dtype), stored_row(right, dtype)
    # Not ** 0.5, which may be off in the last bit.
    scale = (1 / math.sqrt(canonical_score(x, x))) * (1 / math.sqrt(canonical_score(y, y)))
    return canonical_score(x, y) * scale


def sorted_scores(vectors, query, hidden=None):
    """Return (row, canonical score) of all vectors but one, by falling score, then rising row."""
    rows, [unit] = unit_rows(vectors), unit_rows(np.asarray(query)[np.newaxis])
    pairs = [(i, canonical_score(row, unit)) for i, row in enumerate(rows) if i != hidden]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def matches(vectors, query, similarity, hidden=None, allowed=None):
    ranked = sorted_scores(vectors, query, hidden)
    found = [(i, score) for i, score in ranked if score >= similarity - 1e-6]
    return [(i, score) for i, score in found if allowed is None or allowed[i]]
