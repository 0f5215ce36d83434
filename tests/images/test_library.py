"""Libraries: folders go in, photographs like others and copies come out."""

import os

import numpy as np
import pytest
from PIL import Image

from images.scenes import write_scenes
from memvec.errors import (
    CorruptIndexError,
    FileFormatError,
    IndexNotFoundError,
    InvalidTypeError,
    InvalidValueError,
)
from memvec.images import (
    PhotoHit,
    PhotoLibrary,
    Triangulation,
    local_descriptors,
    made_up_scene,
)


@pytest.fixture(scope="module")
def model():
    return Triangulation.fit([local_descriptors(made_up_scene(seed)) for seed in range(90, 105)], 4)


@pytest.fixture
def photos(tmp_path):
    return write_scenes(tmp_path / "photos", range(6))


@pytest.fixture
def library(tmp_path, model):
    with PhotoLibrary.create(tmp_path / "photos.mv", model, similarity=0.5) as made:
        yield made


def names(found):
    return [[os.path.basename(hit.path) for hit in group] for group in found.groups]


def counts(report):
    return report.n_added, report.n_changed, report.n_unchanged, report.n_removed


def test_folder_goes_in_with_paths_as_ids(library, photos):
    report = library.add_folder(photos)
    assert counts(report) == (6, 0, 0, 0)
    assert report.n_computed == 6
    assert sorted(library) == [str(photos / f"scene{seed:03d}.png") for seed in range(6)]
    assert str(photos / "scene000.png") in library
    assert repr(library).startswith("PhotoLibrary(6 photographs, Triangulation(4 words")


def test_second_time_only_differences_are_taken(library, photos):
    library.add_folder(photos)
    assert counts(library.add_folder(photos)) == (0, 0, 6, 0)
    Image.fromarray(made_up_scene(50)).save(photos / "scene001.png")
    (photos / "scene002.png").rename(photos / "moved.png")
    (photos / "scene003.png").write_text("no longer a photograph")
    (photos / "scene004.png").unlink()
    report = library.add_folder(photos)
    assert counts(report) == (1, 1, 2, 3)
    assert report.n_computed == 1
    assert [os.path.basename(entry.path) for entry in report.skipped] == ["scene003.png"]
    assert len(library) == 4
    [best] = library.search(photos / "scene001.png", k=1).hits
    assert (best.path, round(best.score, 5)) == (str(photos / "scene001.png"), 1.0)


def test_folders_do_not_disturb_each_other(library, photos, tmp_path):
    library.add_folder(photos)
    report = library.add_folder(write_scenes(tmp_path / "photos2", range(10, 12)))
    assert counts(report) == (2, 0, 0, 0)
    assert len(library) == 8


def test_copy_is_found_by_a_photo_from_outside(library, photos, tmp_path):
    library.add_folder(photos)
    Image.fromarray(made_up_scene(3)[4:-4, 4:-4]).save(tmp_path / "crop.jpg", quality=90)
    found = library.search(tmp_path / "crop.jpg")
    assert [hit.path for hit in found.hits] == [str(photos / "scene003.png")]
    assert found.hits[0].score > 0.5
    assert found.certificate.miss_rate is not None


def test_best_are_ordered_and_never_more_than_there_are(library, photos):
    library.add_folder(photos)
    hits = library.search(photos / "scene002.png", k=50).hits
    assert len(hits) == 6
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_duplicates_are_grouped(library, photos):
    Image.fromarray(made_up_scene(2)[3:-3, 3:-3]).save(photos / "copy.png")
    Image.fromarray(made_up_scene(2)).save(photos / "same.bmp")
    library.add_folder(photos)
    found = library.duplicates()
    assert names(found) == [["copy.png", "same.bmp", "scene002.png"]]
    assert found.similarity == 0.5
    first, second, third = found.groups[0]
    assert first.score == pytest.approx(1.0, abs=1e-6)
    assert first.link is None
    assert 0.5 < second.score == third.score < 1
    assert second.link == PhotoHit(first.path, second.score)
    assert names(library.duplicates(0.999)) == [["same.bmp", "scene002.png"]]


