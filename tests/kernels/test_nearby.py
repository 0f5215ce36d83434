import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.kernels import (
    best_of_named,
    nearest_of_groups,
    nearest_of_shared,
    second_of_units,
)
from strategies import seeds


def best_of(rows, near, starts, units, n_best):
    found = np.empty((len(rows), n_best), dtype=np.int32)
    scores = np.empty((len(rows), n_best), dtype=np.float32)
    near = np.asarray(near, dtype=np.int32)
    nearest_of_groups(rows, near, np.asarray(starts), units, found, scores)
    return found, scores


def named_by(find, rows, near, units, n_best):
    found = np.empty((len(rows), n_best), dtype=np.int32)
    scores = np.empty((len(rows), n_best), dtype=np.float32)
    find(rows, np.asarray(near, dtype=np.int32), units, found, scores)
    return found, scores


def check_best(row, tried, units, numbers, values):
    """The units found are the best of those tried, best first."""
    ranked = sorted((float(row @ units[unit]) for unit in tried), reverse=True)[: len(numbers)]
    n_found = len(ranked)
    assert (numbers[n_found:] == -1).all()
    assert np.isneginf(values[n_found:]).all()
    assert len(set(numbers[:n_found])) == n_found
    assert set(numbers[:n_found]) <= set(tried)
    np.testing.assert_allclose(values[:n_found], ranked, atol=1e-6)
    np.testing.assert_allclose(values[:n_found], units[numbers[:n_found]] @ row, atol=1e-6)


def seconds_of(rows, near, units, homes, pull=1.5, least_share=0.0):
    seconds = np.empty(len(rows), dtype=np.int64)
    settings = np.float32(pull), np.float32(least_share)
    near = np.asarray(near, dtype=np.int32)
    second_of_units(rows, near, units, np.asarray(homes), *settings, seconds)
    return seconds


def at_angles(*angles):
    """Unit rows (cos a cos b, sin a cos b, sin b)."""
    rows = [[np.cos(a) * np.cos(b), np.sin(a) * np.cos(b), np.sin(b)] for a, b in angles]
    return np.array(rows, dtype=np.float32)


def in_groups(rng, n_groups):
    """Random unit rows, and groups of zero to four of them."""
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 5, size=n_groups))])
    return naive.unit_rows(rng.standard_normal((max(1, starts[-1]), 6))), starts


def test_best_units_by_hand():
    """Two groups, of units 0 and 1 and of unit 2; the second row is near to the second alone."""
    units = np.eye(3, dtype=np.float32)
    rows = np.array([[0.1, 0.3, 0.2], [0.9, 0.5, 0.4]], dtype=np.float32)
    found, scores = best_of(rows, [[0, 1], [1, 1]], [0, 2, 3], units, 2)
    assert found.tolist() == [[1, 2], [2, -1]]
    np.testing.assert_array_equal(scores, np.float32([[0.3, 0.2], [0.4, -np.inf]]))


def test_equal_scores_are_found_in_rising_order_of_units():
    units = np.ones((7, 2), dtype=np.float32)
    found, _ = best_of(units[:5], [[1, 0]] * 5, [0, 3, 7], units, 4)
    assert found.tolist() == [[0, 1, 2, 3]] * 5


@settings(deadline=None)
@given(seed=seeds, n_groups=st.integers(1, 8), n_best=st.integers(1, 5))
def test_nearest_of_groups_equals_its_twin(seed, n_groups, n_best):
    rng = np.random.default_rng(seed)
    units, starts = in_groups(rng, n_groups)
    rows = naive.unit_rows(rng.standard_normal((15, 6)))
    near = rng.integers(n_groups, size=(len(rows), 3))
    found, scores = best_of(rows, near, starts, units, n_best)
    for row, groups, numbers, values in zip(rows, near, found, scores, strict=True):
        tried = sorted(set(naive.units_of_groups(groups, starts)))
        check_best(row, tried, units, numbers, values)


def test_units_named_by_hand():
    """Each row names one unit; together they know both, and a row by itself its own."""
    units = np.eye(3, dtype=np.float32)
    rows = np.array([[0.1, 0.3, 0.2], [0.9, 0.5, 0.4]], dtype=np.float32)
    shared, scores = named_by(nearest_of_shared, rows, [[0, -1], [1, 0]], units, 2)
    assert shared.tolist() == [[1, 0], [0, 1]]
    np.testing.assert_array_equal(scores, np.float32([[0.3, 0.1], [0.9, 0.5]]))
    own, scores = named_by(best_of_named, rows, [[0, 0], [1, 0]], units, 2)
    assert own.tolist() == [[0, -1], [0, 1]]
    np.testing.assert_array_equal(scores, np.float32([[0.1, -np.inf], [0.9, 0.5]]))


