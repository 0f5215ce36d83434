"""Visual vocabularies: the k centroids that local descriptors are compared with."""

from __future__ import annotations

from typing import Literal

import numpy as np

from memvec import checks
from memvec.assignment import kmeans_assignment
from memvec.types import ArrayLike, Float32Array, Float64Array, IntArray

VocabularyRule = Literal["plain", "spherical"]
RULES: tuple[VocabularyRule, ...] = ("plain", "spherical")

# Thousands of descriptors a centroid leave its place known to a few percent of the spread; more
# would mostly cost time.
_SAMPLE_ROWS = 200_000
_SPHERICAL_ROUNDS = 20
_PLAIN_ROUNDS = 20


def learn_vocabulary(
    descriptors: ArrayLike,
    n_words: int,
    *,
    rule: VocabularyRule = "plain",
    seed: int | np.random.Generator = 0,
    progress: bool | None = None,
) -> Float32Array:
    """Return the centroids of local descriptors by k-means.

    Parameters
    ----------
    descriptors : array_like of shape (n, dim)
        RootSIFT rows of photographs that are independent of those that will be searched. Rows are
        scaled to norm 1; at most 200,000, drawn at random, are used.
    n_words : int
        The number k of centroids.
    rule : {"plain", "spherical"}
        Spherical k-means gives centroids of norm 1, the directions of the means. The plain rule
        continues from there with rounds of Lloyd's algorithm.
    seed : int or numpy.random.Generator
        Fixes the result.
    progress : bool, optional
        Show a bar; None shows it on a terminal.

    Returns
    -------
    ndarray of shape (n_words, dim)
        float32.

    Examples
    --------
    >>> rows = [[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]]
    >>> np.round(learn_vocabulary(rows, 2, rule="spherical"), 3).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    where = "learn_vocabulary"
    rows = checks.unit_rows(descriptors, "descriptors", where, copy=False)
    n_words = checks.integer(n_words, "n_words", where)
    checks.choice(rule, "rule", where, RULES)
    rng = checks.generator(seed, where)
    if len(rows) < n_words:
        expected = f"at least {n_words} rows, one for each word"
        raise checks.bad_value("descriptors", where, expected, len(rows))
    # A multiple of k, so that ⌈N/n⌉ units are k of them.
    size = min(len(rows), _SAMPLE_ROWS) // n_words
    sample = rows[np.sort(rng.choice(len(rows), size * n_words, replace=False))]
    found = kmeans_assignment(
        sample,
        size,
        construction="sum",
        normalised=True,
        iterations=_SPHERICAL_ROUNDS,
        seed=rng,
        progress=progress,
    )
    means = _means(sample, found.labels, np.zeros((n_words, rows.shape[1])))
    if rule == "spherical":
        return checks.unit_rows(_in_order(means), "centroids", where)
    return _in_order(_lloyd(sample, means)).astype(np.float32)


def _lloyd(rows: Float32Array, centroids: Float64Array) -> Float64Array:
    labels = np.full(len(rows), -1)
    for _ in range(_PLAIN_ROUNDS):
        # ‖x − c‖² is least where xᵀc − ‖c‖²/2 is largest.
        scores = rows @ centroids.T.astype(np.float32) - (centroids**2).sum(axis=1) / 2
        before, labels = labels, np.argmax(scores, axis=1)
        centroids = _means(rows, labels, centroids)
        if np.array_equal(before, labels):
            break
    return centroids


def _means(rows: Float32Array, labels: IntArray, otherwise: Float64Array) -> Float64Array:
    """Return the mean of each label's rows; one without rows keeps what it was."""
    means = otherwise.copy()
    for label in range(len(means)):
        members = rows[labels == label]
        if len(members):
            means[label] = members.mean(axis=0, dtype=np.float64)
    return means


def _in_order(centroids: Float64Array) -> Float64Array:
    """Return the centroids by their first entries: k-means numbers them by chance."""
    return centroids[np.lexsort(centroids.T[::-1])]
