"""The groups of units that each vector is nearest to."""

from __future__ import annotations

import numpy as np

from memvec.assignment._near_groups import Centroids, NearGroups
from memvec.checks import unit_rows


def test_nearest_few_tries_the_units_of_the_nearest_groups_alone() -> None:
    rng = np.random.default_rng(4)
    rows, units = (unit_rows(rng.standard_normal((n, 12)), "vectors", "test") for n in (300, 60))
    starts = np.arange(0, 61, 4)
    groups = unit_rows(units.reshape(15, 4, 12).sum(axis=1), "vectors", "test")
    nearby = NearGroups.of(rows, Centroids.in_one_group(groups), 9, threads=1)
    few = nearby.nearest_few(3)
    found, scores = few.best_units(units, starts)
    products = rows @ units.T
    for row, near in enumerate(np.argsort(-(rows @ groups.T), axis=1)[:, :3]):
        inside = (4 * near[:, np.newaxis] + np.arange(4)).ravel()
        assert found[row, 0] == inside[np.argmax(products[row, inside])]
        assert np.isclose(scores[row, 0], products[row, inside].max(), atol=1e-6)
    assert (nearby.near[:, :3] == few.near).all()
    assert (few.order == nearby.order).all()
