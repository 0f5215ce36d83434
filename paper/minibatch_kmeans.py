"""Clusters by scikit-learn's mini-batch k-means, beside those of batch spherical k-means."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import cast

import numpy as np

from memvec.types import Float32Array, IntArray
from paper.data_sets import batched_sets
from paper.errors import MissingPackageError
from paper.experiment import Run
from paper.quality_curves import SearchedUnits, paper_config, search_units
from paper.retrieval_sets import RetrievalSet

OURS, THEIRS, THEIRS_PINV = "batch spherical k-means", "mbk", "mbk with pinv"
# The paper has batches of 10⁴ among 10⁶ vectors in 10⁵ units: a hundredth of the vectors, and
# fewer vectors than units. A batch has a few units at least.
_BATCHES, _LEAST = 100, 50
_SIZE = 10


def minibatch_sets(run: Run) -> list[RetrievalSet]:
    """Return the data sets that both cluster."""
    return batched_sets(run.data, run.scale, run.seed, run.settings["vectors"])


def both_units(run: Run, data: RetrievalSet, number: int) -> dict[str, SearchedUnits]:
    """Return the units of either method, batches of N/100, in the run of a number.

    A unit of mini-batch k-means is represented by its centroid, scaled to norm 1, as the method
    has it, and for a comparison of the clusters alone by pinv as ours are.
    """
    seed, batch = run.seed + number, max(_LEAST, len(data.vectors) // _BATCHES)
    labels = _labels_once(_Rows(data.vectors), batch, seed, run.settings["epochs"])
    config = paper_config("kmeans", "pinv", _SIZE, seed, batch_size=batch)
    rows = data.vectors, labels, data.queries
    return {
        OURS: search_units(data, config),
        THEIRS: SearchedUnits.of_labels(*rows, "sum", centroids=True),
        THEIRS_PINV: SearchedUnits.of_labels(*rows, "pinv"),
    }


class _Rows:
    """Rows that count as equal when their content is, so that one clustering serves two figures."""

    def __init__(self, rows: Float32Array) -> None:
        self.rows = rows
        self._key = (rows.shape, float(rows[::97].sum()), rows[0].tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rows) and self._key == other._key


@lru_cache(maxsize=32)
def _labels_once(rows: _Rows, batch: int, seed: int, epochs: int) -> IntArray:
    return minibatch_labels(rows.rows, _SIZE, batch, seed, epochs)


def minibatch_labels(
    vectors: Float32Array, unit_size: int, batch: int, seed: int, epochs: int
) -> IntArray:
    """Return the cluster of each vector, N/n clusters by scikit-learn's MiniBatchKMeans.

    It starts at random vectors, as Sculley's algorithm does; that of scikit-learn's default,
    k-means++, takes most of the time and ends alike. On one thread, since steps of a hundredth of
    the vectors are so short that two threads mostly wait for each other.
    """
    try:
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise MissingPackageError(
            "The comparison with mini-batch k-means", "scikit-learn"
        ) from None
    n_clusters = len(vectors) // unit_size
    model = MiniBatchKMeans(
        n_clusters,
        batch_size=min(batch, len(vectors)),
        max_iter=epochs,
        init="random",
        n_init=1,
        random_state=seed,
    )
    with threadpool_limits(1), warnings.catch_warnings():
        # It warns of clusters that stay empty; that is part of what is measured.
        warnings.simplefilter("ignore")
        labels = model.fit_predict(vectors)
    return cast(IntArray, np.asarray(labels, dtype=np.int64))


__all__ = [
    "OURS",
    "THEIRS",
    "THEIRS_PINV",
    "both_units",
    "minibatch_labels",
    "minibatch_sets",
]
