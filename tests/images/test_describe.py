"""Many photographs at once: what is skipped, what is cached, and that nothing else matters."""

import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from images.scenes import write_scenes
from memvec.errors import FileFormatError, InvalidValueError
from memvec.images import (
    DescriptorCache,
    Triangulation,
    describe_photos,
    find_photos,
    local_descriptors,
    made_up_scene,
    training_bags,
)


@pytest.fixture(scope="module")
def model():
    return Triangulation.fit([local_descriptors(made_up_scene(seed)) for seed in range(90, 100)], 4)


@pytest.fixture
def photos(tmp_path):
    return write_scenes(tmp_path / "photos", range(5))


def test_vectors_are_those_of_each_photo_alone(photos, model):
    described = describe_photos(find_photos(photos), model)
    assert os.path.basename(described.paths[0]) == "scene000.png"
    expected = [model.describe(made_up_scene(seed)) for seed in range(5)]
    np.testing.assert_array_equal(described.vectors, expected)
    assert repr(described) == "Described(5 photographs, 0 from the cache, 0 skipped)"


def test_number_of_threads_changes_nothing(photos, model):
    one, three = (describe_photos(find_photos(photos), model, threads=n) for n in (1, 3))
    np.testing.assert_array_equal(one.vectors, three.vectors)
    assert one.paths == three.paths


def test_unreadable_files_are_reported_and_skipped(photos, model):
    (photos / "a-text.jpg").write_text("not a photograph")
    content = (photos / "scene001.png").read_bytes()
    (photos / "b-half.png").write_bytes(content[: len(content) // 2])
    Image.new("RGB", (1, 1)).save(photos / "c-tiny.png")
    Image.new("RGB", (64, 64)).save(photos / "d-black.png")
    (photos / "e-gone.png").symlink_to(photos / "nowhere.png")
    Image.fromarray(made_up_scene(7)).convert("CMYK").save(photos / "f-cmyk.jpg", quality=95)
    described = describe_photos(find_photos(photos), model)
    reasons = {os.path.basename(entry.path): entry.reason for entry in described.skipped}
    assert list(reasons) == ["a-text.jpg", "b-half.png", "c-tiny.png", "d-black.png", "e-gone.png"]
    assert "cannot identify image file" in reasons["a-text.jpg"]
    assert "cannot be read as a photograph" in reasons["b-half.png"]
    assert "1 x 1 pixels" in reasons["c-tiny.png"]
    assert "No keypoint was found" in reasons["d-black.png"]
    assert reasons["e-gone.png"] == "No such file or directory"
    assert len(described.paths) == 6
    assert list(described.notes.values()) == [("CMYK converted to RGB",)]


def test_photos_over_the_limit_are_skipped(photos, model):
    described = describe_photos(find_photos(photos), model, max_pixels=1000)
    assert described.vectors.shape == (0, model.dim)
    assert "claims 160 x 120 pixels" in described.skipped[0].reason


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_name_that_is_no_text_is_skipped(photos, model):
    odd = os.fsdecode(os.fsencode(photos) + b"/\xff.png")
    shutil.copy(photos / "scene000.png", odd)
    described = describe_photos(find_photos(photos), model)
    [skipped] = described.skipped
    assert skipped.reason == "Its name is not valid UTF-8."
    assert skipped.path.endswith("\ufffd.png")


def test_memory_that_runs_out_skips_the_photo(photos, model, monkeypatch):
    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr("memvec.images._describe.decode_photo", fail)
    assert describe_photos(find_photos(photos)[:1], model).skipped[0].reason == (
        "It does not fit into memory."
    )


def test_cache_knows_content_not_names(photos, model, tmp_path, monkeypatch):
    with DescriptorCache(tmp_path / "cache.sqlite", model) as cache:
        first = describe_photos(find_photos(photos), model, cache=cache)
        (photos / "scene000.png").rename(photos / "renamed.png")
        Image.fromarray(made_up_scene(8)).save(photos / "scene001.png")
        again = describe_photos(find_photos(photos), model, cache=cache)
    assert (first.n_cached, again.n_cached) == (0, 4)
    np.testing.assert_array_equal(again.vectors[0], first.vectors[0])
    np.testing.assert_array_equal(again.vectors[1], model.describe(made_up_scene(8)))


def test_cache_keeps_descriptors_apart(photos, model, tmp_path):
    other = Triangulation(model.centroids, model.mean, model.whitening, power=0.5)
    for chosen in (model, other):
        with DescriptorCache(tmp_path / "cache.sqlite", chosen) as cache:
            assert describe_photos(find_photos(photos), chosen, cache=cache).n_cached == 0


def test_cached_bytes_that_are_no_vector_are_computed_anew(photos, model, tmp_path):
    path = tmp_path / "cache.sqlite"
    with DescriptorCache(path, model) as cache:
        right = describe_photos(find_photos(photos), model, cache=cache)
    for blob in (b"short", bytes(4 * model.dim)):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE vectors SET vector = ?", (blob,))
        connection.close()
        with DescriptorCache(path, model) as cache:
            again = describe_photos(find_photos(photos), model, cache=cache)
        assert again.n_cached == 0
        np.testing.assert_array_equal(again.vectors, right.vectors)


def test_file_that_is_no_cache_is_refused(model, tmp_path):
    (tmp_path / "cache.sqlite").write_text("something else altogether, of some length" * 40)
    with pytest.raises(FileFormatError, match="cannot be used as a cache .*; it may be deleted"):
        DescriptorCache(tmp_path / "cache.sqlite", model)


def test_cache_that_loses_its_table_says_so(model, tmp_path):
    with DescriptorCache(tmp_path / "cache.sqlite", model) as cache:
        cache._connection.execute("DROP TABLE vectors")
        with pytest.raises(FileFormatError, match="cannot be used as a cache"):
            cache.get("digest")
        with pytest.raises(FileFormatError, match="cannot be used as a cache"):
            cache.put("digest", np.ones(3, np.float32))


def test_training_bags_are_drawn_by_the_seed(photos):
    paths = find_photos(photos)
    bags, skipped = training_bags([*paths, photos / "missing.png"], max_photos=6)
    assert len(bags) == 5
    assert [entry.reason for entry in skipped] == ["No such file or directory"]
    some, _ = training_bags(paths, max_photos=2, seed=3)
    again, _ = training_bags(paths, max_photos=2, seed=3)
    assert len(some) == 2
    for left, right in zip(some, again, strict=True):
        np.testing.assert_array_equal(left, right)


def test_describe_refuses_a_limit_of_nothing(model):
    with pytest.raises(InvalidValueError, match="'max_pixels' parameter of describe_photos"):
        describe_photos([], model, max_pixels=0)


@pytest.mark.parametrize(
    ("module", "call", "package"),
    [
        ("PIL", "read_photo(__file__)", "pillow"),
        ("PIL", "made_up_scene(0)", "pillow"),
        ("cv2", "local_descriptors(numpy.zeros((64, 64, 3), 'uint8'))", "opencv-python-headless"),
        ("onnxruntime", "OnnxDescriptor(b'', OnnxConfig('m')).dim", "onnxruntime"),
    ],
)
def test_missing_package_is_named_with_its_pip_line(module, call, package, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys, numpy\nsys.modules[{module!r}] = None\nfrom memvec.images import *\n{call}\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert f"needs the package '{package}', which is not installed" in done.stderr
