"""The data that promises are judged on, each with queries that no unit has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.data import (
    image_descriptors,
    planted_queries,
    sentence_vectors,
    structured_vectors,
    uniform_vectors,
    word_vectors,
)
from memvec import IndexConfig
from memvec.checks import unit_rows
from memvec.types import Float32Array, Float64Array

SYNTHETIC = ("uniform", "low-rank", "heavy-tailed", "duplicates")
REAL = ("wordnet", "glove", "tiny-imagenet", "tiny-imagenet-raw")
# Cosines of planted queries are spread over this share of what lies above the similarity.
_PLANTED_ABOVE = 0.6


@dataclass(frozen=True, eq=False)
class JudgedSet:
    """Vectors to index, and a pool of queries like those to come.

    Attributes
    ----------
    title : str
        What it is called in tables.
    vectors : ndarray of shape (n_vectors, dim)
        What is indexed.
    queries : ndarray of shape (n_queries, dim)
        The pool.
    similarity : float
        What is asked for.
    config : IndexConfig
        Fixes what the set is about.
    """

    title: str
    vectors: Float32Array
    queries: Float32Array
    similarity: float
    config: IndexConfig = field(default_factory=IndexConfig)


def judged_set(
    name: str, data: str | None, n_vectors: int | None = None, n_queries: int | None = None
) -> JudgedSet:
    """Return a set; None takes the size that it is meant for."""
    if name in SYNTHETIC:
        return _MAKERS[name](n_vectors or 10_000, n_queries or 120_000)
    if name == "structured":
        wanted = n_queries or 10_000
        rows = structured_vectors((n_vectors or 50_000) + wanted, 384)
        return _held_out("structured vectors", rows, n_vectors, wanted, 0.7)
    if data is None:
        raise ValueError(f"{name} needs the folder of the data.")
    if name == "wordnet":
        rows, _ = sentence_vectors(data)
        return _held_out("WordNet embeddings", rows, n_vectors, n_queries or 10_000, 0.7)
    if name == "glove":
        return _held_out("GloVe words", word_vectors(data), n_vectors, n_queries or 10_000, 0.7)
    if name == "tiny-imagenet-raw":
        rows = image_descriptors(data, whitened=False)
        return _held_out("Tiny-ImageNet, raw", rows, n_vectors, n_queries or 5000, 0.8)
    rows = image_descriptors(data, whitened=True)
    return _held_out("Tiny-ImageNet, whitened", rows, n_vectors, n_queries or 5000, 0.3)


def _held_out(
    title: str, rows: Float32Array, n_vectors: int | None, n_queries: int, similarity: float
) -> JudgedSet:
    order = np.random.default_rng(0).permutation(len(rows))
    last = len(rows) if n_vectors is None else n_queries + n_vectors
    return JudgedSet(title, rows[order[n_queries:last]], rows[order[:n_queries]], similarity)


def _uniform(n_vectors: int, n_queries: int) -> JudgedSet:
    vectors = uniform_vectors(n_vectors, 256)
    queries = planted_queries(vectors, _cosines(0.7, n_queries), n_queries)
    return JudgedSet("uniform", vectors, queries, 0.7)


def _cosines(similarity: float, n_queries: int) -> Float64Array:
    """Return cosines at and above a similarity, as a column."""
    drawn = np.random.default_rng(3).uniform(size=(n_queries, 1))
    return np.asarray(similarity + _PLANTED_ABOVE * (1 - similarity) * drawn)


def _low_rank(n_vectors: int, n_queries: int) -> JudgedSet:
    """Clusters in 16 of 64 dimensions, with a little noise in all of them."""
    rng = np.random.default_rng(0)
    basis, centres = rng.standard_normal((16, 64)), rng.standard_normal((n_vectors // 8, 16))
    rows = centres[rng.integers(len(centres), size=n_vectors + n_queries)]
    rows = (rows + 0.6 * rng.standard_normal(rows.shape)) @ basis
    rows += 0.3 * rng.standard_normal(rows.shape)
    return _parted("low-rank clusters", rows, n_vectors, 0.8)


def _heavy_tailed(n_vectors: int, n_queries: int) -> JudgedSet:
    """Few directions and random units: members are nearly dependent, and some pinv very long."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_vectors + n_queries, 14)) @ rng.standard_normal((14, 48))
    rows += 0.05 * rng.standard_normal(rows.shape)
    config = IndexConfig(construction="pinv", assignment="random", unit_size=12, codes="none")
    return _parted("heavy-tailed unit norms", rows, n_vectors, 0.85, config)


def duplicates(n_vectors: int, n_queries: int, dim: int = 64) -> JudgedSet:
    """Return exact and near copies of fewer originals; queries are further copies."""
    rng = np.random.default_rng(0)
    originals = rng.standard_normal((max(2, n_vectors // 4), dim))
    weights = np.minimum(0.2 + rng.pareto(1.5, len(originals)), 4.0)
    own = rng.choice(len(originals), n_vectors + n_queries, p=weights / weights.sum())
    noise = rng.uniform(0.02, 0.27, size=(len(own), 1))
    noise[rng.permutation(n_vectors)[: n_vectors // 10]] = 0.0
    rows = originals[own] + noise * rng.standard_normal((len(own), dim))
    return _parted("many duplicates", rows, n_vectors, 0.95)


def _parted(
    title: str,
    rows: Float64Array,
    n_vectors: int,
    similarity: float,
    config: IndexConfig | None = None,
) -> JudgedSet:
    made = unit_rows(rows, "vectors", "benchmarks")
    config = IndexConfig() if config is None else config
    return JudgedSet(title, made[:n_vectors], made[n_vectors:], similarity, config)


_MAKERS: dict[str, Callable[[int, int], JudgedSet]] = {
    "uniform": _uniform,
    "low-rank": _low_rank,
    "heavy-tailed": _heavy_tailed,
    "duplicates": duplicates,
}