def test_of_equal_units_the_one_named_first_comes_first():
    units = np.ones((5, 2), dtype=np.float32)
    for find in (nearest_of_shared, best_of_named):
        found, _ = named_by(find, units[:1], [[3, 1, 4]], units, 2)
        assert found.tolist() == [[3, 1]]


@settings(deadline=None)
@given(
    seed=seeds,
    n_units=st.integers(1, 400),
    n_near=st.integers(1, 4),
    n_best=st.integers(1, 5),
)
def test_units_named_equal_their_twins(seed, n_units, n_near, n_best):
    """Rows of three tiles, the last not full, which may name more units than a tile holds."""
    rng = np.random.default_rng(seed)
    units = naive.unit_rows(rng.standard_normal((n_units, 6)))
    rows = naive.unit_rows(rng.standard_normal((150, 6)))
    near = rng.integers(-1, n_units, size=(len(rows), n_near))
    named = [set(own.tolist()) - {-1} for own in near]
    beside = naive.units_of_those_beside(near, 64)
    for find, tried in ((nearest_of_shared, beside), (best_of_named, named)):
        found = named_by(find, rows, near, units, n_best)
        for row, own, numbers, values in zip(rows, tried, *found, strict=True):
            check_best(row, own, units, numbers, values)


def test_products_do_not_depend_on_what_else_is_multiplied():
    """More rows and units than are multiplied at once, and a score for each pair by itself."""
    rng = np.random.default_rng(3)
    units = naive.unit_rows(rng.standard_normal((300, 37)))
    rows = naive.unit_rows(rng.standard_normal((150, 37)))
    near = np.zeros((len(rows), 1))
    found, scores = best_of(rows, near, [0, 300], units, 300)
    assert (np.sort(found, axis=1) == np.arange(300)).all()
    for i, unit in ((0, 0), (63, 127), (64, 128), (149, 299)):
        _, [[alone]] = best_of(rows[i : i + 1], [[0]], [0, 1], units[unit : unit + 1], 1)
        assert scores[i, found[i] == unit] == alone


def test_second_unit_by_hand_leaves_another_residual():
    """Off the home to the east, a unit further east is nearer, but one to the north is taken."""
    home, east, north = (0.0, 0.0), (0.3, 0.0), (0.2, 0.12)
    units, vector = at_angles(home, east, north), at_angles((0.2, 0.0))
    assert seconds_of(vector, [[0, 1, 2]], units, [0], pull=1.5) == [2]
    assert seconds_of(vector, [[0, 1, 2]], units, [0], pull=0.0) == [1]


def test_vector_on_its_unit_has_the_nearest_other_for_its_second():
    units = at_angles((0.0, 0.0), (0.4, 0.0), (0.0, -0.3), (0.0, 0.5))
    assert seconds_of(units[:1], [[0, 1, 2, 3]], units, [0]) == [2]


def test_home_is_the_second_where_no_other_unit_is_near():
    units = at_angles((0.0, 0.0), (3.0, 0.0), (0.1, 0.0))
    # Unit 1 is behind the vector.
    assert seconds_of(units[:1], [[0, 1]], units, [0]) == [0]
    assert seconds_of(units[:1], [[0, 1, 2]], units, [0]) == [2]
    assert seconds_of(units[:1], [[-1, -1]], units, [0]) == [0]


def test_second_unit_by_hand_is_near_enough():
    units = at_angles((0.0, 0.0), (1.0, 0.0))
    for least_share, second in ((0.5, 1), (0.54, 1), (0.55, 0)):  # cos 1 is 0.5403
        assert seconds_of(units[:1], [[0, 1]], units, [0], 1.5, least_share) == [second]


@settings(deadline=None)
@given(
    seed=seeds,
    n_units=st.integers(1, 30),
    pull=st.sampled_from([0.0, 1.5, 20.0]),
    least_share=st.sampled_from([0.0, 0.3, 0.65]),
)
def test_second_of_units_equals_its_twin(seed, n_units, pull, least_share):
    rng = np.random.default_rng(seed)
    units = naive.unit_rows(rng.standard_normal((n_units, 6)))
    homes = np.append(rng.integers(n_units, size=15), np.arange(n_units))
    # Before their homes, and the last of them right on it.
    rows = naive.unit_rows(units[homes] + 0.4 * rng.standard_normal((len(homes), 6)))
    rows[15:] = units
    near = rng.integers(-1, n_units, size=(len(rows), 8))
    found = seconds_of(rows, near, units, homes, pull, least_share)
    for row, home, tried, second in zip(rows, homes, near, found, strict=True):
        if row @ units[home] <= 0:
            continue  # the members of no unit are behind it
        losses = np.full(n_units, np.inf)
        tried = tried[tried >= 0]
        losses[tried] = naive.second_losses(row, units, home, pull, least_share)[tried]
        if np.isinf(losses).all():
            assert second == home
        else:
            assert losses[second] <= losses.min() + 1e-4 * (1 + pull)
