"""Pairs, duplicates and sets, against brute force."""

import json
from itertools import islice

import numpy as np
import pytest

import memvec
from memvec.errors import InvalidTypeError, InvalidValueError
from memvec.search import SelfJoin, UnitSource
from naive import DictCollection, memory_vector, unit_rows

DIM = 5


@pytest.fixture(autouse=True)
def _small_segments_are_searched(monkeypatch):
    monkeypatch.setattr(UnitSource, "few_rows", 5)
    monkeypatch.setattr(SelfJoin, "queries_at_once", 7)
    monkeypatch.setattr(SelfJoin, "products_at_once", 7)


@pytest.fixture
def both(path):
    """Ninety items with near-duplicates and copies, in two segments and waiting; some deleted."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((30, DIM)).astype(np.float32)
    near = rows + 0.2 * rng.standard_normal(rows.shape).astype(np.float32)
    vectors = np.concatenate([rows, near, rows])
    names = [f"n{i}" if i % 2 else i for i in range(90)]
    metadata = [{"text": "x" * int(rng.integers(9)), "even": i % 2 == 0} for i in range(90)]
    twin = DictCollection()
    twin.put(vectors, names, metadata)
    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        for start in range(0, 90, 30):
            part = slice(start, start + 30)
            collection.add(vectors[part], names[part], metadata[part])
            if start < 60:
                collection.seal()
        collection.delete(names[3:6])
        twin.delete(names[3:6])
        yield collection, twin


def unordered(pairs):
    return sorted((sorted(map(str, pair[:2])), pair[2]) for pair in pairs)


@pytest.mark.parametrize("similarity", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("where", [None, {"even": True}])
def test_join_yields_each_pair_once(both, similarity, where):
    collection, twin = both
    found = list(collection.self_join(similarity, guarantee="exact", where=where))
    assert unordered(found) == unordered(twin.pairs(similarity, where))


def test_join_of_one_segment_has_the_earlier_item_on_the_left(both):
    collection, twin = both
    collection.compact()
    found = {(pair.left, pair.right) for pair in collection.self_join(0.9, guarantee="exact")}
    assert found == {pair[:2] for pair in twin.pairs(0.9)}


def test_join_streams(both):
    collection, _ = both
    assert len(list(islice(collection.self_join(0.1), 3))) == 3


def test_collapsed_copies_make_one_pair_each(collection):
    rows = np.eye(8)[[0] * 40 + [1] * 3 + [2]]
    collection.add(rows[:20])
    collection.seal()
    collection.add(rows[20:], ids=range(20, 44))
    found = list(collection.self_join(0.9, guarantee="exact", collapse_copies=True))
    assert sorted(pair[:2] for pair in found) == sorted(
        [(0, i) for i in range(1, 40)] + [(40, 41), (40, 42)]
    )
    assert {pair.score for pair in found} == {1.0}
    assert len(list(collection.self_join(0.9, guarantee="exact"))) == 40 * 39 // 2 + 3


def test_collapsed_join_pairs_first_copies_with_others(both):
    collection, twin = both
    vectors = {name: tuple(vector) for name, (vector, _) in twin.items.items()}
    first = {}
    for name, vector in vectors.items():
        first.setdefault(vector, name)
    expected = [
        pair
        for pair in twin.pairs(0.9)
        if (first[vectors[pair[0]]] == pair[0] and first[vectors[pair[1]]] == pair[1])
    ]
    expected += [
        (first[vector], name, 1.0) for name, vector in vectors.items() if first[vector] != name
    ]
    found = collection.self_join(0.9, guarantee="exact", collapse_copies=True)
    assert unordered(found) == unordered(expected)


def test_vectors_of_a_join_are_those_of_the_state_wherever_they_lie(both):
    """The last thirty items wait, less two that are deleted."""
    collection, _ = both
    state = collection._store.state
    waiting = state.waiting.keys[state.waiting.alive]
    for keys in (waiting, waiting[:5], waiting[::2], waiting[:0], waiting[::-1], np.arange(1, 20)):
        keys = keys[np.isin(keys, np.concatenate([part.keys for part in state.parts]))]
        assert (state.lying(keys, DIM) == state.vectors(keys, DIM)).all()
    assert np.shares_memory(state.lying(waiting[:5], DIM), state.waiting.rows.rows.data)


def test_signs_of_zero_do_not_make_copies_different(collection):
    rows = np.zeros((2, 8), dtype=np.float32)
    rows[:, 0], rows[1, 3] = 1, -0.0
    collection.add(rows)
    assert [group.kept for group in collection.deduplicate(0.5).groups] == [0]


@pytest.mark.parametrize("similarity", [0.5, 0.9, 1.0])
def test_components_are_those_of_all_pairs(both, similarity):
    collection, twin = both
    found = collection.deduplicate(similarity, guarantee="exact")
    groups = [(group.kept, *group.dropped) for group in found.groups]
    assert groups == twin.components(similarity)
    assert found.drop == [name for group in groups for name in group[1:]]
    assert (found.n_items, found.certificate.level) == (87, "exact")


@pytest.mark.parametrize("keep", ["first", "last", "longest", lambda item: -len(str(item.id))])
@pytest.mark.parametrize("groups", ["components", "star"])
def test_kept_item_is_the_one_asked_for(both, keep, groups):
    collection, twin = both
    found = collection.deduplicate(0.9, keep=keep, groups=groups, guarantee="exact")
    value = {
        "first": lambda name: 0,
        "last": list(twin.items).index,
        "longest": lambda name: len(json.dumps(twin.items[name][1])),
    }.get(keep, lambda name: -len(str(name)))
    order = sorted(twin.items, key=value, reverse=True)
    if groups == "star":
        stars = {group.kept: set(group.dropped) for group in found.groups}
        assert stars == twin.stars(0.9, by_first_copy(twin, order))
    else:
        for group, expected in zip(found.groups, twin.components(0.9), strict=True):
            assert {group.kept, *group.dropped} == set(expected)
            assert group.kept == min(expected, key=order.index)


def test_best_item_has_the_highest_score_of_a_field(path):
    with memvec.open(path, dim=2) as collection:
        scores = [{"s": 1}, {"s": 2.5}, {"s": 2.5}, {}]
        collection.add([[1, 0], [1, 0.1], [1, 0.05], [0, 1]], list("abcd"), scores)
        found = collection.deduplicate(0.9, keep="best", scores="s", where={"s": {"$gte": 0}})
        assert [(group.kept, group.dropped) for group in found.groups] == [("b", ["a", "c"])]
        with pytest.raises(InvalidValueError, match="'s' of item 'd' has none. Got None"):
            collection.deduplicate(0.9, keep="best", scores="s")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"keep": "best"}, "'scores' parameter .* the name of a metadata field .* Got None"),
        ({"keep": "best", "scores": [1]}, r"'scores' parameter .* Got \[1\] instead"),
        ({"scores": "s"}, "'scores' parameter .* left out unless keep is 'best'. Got 's' instead"),
    ],
)
def test_what_to_keep_is_checked(collection, asked, text):
    with pytest.raises(memvec.MemvecError, match=text):
        collection.deduplicate(0.9, **asked)


def by_first_copy(twin, order):
    """Copies stand in line together, behind the best of them."""
    vectors = {name: tuple(twin.items[name][0]) for name in order}
    best = {}
    for place, name in enumerate(order):
        best.setdefault(vectors[name], place)
    return sorted(order, key=lambda name: (best[vectors[name]], order.index(name)))


def test_star_drops_only_what_is_similar_to_its_centre(path):
    """Three vectors in a chain: the ends are unlike."""
    angles = np.radians([0, 25, 50])
    with memvec.open(path, dim=2) as collection:
        collection.add(np.stack([np.cos(angles), np.sin(angles)], axis=1), ids=["a", "b", "c"])
        assert collection.deduplicate(0.9).drop == ["b", "c"]
        assert collection.deduplicate(0.9, groups="star").drop == ["b"]
        middle = collection.deduplicate(0.9, groups="star", keep=lambda item: item.id == "b")
        assert [group.kept for group in middle.groups] == ["b"]
        assert repr(middle) == "Duplicates(1 group, 2 of 3 to drop)"


@pytest.mark.parametrize("groups", ["components", "star"])
def test_ten_thousand_copies_are_one_group(path, groups):
    rows = np.ones((10_050, 16), dtype=np.float32)
    rows[:50] = np.random.default_rng(0).standard_normal((50, 16))
    with memvec.open(path, dim=16, seal_at=0) as collection:
        collection.add(rows)
        found = collection.deduplicate(0.999, groups=groups)
        assert [len(group.dropped) for group in found.groups] == [9_999]
        assert found.groups[0].kept == 50


def test_empty_collection_has_no_duplicates(collection):
    assert collection.deduplicate(0.5).groups == ()
    assert collection.deduplicate(0.5, groups="star").drop == []
    assert list(collection.self_join(0.5, collapse_copies=True)) == []


def test_filter_limits_what_is_deduplicated(both):
    collection, _ = both
    found = collection.deduplicate(0.9, where={"even": True}, guarantee="exact")
    names = {name for group in found.groups for name in (group.kept, *group.dropped)}
    assert names
    assert all(isinstance(name, int) for name in names)


@pytest.mark.parametrize("construction", ["pinv", "sum"])
def test_set_is_searched_by_its_memory_vector(both, construction):
    collection, twin = both
    rows = np.random.default_rng(1).standard_normal((3, DIM)).astype(np.float32)
    top = collection.search_set(rows, 4, construction=construction, guarantee="exact")
    fused = memory_vector(unit_rows(rows), construction).astype(np.float32)
    expected = twin.best(fused, 4)
    assert top.ids[0].tolist() == [name for name, _ in expected]
    assert np.allclose(top.scores[0], [score for _, score in expected], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda c: c.self_join(0), InvalidValueError, "parameter of Collection.self_join must be"),
        (
            lambda c: c.self_join(threads="a"),
            InvalidTypeError,
            "'threads' parameter of Collection.self_join must be an integer >= 1. Got 'a'",
        ),
        (
            lambda c: c.deduplicate(threads=0),
            InvalidValueError,
            "'threads' parameter of Collection.deduplicate must be an integer >= 1. Got 0",
        ),
        (
            lambda c: c.search_set(np.ones((2, 8)), 0),
            InvalidValueError,
            "'k' parameter of Collection.search_set must be an integer >= 1. Got 0",
        ),
        (
            lambda c: c.deduplicate(keep="newest"),
            InvalidTypeError,
            "'keep' parameter of Collection.deduplicate must be 'first', 'last', 'longest', 'best'",
        ),
        (
            lambda c: c.deduplicate(groups="cliques"),
            InvalidValueError,
            "'groups' parameter of Collection.deduplicate must be one of 'components', 'star'",
        ),
        (
            lambda c: c.search_set(np.ones((2, 8)), 1, construction="mean"),
            InvalidValueError,
            "'construction' parameter of Collection.search_set must be one of 'pinv', 'sum'",
        ),
        (
            lambda c: c.search_set([[1.0] * 8, [-1.0] * 8], 1, construction="sum"),
            InvalidValueError,
            "'vectors' parameter of Collection.search_set must be free of zero",
        ),
    ],
)
def test_wrong_arguments_are_refused(collection, call, error, text):
    with pytest.raises(error, match=text):
        call(collection)


@pytest.mark.parametrize(("seal_at", "n_waiting"), [(50, 0), (0, 120)])
def test_what_is_due_is_sealed_before_everything_is_compared(path, seal_at, n_waiting):
    """What is never sealed by itself is compared by products of matrices."""
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((60, DIM)).astype(np.float32)
    twin = DictCollection()
    twin.put(np.concatenate([rows, rows + 0.1]), list(range(120)), [{}] * 120)
    with memvec.open(path, dim=DIM, seal_at=seal_at) as collection:
        collection.add(np.concatenate([rows, rows + 0.1]))
        found = list(collection.self_join(0.95, guarantee="exact"))
        assert collection.stats().n_waiting == n_waiting
    assert unordered(found) == unordered(twin.pairs(0.95, None))
