"""A collection of a server answers as one that is here."""

import asyncio
import inspect
import shutil

import numpy as np
import pytest

import memvec
from memvec.client import AsyncRemoteCollection, AsyncStream, RemoteCollection
from memvec.errors import (
    IndexNotFoundError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    ServerError,
)
from server.conftest import DIM, unit_rows

QUERIES = unit_rows(7, seed=8)


@pytest.fixture
def both(client, root, things):
    """The same collection, here and on the server."""
    copy = root / ".copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root / "things", copy)
    with memvec.open(copy, read_only=True) as here:
        yield here, client.collection("things")


def same_certificate(left, right):
    assert left.to_json() == right.to_json()
    assert str(left) == str(right)


@pytest.mark.parametrize(
    ("similarity", "options"),
    [
        (None, {}),
        (0.3, {"include": "metadata"}),
        (0.3, {"include": ["metadata", "vectors"], "where": {"tag": "a"}}),
        (0.5, {"guarantee": "exact", "miss_rate": 0.05}),
        (0.999, {}),
    ],
)
def test_range_is_that_of_the_collection(both, similarity, options):
    here, there = (one.range_search(QUERIES, similarity, **options) for one in both)
    assert here.ids.tolist() == there.ids.tolist()
    assert np.array_equal(here.offsets, there.offsets)
    assert np.array_equal(here.scores, there.scores)
    assert there.scores.dtype == np.float32
    assert np.array_equal(here.p_values, there.p_values)
    assert np.array_equal(here.e_values, there.e_values)
    assert here.metadata == there.metadata
    assert here.work == there.work
    if here.vectors is not None and len(here.ids):
        assert np.array_equal(here.vectors, there.vectors)
    same_certificate(here.certificate, there.certificate)


