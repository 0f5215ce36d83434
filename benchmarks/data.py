"""The vectors that benchmarks run on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memvec.checks import unit_rows
from memvec.types import Float32Array


def uniform_vectors(n_vectors: int, dim: int, seed: int = 0) -> Float32Array:
    """Return vectors drawn uniformly from the sphere."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_vectors, dim), dtype=np.float32)
    for start in range(0, n_vectors, 65536):
        block = rows[start : start + 65536]
        block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, np.newaxis]
    return rows


def sentence_vectors(data: str | None) -> tuple[Float32Array, str]:
    """Return the WordNet embeddings and their name, or made-up vectors where they are absent."""
    folder = Path(data or "") / "wordnet-minilm"
    if data is None or not folder.is_dir():
        return clustered_vectors(117_659, 384), "made-up clusters"
    steps = np.load(folder / "vectors_int8.npy", allow_pickle=False)
    scales = np.load(folder / "scales.npy", allow_pickle=False)
    return unit_rows(steps * scales, "vectors", "benchmarks"), "WordNet embeddings"


def clustered_vectors(n_vectors: int, dim: int, seed: int = 0) -> Float32Array:
    """Return vectors with a common direction, a fading spectrum and near neighbours."""
    rng = np.random.default_rng(seed)
    spectrum = np.arange(1, dim + 1) ** -0.35
    centres = rng.standard_normal((n_vectors // 8, dim)) * spectrum
    rows = centres[rng.integers(len(centres), size=n_vectors)]
    rows = rows + 0.8 * rng.standard_normal((n_vectors, dim)) * spectrum
    rows[:, 0] += 1.0
    return unit_rows(rows, "vectors", "benchmarks")
