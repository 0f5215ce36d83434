import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.kernels import keep_nearest, nearest_of_groups, second_of_groups
from strategies import seeds


def nearest_columns(scores, count):
    near = np.empty((len(scores), count), dtype=np.int32)
    keep_nearest(np.asarray(scores, dtype=np.float32), near)
    return near.tolist()


def seconds_of(rows, near, starts, units, homes, pull=1.5, least_share=0.0):
    seconds = np.empty(len(rows), dtype=np.int64)
    near, starts = np.asarray(near, dtype=np.int32), np.asarray(starts)
    settings = np.float32(pull), np.float32(least_share)
    second_of_groups(rows, near, starts, units, np.asarray(homes), *settings, seconds)
    return seconds


def at_angles(*angles):
    """Unit rows (cos a cos b, sin a cos b, sin b)."""
    rows = [[np.cos(a) * np.cos(b), np.sin(a) * np.cos(b), np.sin(b)] for a, b in angles]
    return np.array(rows, dtype=np.float32)


def in_groups(rng, n_groups):
    """Random unit rows, and groups of zero to four of them."""
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 5, size=n_groups))])
    return naive.unit_rows(rng.standard_normal((max(1, starts[-1]), 6))), starts


def test_nearest_columns_by_hand():
    assert nearest_columns([[1, 3, 2], [0, 0, 0], [-5, -2, -2]], 2) == [[1, 2], [0, 1], [1, 2]]


@given(seed=seeds, n_groups=st.integers(1, 12), data=st.data())
def test_nearest_columns_equal_their_twin(seed, n_groups, data):
    scores = np.random.default_rng(seed).integers(-2, 3, size=(20, n_groups))
    count = data.draw(st.integers(1, n_groups))
    assert nearest_columns(scores, count) == naive.columns_by_score(scores, count)
    assert nearest_columns(scores, n_groups) == naive.columns_by_score(scores, n_groups)


@settings(deadline=None)
@given(seed=seeds, n_groups=st.integers(1, 8))
def test_nearest_of_groups_equals_its_twin(seed, n_groups):
    rng = np.random.default_rng(seed)
    units, starts = in_groups(rng, n_groups)
    starts[-1] = max(1, starts[-1])
    rows = naive.unit_rows(rng.standard_normal((15, 6)))
    # The last group is near everyone, and has a unit at least where there is no other.
    near = np.array([[*rng.permutation(n_groups - 1), n_groups - 1][-3:] for _ in rows], np.int32)
    tried = [naive.units_of_groups(groups, starts) for groups in near]
    some = [i for i, units_tried in enumerate(tried) if units_tried]
    labels, best = np.empty(len(some), dtype=np.int64), np.empty(len(some), dtype=np.float32)
    nearest_of_groups(rows[some], near[some], starts, units, labels, best)
    for at, i in enumerate(some):
        [highest], [winners] = naive.best_units(rows[i : i + 1], units[tried[i]])
        assert labels[at] in np.array(tried[i])[winners]
        np.testing.assert_allclose(best[at], highest, atol=1e-6)


def test_second_unit_by_hand_leaves_another_residual():
    """Off the home to the east, a unit further east is nearer, but one to the north is taken."""
    home, east, north = (0.0, 0.0), (0.3, 0.0), (0.2, 0.12)
    units, vector = at_angles(home, east, north), at_angles((0.2, 0.0))
    assert seconds_of(vector, [[0]], [0, 3], units, [0], pull=1.5) == [2]
    assert seconds_of(vector, [[0]], [0, 3], units, [0], pull=0.0) == [1]


def test_vector_on_its_unit_has_the_nearest_other_for_its_second():
    units = at_angles((0.0, 0.0), (0.4, 0.0), (0.0, -0.3), (0.0, 0.5))
    assert seconds_of(units[:1], [[0]], [0, 4], units, [0]) == [2]


def test_home_is_the_second_where_no_other_unit_is_near():
    units = at_angles((0.0, 0.0), (3.0, 0.0), (0.1, 0.0))
    starts = [0, 2, 3]
    # The other unit of group 0 is behind the vector; group 1 is not tried, or empty.
    assert seconds_of(units[:1], [[0]], starts, units, [0]) == [0]
    assert seconds_of(units[:1], [[0, 1]], starts, units, [0]) == [2]
    assert seconds_of(units[:1], [[0, 1]], [0, 1, 1], units[:1], [0]) == [0]


def test_second_unit_by_hand_is_near_enough():
    units = at_angles((0.0, 0.0), (1.0, 0.0))
    for least_share, second in ((0.5, 1), (0.54, 1), (0.55, 0)):  # cos 1 is 0.5403
        assert seconds_of(units[:1], [[0]], [0, 2], units, [0], 1.5, least_share) == [second]


@settings(deadline=None)
@given(
    seed=seeds,
    n_groups=st.integers(1, 8),
    pull=st.sampled_from([0.0, 1.5, 20.0]),
    least_share=st.sampled_from([0.0, 0.3, 0.65]),
)
def test_second_of_groups_equals_its_twin(seed, n_groups, pull, least_share):
    rng = np.random.default_rng(seed)
    units, starts = in_groups(rng, n_groups)
    homes = np.append(rng.integers(len(units), size=15), np.arange(len(units)))
    # Before their homes, and the last of them right on it.
    rows = naive.unit_rows(units[homes] + 0.4 * rng.standard_normal((len(homes), 6)))
    rows[15:] = units
    near = np.array([rng.permutation(n_groups)[:3] for _ in rows], dtype=np.int32)
    found = seconds_of(rows, near, starts, units, homes, pull, least_share)
    for row, home, groups, second in zip(rows, homes, near, found, strict=True):
        if row @ units[home] <= 0:
            continue  # the members of no unit are behind it
        losses = np.full(len(units), np.inf)
        tried = naive.units_of_groups(groups, starts)
        losses[tried] = naive.second_losses(row, units, home, pull, least_share)[tried]
        if np.isinf(losses).all():
            assert second == home
        else:
            assert losses[second] <= losses.min() + 1e-4 * (1 + pull)
