"""Readers of the paper's data sets, on tiny files in the same formats."""

import numpy as np
import pytest

from memvec.errors import FileFormatError
from paper import EXPERIMENTS, Run
from paper.data_sets import (
    COPIES,
    DataFolders,
    batched_sets,
    closed_sets,
    clustered_sets,
    large_set,
    large_split,
    paper_sets,
    photo_sets,
    reduced_sets,
    streamed_sets,
    visual_sets,
    words,
)
from paper.paper_sets import (
    count_vectors,
    holidays,
    holidays_flickr1m,
    oxford5k,
    ukb,
    vector_batches,
    vector_rows,
)


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


@pytest.fixture
def flickr_folder(tmp_path):
    folder = tmp_path / "flickr1m"
    folder.mkdir()
    write_fvecs(folder / "part0.fvecs", vectors(3, seed=1))
    write_fvecs(folder / "part1.fvecs", vectors(2, seed=2))
    return folder


def test_holidays_are_closed_and_flickr_makes_another_set(holidays_folder, flickr_folder):
    assert len(holidays(holidays_folder).vectors) == 5
    data = holidays_flickr1m(holidays_folder, flickr_folder)
    assert (data.name, data.measure, len(data.vectors)) == ("Holidays+Flickr1M", "mAP", 10)
    assert [ids.tolist() for ids in data.relevant] == [[1], [3, 4]]
    part0 = vectors(3, seed=1)
    np.testing.assert_allclose(
        data.vectors[5:8], part0 / np.linalg.norm(part0, axis=1, keepdims=True), atol=1e-6
    )


@pytest.mark.parametrize(("wanted", "there"), [(3, 5), (5, 5), (9, 9), (20, 10)])
def test_flickr_is_read_as_far_as_asked(holidays_folder, flickr_folder, wanted, there):
    assert len(holidays_flickr1m(holidays_folder, flickr_folder, wanted).vectors) == there


def test_flickr_of_another_dimension_is_refused(holidays_folder, flickr_folder):
    write_fvecs(flickr_folder / "part0.fvecs", vectors(3, dim=6))
    (flickr_folder / "part1.fvecs").unlink()
    with pytest.raises(FileFormatError, match=r"flickr1m holds vectors of 6 .*holidays of 4\."):
        holidays_flickr1m(holidays_folder, flickr_folder)


def test_large_set_is_the_papers_where_both_parts_are(tmp_path, holidays_folder):
    data = DataFolders((tmp_path,))
    assert large_set(data, "smoke", 0).name == "WordNet"
    assert data.key() == ""
    assert large_split(data, "small", 20, 10, np.random.default_rng(0))[0] == "WordNet"
    assert data.asked["flickr1m"] == ""


def test_large_set_leaves_queries_out_where_they_would_find_themselves(
    tmp_path, holidays_folder, flickr_folder
):
    data = DataFolders((tmp_path,))
    assert [found.name for found in visual_sets(data, "small")] == ["Holidays"]
    found = large_set(data, "small", 0)
    assert (found.name, len(found.vectors)) == ("Holidays+Flickr1M", 10)
    name, rows, queries = large_split(data, "paper", 1, 10, np.random.default_rng(0))
    assert (name, len(rows), len(queries)) == ("Holidays+Flickr1M", 8, 2)
    assert (queries @ rows.T).max() < 0.9999
    assert data.key() == "holidays,flickr1m"


def test_deep_descriptors_are_read_where_they_are(tmp_path, holidays_folder):
    data = DataFolders((tmp_path,))
    assert [found.name for found in visual_sets(data, "small", "gem1280")] == [
        "made-up vectors of scenes",
        "made-up vectors of objects",
    ]
    np.save(holidays_folder / "vectors_deep.npy", vectors(5, dim=7))
    [deep] = visual_sets(data, "small", "gem1280")
    assert (deep.name, deep.vectors.shape) == ("Holidays", (5, 7))
    assert visual_sets(data, "small")[0].vectors.shape == (5, 4)


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


def test_oxford_has_deep_descriptors_of_cropped_queries(oxford_folder):
    np.save(oxford_folder / "vectors_deep.npy", vectors(4, dim=6))
    np.save(oxford_folder / "queries_deep.npy", vectors(1, dim=6, seed=5))
    data = oxford5k(oxford_folder, "vectors_deep")
    assert (data.vectors.shape, data.queries.shape) == ((4, 6), (1, 6))
    assert not np.allclose(data.queries, data.vectors[:1])


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


def test_batches_begin_and_end_where_they_are_told(tmp_path):
    rows = vectors(11)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save(tmp_path / "a.npy", rows[:7])
    write_fvecs(tmp_path / "b.fvecs", rows[7:])
    batches = list(vector_batches(tmp_path, 4, skip=4, total=9))
    assert [len(batch) for batch in batches] == [4, 1]
    np.testing.assert_allclose(np.concatenate(batches), rows[4:9], atol=1e-6)
    assert [len(batch) for batch in vector_batches(tmp_path, 4, skip=8, total=9)] == [1]
    assert list(vector_batches(tmp_path, 4, total=0)) == []
    assert count_vectors(tmp_path) == 11
    chosen = np.array([0, 6, 7, 10])
    np.testing.assert_allclose(vector_rows(tmp_path, chosen), rows[chosen], atol=1e-6)


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
    assert [found.name for found in clustered_sets(data, "small", 0)] == ["Holidays"]
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


