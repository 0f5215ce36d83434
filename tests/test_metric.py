"""Euclidean distances: the cosine of rows of norm 1 in another unit, and nothing else."""

import json
import math
import pickle

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import memvec
from memvec import Index, IndexConfig
from memvec.cli import main
from memvec.errors import InvalidValueError
from memvec.metric import radius_of, scores_of, similarity_of

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((400, 16)).astype(np.float32)
ROWS[200:] = ROWS[:200] + 0.3 * RNG.standard_normal((200, 16)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)
QUERIES = ROWS[::20]
RADIUS = 0.6
CONFIG = IndexConfig(seed=2)


def distances(queries, rows):
    """Return all distances, by differences in float64."""
    differences = queries[:, np.newaxis].astype(np.float64) - rows[np.newaxis].astype(np.float64)
    return np.sqrt((differences**2).sum(axis=2))


@pytest.fixture(scope="module")
def index():
    return Index.build(ROWS, metric="euclidean", radius=RADIUS, config=CONFIG, progress=False)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    path = tmp_path_factory.mktemp("metric") / "rows.mv"
    with memvec.open(path, dim=16, metric="euclidean", radius=RADIUS, config=CONFIG) as made:
        made.add(ROWS[:300])
        made.seal(progress=False)
        made.add(ROWS[300:])
        yield made


@pytest.mark.parametrize("kind", ["index", "collection"])
def test_range_finds_what_differences_find_nearest_first(kind, request):
    searched, truth = request.getfixturevalue(kind), distances(QUERIES, ROWS)
    hits = searched.range_search(QUERIES, radius=0.8, guarantee="exact")
    for query, row in enumerate(hits):
        near = np.flatnonzero(truth[query] <= 0.8)
        assert sorted(row.ids) == near.tolist()
        ids = row.ids.astype(np.int64)
        np.testing.assert_allclose(row.scores, truth[query][ids], atol=1e-4)
        assert np.all(np.diff(row.scores) >= 0)
        assert (row.ids[0], row.scores[0]) == (20 * query, 0.0)
    assert str(hits.certificate) == "Misses nothing within 0.8."
    assert searched.count(QUERIES, radius=0.8, guarantee="exact").tolist() == hits.counts.tolist()
    assert searched.contains(QUERIES, radius=0.0).all()


@pytest.mark.parametrize("kind", ["index", "collection"])
def test_nearest_are_those_of_least_distance(kind, request):
    searched, truth = request.getfixturevalue(kind), distances(QUERIES, ROWS)
    top = searched.search(QUERIES, 5, guarantee="exact")
    np.testing.assert_allclose(top.scores, np.sort(truth, axis=1)[:, :5], atol=1e-4)
    squares, ids = top.as_faiss()
    np.testing.assert_array_equal(squares, top.scores**2)
    assert ids[:, 0].tolist() == (20 * np.arange(len(QUERIES))).tolist()


def test_places_left_empty_are_infinitely_far(tmp_path):
    with memvec.open(tmp_path / "few.mv", dim=16, metric="euclidean") as few:
        few.add(ROWS[:2])
        assert few.search(ROWS[0], 3).scores[0].tolist()[2] == math.inf


@pytest.mark.parametrize("kind", ["index", "collection"])
def test_answers_are_those_of_the_cosine_in_another_unit(kind, request, tmp_path):
    searched, alpha = request.getfixturevalue(kind), 1 - RADIUS**2 / 2
    if kind == "index":
        other = Index.build(ROWS, similarity=alpha, config=CONFIG, progress=False)
    else:
        other = memvec.open(tmp_path / "cosine.mv", dim=16, similarity=alpha, config=CONFIG)
        request.addfinalizer(other.close)
        other.add(ROWS[:300])
        other.seal(progress=False)
        other.add(ROWS[300:])
    far, near = searched.range_search(QUERIES), other.range_search(QUERIES)
    assert far.ids.tolist() == near.ids.tolist()
    assert (far.spent == near.spent).all()
    np.testing.assert_allclose(far.p_values, near.p_values, rtol=1e-3, atol=1e-6)
    assert far.certificate.similarity == near.certificate.similarity
    assert far.certificate.radius == pytest.approx(RADIUS)
    told = str(near.certificate).replace(f"above {alpha:g}", f"within {RADIUS:g}")
    assert str(far.certificate).splitlines()[0] == told.splitlines()[0]
    _, squares, _ = far.as_faiss()
    np.testing.assert_allclose(squares, np.maximum(0, 2 - 2 * near.scores), atol=5e-6)
    assert pickle.loads(pickle.dumps(far)).p_values.tolist() == far.p_values.tolist()
    measured = searched.measure(QUERIES + 0.0, radius=0.5)
    assert measured.n_matches == other.measure(QUERIES, 1 - 0.5**2 / 2).n_matches
    assert type(far.certificate).from_json(far.certificate.to_json()) == far.certificate


