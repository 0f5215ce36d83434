"""k-means on a card, of NumPy or real: what must be true of it."""

import numpy as np

import naive
from clouds import around
from memvec import gpu
from memvec.assignment import kmeans_assignment
from memvec.constructions import memory_vectors


def clustered(n=400, dim=48):
    rng = np.random.default_rng(1)
    centres = naive.unit_rows(rng.standard_normal((40, dim)))
    return around(centres, 0.05, 3, n)


def mean_score(rows, labels):
    """The mean cosine of rows with the centroid of their unit."""
    sums = np.zeros((labels.max() + 1, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return (rows * naive.unit_rows(sums)[labels]).sum(axis=1).mean()


def labels_of(units, n):
    labels = np.empty(n, dtype=np.int64)
    labels[units.order.get()] = np.repeat(np.arange(len(units.offsets) - 1), units.sizes.get())
    return labels


def assert_finds_clusters(on_card, card):
    """Units are as tight as those of the CPU, none is empty, and a seed fixes them."""
    rows = clustered()
    for rule in ("sum", "pinv"):
        given = {"construction": rule, "normalised": rule == "sum", "iterations": 6, "seed": 5}
        units = gpu.kmeans_on_card(on_card(rows), 40, card, **given)
        again = gpu.kmeans_on_card(on_card(rows), 40, card, **given)
        np.testing.assert_array_equal(units.order.get(), again.order.get())
        assert units.sizes.get().min() >= 1
        assert sorted(units.order.get().tolist()) == list(range(len(rows)))
        here = kmeans_assignment(rows, 10, progress=False, **given)
        found = mean_score(rows, labels_of(units, len(rows)))
        assert found > mean_score(rows, here.labels) - 0.02


def assert_memory_vectors(on_card, card):
    """Memory vectors are those of the CPU, but for large units and members that depend."""
    rows = clustered()
    labels = np.random.default_rng(4).integers(0, 30, len(rows)).astype(np.int32)
    labels[:150] = 7  # a unit of more than 64
    rows[200], labels[200], labels[201] = rows[201], 3, 3  # a copy
    units = gpu.CardUnitsOfRows.of_labels(on_card(labels), 30)
    order, offsets = units.order.get(), units.offsets.get().astype(np.int64)
    for construction in ("sum", "pinv"):
        for normalised in (False, True):
            given = {"construction": construction, "normalised": normalised}
            found = gpu.memory_vectors_on_card(on_card(rows), units, card, **given).get()
            expected = memory_vectors(rows, offsets, order=order, **given)
            usual = np.delete(np.arange(30), [3, 7])
            compared = np.arange(30) if construction == "sum" else usual
            np.testing.assert_allclose(found[compared], expected[compared], atol=2e-4, rtol=2e-3)
    found = gpu.memory_vectors_on_card(on_card(rows), units, card).get()
    for unit in (3, 7):
        np.testing.assert_allclose((rows[labels == unit] @ found[unit]).mean(), 1, rtol=1e-4)