def write_descriptors(folder, kind, dim, names):
    for name, rows in names.items():
        path = folder / f"{name.format(kind=kind)}.npy"
        path.parent.mkdir(exist_ok=True, parents=True)
        np.save(path, vectors(rows, dim))


def test_photographs_with_copies_are_a_set_in_fours(tmp_path):
    walks = {f"gardens-point/{walk}_{{kind}}": 8 for walk in ("day_right", "day_left")}
    places = {**walks, "gardens-point/night_right_{kind}": 8, "ukb56/{kind}": 8}
    copies = {"copies/searched_{kind}": 12, "copies/learned_{kind}": 30}
    write_descriptors(tmp_path, "gem1280", 1280, places)
    write_descriptors(tmp_path, "phi1920", 1920, {**places, **copies, "st-lucia/{kind}": 5})
    data = DataFolders((tmp_path,))
    found = closed_sets(data, "small")
    expected = [COPIES, "Gardens Point, day, CNN", "UKB-56, CNN"]
    assert [each.name for each in found] == expected
    assert found[0].queries.shape == (3, 1920)
    assert [ids.tolist() for ids in found[0].relevant] == np.arange(12).reshape(3, 4).tolist()
    # PCA is learned on other photographs, of which there are 30.
    assert reduced_sets(data, "small", 1024)[0].vectors.shape == (12, 29)
    streamed = streamed_sets(data, "small", 0)
    names = [f"{COPIES} among others", "Gardens Point, day, CNN", "Gardens Point, night, CNN"]
    assert [each.name for each in streamed] == [*names, "WordNet"]
    # The same fours, among those 30.
    np.testing.assert_array_equal(streamed[0].vectors[:12], found[0].vectors)
    np.testing.assert_array_equal(streamed[0].relevant, found[0].relevant)
    assert len(streamed[0].vectors) == 42
    batched = [each.name for each in batched_sets(data, "small", 0, 1500)]
    assert batched == [*names, "WordNet"]


def test_without_data_there_are_made_up_sets_and_the_sample():
    assert [data.measure for data in photo_sets(DataFolders(), "small")] == ["mAP", "4-recall@4"]
    data = words(DataFolders(), "smoke", seed=0)
    assert data.vectors.shape == (1500, 384)


@pytest.fixture
def paper_folder(tmp_path):
    """Holidays, with deep descriptors too, and Flickr1M: tiny, of 40 dimensions."""
    rng = np.random.default_rng(8)
    views = np.repeat(rng.standard_normal((30, 40)), 3, axis=0)
    views += 0.5 * rng.standard_normal(views.shape)
    (tmp_path / "holidays").mkdir()
    numbers = [100_000 + 100 * scene + view for scene in range(30) for view in range(3)]
    (tmp_path / "holidays" / "names.txt").write_text("\n".join(f"{n}.jpg" for n in numbers))
    np.save(tmp_path / "holidays" / "vectors.npy", views.astype(np.float32))
    np.save(tmp_path / "holidays" / "vectors_deep.npy", views[:, :25].astype(np.float32))
    (tmp_path / "flickr1m").mkdir()
    np.save(tmp_path / "flickr1m" / "a.npy", vectors(300, dim=40))
    return DataFolders((tmp_path,))


def run_small(name, data, **settings):
    experiment = EXPERIMENTS[name]
    table = experiment.compute(Run(settings, "small", 0, data))
    assert experiment.check(table).findings
    return table


def test_streams_and_batches_are_of_the_papers_large_set(paper_folder):
    more = {"ratios": (0.12, 0.3, 0.7), "runs": 2}
    table = run_small("fig13-streaming", paper_folder, sizes=(10, 20), **more)
    assert table.values("data") == ["Holidays+Flickr1M, n = 10", "Holidays+Flickr1M, n = 20"]
    table = run_small("fig14-batches", paper_folder, vectors=300, batches=(1,), **more)
    assert table.values("data") == ["Holidays+Flickr1M"]


def test_flann_takes_the_queries_out_of_the_papers_large_set(paper_folder):
    pytest.importorskip("cv2")
    table = run_small("flann", paper_folder, vectors=390, queries=20, runs=(1, 1), autotuned=False)
    first = table.to_records()[0]
    assert (first["data"], first["vectors"], first["dim"]) == ("Holidays+Flickr1M", 360, 40)


def test_figures_of_closed_sets_have_no_distractors(paper_folder):
    more = {"ratios": (0.3, 0.7), "runs": 2}
    table = run_small("fig08-unit-counts", paper_folder, sizes=(5, 10), **more)
    assert table.values("data") == ["Holidays"]
    table = run_small("fig10-deep", paper_folder, unit_size=10, **more)
    assert table.values("data") == ["Holidays"]
    assert "holidays/vectors_deep.npy" in paper_folder.key()
