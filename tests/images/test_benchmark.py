"""The parts of the benchmark of photographs that can be wrong without showing."""

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.image_copies import CHANGES, copy_of
from benchmarks.images import near_frames, numbers_in_folders, threshold_within
from click.testing import CliRunner

from images.scenes import write_scenes
from memvec import Index, IndexConfig


@pytest.mark.parametrize("change", CHANGES)
def test_copy_is_a_photo_that_differs(tmp_path, change):
    path = str(write_scenes(tmp_path, [1]) / "scene001.png")
    copy, same = copy_of(path, change), copy_of(path, "crop to 90 % of each side")
    assert copy.dtype == np.uint8
    assert copy.ndim == 3
    assert change == "crop to 90 % of each side" or not np.array_equal(copy, same)


def test_crop_keeps_its_share_of_each_side(tmp_path):
    path = str(write_scenes(tmp_path, [1]) / "scene001.png")
    assert copy_of(path, "crop to 50 %").shape == (60, 80, 3)
    assert copy_of(path, "scaled to 25 %").shape == (30, 40, 3)
    assert copy_of(path, "rotation by 2°, crop to 75 %").shape == (90, 120, 3)


def test_threshold_is_the_lowest_within_the_ratio():
    rng = np.random.default_rng(0)
    vectors, queries = rng.standard_normal((100, 16)), rng.standard_normal((20, 16))
    config = IndexConfig(assignment="random", unit_size=10, codes="none", levels=1, reserve=0)
    index = Index.build(vectors, config=config)
    for ratio in (0.1, 0.3, 0.7, 1.0):
        threshold = threshold_within(index, queries, ratio)
        within = index.search(queries, 5, threshold=threshold).work.cost_ratio
        scores = np.unique(index.unit_scores(queries))
        lower = scores[scores < threshold].max()
        beyond = index.search(queries, 5, threshold=float(lower)).work.cost_ratio
        assert within <= ratio < beyond


def test_near_frames_end_with_the_walk():
    assert near_frames(2, 5) == [[0, 1, 2], [0, 1, 2, 3]]


def test_photographs_are_numbered_folder_by_folder():
    assert numbers_in_folders(["a/x", "a/y", "b/x", "a/z"]).tolist() == [0, 1, 0, 2]


def test_command_names_the_folder_that_is_missing(tmp_path):
    result = CliRunner().invoke(main, ["images", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "There is no folder gardens-point in" in result.output


def test_command_prints_all_tables(tmp_path):
    write_scenes(tmp_path / "st-lucia" / "images", range(60, 75))
    for walk in ("day_left", "day_right"):
        write_scenes(tmp_path / "gardens-point" / "images" / walk, range(12))
    write_scenes(tmp_path / "ukb56" / "images", range(30, 34))
    arguments = ["images", "--data", str(tmp_path), "--words", "4"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "| exhaustive |" in result.output
    assert "| democratic | 0.5 |" in result.output
    assert "| an object and a frame | 96 |" in result.output
    assert "| crop to 90 % of each side | 0." in result.output
    assert "Searching 28 photographs with " in result.output
