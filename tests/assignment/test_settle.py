"""Vectors that leave the cluster their unit was made in."""

import numpy as np
import pytest

import naive
from memvec.assignment import Assignment, _settle, two_step_assignment
from memvec.assignment._kmeans import UpdateRule
from memvec.assignment._settle import n_settling_rounds, settle_units
from memvec.codes import CodeSpace
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.kernels import StoredRows

RULE = UpdateRule("sum", normalised=True, iterations=3, threads=1)
N_UNITS, COPIES = 60, 10


def families(seed=1, noise=0.5, dim=64):
    """Vectors around as many centres as there are units."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(naive.unit_rows(rng.standard_normal((N_UNITS, dim))), COPIES, axis=0)
    return naive.unit_rows(centres + noise / np.sqrt(dim) * rng.standard_normal(centres.shape))


def with_strays(n_strays, seed=2):
    """Units of one family each, in which some vectors are in the unit of another."""
    labels = np.repeat(np.arange(N_UNITS), COPIES)
    strays = np.random.default_rng(seed).choice(len(labels), n_strays, replace=False)
    labels[strays] = (labels[strays] + N_UNITS // 2) % N_UNITS
    return labels, strays


def settling(rows, labels):
    space = CodeSpace.random(rows.shape[1], symmetric=True, seed=3)
    return _settle._Settling(rows, Assignment(labels, N_UNITS), RULE, space)


def centroids(rows, labels):
    return naive.unit_rows([rows[labels == unit].sum(axis=0) for unit in range(N_UNITS)])


def test_strays_come_home_by_a_scan_and_not_without():
    rows = families()
    labels, strays = with_strays(100)
    home = np.repeat(np.arange(N_UNITS), COPIES)
    told = []
    alone, _ = settle_units(rows, Assignment(labels, N_UNITS), RULE, (), 4, 3, told.append)
    assert (alone[strays] == home[strays]).mean() < 0.5
    scans = (0.25, 0.1)
    found, near = settle_units(rows, Assignment(labels, N_UNITS), RULE, scans, 4, 3, told.append)
    np.testing.assert_array_equal(found, home)
    np.testing.assert_array_equal(near[:, 0], home)
    assert told == [len(rows)] * (n_settling_rounds(()) + n_settling_rounds(scans))


def test_a_round_tries_what_those_beside_are_near_to():
    """Rows lie in the order of their units, and sixty-four of them share what they know."""
    rows, (labels, _) = families(), with_strays(100)
    order, units = np.argsort(labels, kind="stable"), centroids(rows, labels)
    moving = settling(rows, labels)
    moving.ask_those_beside(2)
    for start in range(0, len(order), 64):
        some = order[start : start + 64]
        tried = np.unique(labels[some])
        best = tried[np.argsort(-(rows[some] @ units[tried].T), axis=1)[:, :2]]
        np.testing.assert_array_equal(moving.near[some], best)
    assert (moving.labels == moving.near[:, 0]).mean() > 0.9  # all but those of empty units


def test_a_scan_tries_the_nearest_codes_of_those_that_score_lowest(monkeypatch):
    monkeypatch.setattr(_settle, "_SCORED", 5)
    rows, (labels, _) = families(), with_strays(100)
    moving = settling(rows, labels)
    moving.ask_those_beside(2)
    before, scores = moving.near.copy(), moving._scores.copy()
    units = centroids(rows, moving.labels)
    moving.scan(0.2)
    lowest = scores <= np.quantile(scores, 0.2)
    np.testing.assert_array_equal(moving.near[~lowest], before[~lowest])
    space = CodeSpace.random(rows.shape[1], symmetric=True, seed=3)
    of_rows, of_units = (space.encode(some.astype(np.float32), 1).words for some in (rows, units))
    for row in np.flatnonzero(lowest):
        coded, _ = naive.nearest_by_bits(of_rows[row], of_units, 5)
        tried = np.unique([*coded, *before[row]])
        best = tried[np.argsort(-(units[tried] @ rows[row]))][:2]
        np.testing.assert_array_equal(moving.near[row], best)


def test_units_of_rows_in_blocks_are_those_of_an_array():
    """What narrow rows stand for is read block by block."""
    stored = StoredRows.of(families().astype(np.float32), "int8")
    whole = stored[:]
    options = {"scans": (0.5, 0.25), "construction": "sum", "normalised": True}
    one, other = (two_step_assignment(rows, 10, **options) for rows in (stored, whole))
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.near_units, other.near_units)


def test_units_are_found_without_rounds_between_clusters():
    rows = families()
    found = two_step_assignment(rows, 10, n_clusters=6, refinements=0, scans=(0.9,))
    assert found.sizes.min() >= 1
    assert found.near_units.shape == (len(rows), 16)


def test_shares_are_between_none_and_all():
    with pytest.raises(InvalidValueError, match=r"'scans' parameter of two_step.* Got 1.5"):
        two_step_assignment(families(), 10, scans=(1.5,))


@pytest.mark.parametrize("scans", [0.5, None, "half"])
def test_scans_that_are_no_list_are_refused(scans):
    with pytest.raises(InvalidTypeError, match="'scans' .* a list or tuple of shares. Got "):
        two_step_assignment(families(), 10, scans=scans)
