"""The triangulation embedding φ_Δ, the paper's descriptor of photographs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from memvec import checks
from memvec.images._aggregate import AGGREGATIONS, Aggregation, democratic_weights, finished
from memvec.images._photo import Pixels
from memvec.images._sift import SiftConfig, local_descriptors
from memvec.images._vocabulary import VocabularyRule, learn_vocabulary
from memvec.kernels import blocks
from memvec.progress import progress_bar
from memvec.types import ArrayLike, Float32Array, Float64Array

_BLOCK_ROWS = 4096
# The covariance of 2048 dimensions is known well enough from this many descriptors.
_SAMPLE_ROWS = 100_000
# Whitening divides by no standard deviation below this share of the largest that is kept. A
# direction in which the training set shows nothing must not rule the vectors that show something.
_DEVIATION_FLOOR = 1e-2
# A residual this short has no direction: the descriptor is the centroid.
_VANISHED = 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Triangulation:
    """φ_Δ: the direction of a local descriptor from every centroid.

    R(x) = [r₁; …; r_k], the residuals r_j = (x − c_j)/‖x − c_j‖ one above the other, and
    φ_Δ(x) = Λ^(−1/2) Uᵀ (R(x) − E R): centred and whitened by the eigenvectors U and eigenvalues Λ
    of the covariance of R, without the d components of most variance, which all residuals share. A
    photograph is Σ λᵢ φ_Δ(xᵢ), scaled to norm 1; its dimension is (k − 1)·d, 1920 for 16 words and
    8064 for 64 (H. Jégou and A. Zisserman, "Triangulation embedding and democratic aggregation for
    image search", CVPR 2014).

    Attributes
    ----------
    centroids : ndarray of shape (k, d)
        The vocabulary, float32.
    mean : ndarray of shape (k·d,)
        E R, float32.
    whitening : ndarray of shape (k·d, (k − 1)·d)
        U Λ^(−1/2) without its first d columns, float32.
    aggregation : {"sum", "democratic"}
        Weights λᵢ of 1, or weights by which all local descriptors contribute equally.
    power : float
        Exponent of the power law after aggregation; 1 omits it, as the paper does.
    sift : SiftConfig
        How local descriptors are computed.
    """

    kind: ClassVar[str] = "triangulation"

    centroids: Float32Array
    mean: Float32Array
    whitening: Float32Array
    aggregation: Aggregation = "sum"
    power: float = 1.0
    sift: SiftConfig = field(default_factory=SiftConfig)

    def __post_init__(self) -> None:
        where = "Triangulation"
        checks.choice(self.aggregation, "aggregation", where, AGGREGATIONS)
        checks.real(self.power, "power", where, low=0.0, high=1.0, low_open=True)
        n_words, word_dim = checks.matrix(self.centroids, "centroids", where).shape
        shape = (n_words * word_dim, (n_words - 1) * word_dim)
        if self.whitening.shape != shape or self.mean.shape != shape[:1]:
            got = f"shapes {self.mean.shape} and {self.whitening.shape}"
            expected = f"of shape {shape}, with a mean of shape {shape[:1]}"
            raise checks.bad_value("whitening", where, expected, got)

    @classmethod
    def fit(
        cls,
        bags: Sequence[ArrayLike],
        n_words: int = 16,
        *,
        aggregation: Aggregation = "sum",
        power: float = 1.0,
        vocabulary: VocabularyRule = "plain",
        sift: SiftConfig | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Triangulation:
        """Learn vocabulary, mean and whitening.

        Parameters
        ----------
        bags : sequence of array_like of shape (n_i, d)
            The local descriptors of each training photograph, which should be independent of those
            that will be searched. Together, there must be at least k·d of them, the dimension of R.
        n_words : int
            The number k of centroids, at least 2.
        aggregation, power, sift
            As in the class.
        vocabulary : {"plain", "spherical"}
            The rule of k-means.
        seed : int
            Seed of random draws.
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        where = "Triangulation.fit"
        n_words = checks.integer(n_words, "n_words", where, minimum=2)
        rows = gathered(bags, where)
        dim = n_words * rows.shape[1]
        if len(rows) < dim:
            expected = f"at least {dim} local descriptors for {n_words} words"
            raise checks.bad_value("bags", where, expected, len(rows))
        rng = checks.generator(seed, where)
        centroids = learn_vocabulary(rows, n_words, rule=vocabulary, seed=rng, progress=progress)
        chosen = np.sort(rng.choice(len(rows), min(len(rows), _SAMPLE_ROWS), replace=False))
        mean, covariance = _moments(rows[chosen], centroids, progress)
        whitening = _whitening(covariance, rows.shape[1])
        config = SiftConfig() if sift is None else sift
        narrow = mean.astype(np.float32), whitening.astype(np.float32)
        return cls(centroids, *narrow, aggregation=aggregation, power=power, sift=config)

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return int(self.whitening.shape[1])

    def embed(self, descriptors: ArrayLike) -> Float32Array:
        """Return φ_Δ of each local descriptor, shape (n, dim)."""
        word_dim = int(self.centroids.shape[1])
        rows = checks.unit_rows(descriptors, "descriptors", "Triangulation.embed", dim=word_dim)
        centred = residuals(rows, self.centroids) - self.mean
        return np.asarray(centred @ self.whitening, dtype=np.float32)

    def aggregate(self, descriptors: ArrayLike) -> Float32Array:
        """Return the vector of a photograph from its local descriptors, shape (dim,)."""
        if self.aggregation == "democratic":
            embedded = self.embed(descriptors)
            return finished(democratic_weights(embedded) @ embedded, self.power)
        # The sum commutes with the projection: one row is whitened instead of thousands.
        word_dim = int(self.centroids.shape[1])
        rows = checks.unit_rows(descriptors, "descriptors", "Triangulation.aggregate", dim=word_dim)
        centred = residuals(rows, self.centroids).sum(axis=0, dtype=np.float64)
        centred -= len(rows) * self.mean.astype(np.float64)
        return finished(centred.astype(np.float32) @ self.whitening, self.power)

    def describe(self, pixels: Pixels) -> Float32Array:
        """Return the vector of a photograph, RGB of shape (height, width, 3), of norm 1."""
        return self.aggregate(local_descriptors(pixels, self.sift))

    def arrays(self) -> dict[str, Any]:
        """Return the arrays to save."""
        return {"centroids": self.centroids, "mean": self.mean, "whitening": self.whitening}

    def settings(self) -> dict[str, Any]:
        """Return the settings to save."""
        return {
            "aggregation": self.aggregation,
            "power": self.power,
            "sift": vars(self.sift),
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], settings: Mapping[str, Any]) -> Triangulation:
        """Return the descriptor that `arrays` and `settings` came from."""
        return cls(
            arrays["centroids"],
            arrays["mean"],
            np.asarray(arrays["whitening"], dtype=np.float32),  # float16 where it ships
            settings["aggregation"],
            settings["power"],
            SiftConfig(**settings["sift"]),
        )

    def __repr__(self) -> str:
        return (
            f"Triangulation({len(self.centroids)} words, dimension {self.dim}, "
            f"{self.aggregation}, power {self.power:g})"
        )


