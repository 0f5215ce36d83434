"""Readers of the paper's data sets, on tiny files in the same formats."""

import numpy as np
import pytest

from memvec.errors import FileFormatError
from memvec.experiments._data import (
    DataFolders,
    paper_sets,
    photo_note,
    photo_sets,
    three_sets,
    words,
)
from memvec.experiments._paper_sets import holidays, oxford5k, ukb, vector_batches


def write_fvecs(path, rows):
    rows = np.asarray(rows, dtype="<f4")
    heads = np.full((len(rows), 1), rows.shape[1], dtype="<i4")
    path.write_bytes(np.hstack([heads.view("<f4"), rows]).tobytes())


def vectors(count, dim=4, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


@pytest.fixture
def holidays_folder(tmp_path):
    folder = tmp_path / "holidays"
    folder.mkdir()
    (folder / "names.txt").write_text(
        "100000.jpg\n100001.jpg\n100100.jpg\n100101.jpg\n100102.jpg\n"
    )
    write_fvecs(folder / "vectors.fvecs", vectors(5))
    return folder


def test_holidays_asks_with_the_first_image_of_each_group(holidays_folder):
    data = holidays(holidays_folder)
    assert data.own.tolist() == [0, 2]
    assert [ids.tolist() for ids in data.relevant] == [[1], [3, 4]]
    # The query of the first group finds itself, then its match: a perfect ranking.
    assert data.quality([[0, 1, 2], [2, 3, 4]]) == 1.0


def test_holidays_takes_flickr_as_distractors(holidays_folder):
    flickr = holidays_folder.parent / "flickr1m"
    flickr.mkdir()
    write_fvecs(flickr / "part0.fvecs", vectors(3, seed=1))
    write_fvecs(flickr / "part1.fvecs", vectors(2, seed=2))
    data = holidays(holidays_folder)
    assert len(data.vectors) == 10
    assert [ids.tolist() for ids in data.relevant] == [[1], [3, 4]]


@pytest.fixture
def oxford_folder(tmp_path):
    folder = tmp_path / "oxford5k"
    (folder / "gt").mkdir(parents=True)
    (folder / "names.txt").write_text("a.jpg b.jpg c.jpg d.jpg")
    np.save(folder / "vectors.npy", vectors(4))
    texts = {"query": "oxc1_a 1.0 2.0 3.0 4.0", "good": "b\n", "ok": "d\n", "junk": "c\n"}
    for kind, text in texts.items():
        (folder / "gt" / f"all_souls_1_{kind}.txt").write_text(text)
    return folder


def test_oxford_ignores_junk(oxford_folder):
    data = oxford5k(oxford_folder)
    assert [ids.tolist() for ids in data.relevant] == [[1, 3]]
    assert data.quality([[1, 2, 3]]) == 1.0
    assert data.quality([[0, 1, 3]]) < 1.0
    np.testing.assert_array_equal(data.queries, data.vectors[:1])


def test_oxford_takes_descriptors_of_cropped_queries(oxford_folder):
    np.save(oxford_folder / "queries.npy", vectors(1, seed=5))
    assert not np.allclose(oxford5k(oxford_folder).queries, oxford5k(oxford_folder).vectors[:1])
    np.save(oxford_folder / "queries.npy", vectors(2, seed=5))
    with pytest.raises(FileFormatError, match="holds 2 queries, .* names 1"):
        oxford5k(oxford_folder)


def test_ukb_shows_each_object_four_times(tmp_path):
    np.save(tmp_path / "vectors.npy", vectors(8))
    data = ukb(tmp_path)
    assert data.relevant[5].tolist() == [4, 5, 6, 7]
    assert data.quality([np.arange(4)] * 4 + [np.arange(4, 8)] * 4) == 4.0


def test_batches_cross_the_borders_of_files(tmp_path):
    rows = vectors(11)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(tmp_path / "a.npy", rows[:7])
    write_fvecs(tmp_path / "b.fvecs", rows[7:])
    (tmp_path / "notes.txt").write_text("not vectors")
    batches = list(vector_batches(tmp_path, 4))
    assert [len(batch) for batch in batches] == [4, 4, 3]
    np.testing.assert_allclose(np.concatenate(batches), rows, atol=1e-6)


def test_readers_say_what_is_wrong(tmp_path, holidays_folder, oxford_folder):
    with pytest.raises(FileFormatError, match=r"has no file vectors\{.npy,.fvecs"):
        ukb(tmp_path)
    np.save(tmp_path / "vectors.npy", vectors(6))
    with pytest.raises(FileFormatError, match="holds 6 vectors; UKB has four images of each"):
        ukb(tmp_path)
    with pytest.raises(FileFormatError, match=r"has no names.txt"):
        holidays(tmp_path)
    (tmp_path / "names.txt").write_text("1.jpg")
    with pytest.raises(FileFormatError, match="has 1 names for 6 vectors"):
        holidays(tmp_path)
    (holidays_folder / "names.txt").write_text("a.jpg 1 2 3 4")
    with pytest.raises(FileFormatError, match=r"names 'a.jpg', which is not a number"):
        holidays(holidays_folder)
    good = oxford_folder / "gt" / "all_souls_1_good.txt"
    good.write_text("z")
    with pytest.raises(FileFormatError, match=r"names 'z', which names.txt does not"):
        oxford5k(oxford_folder)
    good.unlink()
    with pytest.raises(FileFormatError, match="good.txt is missing beside all_souls_1_query.txt"):
        oxford5k(oxford_folder)
    query = oxford_folder / "gt" / "all_souls_1_query.txt"
    query.write_text("")
    with pytest.raises(FileFormatError, match=r"all_souls_1_query.txt is empty"):
        oxford5k(oxford_folder)
    query.unlink()
    with pytest.raises(FileFormatError, match="holds no ground truth"):
        oxford5k(oxford_folder)


def test_paper_sets_are_used_where_they_are(tmp_path, holidays_folder):
    data = DataFolders((tmp_path,))
    assert [found.name for found in paper_sets(data)] == ["Holidays"]
    assert [found.name for found in three_sets(data, "small", 0)] == ["Holidays"]
    assert data.key() == "holidays"


def test_descriptors_of_photographs_are_plugged_in_by_their_files(tmp_path):
    for name, rows in {
        "gardens-point/day_right_phi1920": 8,
        "gardens-point/day_left_phi1920": 8,
        "gardens-point/night_right_phi1920": 8,
        "ukb56/phi1920": 8,
        "st-lucia/phi1920": 5,
    }.items():
        path = tmp_path / f"{name}.npy"
        path.parent.mkdir(exist_ok=True)
        np.save(path, vectors(rows, 1920))
    found = photo_sets(DataFolders((tmp_path / "nothing", tmp_path)), "small")
    assert [(data.name, data.vectors.shape) for data in found] == [
        ("Gardens Point, day", (8 + 8 + 5, 1920)),  # places, objects, streets
        ("Gardens Point, night", (8 + 8 + 5, 1920)),
        ("UKB-56", (8 + 3 * 8 + 5, 1920)),
    ]
    assert found[0].relevant[4].tolist() == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("key", "scale", "text"),
    [
        ("", "small", "Made-up descriptors"),
        ("ukb56/gem1280.npy,gardens-point/day_left_gem1280.npy", "small", "GeM features of"),
        ("ukb56/made384.npy,gardens-point/day_left_made384.npy", "smoke", "Photographs made up"),
        ("ukb56/phi1920.npy,gardens-point/day_left_phi1920.npy", "small", "φ_Δ of 1920 dim"),
        ("ukb56/phi1920.npy,gardens-point/day_left_phi1920.npy", "smoke", "Made-up descriptors"),
        ("ukb56/phi1920.npy,holidays", "small", "The data sets are the paper's."),
        ("holidays", "smoke", "Made-up descriptors"),
    ],
)
def test_note_tells_what_the_photographs_were(key, scale, text):
    assert text in photo_note(key, scale)


def test_note_tells_what_the_deep_descriptors_were():
    key = ",".join(
        f"ukb56/{kind}.npy,gardens-point/day_left_{kind}.npy" for kind in ("phi1920", "gem1280")
    )
    assert "GeM features" in photo_note(key, "small", "gem1280")
    assert "φ_Δ of 1920" in photo_note(key, "small")


def test_without_data_there_are_made_up_sets_and_the_sample():
    assert [data.measure for data in photo_sets(DataFolders(), "small")] == ["mAP", "4-recall@4"]
    data = words(DataFolders(), "smoke", seed=0)
    assert data.vectors.shape == (1500, 384)
