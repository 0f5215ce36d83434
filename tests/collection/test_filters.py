"""Filters on metadata, against their meaning in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memvec
from memvec.collection import _filters
from memvec.collection._filters import Bitmaps, compile_filter
from memvec.collection._naming import MovedError
from memvec.collection._reading import Reading
from memvec.errors import InvalidTypeError, InvalidValueError
from naive import passes_filter

DIM = 4
ROWS = [
    {"year": 2019, "tag": "a", "ok": True},
    {"year": 2020, "tag": "b", "ok": False},
    {"year": 2021.5, "tag": "é", "ok": None},
    {"year": "2022", "tag": ["a", "b"]},
    {"year": None, "nested": {"deep": 1}},
    {},
    {"year": 2020, "tag": "A", "two words": 1, "a.b": 2, "émoi": 3, "year'--": 4},
    {"ok": 1, "tag": ""},
]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    vectors = np.random.default_rng(0).standard_normal((len(ROWS), DIM))
    path = tmp_path_factory.mktemp("filters") / "c.mv"
    with memvec.open(path, dim=DIM, seal_at=0) as collection:
        collection.add(vectors[:4], metadata=ROWS[:4])
        collection.seal()
        collection.add(vectors[4:], ids=range(4, len(ROWS)), metadata=ROWS[4:])
        yield collection


def found(collection, where):
    return [item.id for item in collection.items(where=where)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"year": 2020}, [1, 6]),
        ({"year": 2020.0}, [1, 6]),
        ({"year": {"$eq": "2022"}}, [3]),
        ({"year": {"$ne": 2020}}, [0, 2, 3, 4, 5, 7]),
        ({"year": {"$gte": 2020}}, [1, 2, 6]),
        ({"year": {"$gt": 2020, "$lt": 2022}}, [2]),
        ({"year": {"$lte": 2020}}, [0, 1, 6]),
        ({"year": {"$lt": "3"}}, [3]),
        ({"tag": {"$in": ["a", "b"]}}, [0, 1]),
        ({"tag": {"$in": ["a", 5, None, "é"]}}, [0, 2]),
        ({"tag": {"$in": []}}, []),
        ({"tag": {"$nin": ["a", "b"]}}, [2, 3, 4, 5, 6, 7]),
        ({"tag": ""}, [7]),
        ({"ok": True}, [0]),
        ({"ok": False}, [1]),
        ({"ok": 1}, [7]),
        ({"ok": None}, [2]),
        ({"ok": {"$exists": True}}, [0, 1, 2, 7]),
        ({"ok": {"$exists": False}}, [3, 4, 5, 6]),
        ({"$or": [{"year": 2019}, {"tag": "A"}]}, [0, 6]),
        ({"$and": [{"year": 2020}, {"tag": {"$gt": "A"}}]}, [1]),
        ({"$not": {"year": {"$exists": True}}}, [5, 7]),
        ({"year": {"$not": {"$gte": 2020}}}, [0, 3, 4, 5, 7]),
        ({"two words": 1}, [6]),
        ({"a.b": 2}, [6]),
        ({"émoi": 3}, [6]),
        ({"year'--": 4}, [6]),
        ({"nested": {"$exists": True}}, [4]),
        ({"year": np.int64(2020)}, [1, 6]),
        ({"year": {"$in": {2019, 2020}}}, [0, 1, 6]),
    ],
)
def test_filter_finds_what_it_says(collection, where, expected):
    assert found(collection, where) == expected
    assert [i for i, row in enumerate(ROWS) if passes_filter(row, where)] == expected


@pytest.mark.parametrize(
    ("where", "error", "text"),
    [
        (5, InvalidTypeError, "a mapping of fields to conditions. Got 5"),
        ({5: 1}, InvalidTypeError, "a mapping of fields to conditions. Got 5"),
        ({"$and": []}, InvalidTypeError, r"a list of filters for '\$and'. Got \[\]"),
        ({"$or": "ab"}, InvalidTypeError, r"a list of filters for '\$or'. Got 'ab'"),
        ({"$nor": [{}]}, InvalidValueError, r"free of unknown operators.*Got '\$nor'"),
        ({'a"b': 1}, InvalidValueError, "names with quotes or backslashes.*Got 'a\"b'"),
        ({"\ud800": 1}, InvalidValueError, r"lone surrogates. Got '\\ud800'"),
        ({"a": {}}, InvalidValueError, "made of operators, such as"),
        ({"a": {"$near": 1}}, InvalidValueError, r"each one of \$eq .*Got '\$near'"),
        ({"a": {"b": 1}}, InvalidValueError, r"each one of \$eq .*Got 'b'"),
        ({"a": {"$in": "ab"}}, InvalidTypeError, r"a list for '\$in'. Got 'ab'"),
        ({"a": {"$in": 5}}, InvalidTypeError, r"a list for '\$in'. Got 5"),
        ({"a": {"$exists": 1}}, InvalidTypeError, r"True or False for '\$exists'. Got 1"),
        ({"a": {"$gt": None}}, InvalidTypeError, r"a number or a string for '\$gt'. Got None"),
        ({"a": {"$lt": True}}, InvalidTypeError, r"a number or a string for '\$lt'. Got True"),
        ({"a": [1]}, InvalidTypeError, r"compared with strings, finite numbers.*Got \[1\]"),
        ({"a": float("nan")}, InvalidTypeError, "finite numbers, booleans and None. Got nan"),
        ({"a": "\0"}, InvalidTypeError, "compared with strings"),
        ({"a": "\ud800"}, InvalidValueError, r"compared with strings.*Got '\\ud800'"),
        ({"a": {"$not": 5}}, InvalidTypeError, r"a mapping of operators for '\$not'.*Got 5"),
        ({"a": {"$in": b"ab"}}, InvalidTypeError, r"a list for '\$in'. Got b'ab'"),
        ({"a": {"$nin": bytearray(b"ab")}}, InvalidTypeError, r"a list for '\$nin'. Got bytear"),
        ({"$or": b"ab"}, InvalidTypeError, r"a list of filters for '\$or'. Got b'ab'"),
        ({"a": 10**5000}, InvalidValueError, "finite numbers.*Got int with an integer of more th"),
        ({"a": {"$gt": -(10**400)}}, InvalidValueError, "finite numbers.*Got -1000"),
        ({"a": [10**5000]}, InvalidTypeError, "finite numbers.*Got list with an integer of more"),
    ],
)
def test_wrong_filters_are_refused(collection, where, error, text):
    with pytest.raises(
        error, match=f"The 'where' parameter of Collection.range_search must.*{text}"
    ):
        collection.range_search(np.ones(DIM), where=where)


def nested(depth, inner, operator="$not"):
    if depth == 0:
        return inner
    deeper = nested(depth - 1, inner, operator)
    return {operator: deeper if operator == "$not" else [{"x": 1}, deeper]}


def test_monstrous_filters_are_refused(collection):
    leaf = {"year": {"$in": [2020, "a", None, True]}, "ok": {"$not": {"$ne": False}}}
    assert found(collection, nested(8, {"year": 2020})) == [1, 6]
    assert found(collection, nested(6, leaf, "$or")) == [1]
    assert found(collection, nested(6, leaf, "$and")) == []
    assert found(collection, nested(4, {"ok": nested(2, {"$eq": False})})) == [1]
    for where in (nested(9, {}), {"a": nested(10, {"$eq": 1})}):
        with pytest.raises(InvalidValueError, match="at most 8 levels deep"):
            found(collection, where)
    many = {"$or": [{"year": i} for i in range(1900, 2100)]}
    assert found(collection, many) == [0, 1, 6]
    many["$or"].append({"year": 5})
    with pytest.raises(InvalidValueError, match="at most 200 conditions"):
        found(collection, many)
    assert found(collection, {"year": {"$in": list(range(100_000))}}) == [0, 1, 6]


def test_nothing_of_a_filter_becomes_sql():
    evil = "') OR 1=1; DROP TABLE items; --"
    condition = compile_filter({evil.replace('"', ""): evil, "a": {"$in": [evil]}}, "here")
    assert "DROP" not in condition.sql
    assert condition.sql.count("?") == len(condition.parameters)


def test_bitmaps_are_kept_per_filter_and_change(tmp_path, monkeypatch):
    asked = []
    evaluate = _filters._bitmap
    monkeypatch.setattr(_filters, "_bitmap", lambda *args: asked.append(args[1]) or evaluate(*args))
    with memvec.open(tmp_path / "c.mv", dim=DIM, seal_at=0) as collection:
        collection.add(np.ones((4, DIM)), metadata=[{"x": i} for i in range(4)])
        collection.seal()
        where = {"x": {"$gte": 2}}
        for _ in range(3):
            assert collection.count(np.ones(DIM), where=where, guarantee="exact") == [2]
        assert len(asked) == 2  # of the segment and of what waits
        collection.add(np.ones((1, DIM)), metadata=[{"x": 7}])
        assert collection.count(np.ones(DIM), where=where, guarantee="exact") == [3]
        assert len(asked) == 3  # of what waits
        collection.delete([3])
        assert collection.count(np.ones(DIM), where=where, guarantee="exact") == [2]
        assert len(asked) == 4  # of what waits, as something was changed
    monkeypatch.setattr(_filters, "_MOST_KEPT", 1)
    with memvec.open(tmp_path / "c.mv") as collection:
        assert collection.count(np.ones(DIM), where={"x": 7}, guarantee="exact") == [1]
        assert len(collection._reading._bitmaps._kept) == 1


CHANGES = {
    "upsert and compact": lambda c: (c.upsert([np.ones(DIM)], [0], [{"x": 1}]), c.compact()),
    "upsert and seal": lambda c: (c.upsert([np.ones(DIM)], [7], [{"x": 1}]), c.seal()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_filter_never_sees_a_state_less_what_was_compacted_away(tmp_path, monkeypatch, change):
    """Ten items pass in every committed state, and so in every answer."""
    with memvec.open(tmp_path / "c.mv", dim=DIM, seal_at=0) as collection:
        collection.add(np.ones((6, DIM)), metadata=[{"x": 1}] * 6)
        collection.seal()
        collection.add(np.ones((4, DIM)), metadata=[{"x": 1}] * 4)
        before = collection._store.state
        change(collection)
        with pytest.raises(MovedError):
            Bitmaps(collection._store.catalog).passing(before, {"x": 1}, "here")

        one = np.ones(DIM)
        answers = [
            lambda where: len(collection.range_search(one, where=where).ids),
            lambda where: collection.count(one, where=where)[0],
            lambda where: len(list(collection.iter_range(one, where=where))),
            lambda where: len(list(collection.items(where))),
            lambda where: np.isfinite(collection.search(one, 20, where=where).scores).sum(),
            lambda where: 1 + len(list(collection.self_join(where=where, collapse_copies=True))),
            lambda where: collection.deduplicate(where=where).n_items,
            lambda where: collection.measure(one, where=where).n_matches,
        ]
        for number, answer in enumerate(answers):
            states = [before, collection._store.state]
            monkeypatch.setattr(Reading, "state", lambda _, states=states: states.pop(0))
            # Each filter is new: none of its bitmaps is kept.
            assert answer({"x": {"$in": [1, f"filter {number}"]}}) == 10


def test_interrupt_between_commit_and_memory_is_no_damage(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with memvec.open(tmp_path / "c.mv", dim=DIM, seal_at=0) as collection:
        collection.add(np.ones((6, DIM)), metadata=[{"x": 1}] * 6)
        collection.delete([0])
        with monkeypatch.context() as patch:
            patch.setattr(type(collection._store), "publish", interrupted)
            with pytest.raises(KeyboardInterrupt):
                collection.compact()
        assert collection.count(np.ones(DIM), where={"x": 1}) == [5]
        assert collection.stats().segment_sizes == (5,)


values = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, -1.5, 2.0, 1e30, 2**60])
    | st.sampled_from(["", "a", "b", "ab", "é", "1"])
)
names = st.sampled_from(["x", "y", "z"])
orders = st.sampled_from(["$gt", "$gte", "$lt", "$lte"])
ordered = st.integers(-3, 3) | st.sampled_from([0.5, 1e30, "a", "b", "é"])
operators = st.one_of(
    st.fixed_dictionaries({"$eq": values}),
    st.fixed_dictionaries({"$ne": values}),
    st.dictionaries(orders, ordered, min_size=1, max_size=2),
    st.fixed_dictionaries({"$in": st.lists(values, max_size=3)}),
    st.fixed_dictionaries({"$nin": st.lists(values, max_size=3)}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
filters = st.recursive(
    st.dictionaries(names, values | operators, max_size=2),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$not": inner}),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def random_rows(tmp_path_factory):
    rng = np.random.default_rng(3)
    choices = [None, True, False, 0, 1, -3, 0.5, 2.0, 1e30, 2**60, "", "a", "ab", "é", "1", [1]]
    rows = [
        {name: choices[rng.integers(len(choices))] for name in "xyz" if rng.random() < 0.8}
        for _ in range(200)
    ]
    path = tmp_path_factory.mktemp("filters") / "c.mv"
    with memvec.open(path, dim=DIM) as collection:
        collection.add(rng.standard_normal((200, DIM)), metadata=rows)
        yield collection, rows


@settings(deadline=None, max_examples=150)
@given(filters)
def test_random_filters_mean_what_they_mean_in_python(random_rows, where):
    collection, rows = random_rows
    assert found(collection, where) == [
        i for i, row in enumerate(rows) if passes_filter(row, where)
    ]
