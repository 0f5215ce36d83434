import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive.projection as twin
from memvec.codes import ProjectedRows, Projection, as_tested
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.kernels import StoredRows
from memvec.theory import effective_dimension
from strategies import seeds, unit_matrices


def spread_rows(n_rows, dim, seed=0, mean=0.3):
    """Rows of clearly different variances along turned axes, about a mean that is not 0."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    rows = rng.standard_normal((n_rows, dim)) * 0.85 ** np.arange(dim)
    return (rows @ turn + mean).astype(np.float32)


def cnn_like_rows(n_rows, dim, seed=0):
    """A strong mean and variances that fall as 1/j, as pooled CNN features have them.

    Of 10,000 photographs in 1280 dimensions, the mean of the unit rows has norm 0.60, and the
    standard deviations fall to 0.30, 0.11 and 0.07 of the largest at j = 100, 512 and 1024.
    """
    rng = np.random.default_rng(seed)
    deviations = 1 / np.sqrt(1 + np.arange(dim) / 10)
    mean = rng.standard_normal(dim)
    mean *= 0.76 * np.linalg.norm(deviations) / np.linalg.norm(mean)
    return (rng.standard_normal((n_rows, dim)) * deviations + mean).astype(np.float32)


def test_pca_finds_the_long_axis_of_a_cross():
    rows = np.array([[1, 0], [-1, 0], [1, 0], [0, 1]], dtype=np.float32)
    projection = Projection.fit(rows, 1)
    np.testing.assert_array_equal(projection.mean, [0, 0])
    np.testing.assert_allclose(projection.basis, [[1], [0]], atol=1e-7)
    # The last row is orthogonal to the axis: it becomes the first axis of the projected space.
    np.testing.assert_allclose(projection.apply(rows), [[1], [-1], [1], [1]])


def test_centring_by_hand():
    rows = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32)
    projection = Projection.fit(rows, center=True)
    assert projection.basis is None
    np.testing.assert_array_equal(projection.mean, [0.5, 0.5, 0])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(projection.apply(rows), [[half, -half, 0], [-half, half, 0]])


def test_whitening_by_hand():
    # Second moments 4/5 and 1/5: standard deviations in the ratio 2 to 1.
    rows = np.array([[1, 0], [-1, 0], [1, 0], [-1, 0], [0, 1]], dtype=np.float32)
    projection = Projection.fit(rows, whiten=True)
    np.testing.assert_allclose(projection.basis, np.diag([0.8, 0.2]) ** 0.5 @ np.diag([1.25, 5]))
    np.testing.assert_allclose(projection.apply([[2, 1]]), [[0.5**0.5, 0.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("out_dim", [1, 7, 24])
def test_projection_equals_its_twin(out_dim, center, whiten):
    rows = spread_rows(5000, 24)
    projection = Projection.fit(rows, out_dim, center=center, whiten=whiten)
    mean, basis = twin.principal_basis(rows, out_dim, center, whiten)
    np.testing.assert_allclose(projection.mean, mean, atol=1e-7)
    # Seen: 8e-8 of the largest entry.
    np.testing.assert_allclose(projection.basis, basis, atol=1e-6 * np.abs(basis).max())
    expected = twin.project(rows, mean, basis)
    np.testing.assert_allclose(projection.apply(rows), expected, atol=1e-5)  # Seen: 1.2e-6


def test_centring_alone_equals_its_twin():
    rows = spread_rows(3000, 24)
    mean, _ = twin.principal_basis(rows, 24, center=True, whiten=False)
    found = Projection.fit(rows, center=True).apply(rows)
    np.testing.assert_allclose(found, twin.project(rows, mean, np.eye(24)), atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, dim=st.integers(1, 60))
def test_pca_to_all_dimensions_keeps_inner_products(seed, dim):
    rows = twin.unit(np.random.default_rng(seed).standard_normal((70, dim)))
    turned = Projection.fit(rows, dim).apply(rows)
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=2e-6)


@settings(deadline=None, max_examples=60)
@given(rows=unit_matrices(), center=st.booleans(), whiten=st.booleans(), data=st.data())
def test_projected_rows_are_unit_rows_whatever_the_data(rows, center, whiten, data):
    rows = np.concatenate([rows, rows[:1], np.eye(1, rows.shape[1], dtype=np.float32)])
    out_dim = data.draw(st.integers(1, min(rows.shape)))
    try:
        projection = Projection.fit(rows, out_dim, center=center, whiten=whiten)
    except InvalidValueError as error:
        assert "rows that differ" in str(error)  # noqa: PT017
        assert np.ptp(rows, axis=0).max() < 1e-5
        return
    for probe in (rows, -rows):
        norms = np.linalg.norm(projection.apply(probe), axis=1)
        np.testing.assert_allclose(norms, 1, atol=1e-6)


@pytest.mark.parametrize("center", [False, True])
def test_whitening_gives_unit_variances_without_correlation(center):
    rows = twin.unit(spread_rows(4000, 24))
    projection = Projection.fit(rows, 16, center=center, whiten=True)
    scores = (rows - projection.mean) @ projection.basis
    np.testing.assert_allclose(scores.T @ scores / len(rows), np.eye(16), atol=1e-6)  # Seen: 1.4e-7


def test_centring_removes_the_mean():
    rows = spread_rows(4000, 24, mean=1.0)
    projection = Projection.fit(rows, 24, center=True)
    centred = (twin.unit(rows) - projection.mean) @ projection.basis
    np.testing.assert_allclose(centred.mean(axis=0), 0, atol=1e-7)
    before, after = (effective_dimension(x) for x in (rows, projection.apply(rows)))
    assert before.mean_cosine > 0.8  # Seen: 0.876
    assert abs(after.mean_cosine) < 0.005  # Seen: -0.0004


def test_whitening_floor_holds_back_directions_without_data():
    rows = np.zeros((200, 10), dtype=np.float32)
    rows[:, :9] = spread_rows(200, 9)
    basis = Projection.fit(rows, whiten=True).basis
    factors = np.linalg.norm(basis, axis=0)
    assert factors[-1] == pytest.approx(1000 * factors[0], rel=1e-5)
    assert factors[-2] < 100 * factors[0]


def test_rows_that_vanish_become_the_first_axis():
    rows = spread_rows(50, 6)
    rows[:, 5] = 0
    whole = np.eye(6, dtype=np.float32)
    flat = Projection.fit(rows, 3)
    np.testing.assert_array_equal(flat.apply(whole[5:]), [[1, 0, 0]])
    axis = Projection.fit(np.stack([whole[0]] * 3), center=True)
    np.testing.assert_array_equal(axis.apply(whole[:1]), whole[:1])
    on_the_mean = Projection(whole[1], flat.basis / np.float32(1e-3))
    np.testing.assert_array_equal(on_the_mean.apply(whole[1:2]), [[1, 0, 0]])


def test_randomised_pca_captures_what_the_svd_does():
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((600, 100)) / np.sqrt(1 + np.arange(100))
    rows = factors @ rng.standard_normal((100, 2304)) + 0.3 * rng.standard_normal((600, 2304))
    rows = twin.unit(rows + 1)
    projection = Projection.fit(rows, 32, center=True)
    centred = rows - rows.mean(axis=0)
    best = np.linalg.svd(centred, full_matrices=False)[2][:32].T
    basis = projection.basis.astype(np.float64)
    np.testing.assert_allclose(basis.T @ basis, np.eye(32), atol=1e-6)
    ratio = twin.captured(centred, basis) / twin.captured(centred, best)
    assert 0.999 < ratio <= 1 + 1e-6  # Seen: 0.99973
    # The strong directions are found one by one, and not only their span.
    overlap = np.abs(np.sum(basis[:, :5] * best[:, :5], axis=0))
    assert overlap.min() > 0.9999  # Seen: 0.9999999


def test_randomised_whitening_gives_unit_variances():
    rows = twin.unit(np.random.default_rng(4).standard_normal((400, 2100)) + 0.5)
    projection = Projection.fit(rows, 20, center=True, whiten=True)
    scores = (rows - projection.mean) @ projection.basis
    np.testing.assert_allclose(scores.T @ scores / len(rows), np.eye(20), atol=1e-6)  # Seen: 4e-8


def test_whitening_raises_the_effective_dimension_of_cnn_features():
    rows = cnn_like_rows(8000, 1280)
    train, test = rows[:6000], rows[6000:]
    centred = Projection.fit(train, center=True)
    whitened = Projection.fit(train, 512, center=True, whiten=True)
    raw, after_centring, after_whitening = (
        effective_dimension(x).dimension for x in (test, centred.apply(test), whitened.apply(test))
    )
    assert 3 < raw < 23  # Seen: 7.3; the photographs: 7.2
    assert 100 < after_centring < 300  # Seen: 235; the photographs: 180
    # Whitening by the covariance of 6000 other rows, an inverse Wishart matrix, leaves variances
    # that spread: (E λ)²/E λ² = 1 − 512/6000. Seen: 474; half the photographs on the other: 462
    assert after_whitening == pytest.approx(512 * (1 - 512 / 6000), rel=0.03)


@pytest.mark.parametrize("dim", [30, 2100])
def test_projection_follows_its_seed(dim):
    rows = np.random.default_rng(5).standard_normal((90, dim))
    first, again, other = (
        Projection.fit(rows, 4, center=True, seed=seed, sample_size=60) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.basis, again.basis)
    np.testing.assert_array_equal(first.mean, again.mean)
    assert (first.mean != other.mean).any()


def test_signs_of_directions_are_fixed():
    basis = Projection.fit(spread_rows(300, 20), 20).basis
    assert (basis[np.abs(basis).argmax(axis=0), np.arange(20)] > 0).all()


def test_sample_is_enough_for_the_strong_directions():
    rows = spread_rows(20_000, 24)
    whole, part = (Projection.fit(rows, 4, sample_size=size) for size in (20_000, 5000))
    overlap = np.abs(np.sum(whole.basis * part.basis, axis=0))
    assert overlap.min() > 0.99  # Seen: 0.998


def test_apply_is_the_same_for_any_threads_type_and_scale():
    rows = twin.unit(spread_rows(3000, 24)).astype(np.float32)
    projection = Projection.fit(rows, 8, center=True)
    found = projection.apply(rows)
    seen = []
    np.testing.assert_array_equal(projection.apply(rows, threads=1, advance=seen.append), found)
    assert sum(seen) == 3000
    np.testing.assert_array_equal(projection.apply(rows, threads=3), found)
    np.testing.assert_allclose(projection.apply(1e30 * rows), found, atol=1e-6)
    # A BLAS product of fewer rows may add in another order: a float32 near 1 is off by 1e-7.
    listed = projection.apply(rows[:40].astype(float).tolist())
    np.testing.assert_allclose(listed, found[:40], atol=1e-6)
    for row in range(0, 3000, 500):
        alone = projection.apply(rows[row : row + 1])
        np.testing.assert_allclose(alone[0], found[row], atol=1e-6)


def test_apply_leaves_its_input_alone():
    rows = twin.unit(spread_rows(100, 24)).astype(np.float32)
    rows.setflags(write=False)
    identity = Projection.fit(rows)
    assert (identity.dim, identity.out_dim) == (24, 24)
    found = identity.apply(rows)
    assert not np.shares_memory(found, rows)
    np.testing.assert_allclose(found, rows, atol=1e-7)


def test_no_rows_are_projected_to_no_rows():
    projection = Projection.fit(spread_rows(100, 24), 8)
    assert projection.apply(np.empty((0, 24))).shape == (0, 8)


ROWS = spread_rows(10, 6)


@pytest.mark.parametrize(
    ("rows", "options", "text"),
    [
        (ROWS, {"out_dim": 7}, "'out_dim' .* must be at most the dimension, 6. Got 7 instead"),
        (ROWS[:4], {"out_dim": 5}, "'out_dim' .* at most the number of rows, 4. Got 5 instead"),
        (ROWS, {"out_dim": 0}, "'out_dim' .* must be an integer >= 1. Got 0 instead"),
        (ROWS[:1], {"out_dim": 1}, "'rows' .* must be at least 2 rows. Got 1 instead"),
        (ROWS[:1], {"whiten": True}, "'rows' .* must be at least 2 rows. Got 1 instead"),
        (ROWS[:5], {"whiten": True}, "at least 6 rows, one for each dimension .* Got 5 instead"),
        (ROWS, {"out_dim": 5, "sample_size": 4}, "'sample_size' .* integer >= 5. Got 4 instead"),
        (ROWS, {"sample_size": 1}, "'sample_size' .* must be an integer >= 2. Got 1 instead"),
        (ROWS, {"seed": -1}, "'seed' .* must be an integer >= 0. Got -1 instead"),
        (ROWS[[1] * 9], {"out_dim": 2, "center": True}, "rows that differ. Got 9 equal rows"),
        (ROWS[0], {}, "'rows' .* must be two-dimensional"),
    ],
)
def test_fit_refuses(rows, options, text):
    with pytest.raises(InvalidValueError, match=text):
        Projection.fit(rows, **options)


@pytest.mark.parametrize("sample_size", [6, 100])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (0, "only zeros")])
def test_fit_names_the_unusable_row(value, what, sample_size):
    rows = spread_rows(10, 6)
    rows[3:] = value
    text = rf"'rows' .* of Projection.fit must be free of .* Got {what} in row [3-6] instead"
    with pytest.raises(InvalidValueError, match=text):
        Projection.fit(rows, center=True, sample_size=sample_size)


def test_apply_refuses_what_it_cannot_project():
    projection = Projection.fit(ROWS, 2)
    with pytest.raises(InvalidValueError, match="'rows' .* of dimension 6. Got dimension 5"):
        projection.apply(ROWS[:, :5])
    with pytest.raises(InvalidTypeError, match="'rows' .* of Projection.apply must be an array"):
        projection.apply("rows")
    rows = np.ones((3000, 6))
    rows[2500, 2] = np.inf
    with pytest.raises(InvalidValueError, match="Got an infinite value in row 2500 instead"):
        projection.apply(rows)


def test_projection_fits_the_rows_named_without_the_others():
    rows = np.random.default_rng(4).standard_normal((60, 6)) + 1
    among = np.delete(np.arange(60), [3, 17, 59])
    for sample_size in (40, 1000):
        options = {"center": True, "whiten": True, "sample_size": sample_size}
        named = Projection.fit(rows, 3, among=among, **options)
        alone = Projection.fit(rows[among], 3, **options)
        np.testing.assert_array_equal(named.mean, alone.mean)
        np.testing.assert_array_equal(named.basis, alone.basis)


def test_projection_names_a_bad_row_by_its_number_in_the_whole():
    rows = np.ones((9, 3))
    rows[5] = 0.0
    with pytest.raises(InvalidValueError, match="row 5"):
        Projection.fit(rows, center=True, among=np.arange(4, 9))


def unit_spread():
    rows = spread_rows(300, 24)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_rows_projected_when_they_are_read_are_those_projected_at_once():
    rows = StoredRows.of(unit_spread(), "int8")
    projection = Projection.fit(rows, center=True)
    lazy, whole = as_tested(rows, projection), projection.apply(rows)
    assert isinstance(lazy, ProjectedRows)
    assert lazy.shape == whole.shape
    np.testing.assert_array_equal(lazy[20:150], whole[20:150])
    np.testing.assert_array_equal(lazy.some(np.array([7, 3]))[:], whole[[7, 3]])
    assert len(lazy.some(slice(0, 10))) == 10


def test_only_centred_rows_of_few_bytes_are_projected_when_they_are_read():
    plain = StoredRows.of(unit_spread())
    small = StoredRows.of(plain.data, "float16")
    assert as_tested(small, None) is small
    assert as_tested(plain, None) is plain.data
    assert isinstance(as_tested(plain, Projection.fit(plain, center=True)), np.ndarray)
    assert isinstance(as_tested(small, Projection.fit(small, 8, center=True)), np.ndarray)