@pytest.mark.parametrize("kind", ["index", "collection"])
def test_pairs_are_those_within_the_radius(kind, request):
    searched, truth = request.getfixturevalue(kind), distances(ROWS, ROWS)
    left, right = np.nonzero(np.triu(truth <= 0.5, 1))
    pairs = sorted(searched.self_join(radius=0.5, guarantee="exact"))
    assert [pair[:2] for pair in pairs] == list(zip(left, right, strict=True))
    np.testing.assert_allclose([pair.score for pair in pairs], truth[left, right], atol=1e-4)
    found = searched.deduplicate(radius=0.5, guarantee="exact")
    assert found.certificate.metric == "euclidean"
    assert found.n_pairs == len(left)


def test_one_call_for_an_array_takes_a_radius():
    truth = distances(ROWS, ROWS)
    pairs = memvec.self_join(ROWS, radius=0.5)
    assert len(pairs) == np.count_nonzero(np.triu(truth <= 0.5, 1))
    np.testing.assert_allclose(pairs.scores, truth[pairs.left, pairs.right], atol=1e-4)
    joined = memvec.join(QUERIES, ROWS, radius=0.5)
    np.testing.assert_allclose(joined.scores, truth[::20][joined.left, joined.right], atol=2e-3)
    assert memvec.deduplicate(ROWS, radius=0.5).n_pairs == len(pairs)
    assert str(joined.certificate) == "Misses nothing within 0.5."


def test_streamed_matches_carry_distances(collection):
    streamed = list(collection.iter_range(QUERIES, radius=0.5))
    hits = collection.range_search(QUERIES, radius=0.5)
    assert [one.score for one in streamed] == hits.scores.tolist()


@pytest.mark.parametrize("kind", ["index", "collection"])
def test_explanations_tell_distances(kind, request):
    searched = request.getfixturevalue(kind)
    far = int(np.argmax(distances(ROWS[:1], ROWS)))
    told = searched.explain(ROWS[0], far, radius=0.5)
    assert told.reason.startswith("Not returned: its distance 1.")
    assert told.reason.endswith(" is beyond 0.5.")
    assert " for 0.5 asked; p = " in str(told)
    copy = searched.explain(ROWS[0], 0, radius=0.0)
    assert copy.matches
    assert copy.score == 0.0


def test_explanation_of_a_near_copy_agrees_with_the_search():
    angle = np.linspace(0, 0.003, 61)
    rows = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    index = Index.build(rows, metric="euclidean", radius=0.0, guarantee="exact", progress=False)
    found = dict(zip(*index.range_search(rows[0])[0][:2], strict=True))
    told = [index.explain(rows[0], one) for one in range(len(rows))]
    assert [one.id for one in told if one.matches] == sorted(found)
    assert {one.id: one.score for one in told if one.matches} == found
    assert 0 < len(found) < len(rows)


@pytest.mark.parametrize("kind", ["index", "collection"])
@pytest.mark.parametrize("name", ["range_search", "measure"])
def test_rows_of_other_norms_are_refused_with_the_way_out(kind, name, request):
    searched = request.getfixturevalue(kind)
    wrong = np.concatenate([QUERIES[:1], 2 * QUERIES[1:2]])
    with pytest.raises(InvalidValueError, match=r"rows of norm 1 .* Got norm 2 in row 1 instead"):
        getattr(searched, name)(wrong)
    with pytest.raises(InvalidValueError, match=r"norm 1 where metric is 'euclidean' \(scale them"):
        Index.build(wrong, metric="euclidean", radius=0.5)


def test_nothing_is_added_where_a_row_has_another_norm(collection):
    before = len(collection)
    with pytest.raises(InvalidValueError, match="Got norm 3 in row 0"):
        collection.add(3 * ROWS[:1])
    assert len(collection) == before


