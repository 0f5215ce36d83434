import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.constructions import OnlineUnit
from memvec.errors import InvalidTypeError, InvalidValueError
from strategies import seeds


def spectrum_is_clear(rows):
    """Tell that no eigenvalue of XᵀX is within a factor 10 of the cut."""
    wide = np.asarray(rows, dtype=np.float64)
    share = np.linalg.eigvalsh(wide @ wide.T)
    share /= share.max()
    return not ((share > 1e-7) & (share < 1e-5)).any()


def fresh_row(rng, members, dim, kind):
    """A new row: random, a copy of a member, a combination of two, or near a combination."""
    if kind == "copy" and members:
        return members[rng.integers(len(members))]
    if kind in ("dependent", "near") and len(members) > 1:
        first, second = rng.choice(len(members), 2, replace=False)
        noise = 0.05 * rng.standard_normal(dim) if kind == "near" else 0
        return 0.8 * members[first] + 0.7 * members[second] + noise
    return rng.standard_normal(dim)


def test_residual_update_is_the_paper_promise_by_hand():
    unit = OnlineUnit(2)
    unit.add([1, 0])
    unit.add([0.6, 0.8])
    np.testing.assert_allclose(unit.vector, [1, 0.5], atol=1e-7)


@settings(deadline=None, max_examples=150)
@given(
    seed=seeds,
    dim=st.integers(1, 24),
    steps=st.lists(
        st.sampled_from(["random", "random", "copy", "dependent", "near", "remove"]), max_size=40
    ),
)
def test_online_pinv_equals_batch_after_any_sequence(seed, dim, steps):
    rng = np.random.default_rng(seed)
    unit, members = OnlineUnit(dim), []
    for step in steps:
        if step == "remove":
            if members:
                unit.remove(members.pop(rng.integers(len(members))))
        else:
            [row] = naive.unit_rows([fresh_row(rng, members, dim, step)])
            if not spectrum_is_clear([*members, row]):
                continue
            unit.add(row)
            members.append(row)
        if members and not spectrum_is_clear(members):
            return  # a removal may move the spectrum to the cut, where neither is defined
        expected = naive.pinv_memory_vector(members) if members else np.zeros(dim)
        tolerance = 1e-5 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(unit.vector, expected, atol=tolerance)


def test_online_sum_equals_batch():
    rows = naive.unit_rows(np.random.default_rng(1).standard_normal((9, 5)))
    unit = OnlineUnit(5, "sum")
    for row in rows:
        unit.add(row)
    unit.remove(rows[4])
    np.testing.assert_allclose(unit.vector, np.delete(rows, 4, 0).sum(0), atol=1e-6)


def test_rounding_does_not_build_up_over_a_long_stream():
    rng = np.random.default_rng(2)
    unit, members = OnlineUnit(48), []
    for _ in range(2000):
        [row] = naive.unit_rows(rng.standard_normal((1, 48)))
        unit.add(row)
        members.append(row)
        if len(members) > 30:
            unit.remove(members.pop(0))
    # Seen: 9e-8, float32 rounding of the result.
    np.testing.assert_allclose(unit.vector, naive.pinv_memory_vector(members), atol=2e-6)


def test_dependent_members_are_solved_only_when_asked(monkeypatch):
    solved, eigenvalues = [], np.linalg.eigh
    monkeypatch.setattr(
        np.linalg, "eigh", lambda matrix: (solved.append(len(matrix)), eigenvalues(matrix))[1]
    )
    rows = naive.unit_rows(np.random.default_rng(3).standard_normal((200, 12)))
    unit = OnlineUnit(12)
    for row in rows:
        unit.add(row)
    assert not [size for size in solved if size > 12]
    np.testing.assert_allclose(unit.vector, naive.pinv_memory_vector(rows), atol=1e-5)
    assert solved[-1] == 200
    known = len(solved)
    assert unit.vector.shape == (12,)
    assert len(solved) == known


def test_unit_comes_back_to_updates_when_dependent_members_leave(monkeypatch):
    rows = naive.unit_rows(np.random.default_rng(4).standard_normal((8, 6)))
    unit = OnlineUnit(6)
    for row in rows:
        unit.add(row)
    for row in rows[:4]:
        unit.remove(row)
    np.testing.assert_allclose(unit.vector, naive.pinv_memory_vector(rows[4:]), atol=1e-5)
    expected = naive.pinv_memory_vector([*rows[4:], rows[0]])
    monkeypatch.setattr(np.linalg, "eigh", None)
    unit.add(rows[0])
    np.testing.assert_allclose(unit.vector, expected, atol=1e-5)


def test_adding_and_removing_takes_back_everything():
    unit = OnlineUnit(4)
    unit.add([1, 2, 3, 4])
    unit.add([0, 1, 0, 1])
    unit.remove([0, 1, 0, 1])
    unit.remove([1, 2, 3, 4])
    assert len(unit) == 0
    assert unit.vector.tolist() == [0, 0, 0, 0]
    assert unit.vectors.shape == (0, 4)


def test_repr_tells_size():
    assert repr(OnlineUnit(4)) == "OnlineUnit(dim=4, construction='pinv', size=0)"


def test_removing_a_stranger_is_refused_and_changes_nothing():
    unit = OnlineUnit(2)
    unit.add([1, 0])
    with pytest.raises(InvalidValueError, match="equals none of its 1 members"):
        unit.remove([0, 1])
    assert unit.vector.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("vector", "text"),
    [
        ([1.0, 2.0, 3.0], "of dimension 2. Got dimension 3"),
        ([[1.0, 2.0]], r"one-dimensional. Got shape \(1, 2\)"),
        ([0.0, 0.0], "Got only zeros in row 0"),
        ([np.nan, 0.0], "Got NaN in row 0"),
        ([np.inf, 0.0], "Got an infinite value in row 0"),
    ],
)
def test_bad_vectors_are_refused_and_change_nothing(vector, text):
    unit = OnlineUnit(2)
    with pytest.raises(InvalidValueError, match=text):
        unit.add(vector)
    assert len(unit) == 0


def test_ragged_vector_is_refused():
    with pytest.raises(InvalidTypeError, match="'vector' parameter of OnlineUnit.add .* Got list"):
        OnlineUnit(2).add([1.0, [2.0]])


def test_bad_settings_are_refused():
    with pytest.raises(InvalidValueError, match="integer >= 1. Got 0"):
        OnlineUnit(0)
    with pytest.raises(InvalidTypeError, match="integer >= 1. Got 2.5"):
        OnlineUnit(2.5)
    with pytest.raises(InvalidValueError, match="one of 'pinv', 'sum'. Got 'ridge'"):
        OnlineUnit(2, "ridge")
