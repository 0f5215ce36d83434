"""The parts of the benchmark of photographs that can be wrong without showing."""

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.image_copies import CHANGES, copy_of
from benchmarks.images import near_frames, threshold_within
from benchmarks.near_copies import (
    numbers_in_folders,
    photographs,
    share_found,
    similarity_for,
    stranger_cosines,
)
from click.testing import CliRunner

from images.scenes import write_scenes
from memvec import Index, IndexConfig


@pytest.mark.parametrize("change", CHANGES)
def test_copy_is_a_photo_that_differs(tmp_path, change):
    path = str(write_scenes(tmp_path, [1]) / "scene001.png")
    copy, same = copy_of(path, change), copy_of(path, "unchanged")
    assert copy.dtype == np.uint8
    assert copy.ndim == 3
    assert not np.array_equal(copy, same)


def test_crop_keeps_its_share_of_each_side(tmp_path):
    path = str(write_scenes(tmp_path, [1]) / "scene001.png")
    assert copy_of(path, "crop to 50 %").shape == (60, 80, 3)
    assert copy_of(path, "scaled to 25 %").shape == (30, 40, 3)
    assert copy_of(path, "white border").shape == (136, 176, 3)


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


def test_pairs_apart_show_different_things():
    walk = [f"walk/{number:02d}" for number in range(12)]
    apart = photographs([walk, [f"things/{number}" for number in range(5)]]).apart
    assert apart[0, 11]
    assert not apart[0, 10]
    assert not apart[12, 15]  # one object
    assert apart[12, 16]
    assert apart[0, 12]  # a frame and an object


def test_similarity_lets_at_most_its_share_pass():
    cosines = np.linspace(1, 0, 1000, dtype=np.float32)
    limit = similarity_for(cosines, 0.01)
    assert (cosines >= limit).sum() == 10
    vectors = np.eye(3, dtype=np.float32)
    apart = ~np.eye(3, dtype=bool)
    assert stranger_cosines(vectors, apart).tolist() == [0, 0, 0]


def test_copy_that_cannot_be_described_is_not_found():
    assert share_found(np.array([0.9, np.nan, 0.5, 0.4]), 0.5) == 0.5


@pytest.mark.parametrize("command", ["images", "near-copies"])
def test_command_names_the_folder_that_is_missing(tmp_path, command):
    result = CliRunner().invoke(main, [command, "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "There is no folder gardens-point in" in result.output


def scenes(tmp_path):
    write_scenes(tmp_path / "st-lucia" / "images", range(60, 80))
    for walk in ("day_left", "day_right"):
        write_scenes(tmp_path / "gardens-point" / "images" / walk, range(12))
    write_scenes(tmp_path / "ukb56" / "images", range(30, 34))
    return str(tmp_path)


def test_images_command_prints_all_tables(tmp_path):
    arguments = ["images", "--data", scenes(tmp_path), "--words", "4"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "| exhaustive |" in result.output
    assert "| democratic | 0.5 |" in result.output


def test_near_copies_command_prints_all_tables(tmp_path):
    arguments = ["near-copies", "--data", scenes(tmp_path), "--words", "4", "--every", "12"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "Copies of 4 photographs found among 38, by descriptor" in result.output
    assert "| grey | 100% |" in result.output
    assert "| JPEG quality 60 | 0." in result.output
    assert "Searching 38 photographs with 76 copies" in result.output
