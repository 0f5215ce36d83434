import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from memvec.constructions import CONSTRUCTIONS, memory_vector, memory_vectors
from memvec.errors import InvalidValueError
from strategies import seeds, unit_matrices


def away_from_the_cut(rows):
    """Float32 rounding makes 'dependent' rows almost so; keep spectra a factor 10 off the cut."""
    values = np.linalg.eigvalsh(rows.astype(np.float64) @ rows.astype(np.float64).T)
    share = values / values.max()
    return not ((share > 1e-7) & (share < 1e-5)).any()


def test_sum_adds_members():
    assert memory_vector([[1, 0], [0, 1], [0, 3]], "sum").tolist() == [1, 2]


def test_pinv_gives_every_member_score_one():
    rows = naive.unit_rows(np.random.default_rng(1).standard_normal((7, 30)))
    np.testing.assert_allclose(rows @ memory_vector(rows, "pinv"), 1, atol=2e-6)


def test_pinv_of_repeated_members_is_that_of_distinct_ones():
    rows = naive.unit_rows(np.random.default_rng(2).standard_normal((3, 9)))
    repeated = rows[[0, 1, 1, 2, 0, 0]]
    np.testing.assert_allclose(memory_vector(repeated), memory_vector(rows), atol=1e-6)


def test_pinv_of_near_duplicates_does_not_blow_up():
    rng = np.random.default_rng(3)
    base = rng.standard_normal(64)
    rows = naive.unit_rows(base + 1e-5 * rng.standard_normal((5, 64)))
    # Five copies of one direction: the memory vector is that direction. Seen: norm 1.000.
    assert np.linalg.norm(memory_vector(rows)) == pytest.approx(1, abs=1e-3)


def test_pinv_with_more_members_than_dimensions_is_least_squares():
    rows = naive.unit_rows(np.random.default_rng(4).standard_normal((40, 6)))
    expected = np.linalg.lstsq(rows.astype(np.float64), np.ones(40), rcond=None)[0]
    np.testing.assert_allclose(memory_vector(rows), expected, atol=1e-6)


def test_opposite_members_cancel_to_zero():
    for construction in CONSTRUCTIONS:
        assert np.abs(memory_vector([[1.0, 0.0], [-1.0, 0.0]], construction)).max() < 1e-6


def test_one_member_is_its_own_memory_vector_in_one_dimension():
    for construction in CONSTRUCTIONS:
        assert memory_vector([[-3.0]], construction).tolist() == [-1]


def test_ridge_spans_pinv_to_centroid():
    rows = naive.unit_rows(np.random.default_rng(5).standard_normal((6, 20)))
    np.testing.assert_allclose(
        memory_vector(rows, "ridge", ridge=0), memory_vector(rows, "pinv"), atol=2e-6
    )
    direction = memory_vector(rows, "sum", normalised=True)
    for ridge, tolerance in ((1e7, 1e-5), (np.inf, 1e-6)):
        limit = memory_vector(rows, "ridge", ridge=ridge)
        assert (rows @ limit).mean() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(limit / np.linalg.norm(limit), direction, atol=tolerance)


@settings(deadline=None)
@given(
    rows=unit_matrices().filter(away_from_the_cut),
    construction=st.sampled_from(CONSTRUCTIONS),
    ridge=st.sampled_from([0.0, 0.1, 3.0, np.inf]),
    normalised=st.booleans(),
)
def test_memory_vector_equals_its_naive_twin(rows, construction, ridge, normalised):
    ridge = ridge if construction == "ridge" else 0.0
    found = memory_vector(rows, construction, ridge=ridge, normalised=normalised)
    expected = naive.memory_vector(rows, construction, ridge, normalised)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, atol=2e-5 * scale)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, sizes=st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_ragged_units_equal_units_built_alone(seed, sizes):
    rng = np.random.default_rng(seed)
    rows = naive.unit_rows(rng.standard_normal((sum(sizes) + 1, 16)))
    order = rng.permutation(len(rows))[: sum(sizes)]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    together = memory_vectors(rows, offsets, order=order)
    for unit, size in enumerate(sizes):
        members = rows[order[offsets[unit] : offsets[unit + 1]]]
        alone = memory_vector(members) if size else np.zeros(16)
        np.testing.assert_array_equal(together[unit], alone)


def test_result_does_not_depend_on_threads():
    rows = naive.unit_rows(np.random.default_rng(6).standard_normal((3000, 24)))
    offsets = np.arange(0, 3001, 3)
    one, three = (memory_vectors(rows, offsets, threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("offsets", [[0], [1, 3], [0, 2], [0, 2, 1, 3]])
def test_bad_offsets_are_refused(offsets):
    with pytest.raises(InvalidValueError, match="'offsets' parameter of memory_vectors must be"):
        memory_vectors(np.eye(3, dtype=np.float32), np.array(offsets))


def test_float_offsets_are_refused():
    with pytest.raises(InvalidValueError, match="Got dtype float64"):
        memory_vectors(np.eye(3, dtype=np.float32), np.array([0.0, 3.0]))


@pytest.mark.parametrize(
    ("order", "got"),
    [
        ([0, 1, 3], "0 to 3"),
        ([-1, 0, 1], "-1 to 1"),
        ([0.0, 1.0, 2.0], "dtype float64"),
        ([[0]], "shape"),
    ],
)
def test_bad_order_is_refused(order, got):
    with pytest.raises(InvalidValueError, match=rf"'order' .* in \[0, 3\). Got .*{got}"):
        memory_vectors(np.eye(3, dtype=np.float32), [0, 3], order=order)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_lists_and_other_types_give_the_same_vectors(dtype):
    wanted = memory_vectors(np.eye(3, dtype=np.float32), np.array([0, 1, 3]))
    np.testing.assert_array_equal(memory_vectors(np.eye(3, dtype=dtype), [0, 1, 3]), wanted)
    np.testing.assert_array_equal(memory_vectors(np.eye(3).tolist(), [0, 1, 3]), wanted)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("construction", ["sum", "pinv", "ridge"])
def test_nan_and_infinity_are_refused_with_their_unit(bad, construction):
    rows = np.eye(4, dtype=np.float32)
    rows[3, 0] = bad
    with pytest.raises(InvalidValueError, match="free of NaN and infinite .* Got one in unit 1"):
        memory_vectors(rows, [0, 2, 4], construction=construction)


def test_one_dimensional_vectors_are_refused():
    with pytest.raises(InvalidValueError, match=r"'vectors' .* two-dimensional.* Got shape \(3,\)"):
        memory_vectors(np.ones(3), [0, 3])


def test_no_threads_are_refused():
    with pytest.raises(InvalidValueError, match="'threads' .* an integer >= 1. Got 0"):
        memory_vectors(np.eye(3), [0, 3], threads=0)


def test_bad_parameters_are_refused():
    with pytest.raises(InvalidValueError, match="one of 'sum', 'pinv', 'ridge'. Got 'mean'"):
        memory_vector([[1.0]], "mean")
    with pytest.raises(InvalidValueError, match=r"'ridge' .* in \[0, inf\). Got -1.0"):
        memory_vector([[1.0]], "ridge", ridge=-1)
    with pytest.raises(InvalidValueError, match="0 for construction='pinv'. Got 2.0"):
        memory_vector([[1.0]], "pinv", ridge=2)
