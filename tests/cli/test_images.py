"""The commands ``memvec images``."""

import json
import os
import re
import struct
import zlib

import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, save
from PIL import Image

from images.scenes import write_scenes
from memvec.cli import main
from memvec.images import (
    PhotoLibrary,
    Triangulation,
    local_descriptors,
    made_up_scene,
    save_descriptor,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "descriptor"
    save_descriptor(
        Triangulation.fit([local_descriptors(made_up_scene(n)) for n in range(90, 105)], 4), folder
    )
    return str(folder)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_scenes(tmp_path / "photos", range(5))
    Image.fromarray(made_up_scene(2)[3:-3, 3:-3]).save(folder / "crop.jpg", quality=90)
    return folder


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["images", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def run_json(*arguments):
    result = CliRunner().invoke(main, ["images", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def bomb(path):
    """A PNG of 70 bytes that claims 100 megapixels."""
    head = struct.pack(">IIBBBBB", 10_000, 10_000, 8, 2, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")):
        parts += [struct.pack(">I", len(data)), name, data]
        parts.append(struct.pack(">I", zlib.crc32(name + data)))
    path.write_bytes(b"".join(parts))


def test_index_search_and_duplicates_follow_each_other(photos, model):
    output = run("index", photos, "--descriptor", model)
    assert "6 new, 0 changed, 0 unchanged, 0 gone, 0 skipped; 6 described." in output
    assert "library.photos holds 6 photographs." in output
    output = run("search", photos / "crop.jpg", "--similarity", "0.5")
    lines = output.splitlines()
    assert lines[0].startswith("1.000  ")
    assert lines[0].endswith("crop.jpg")
    assert lines[1].endswith("scene002.png")
    assert "2 of 6 photographs." in output
    assert "Wrote contact-sheet.html" in output
    output = run("duplicates", photos, "--html", "copies.html")
    assert "0 new, 0 changed, 6 unchanged" in output
    assert "2 alike:" in output
    assert "2 photographs in 1 group. Each photograph has a cosine of at least 0.55 with" in output
    assert os.path.exists("copies.html")


def test_odd_files_are_reported_and_the_rest_is_indexed(photos, model):
    content = (photos / "crop.jpg").read_bytes()
    (photos / "half.jpg").write_bytes(content[: len(content) // 2])
    Image.new("RGB", (1, 1)).save(photos / "dot.png")
    bomb(photos / "bomb.png")
    Image.fromarray(made_up_scene(8)).convert("CMYK").save(photos / "cmyk.jpg", quality=95)
    output = run("index", photos, "--descriptor", model)
    assert "7 new" in output
    assert "3 skipped" in output
    assert "cmyk.jpg: CMYK converted to RGB." in output
    assert "bomb.png claims 10,000 x 10,000 pixels; at most 89,000,000 are decoded." in output
    assert "half.jpg cannot be read as a photograph" in output
    assert "dot.png has 1 x 1 pixels" in output
    page = (photos.parent / "contact-sheet.html").as_posix()
    run("duplicates", photos)
    with open(page, encoding="utf-8") as file:
        assert "half.jpg cannot be read as a photograph" in file.read()


def test_json_holds_everything(photos, model):
    (photos / "text.png").write_text("no photograph")
    report = run_json("index", photos, "--descriptor", model)
    assert (report["photos"], report["n_added"], len(report["skipped"])) == (6, 6, 1)
    found = run_json("search", photos / "crop.jpg", "-k", 2)
    assert [os.path.basename(hit["path"]) for hit in found["hits"]] == ["crop.jpg", "scene002.png"]
    copies = run_json("duplicates", photos)
    [[first, second]] = copies["groups"]
    assert (first["score"], os.path.basename(second["path"])) == (
        pytest.approx(1.0, abs=1e-6),
        "scene002.png",
    )
    assert "Misses" in copies["certificate"]
    assert len(copies["skipped"]) == 1


def test_descriptor_is_learned_from_other_photos(photos):
    other = write_scenes(photos.parent / "other", range(60, 75))
    output = run("index", photos, "--learn-from", other, "--words", 4)
    assert "6 new" in output
    assert "itself" not in output


def test_descriptor_is_learned_from_the_folder_without_others(photos):
    output = run("index", photos, "--words", 4, "--aggregation", "democratic", "--power", 0.5)
    assert f"Learning from 6 photographs of {photos}." in output
    assert "library.photos holds 6 photographs." in output


def test_nothing_is_learned_unless_asked(photos):
    output = run("index", photos)
    assert f"Reading 6 photographs of {photos}; new ones are described." in output
    assert "Learning" not in output
    assert "6 new" in output
    assert "2 alike:" in run("duplicates", photos)
    with PhotoLibrary.open("library.photos") as opened:
        assert opened.descriptor.power == 0.5
        assert opened.descriptor.sift.max_side == 480


def test_aggregation_and_power_need_no_learning(photos):
    assert "Learning" not in run("index", photos, "--aggregation", "democratic", "--power", 1)
    with PhotoLibrary.open("library.photos") as opened:
        assert (opened.descriptor.aggregation, opened.descriptor.power) == ("democratic", 1)


def test_descriptor_of_another_library_is_used_again(photos):
    run("index", photos, "--words", 4, "--library", "first.photos")
    other = write_scenes(photos.parent / "other", range(60, 63))
    output = run("index", other, "--library", "second.photos", "--descriptor", "first.photos")
    assert "Learning" not in output
    with PhotoLibrary.open("first.photos") as one, PhotoLibrary.open("second.photos") as two:
        assert (one.descriptor.whitening == two.descriptor.whitening).all()


def test_too_few_photos_to_learn_from_say_so(photos):
    output = run("index", photos, "--words", 16, code=1)
    assert "16 words are learned from 2,048 at least." in output
    assert "the descriptor that ships with memvec needs no learning" in output
    assert not os.path.exists("library.photos")


@pytest.mark.parametrize("command", ["index", "duplicates"])
def test_folder_without_photos_says_what_is_looked_for(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    output = run(command, "mine", code=1)
    assert "There are no photographs in mine or in folders below it: no file ends in " in output
    assert ".jpeg, .jpg," in output
    output = run(command, "mine", "--learn-from", "mine", "--library", "b.photos", code=1)
    assert "There are no photographs in mine" in output
    assert os.listdir(tmp_path) == ["mine"]


def test_folder_that_lost_its_photos_is_brought_up_to_date(photos):
    run("index", photos)
    for path in photos.iterdir():
        path.unlink()
    output = run("index", photos)
    assert "6 gone" in output
    assert "library.photos holds 0 photographs." in output


def test_folder_of_unreadable_photos_says_why(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.jpg").write_text("no photograph")
    output = run("index", "mine", code=1)
    assert "a.jpg cannot be read as a photograph" in output
    assert "No photograph of mine could be read." in output
    assert "0 photographs in 0 groups." in run("duplicates", "mine")
    output = run("index", "mine", "--library", "b.photos", "--words", 4, code=1)
    assert "No photograph of mine can be used: " in output


def test_one_photo_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_scenes(tmp_path / "mine", [1])
    assert "holds 1 photograph." in run("index", folder)
    assert "1 of 1 photographs." in run("search", folder / "scene001.png")
    assert "0 photographs in 0 groups." in run("duplicates", folder)


def test_links_to_files_are_followed_and_those_to_folders_are_not(photos, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "one.png").symlink_to(photos / "scene001.png")
    (tmp_path / "mine" / "gone.png").symlink_to(photos / "nowhere.png")
    (tmp_path / "mine" / "all").symlink_to(photos)
    output = run("index", tmp_path / "mine")
    assert "1 new" in output
    assert "gone.png: No such file or directory" in output


def test_promise_is_about_vectors(photos):
    run("index", photos)
    for output in (run("search", photos / "crop.jpg"), run("duplicates", photos)):
        assert "The promise is about vectors, not about what photographs show:\nMisses " in output
        assert "docs/benchmarks-photographs.md tells how many changed copies are found" in output


def test_vlad_can_be_learned(photos):
    assert "6 new" in run("index", photos, "--kind", "vlad", "--words", 4)
    assert "--aggregation belongs to the triangulation" in run(
        "index", photos, "--library", "b", "--kind", "vlad", "--aggregation", "sum", code=2
    )


def test_onnx_model_can_be_named(photos):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3, 8, 8)) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", *[[i] for i in info]
    )
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), "tiny.onnx")
    (photos.parent / "tiny.toml").write_text('model = "tiny.onnx"\nsize = [8, 8]')
    assert "6 new" in run("index", photos, "--onnx", "tiny.toml")
    assert "crop.jpg" in run("search", photos / "crop.jpg", "-k", 1)


def test_descriptor_of_a_library_stays(photos, model):
    run("index", photos, "--descriptor", model)
    output = run("index", photos, "--words", 4, code=2)
    assert "library.photos has its descriptor already, and --words is for new libraries." in output


def test_similarity_of_a_library_stays(photos, model):
    run("index", photos, "--descriptor", model, "--similarity", "0.6")
    assert "6 unchanged" in run("index", photos, "--similarity", "0.6")
    output = run("index", photos, "--similarity", "0.7", code=2)
    assert (
        "library.photos is designed for 0.6. For another --similarity, name a new --library."
        in output
    )


def test_sources_exclude_each_other(photos, model):
    output = run("index", photos, "--descriptor", model, "--learn-from", photos, code=2)
    assert "Give one of --descriptor, --onnx and --learn-from." in output


def test_search_takes_a_similarity_or_a_number(photos, model):
    run("index", photos, "--descriptor", model)
    output = run("search", photos / "crop.jpg", "-k", 1, "--similarity", "0.5", code=2)
    assert "Give --similarity or -k, not both." in output


def test_search_without_a_library_says_so(photos):
    output = run("search", photos / "crop.jpg", code=1)
    assert "There is no library of photographs at library.photos. `memvec images index`" in output


def test_duplicates_take_the_larger_of_two_similarities(photos, model):
    run("index", photos, "--descriptor", model, "--similarity", "0.7")
    assert run_json("duplicates", photos)["similarity"] == 0.7
    asked = run_json("duplicates", photos, "--similarity", "0.75")
    assert asked["similarity"] == 0.75


def test_chains_say_so_and_name_their_links(photos, model):
    run("index", photos, "--descriptor", model)
    for number, left in enumerate((8, 16, 24)):  # each overlaps more with the one before
        Image.fromarray(made_up_scene(2)[left:-left, left:-left]).save(photos / f"d{number}.png")
    output = run("duplicates", photos, "--groups", "components", "--similarity", "0.3")
    assert "Groups are chains: each photograph has a cosine of at least 0.3 with another" in output
    [found] = re.findall(r"^  (\S+)  \S+d2\.png, (\S+) with d1\.png$", output, re.M)
    assert float(found[0]) < float(found[1])
    with open("contact-sheet.html", encoding="utf-8") as file:
        page = file.read()
    assert f"{found[0]}, {found[1]} with d1.png" in page
    assert "Groups are chains" in page


def test_photo_without_keypoints_is_named(photos, model):
    run("index", photos, "--descriptor", model)
    Image.new("RGB", (60, 40)).save("plain.png")
    assert "plain.png cannot be described: " in run("search", "plain.png", code=1)


def test_long_answers_are_cut(photos, model, monkeypatch):
    monkeypatch.setattr("memvec.cli._images._LINES_SHOWN", 1)
    monkeypatch.setattr("memvec.cli._images._GROUPS_SHOWN", 0)
    run("index", photos, "--descriptor", model)
    assert "… and 4 more" in run("search", photos / "crop.jpg", "-k", 5)
    run("duplicates", photos)
    with open("contact-sheet.html", encoding="utf-8") as file:
        assert "The 0 largest are shown, 1 are not." in file.read()


def test_sheet_that_cannot_be_written_is_named(photos, model):
    run("index", photos, "--descriptor", model)
    output = run("search", photos / "crop.jpg", "--html", "no/where.html", code=1)
    assert "no/where.html" in output
