"""Made-up photographs: fixed by their seeds, alike when they show the same."""

import numpy as np
import pytest

from memvec.errors import InvalidValueError
from memvec.images import Triangulation, local_descriptors, made_up_scene, made_up_view


def test_scene_is_fixed_by_its_seed():
    first, again, other = (made_up_scene(seed, height=30, width=40) for seed in (3, 3, 4))
    assert first.shape == (30, 40, 3)
    assert first.dtype == np.uint8
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_scene_has_more_discs_where_it_is_larger():
    colours = [len(np.unique(made_up_scene(0, width=w).reshape(-1, 3), axis=0)) for w in (80, 320)]
    # Seen: 80 and 306.
    assert colours[1] > 3 * colours[0]


def test_view_is_fixed_by_its_seed_and_keeps_to_the_scene():
    scene = np.full((60, 80, 3), 200, dtype=np.uint8)
    view = made_up_view(scene, 1, left=70, height=48, width=64)
    np.testing.assert_array_equal(view, made_up_view(scene, 1, left=70, height=48, width=64))
    # Nothing but the scene and noise of 4: 9216 values within 5 deviations.
    assert np.abs(view.astype(int) - 200).max() <= 20
    dark = made_up_view(scene, 1, height=48, width=64, light=0.4)
    assert dark.mean() == pytest.approx(80, abs=0.5)


def test_views_of_a_scene_are_nearer_than_other_scenes():
    model = Triangulation.fit([local_descriptors(made_up_scene(seed)) for seed in range(15)], 4)
    scenes = [made_up_scene(seed) for seed in range(50, 58)]
    rows = np.array(
        [[model.describe(made_up_view(scene, view)) for view in (1, 2)] for scene in scenes]
    )
    cosines = rows[:, 0] @ rows[:, 1].T
    same, different = np.diag(cosines), cosines[~np.eye(len(scenes), dtype=bool)]
    # Seen: 0.39 and 0.26.
    assert same.min() > different.max()


def test_scene_refuses_no_width():
    with pytest.raises(InvalidValueError, match="'width' parameter of made_up_scene must be"):
        made_up_scene(0, width=0)