def gathered(bags: Sequence[ArrayLike], where: str) -> Float32Array:
    """Return the local descriptors of all photographs as unit rows."""
    if len(bags) == 0:
        raise checks.bad_value("bags", where, "at least one photograph's", "none")
    return checks.unit_rows(np.concatenate([np.asarray(bag) for bag in bags]), "bags", where)


def residuals(rows: Float32Array, centroids: Float32Array) -> Float32Array:
    """Return R of each row: directions from all centroids, side by side, shape (n, k·d)."""
    found = rows[:, np.newaxis, :] - centroids
    norms = np.sqrt(np.einsum("ijk,ijk->ij", found, found))
    found /= np.where(norms > _VANISHED, norms, np.inf)[:, :, np.newaxis]
    return found.reshape(len(rows), -1)


def _moments(
    rows: Float32Array, centroids: Float32Array, progress: bool | None
) -> tuple[Float64Array, Float64Array]:
    """Return mean and covariance of R over the rows."""
    dim = centroids.size
    total, products = np.zeros(dim), np.zeros((dim, dim))
    with progress_bar("Whitening", len(rows), progress) as advance:
        for block in _residual_blocks(rows, centroids):
            total += block.sum(axis=0, dtype=np.float64)
            # Products of 4096 rows in float32 carry 1e-6; blocks are added in float64.
            products += block.T @ block
            advance(len(block))
    mean = total / len(rows)
    return mean, products / len(rows) - np.outer(mean, mean)


def _residual_blocks(rows: Float32Array, centroids: Float32Array) -> Iterator[Float32Array]:
    for start, stop in blocks(len(rows), _BLOCK_ROWS):
        yield residuals(rows[start:stop], centroids)


def _whitening(covariance: Float64Array, n_dropped: int) -> Float64Array:
    """Return U Λ^(−1/2) without the components of most variance; signs are fixed."""
    variances, directions = np.linalg.eigh(covariance)
    kept = slice(None, None, -1)
    variances, directions = variances[kept][n_dropped:], directions[:, kept][:, n_dropped:]
    deviations = np.sqrt(np.maximum(variances, 0.0))
    largest = np.abs(directions).argmax(axis=0)
    signs = np.where(directions[largest, np.arange(len(largest))] < 0, -1.0, 1.0)
    floored = np.maximum(deviations, _DEVIATION_FLOOR * deviations[0])
    return np.asarray(directions * signs / floored, dtype=np.float64)