@pytest.mark.parametrize("name", ["ip", "dot", "inner_product", "IP"])
def test_inner_products_are_refused_with_the_reason(name, tmp_path):
    reason = "ranks long rows above near ones.*scale them if your model allows it"
    with pytest.raises(InvalidValueError, match=reason):
        Index.build(ROWS, metric=name)
    with pytest.raises(InvalidValueError, match=reason):
        memvec.open(tmp_path / "none.mv", dim=16, metric=name)
    assert not (tmp_path / "none.mv").exists()


def test_each_metric_has_its_word(index, collection):
    for searched in (index, collection):
        with pytest.raises(InvalidValueError, match="'similarity' .* give 'radius'"):
            searched.range_search(QUERIES, 0.8)
        with pytest.raises(InvalidValueError, match=r"'radius' .* number in \[0, 1.41421\)"):
            searched.range_search(QUERIES, radius=1.5)
    plain = Index.build(ROWS, config=CONFIG, progress=False)
    with pytest.raises(InvalidValueError, match="'radius' .* give 'similarity'"):
        plain.range_search(QUERIES, radius=0.5)


def test_the_metric_is_kept_on_disk(index, collection, tmp_path):
    index.save(tmp_path / "index.mv")
    opened = Index.open(tmp_path / "index.mv")
    assert opened.metric == "euclidean"
    assert (
        opened.range_search(QUERIES).scores.tolist() == index.range_search(QUERIES).scores.tolist()
    )
    assert pickle.loads(pickle.dumps(index)).metric == "euclidean"
    path = tmp_path / "kept.mv"
    memvec.open(path, dim=16, radius=0.4, metric="euclidean").close()
    with memvec.open(path) as again, pytest.raises(InvalidValueError, match="norm 1"):
        again.add(2 * ROWS[:1])
    memvec.open(path, radius=0.4).close()
    with pytest.raises(InvalidValueError, match="'radius' .* must be 0.4, as .* Got 0.5 instead"):
        memvec.open(path, radius=0.5)
    with pytest.raises(InvalidValueError, match="'metric' .* as the collection was created with"):
        memvec.open(path, metric="cosine")


@given(st.floats(0, math.sqrt(2), exclude_max=True))
def test_radius_and_similarity_are_each_other_s_inverse(radius):
    assert radius_of(similarity_of(radius, "test")) == pytest.approx(radius, abs=2e-8)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9))
def test_distances_keep_the_order_of_cosines(cosines):
    falling = np.sort(np.array(cosines))[::-1]
    assert np.all(np.diff(scores_of("euclidean", falling)) >= 0)


def test_commands_take_a_radius(tmp_path):
    path, rows = str(tmp_path / "rows.mv"), str(tmp_path / "rows.npy")
    np.save(rows, ROWS)
    run = CliRunner().invoke
    made = run(main, ["create", path, "--dim", "16", "--metric", "euclidean", "--radius", "0.6"])
    assert "everything within 0.6, at most 1 % missed" in made.output
    assert run(main, ["add", path, rows]).exit_code == 0
    found = run(main, ["range", path, rows, "--radius", "0.5", "--json"])
    truth = distances(ROWS, ROWS) <= 0.5
    assert len(json.loads(found.output)["hits"]) == np.count_nonzero(truth)
    joined = run(main, ["join", path, "--radius", "0.5"])
    assert f"{np.count_nonzero(np.triu(truth, 1)):,} pairs within 0.5" in joined.output
    exact = ["--radius", "0.5", "--guarantee", "exact"]
    told = [run(main, ["dedup", one, *exact]).output.splitlines()[0] for one in (path, rows)]
    assert "groups within 0.5: " in told[0]
    assert told[0] == told[1]
    assert "groups within 0.447214: " in run(main, ["dedup", path]).output
    assert (
        "--radius does not go with --out"
        in run(main, ["dedup", rows, "--radius", "0.5", "--out", str(tmp_path / "out")]).output
    )
    assert "matches within 0.5 (95 %" in run(main, ["measure", path, "--radius", "0.5"]).output
    assert "everything within 0.6" in run(main, ["info", path]).output
    assert "within 0.6" in run(main, ["calibrate", path]).output
    np.save(rows, 2 * ROWS)
    assert "norm 2 in row 0" in run(main, ["add", path, rows]).output
    assert "norm 2 in row 0" in run(main, ["dedup", rows, "--radius", "0.5"]).output