@pytest.mark.parametrize("shape", [(2 * DIM, DIM // 2), (1, 2 * DIM), (DIM // 2,), (1, 2, DIM), ()])
def test_vectors_of_another_shape_are_never_taken_for_others(client, things, shape):
    """Raw bytes tell no shape: sixteen halves of a vector would be eight vectors."""
    there, rows = client.collection("things"), np.ones(shape, dtype=np.float32)
    for ask in (
        lambda: there.range_search(rows, 0.5),
        lambda: there.count(rows, 0.5),
        lambda: there.contains(rows, 0.5),
        lambda: there.search(rows, 3),
        lambda: list(there.iter_range(rows, 0.5)),
        lambda: there.recalibrate(rows),
    ):
        with pytest.raises((InvalidValueError, InvalidTypeError), match="dimension|shape"):
            ask()


def test_no_queries_have_no_answers(both):
    here, there = (one.range_search(np.empty((0, DIM)), 0.5) for one in both)
    assert len(here) == len(there) == 0
    same_certificate(here.certificate, there.certificate)
    assert [one.count(np.empty((0, DIM)), 0.5).tolist() for one in both] == [[], []]


@pytest.mark.parametrize("options", [{}, {"include": ["metadata", "vectors"]}, {"miss_rate": 0.1}])
@pytest.mark.parametrize("k", [1, 5, 400])
def test_nearest_are_those_of_the_collection(both, k, options):
    here, there = (one.search(QUERIES, k, **options) for one in both)
    assert here.ids.tolist() == there.ids.tolist()
    assert np.array_equal(here.scores, there.scores)
    assert here.metadata == there.metadata
    if here.vectors is not None:
        assert np.array_equal(here.vectors, there.vectors, equal_nan=True)
    same_certificate(here.certificate, there.certificate)
    fused = [one.search_set(QUERIES, k, construction="sum").ids.tolist() for one in both]
    assert fused[0] == fused[1]


@pytest.mark.parametrize("ordered", [True, False])
def test_stream_is_that_of_the_collection(both, ordered):
    here, there = (one.iter_range(QUERIES, 0.2, ordered=ordered) for one in both)
    same_certificate(here.certificate, there.certificate)
    assert here.searched.n_candidates == there.searched.n_candidates
    assert sorted(map(repr, here)) == sorted(map(repr, there))


def test_other_answers_are_those_of_the_collection(both):
    here, there = both
    assert np.array_equal(here.count(QUERIES, 0.3), there.count(QUERIES, 0.3))
    assert np.array_equal(here.contains(QUERIES, 0.9), there.contains(QUERIES, 0.9))
    told = [one.explain(QUERIES[0], 2, 0.3) for one in both]
    assert str(told[0]) == str(told[1])
    assert np.array_equal(told[0].unit_scores, told[1].unit_scores)
    assert here.measure(QUERIES, 0.3, progress=False) == there.measure(QUERIES, 0.3)
    assert [str(item) for item in here.get([0, "t1"])] == [str(x) for x in there.get([0, "t1"])]
    assert there.get("t1").metadata == {"year": 2001, "tag": "b"}
    assert (here.settings, here.dim, here.dtype, here.metric) == (
        there.settings,
        there.dim,
        there.dtype,
        there.metric,
    )
    assert len(here) == len(there)
    assert list(here) == list(there)
    assert "t1" in there
    assert "t3" not in there
    assert 4.5 not in there
    where = {"year": 2003}
    assert [item.id for item in here.items(where)] == [item.id for item in there.items(where)]
    last = list(here)[-3:]
    assert [item.id for item in there.items(first=last[0])] == last
    assert [item.id for item in here.items(where, first=last[0])] == [
        item.id for item in there.items(where, first=last[0])
    ]
    with pytest.raises(InvalidValueError, match="'first' parameter of Collection.items"):
        list(there.items(first="nobody"))
    assert there.check().ok
    assert there.health.n_queries > 0
    assert repr(there).startswith("RemoteCollection('things' of http")


def test_joins_are_those_of_the_collection(both):
    here, there = both
    pairs, found = here.self_join(0.7, progress=False), there.self_join(0.7)
    same_certificate(pairs.certificate, found.certificate)
    assert sorted(map(repr, pairs)) == sorted(map(repr, found))
    same = [one.deduplicate(0.9, keep="last", groups="star") for one in both]
    assert same[0].groups == same[1].groups
    assert (same[0].n_items, same[0].n_pairs) == (same[1].n_items, same[1].n_pairs)


def test_items_are_written_and_deleted(client):
    with client.create("new", dim=DIM, similarity=0.5, dtype="float16") as new:
        assert client.collections() == ["new", "things"]
        assert new.add(QUERIES[:2]) == [0, 1]
        assert new.add(QUERIES[2], ids="one", metadata={"n": np.int64(3)}) == ["one"]
        assert new.upsert(QUERIES[3:5], ids=["one", "two"]) == ["one", "two"]
        assert new.get("one").metadata == {}
        assert new.delete("two") == 1
        assert new.delete([0]) == 1
        assert new.seal() == 2
        assert new.compact() == 2
        assert len(new) == 2
        assert not new.read_only
        new.shadow = 0.25
        assert new.shadow == 0.25
        with pytest.raises(InvalidValueError, match="recalibrate"):
            new.recalibrate(QUERIES)
        with pytest.raises(InvalidValueError, match="recalibrate"):
            new.recalibrate()
    client.drop("new")
    assert client.collections() == ["things"]
    with pytest.raises(IndexNotFoundError, match="There is no collection 'new'"):
        new.refresh()


def test_errors_are_those_of_the_collection(client):
    things = client.collection("things")
    with pytest.raises(InvalidValueError, match="'similarity' parameter of Collection.range_searc"):
        things.range_search(QUERIES, 2.0)
    with pytest.raises(InvalidValueError, match="must be of dimension 8. Got dimension 5"):
        things.range_search(QUERIES[:, :5])
    with pytest.raises(InvalidTypeError, match="'queries' parameter of Client.range must be"):
        things.range_search("text")
    with pytest.raises(IndexNotFoundError, match="There is no item 'nobody'"):
        things.get("nobody")
    with pytest.raises(ServerError, match="HTTP 409, request") as caught:
        client.create("things", dim=3)
    assert (caught.value.status, caught.value.code) == (409, "exists")


def test_server_that_is_not_there_is_told():
    with (
        memvec.Client("http://127.0.0.1:9") as client,
        pytest.raises(ServerError, match="http://127.0.0.1:9 does not answer"),
    ):
        client.collections()


def test_client_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'memvec\[server\]'"):
        memvec.Client("http://127.0.0.1:9")


def test_remote_collections_have_the_methods_of_collections():
    names = {name for name, _ in inspect.getmembers(memvec.Collection) if name[0] != "_"}
    assert names <= set(dir(RemoteCollection))
    sync_only = {"close", "dim", "dtype", "metric"}
    assert names - sync_only <= set(dir(AsyncRemoteCollection))


def test_asynchronous_client_gives_the_same(url, client):
    things = client.collection("things")

    async def ask():
        async with memvec.AsyncClient(url) as server:
            there = await server.collection("things")
            hits = await there.range_search(QUERIES, 0.4)
            assert hits.ids.tolist() == things.range_search(QUERIES, 0.4).ids.tolist()
            assert (await there.count(QUERIES, 0.4)).tolist() == hits.counts.tolist()
            assert (await there.contains(QUERIES, 0.4)).tolist() == (hits.counts > 0).tolist()
            top = await there.search(QUERIES, 3)
            assert top.ids.tolist() == things.search(QUERIES, 3).ids.tolist()
            assert (await there.search_set(QUERIES, 3)).ids.shape == (1, 3)
            stream = there.iter_range(QUERIES, 0.4)
            assert isinstance(stream, AsyncStream)
            assert await stream.certificate() == hits.certificate
            assert [match.id async for match in stream] == hits.ids.tolist()
            joined = there.self_join(0.8)
            assert [pair async for pair in joined] == list(things.self_join(0.8))
            assert await joined.certificate() == things.self_join(0.8).certificate
            assert (await there.deduplicate(0.8)).groups == things.deduplicate(0.8).groups
            assert len([item async for item in there.items({"tag": "a"})]) > 100
            last = list(things)[-3:]
            assert [item.id async for item in there.items(first=last[0])] == last
            assert (await there.explain(QUERIES[0], 0, 0.4)).id == 0
            assert (await there.measure(QUERIES, 0.4)).n_queries == 7
            assert (await there.stats()).n_items == 297
            assert (await there.health()).n_queries > 0
            assert (await there.settings()).dim == DIM
            assert not await there.read_only()
            assert await there.shadow(0.5) == 0.5
            assert (await there.check()).ok
            assert (await there.get(0)).id == (await there.get([0]))[0].id
            assert repr(there).startswith("AsyncRemoteCollection('things'")
            assert repr(server) == f"AsyncClient({url!r})"
            with pytest.raises(InvalidValueError, match="recalibrate"):
                await there.recalibrate(QUERIES)
            assert await server.collections() == ["things"]
            made = await server.create("later", dim=2)
            assert await made.add([[1, 0]], ids=["a"]) == ["a"]
            assert await made.upsert([[0, 1]], ids=["a"]) == ["a"]
            assert await made.seal() == 1
            assert await made.compact() == 1
            assert await made.delete("a") == 1
            await server.drop("later")
            with pytest.raises(IndexNotFoundError):
                await server.collection("later")

    asyncio.run(ask())


@pytest.mark.parametrize("kind", [memvec.Client, memvec.AsyncClient])
def test_address_that_is_none_is_refused_at_once(kind):
    for url in ("ftp://x", "127.0.0.1:8765", "http://", "", None):
        with pytest.raises(InvalidValueError, match=f"'url' parameter of {kind.__name__} must be"):
            kind(url)
