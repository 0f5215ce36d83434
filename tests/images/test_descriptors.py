"""SIFT, vocabularies, the triangulation embedding and VLAD, each against its slow twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memvec.errors import CorruptIndexError, FileFormatError, InvalidValueError
from memvec.images import (
    SiftConfig,
    Triangulation,
    Vlad,
    default_descriptor,
    democratic_weights,
    learn_vocabulary,
    local_descriptors,
    made_up_scene,
    open_descriptor,
    power_law,
    root_sift,
    save_descriptor,
)
from memvec.images._descriptor import fingerprint
from memvec.images._triangulation import residuals
from memvec.images._vlad import unreduced_vlad
from memvec.storage import write_folder
from naive import images as naive

DIM, WORDS = 6, 4


def unit_rows(n, dim=DIM, seed=0):
    rows = np.abs(np.random.default_rng(seed).standard_normal((n, dim))).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def fitted():
    return Triangulation.fit([unit_rows(300), unit_rows(300, seed=1)], WORDS)


@pytest.fixture(scope="module")
def on_scenes():
    bags = [local_descriptors(made_up_scene(seed)) for seed in range(15)]
    return Triangulation.fit(bags, 8)


def test_root_sift_agrees_with_its_twin():
    rows = np.random.default_rng(0).integers(0, 256, (20, 128))
    expected = [naive.root_sift(row) for row in rows]
    np.testing.assert_allclose(root_sift(rows), expected, atol=1e-7)


def test_root_sift_has_norm_one_and_leaves_zero_rows_out():
    rows = root_sift(np.array([[0, 0, 0], [1, 2, 3]]))
    assert rows.shape == (1, 3)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_local_descriptors_are_the_same_each_time():
    first, second = (local_descriptors(made_up_scene(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)


def test_local_descriptors_stay_within_the_number_asked():
    assert len(local_descriptors(made_up_scene(3), SiftConfig(max_features=20))) == 20


def test_large_photo_is_scaled_down_first():
    large = np.repeat(np.repeat(made_up_scene(3), 4, axis=0), 4, axis=1)
    few = local_descriptors(large, SiftConfig(max_side=160))
    np.testing.assert_array_equal(few, local_descriptors(made_up_scene(3)))


def test_photo_of_one_colour_has_no_descriptor():
    with pytest.raises(FileFormatError, match="No keypoint was found"):
        local_descriptors(np.full((64, 64, 3), 128, dtype=np.uint8))


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"max_side": 8}, "max_side"), ({"max_features": 0}, "max_features"), ({"contrast": -1}, "c")],
)
def test_sift_config_refuses_what_cannot_be(settings, name):
    with pytest.raises(InvalidValueError, match=f"The '{name}.* parameter of SiftConfig must be"):
        SiftConfig(**settings)


def test_vocabulary_finds_separated_clusters():
    centres = np.eye(3, DIM) + 0.05
    rows = np.concatenate([centres[i] + 0.01 * unit_rows(50, seed=i) for i in range(3)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    means = np.array([rows[50 * i : 50 * i + 50].mean(axis=0) for i in range(3)])
    for rule, expected in (
        ("plain", means),
        ("spherical", means / np.linalg.norm(means, axis=1, keepdims=True)),
    ):
        found = learn_vocabulary(rows, 3, rule=rule)
        np.testing.assert_allclose(found[np.argmax(found[:, :3], axis=0)], expected, atol=1e-6)


def test_plain_rounds_lower_the_distortion():
    rows = unit_rows(500)
    plain, spherical = (learn_vocabulary(rows, 8, rule=rule) for rule in ("plain", "spherical"))
    assert naive.distortion(rows, plain) < naive.distortion(rows, spherical)


def test_vocabulary_is_fixed_by_its_seed():
    rows = unit_rows(200)
    np.testing.assert_array_equal(learn_vocabulary(rows, 5), learn_vocabulary(rows, 5))


def test_vocabulary_has_as_many_words_as_asked():
    for n_rows in (7, 16, 101):
        assert learn_vocabulary(unit_rows(n_rows), 7).shape == (7, DIM)


def test_vocabulary_refuses_too_few_rows_and_unknown_rules():
    with pytest.raises(InvalidValueError, match="must be at least 5 rows, one for each word"):
        learn_vocabulary(unit_rows(4), 5)
    with pytest.raises(InvalidValueError, match="'rule' parameter of learn_vocabulary must be one"):
        learn_vocabulary(unit_rows(4), 2, rule="fuzzy")


def test_residuals_agree_with_their_twin(fitted):
    rows = unit_rows(10, seed=2)
    expected = [naive.residuals(row, fitted.centroids) for row in rows]
    np.testing.assert_allclose(residuals(rows, fitted.centroids), expected, atol=1e-6)


def test_descriptor_on_a_centroid_has_no_residual_there():
    centroids = unit_rows(2)
    found = residuals(centroids[:1], centroids)
    assert not found[0, :DIM].any()
    np.testing.assert_allclose(np.linalg.norm(found[0, DIM:]), 1, atol=1e-6)


def test_triangulation_agrees_with_its_twin(fitted):
    training = np.concatenate([unit_rows(300), unit_rows(300, seed=1)])
    mean, covariance, whitening = naive.triangulation_parameters(training, fitted.centroids)
    np.testing.assert_allclose(fitted.mean, mean, atol=1e-6)
    # Eigenvectors of near eigenvalues may turn; what whitening does to the covariance may not.
    whitened = fitted.whitening.T @ covariance @ fitted.whitening
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1][DIM:]
    solid = values > 1.1e-4 * values[0]
    np.testing.assert_allclose(whitened[np.ix_(solid, solid)], np.eye(solid.sum()), atol=2e-3)
    overlap = np.linalg.svd(
        np.linalg.qr(fitted.whitening[:, solid])[0].T @ np.linalg.qr(whitening[:, solid])[0]
    )[1]
    np.testing.assert_allclose(overlap, 1, atol=1e-3)
    row = unit_rows(1, seed=5)
    expected = naive.triangulation(row[0], fitted.centroids, fitted.mean, fitted.whitening)
    np.testing.assert_allclose(fitted.embed(row)[0], expected, rtol=1e-4, atol=1e-3)


def test_embedding_of_the_training_set_is_white(fitted):
    embedded = fitted.embed(np.concatenate([unit_rows(300), unit_rows(300, seed=1)]))
    np.testing.assert_allclose(embedded.mean(axis=0), 0, atol=1e-3)
    covariance = np.cov(embedded.T, bias=True)
    # All variances are 1 but those of directions under the floor, which are less.
    assert np.diagonal(covariance).max() < 1.01
    np.testing.assert_allclose(np.diagonal(covariance)[: DIM * (WORDS - 2)], 1, atol=0.01)


@pytest.mark.parametrize(("words", "dim"), [(16, 1920), (64, 8064)])
def test_dimension_is_that_of_the_paper(words, dim):
    size = words * 128
    empty = np.zeros((words, 128), np.float32)
    parts = np.zeros(size, np.float32), np.zeros((size, size - 128), np.float32)
    assert Triangulation(empty, *parts).dim == dim


def test_sum_aggregation_is_the_sum_of_embeddings(fitted):
    rows = unit_rows(30, seed=3)
    expected = naive.unit(fitted.embed(rows).astype(np.float64).sum(axis=0))
    np.testing.assert_allclose(fitted.aggregate(rows), expected, atol=1e-4)


def test_democratic_aggregation_is_the_weighted_sum(fitted):
    rows = unit_rows(30, seed=3)
    democratic = Triangulation(
        fitted.centroids, fitted.mean, fitted.whitening, aggregation="democratic", power=0.5
    )
    embedded = fitted.embed(rows).astype(np.float64)
    weights = naive.democratic_weights(embedded, 10)
    expected = naive.unit(naive.power_law(weights @ embedded, 0.5))
    np.testing.assert_allclose(democratic.aggregate(rows), expected, atol=1e-4)


def test_democratic_weights_agree_with_their_twin():
    rows = np.random.default_rng(0).standard_normal((15, 5))
    np.testing.assert_allclose(
        democratic_weights(rows, rounds=7), naive.democratic_weights(rows, 7), rtol=1e-9
    )


def test_democratic_contributions_become_equal():
    rows = np.abs(np.random.default_rng(1).standard_normal((20, 5)))
    weights = democratic_weights(rows, rounds=60)
    np.testing.assert_allclose(weights * (rows @ rows.T @ weights), 1, atol=1e-6)


def test_democratic_weight_of_a_zero_row_is_one():
    assert democratic_weights([[0.0, 0.0], [2.0, 0.0]])[0] == 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.floats(0.05, 1.0))
@settings(deadline=None)
def test_power_law_agrees_with_its_twin(values, power):
    np.testing.assert_allclose(power_law(values, power), naive.power_law(values, power), atol=1e-9)


def test_triangulation_refuses_what_cannot_be(fitted):
    with pytest.raises(InvalidValueError, match="at least 24 local descriptors for 4 words. Got 5"):
        Triangulation.fit([unit_rows(5)], WORDS)
    with pytest.raises(InvalidValueError, match="'bags' parameter of Triangulation.fit must be at"):
        Triangulation.fit([], WORDS)
    with pytest.raises(InvalidValueError, match="'aggregation' parameter of Triangulation"):
        Triangulation(fitted.centroids, fitted.mean, fitted.whitening, aggregation="max")
    with pytest.raises(InvalidValueError, match="'power' parameter of Triangulation"):
        Triangulation(fitted.centroids, fitted.mean, fitted.whitening, power=2)
    with pytest.raises(InvalidValueError, match=r"'whitening' .* of shape \(24, 18\), with a mean"):
        Triangulation(fitted.centroids, fitted.mean, fitted.whitening[:, 1:])


def test_descriptors_that_cancel_out_have_no_direction(fitted):
    zero = np.zeros_like(fitted.whitening)
    with pytest.raises(FileFormatError, match="local descriptors cancel out"):
        Triangulation(fitted.centroids, fitted.mean, zero).aggregate(unit_rows(3))


def test_copies_are_nearer_than_other_photos(on_scenes):
    original, other = (on_scenes.describe(made_up_scene(seed)) for seed in (50, 51))
    crop = on_scenes.describe(made_up_scene(50)[5:-5, 5:-5])
    assert original.shape == (896,)
    np.testing.assert_allclose(np.linalg.norm(original), 1, atol=1e-6)
    # Seen: 0.831 and 0.079; 190 pairs of other scenes lie between -0.060 and 0.168.
    assert original @ crop > 0.7
    assert abs(original @ other) < 0.2


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_vlad_agrees_with_its_twin(power):
    rows, centroids = unit_rows(40), unit_rows(5, seed=9)
    np.testing.assert_allclose(
        unreduced_vlad(rows, centroids, power), naive.vlad(rows, centroids, power), atol=1e-6
    )


def test_vlad_keeps_the_distances_it_can():
    bags = [unit_rows(25, seed=seed) for seed in range(60)]
    vlad = Vlad.fit(bags, dim=24, n_words=4)
    whole = np.array([unreduced_vlad(bag, vlad.centroids, 0.5) for bag in bags])
    centred = whole - whole.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    reduced = np.array([vlad.aggregate(bag) for bag in bags])
    # All 24 dimensions are kept: a rotation of the centred vectors.
    np.testing.assert_allclose(reduced @ reduced.T, centred @ centred.T, atol=1e-5)


def test_vlad_of_photos_has_1024_dimensions():
    rng = np.random.default_rng(0)
    bags = [np.abs(rng.standard_normal((12, 128))).astype(np.float32) for _ in range(1030)]
    vlad = Vlad.fit(bags, n_words=8)
    assert vlad.dim == 1024
    assert vlad.describe(made_up_scene(1)).shape == (1024,)
    assert repr(vlad) == "Vlad(8 words, dimension 1024, power 0.5)"


def test_vlad_refuses_what_cannot_be(fitted):
    bags = [unit_rows(25, seed=seed) for seed in range(10)]
    with pytest.raises(InvalidValueError, match="at most the number of training photographs, 10"):
        Vlad.fit(bags, dim=11, n_words=4)
    with pytest.raises(InvalidValueError, match="at most the number of dimensions of the vocabul"):
        Vlad.fit(bags, dim=10, n_words=1)
    vlad = Vlad.fit(bags, dim=4, n_words=4)
    with pytest.raises(InvalidValueError, match="must be a projection of dimension 12. Got dimen"):
        Vlad(vlad.centroids[:2], vlad.projection)


@pytest.mark.parametrize("kind", ["triangulation", "vlad"])
def test_saved_descriptor_describes_alike(tmp_path, on_scenes, kind):
    bags = [local_descriptors(made_up_scene(seed)) for seed in range(12)]
    descriptor = on_scenes if kind == "triangulation" else Vlad.fit(bags, dim=8, n_words=4)
    save_descriptor(descriptor, tmp_path / "model")
    again = open_descriptor(tmp_path / "model")
    np.testing.assert_array_equal(
        again.describe(made_up_scene(60)), descriptor.describe(made_up_scene(60))
    )
    assert fingerprint(again) == fingerprint(descriptor)
    assert repr(again) == repr(descriptor)


def test_fingerprint_tells_settings_and_arrays_apart(fitted):
    parts = fitted.centroids, fitted.mean, fitted.whitening
    others = [
        Triangulation(*parts, power=0.5),
        Triangulation(*parts, sift=SiftConfig(max_side=512)),
        Triangulation(fitted.centroids + np.float32(1e-3), *parts[1:]),
    ]
    assert len({fingerprint(model) for model in [fitted, *others]}) == 4


def test_open_refuses_other_folders(tmp_path, fitted):
    write_folder(tmp_path / "other", {"rows": np.eye(2)}, {"descriptor": "words"})
    write_folder(tmp_path / "list", {}, {"descriptor": ["words"]})
    with pytest.raises(CorruptIndexError, match=r"descriptor of photographs, but \['words'\]"):
        open_descriptor(tmp_path / "list")
    with pytest.raises(CorruptIndexError, match="is not a descriptor of photographs, but 'words'"):
        open_descriptor(tmp_path / "other")
    meta = {"descriptor": "triangulation", "settings": {}}
    write_folder(tmp_path / "half", {"centroids": np.eye(2)}, meta)
    with pytest.raises(CorruptIndexError, match="half is not a complete descriptor: KeyError"):
        open_descriptor(tmp_path / "half")


# --- the default ---------------------------------------------------------------------------------


def test_default_descriptor_tells_copies_from_others():
    model = default_descriptor()
    scenes = [made_up_scene(seed, height=240, width=320) for seed in range(6)]
    stored = np.array([model.describe(scene) for scene in scenes])
    crops = np.array([model.describe(scene[12:-12, 16:-16]) for scene in scenes])
    cosines = crops @ stored.T
    assert cosines.diagonal().min() > 0.85  # 0.91 seen
    assert cosines[~np.eye(6, dtype=bool)].max() < 0.7  # 0.58 seen: discs are like other discs


def test_default_descriptor_stays_the_same_when_saved(tmp_path):
    save_descriptor(default_descriptor(), tmp_path / "model")
    opened = open_descriptor(tmp_path / "model")
    for name, array in default_descriptor().arrays().items():
        assert array.dtype == np.float32
        assert np.array_equal(opened.arrays()[name], array)