def turned(degrees):
    """A vector of the plane, which stands for a photograph."""
    return np.float32([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


@pytest.fixture
def walk(library):
    """A library of photographs at 0, 25, 50 and 75 degrees: neighbours have cosine 0.906."""
    rows = np.zeros((4, library.descriptor.dim), dtype=np.float32)
    rows[:, :2] = [turned(25 * step) for step in range(4)]
    paths = [f"/{name}.png" for name in "abcd"]
    library._collection.add(rows, paths)
    return library


def test_stars_hold_only_what_is_like_the_first(walk):
    found = walk.duplicates(0.9)
    assert names(found) == [["a.png", "b.png"], ["c.png", "d.png"]]
    assert all(copy.score >= 0.9 for group in found.groups for copy in group)


def test_components_are_chains_and_name_the_links(walk):
    [group] = walk.duplicates(0.9, groups="components").groups
    assert [os.path.basename(copy.path) for copy in group] == ["a.png", "b.png", "c.png", "d.png"]
    cosines = [np.cos(np.radians(25 * step)) for step in range(4)]
    np.testing.assert_allclose([copy.score for copy in group], cosines, atol=1e-6)
    assert [copy.link.path for copy in group[1:]] == ["/a.png", "/b.png", "/c.png"]
    np.testing.assert_allclose([copy.link.score for copy in group[1:]], cosines[1], atol=1e-6)


def test_largest_group_of_duplicates_comes_first(library, photos):
    for copy in ("b", "c"):
        Image.fromarray(made_up_scene(3)).save(photos / f"{copy}.png")
    Image.fromarray(made_up_scene(1)).save(photos / "a.png")
    library.add_folder(photos)
    assert list(map(len, library.duplicates().groups)) == [3, 2]


def test_duplicates_stay_below_the_folder(library, photos, tmp_path):
    other = write_scenes(tmp_path / "other", range(3))
    library.add_folder(photos)
    library.add_folder(other)
    assert len(library.duplicates().groups) == 3
    assert library.duplicates(below=photos).groups == []
    beside = write_scenes(tmp_path / "photos0", range(3))  # the next name in the order of texts
    library.add_folder(beside)
    assert library.duplicates(below=photos).groups == []


def test_certificate_is_not_weakened_by_a_folder_that_holds_everything(library, photos):
    library.add_folder(photos)
    everything = library.duplicates().certificate
    assert library.duplicates(below=photos).certificate == everything


def test_library_opens_again(library, photos, tmp_path, model):
    library.add_folder(photos)
    library.close()
    with PhotoLibrary.open(tmp_path / "photos.mv", read_only=True) as opened:
        assert len(opened) == 6
        assert opened.similarity == 0.5
        np.testing.assert_array_equal(
            opened.descriptor.describe(made_up_scene(1)), model.describe(made_up_scene(1))
        )
    with PhotoLibrary.create(tmp_path / "photos.mv", model, similarity=0.5) as again:
        assert len(again) == 6


def test_photo_that_cannot_be_read_cannot_be_asked(library, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="cannot be read as a photograph"):
        library.search(tmp_path / "a.jpg")


def test_photo_without_keypoints_is_named(library, tmp_path):
    Image.new("RGB", (60, 40)).save(tmp_path / "plain.png")
    with pytest.raises(
        FileFormatError, match=r"plain\.png cannot be described: No keypoint was found"
    ):
        library.search(tmp_path / "plain.png")


def test_empty_library_finds_nothing(library, photos):
    assert library.search(photos / "scene000.png").hits == []
    assert library.search(photos / "scene000.png", k=3).hits == []
    assert library.duplicates().groups == []


def test_other_descriptor_is_refused(library, tmp_path, model):
    other = Triangulation(model.centroids, model.mean, model.whitening, power=0.5)
    library.close()
    with pytest.raises(InvalidValueError, match="'descriptor' parameter .* must be the one that"):
        PhotoLibrary.create(tmp_path / "photos.mv", other, similarity=0.5)


def test_library_outlives_its_software(library, tmp_path, model, photos, monkeypatch):
    library.add_folder(photos)
    library.close()
    monkeypatch.setattr("memvec.images._cache.software", lambda: "pillow 99")
    with PhotoLibrary.create(tmp_path / "photos.mv", model, similarity=0.5) as again:
        assert again.add_folder(photos).n_computed == 6  # another decoder: nothing is taken over
        assert len(again) == 6


def test_library_that_was_not_finished_can_be_made_again(tmp_path, model, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("memvec.images._library.save_descriptor", fail)
        with pytest.raises(OSError, match="disk full"):
            PhotoLibrary.create(tmp_path / "photos.mv", model, similarity=0.5)
    assert not PhotoLibrary.exists(tmp_path / "photos.mv")
    with PhotoLibrary.create(tmp_path / "photos.mv", model, similarity=0.5) as made:
        assert len(made) == 0


def test_place_must_be_free(tmp_path, model, photos):
    for place in (photos, photos / "scene000.png", tmp_path / "no" / "where"):
        with pytest.raises(InvalidValueError, match="'path' parameter of PhotoLibrary.create must"):
            PhotoLibrary.create(place, model, similarity=0.5)
    with pytest.raises(InvalidTypeError, match="'path' parameter of PhotoLibrary.create must be a"):
        PhotoLibrary.create(3, model, similarity=0.5)


def test_missing_library_says_so(tmp_path):
    with pytest.raises(IndexNotFoundError, match="There is no library of photographs at"):
        PhotoLibrary.open(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["vectors.sqlite", "collection", "descriptor"])
def test_library_follows_no_links(tmp_path, model, photos, name):
    path, foreign = tmp_path / "own.mv", tmp_path / "foreign"
    with PhotoLibrary.create(path, model, similarity=0.5) as made:
        made.add_folder(photos)
    (path / name).rename(foreign)
    (path / name).symlink_to(foreign)
    before = foreign.read_bytes() if foreign.is_file() else sorted(os.listdir(foreign))
    with pytest.raises(CorruptIndexError, match="is a link"), PhotoLibrary.open(path) as opened:
        opened.add_folder(photos)
    assert before == (foreign.read_bytes() if foreign.is_file() else sorted(os.listdir(foreign)))
