"""What exists for an index exists for a collection, with the same words and the same answers."""

import inspect
from dataclasses import fields

import numpy as np
import pytest

import memvec
from memvec import Collection, Index, IndexConfig
from memvec.errors import CorruptIndexError

UNIT_TEST = {"threshold", "units"}
# Parameters that one of the two has for a reason: an index alone has one cascade of units, a
# collection alone has metadata.
METHODS = {
    "range_search": (UNIT_TEST, {"where", "include"}),
    "count": (UNIT_TEST, {"where"}),
    "contains": (UNIT_TEST | {"verify"}, {"where"}),
    "search": (UNIT_TEST, {"where", "include"}),
    "explain": (set(), set()),
    "measure": (set(), {"where"}),
    "recalibrate": (set(), set()),
    "check": (set(), set()),
    "__len__": (set(), set()),
}
PROPERTIES = {"dim": False, "dtype": False, "metric": False, "health": False, "shadow": True}
ROWS = np.random.default_rng(1).standard_normal((400, 12)).astype(np.float32)
ROWS[200:] = ROWS[:200] + 0.3 * ROWS[200:]
QUERIES = ROWS[:20] + 0.1
CONFIG = IndexConfig(seed=5)


def parameters(owner, name):
    found = inspect.signature(getattr(owner, name)).parameters
    return {one: found[one] for one in found if one != "self"}


@pytest.fixture(scope="module")
def index():
    return Index.build(ROWS, config=CONFIG, progress=False)


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """The same vectors under their numbers: in two segments and waiting."""
    path = tmp_path_factory.mktemp("both") / "rows.mv"
    with memvec.open(path, dim=12, config=CONFIG, seal_at=0) as made:
        for part in (ROWS[:150], ROWS[150:300]):
            made.add(part)
            made.seal(progress=False)
        made.add(ROWS[300:])
        yield made


@pytest.mark.parametrize("name", METHODS)
def test_methods_differ_only_by_what_one_class_has(name):
    of_index, of_collection = (parameters(owner, name) for owner in (Index, Collection))
    assert (set(of_index) - set(of_collection), set(of_collection) - set(of_index)) == METHODS[name]


@pytest.mark.parametrize("name", METHODS)
def test_shared_parameters_have_the_same_order_kind_default_and_type(name):
    of_index, of_collection = (parameters(owner, name) for owner in (Index, Collection))
    shared = [one for one in of_index if one in of_collection]
    assert shared == [one for one in of_collection if one in of_index]
    for one in shared:
        left, right = of_index[one], of_collection[one]
        assert (left.kind, left.default) == (right.kind, right.default), one
        assert left.annotation == right.annotation or one == "id", one


@pytest.mark.parametrize("name", METHODS)
def test_results_have_the_same_type(name):
    results = [inspect.signature(getattr(owner, name)) for owner in (Index, Collection)]
    assert results[0].return_annotation == results[1].return_annotation


@pytest.mark.parametrize(("name", "settable"), PROPERTIES.items())
def test_properties_are_those_of_both(name, settable):
    for owner in (Index, Collection):
        found = inspect.getattr_static(owner, name)
        assert isinstance(found, property)
        assert (found.fset is not None) == settable


def test_results_are_the_same_objects(index, collection):
    asked = {"similarity": 0.8, "guarantee": "exact"}
    left, right = (one.range_search(QUERIES, **asked) for one in (index, collection))
    assert left.offsets.tolist() == right.offsets.tolist()
    assert left.ids.tolist() == right.ids.tolist()
    assert left.scores.tolist() == right.scores.tolist()
    assert left.p_values.shape == right.p_values.shape == left.ids.shape
    assert type(left.work) is type(right.work)
    assert [one.name for one in fields(left.certificate)] == [
        one.name for one in fields(right.certificate)
    ]
    for name in ("count", "contains"):
        found = [getattr(one, name)(QUERIES, **asked).tolist() for one in (index, collection)]
        assert found[0] == found[1]
        assert any(found[0])


def test_nearest_are_the_same(index, collection):
    left, right = (one.search(QUERIES, 7, guarantee="exact") for one in (index, collection))
    assert left.ids.tolist() == right.ids.tolist()
    assert left.scores.tolist() == right.scores.tolist()
    asked = [one.search(QUERIES, 2, target_recall=0.9).certificate for one in (index, collection)]
    assert [one.miss_rate for one in asked] == [pytest.approx(0.1)] * 2


@pytest.mark.parametrize("row", [0, 160, 399])
def test_explanations_are_the_same(index, collection, row):
    query = ROWS[row] + 0.1
    left, right = (one.explain(query, row, 0.8, guarantee="exact") for one in (index, collection))
    assert (left.id, left.score, left.returned) == (right.id, right.score, right.returned)
    assert left.reason == right.reason


def test_measurements_are_of_the_same_queries(index, collection):
    asked = {"similarity": 0.8, "guarantee": "exact", "sample": 11, "progress": False}
    left, right = (one.measure(QUERIES, **asked) for one in (index, collection))
    assert left == right
    assert 0 < left.n_queries <= 11


def test_counts_of_an_index_heed_its_unit_test(index):
    asked = {"similarity": 0.5, "units": 2}
    found = index.count(QUERIES, **asked)
    assert found.tolist() == index.range_search(QUERIES, **asked).counts.tolist()
    assert found.sum() < index.count(QUERIES, 0.5, threshold=-np.inf).sum()


def test_explanations_of_both_are_drawn(index, collection):
    for owner in (index, collection):
        told = [owner.explain(QUERIES[0], i, guarantee="model") for i in range(20)]
        in_units = [one for one in told if any(stage.name == "unit" for stage in one.stages)]
        assert in_units
        assert all(one.plot().axes for one in in_units)


def test_each_says_which_door_opens_the_other(index, tmp_path):
    index.save(tmp_path / "index.mv")
    memvec.open(tmp_path / "collection.mv", dim=12).close()
    with pytest.raises(CorruptIndexError, match=r"but a saved index: memvec\.Index\.open"):
        memvec.open(tmp_path / "index.mv", dim=12)
    with pytest.raises(CorruptIndexError, match=r"but a collection: memvec\.open"):
        Index.open(tmp_path / "collection.mv")
