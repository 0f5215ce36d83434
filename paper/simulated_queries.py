"""Queries of the two hypotheses, and units drawn from caps."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from memvec.constructions import Construction, memory_vectors
from memvec.theory import sample_cap, sample_sphere
from memvec.types import Float32Array, Float64Array


def planted_queries(
    rows: Float32Array | Float64Array, similarity: float, generator: np.random.Generator
) -> Float64Array:
    """Return y = αx + βz for each row x, with z uniform among the unit vectors orthogonal to it.

    Examples
    --------
    >>> rows = np.eye(4)[:2]
    >>> queries = planted_queries(rows, 0.6, np.random.default_rng(0))
    >>> np.sum(rows * queries, axis=1).round(12)
    array([0.6, 0.6])
    """
    rows = np.asarray(rows, dtype=np.float64)
    noise = generator.standard_normal(rows.shape)
    noise -= np.sum(noise * rows, axis=1, keepdims=True) * rows
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return np.asarray(similarity * rows + math.sqrt(1 - similarity**2) * noise)


def passing_rates(vectors: Float32Array | Float64Array, threshold: float) -> Float64Array:
    """Return, for each memory vector m, P(yᵀm > τ | m) of a query y uniform on the sphere.

    (yᵀm/‖m‖)² follows the law Beta(½, (d−1)/2): no query has to be drawn, and small rates are
    known as well as large ones.

    Examples
    --------
    >>> passing_rates(np.eye(3) * 2.0, 1.0)
    array([0.25, 0.25, 0.25])
    """
    norms = np.linalg.norm(np.asarray(vectors, dtype=np.float64), axis=1)
    cosines = np.clip(threshold / norms, -1.0, 1.0)
    tails = special.betainc((vectors.shape[1] - 1) / 2, 0.5, 1 - cosines**2) / 2
    return np.asarray(np.where(cosines >= 0, tails, 1 - tails), dtype=np.float64)


def cap_units(
    construction: Construction,
    unit_size: int,
    n_units: int,
    dim: int,
    cap_cosine: float,
    generator: np.random.Generator,
) -> tuple[Float64Array, Float64Array]:
    """Draw units from a cap; return the vectors of all, unit after unit, and the memory vectors."""
    rows = sample_cap(n_units * unit_size, dim, cap_cosine, generator)
    offsets = np.arange(n_units + 1) * unit_size
    return rows, memory_vectors(rows, offsets, construction=construction).astype(np.float64)


def cap_scores(
    construction: Construction,
    unit_size: int,
    n_units: int,
    dim: int,
    similarity: float,
    cap_cosine: float,
    generator: np.random.Generator,
) -> tuple[Float64Array, Float64Array]:
    """Draw units from a cap and return their scores under H0 and under H1, one of each a unit."""
    rows, vectors = cap_units(construction, unit_size, n_units, dim, cap_cosine, generator)
    unrelated = np.sum(sample_sphere(n_units, dim, generator) * vectors, axis=1)
    queries = planted_queries(rows[::unit_size], similarity, generator)
    return unrelated, np.sum(queries * vectors, axis=1)


__all__ = ["cap_scores", "cap_units", "passing_rates", "planted_queries"]
