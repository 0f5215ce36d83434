"""VLAD: residuals to the nearest centroid, summed word by word, reduced by PCA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from memvec import checks
from memvec.codes import Projection
from memvec.images._aggregate import finished
from memvec.images._photo import Pixels
from memvec.images._sift import SiftConfig, local_descriptors
from memvec.images._triangulation import gathered
from memvec.images._vocabulary import VocabularyRule, learn_vocabulary
from memvec.progress import progress_bar
from memvec.types import ArrayLike, Float32Array


@dataclass(frozen=True, eq=False, repr=False)
class Vlad:
    """Vectors of locally aggregated descriptors, reduced by PCA.

    v = [v₁; …; v_k] with v_j = Σ (x − c_j) over the local descriptors x whose nearest centroid is
    c_j; after the power law and scaling to norm 1, it is centred, projected on its principal
    directions and scaled to norm 1 again (H. Jégou, M. Douze, C. Schmid and P. Pérez, "Aggregating
    local descriptors into a compact image representation", CVPR 2010; the power law and the order
    of these steps from H. Jégou et al., "Aggregating local image descriptors into compact codes",
    PAMI 34(9), 2012).

    Attributes
    ----------
    centroids : ndarray of shape (k, d)
        The vocabulary, float32.
    projection : Projection
        From k·d dimensions to those of the vectors.
    power : float
        Exponent of the power law; 1 omits it.
    sift : SiftConfig
        How local descriptors are computed.
    """

    kind: ClassVar[str] = "vlad"

    centroids: Float32Array
    projection: Projection
    power: float = 0.5
    sift: SiftConfig = field(default_factory=SiftConfig)

    def __post_init__(self) -> None:
        where = "Vlad"
        checks.real(self.power, "power", where, low=0.0, high=1.0, low_open=True)
        dim = checks.matrix(self.centroids, "centroids", where).size
        if self.projection.dim != dim:
            expected = f"a projection of dimension {dim}"
            got = f"dimension {self.projection.dim}"
            raise checks.bad_value("projection", where, expected, got)

    @classmethod
    def fit(
        cls,
        bags: Sequence[ArrayLike],
        dim: int = 1024,
        n_words: int = 64,
        *,
        power: float = 0.5,
        whiten: bool = False,
        vocabulary: VocabularyRule = "plain",
        sift: SiftConfig | None = None,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Vlad:
        """Learn the vocabulary and the principal directions.

        Parameters
        ----------
        bags : sequence of array_like of shape (n_i, d)
            The local descriptors of each training photograph; at least `dim` photographs.
        dim : int
            The dimension of the vectors, at most k·d.
        n_words : int
            The number k of centroids.
        power, sift
            As in the class.
        whiten : bool
            Divide the principal components by their standard deviations.
        vocabulary : {"plain", "spherical"}
            The rule of k-means.
        seed : int
            Seed of random draws.
        progress : bool, optional
            Show bars; None shows them on a terminal.
        """
        where = "Vlad.fit"
        dim = checks.integer(dim, "dim", where)
        n_words = checks.integer(n_words, "n_words", where)
        power = checks.real(power, "power", where, low=0.0, high=1.0, low_open=True)
        rows = gathered(bags, where)
        for most, what in (
            (len(bags), "training photographs"),
            (n_words * rows.shape[1], "dimensions of the vocabulary"),
        ):
            if dim > most:
                raise checks.bad_value("dim", where, f"at most the number of {what}, {most}", dim)
        rng = checks.generator(seed, where)
        centroids = learn_vocabulary(rows, n_words, rule=vocabulary, seed=rng, progress=progress)
        vectors = _training_vectors(bags, centroids, power, progress)
        projection = Projection.fit(vectors, dim, center=True, whiten=whiten, seed=rng)
        return cls(centroids, projection, power, SiftConfig() if sift is None else sift)

    @property
    def dim(self) -> int:
        """The dimension of the vectors."""
        return self.projection.out_dim

    def aggregate(self, descriptors: ArrayLike) -> Float32Array:
        """Return the vector of a photograph from its local descriptors, shape (dim,)."""
        whole = unreduced_vlad(descriptors, self.centroids, self.power)
        return self.projection.apply(whole[np.newaxis], threads=1).ravel()

    def describe(self, pixels: Pixels) -> Float32Array:
        """Return the vector of a photograph, RGB of shape (height, width, 3), of norm 1."""
        return self.aggregate(local_descriptors(pixels, self.sift))

    def arrays(self) -> dict[str, Any]:
        """Return the arrays to save."""
        return {
            "centroids": self.centroids,
            "mean": self.projection.mean,
            "basis": self.projection.basis,
        }

    def settings(self) -> dict[str, Any]:
        """Return the settings to save."""
        return {"power": self.power, "sift": vars(self.sift)}

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], settings: Mapping[str, Any]) -> Vlad:
        """Return the descriptor that `arrays` and `settings` came from."""
        projection = Projection(arrays["mean"], arrays["basis"])
        sift = SiftConfig(**settings["sift"])
        return cls(arrays["centroids"], projection, settings["power"], sift)

    def __repr__(self) -> str:
        return f"Vlad({len(self.centroids)} words, dimension {self.dim}, power {self.power:g})"


def unreduced_vlad(descriptors: ArrayLike, centroids: Float32Array, power: float) -> Float32Array:
    """Return v before the projection, scaled to norm 1, shape (k·d,).

    Examples
    --------
    >>> centroids = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    >>> unreduced_vlad([[0.8, 0.6], [0.8, -0.6]], centroids, power=1.0)
    array([-1.,  0.,  0.,  0.], dtype=float32)
    """
    rows = checks.unit_rows(
        descriptors, "descriptors", "unreduced_vlad", dim=int(centroids.shape[1])
    )
    nearest = np.argmax(rows @ centroids.T - (centroids**2).sum(axis=1) / 2, axis=1)
    sums = np.zeros(centroids.shape)
    np.add.at(sums, nearest, rows.astype(np.float64) - centroids[nearest])
    return finished(sums.ravel(), power)


def _training_vectors(
    bags: Sequence[ArrayLike], centroids: Float32Array, power: float, progress: bool | None
) -> Float32Array:
    vectors = np.empty((len(bags), centroids.size), dtype=np.float32)
    with progress_bar("VLAD", len(bags), progress) as advance:
        for place, bag in enumerate(bags):
            vectors[place] = unreduced_vlad(bag, centroids, power)
            advance(1)
    return vectors
