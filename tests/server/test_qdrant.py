"""Clients of Qdrant, as they come from PyPI, work with the server."""

import uuid
import warnings

import httpx
import numpy as np
import pytest

from memvec.server import KeyFile, Limits, ServerSettings
from memvec.server._qdrant import build_qdrant
from memvec.server._qdrant_payloads import payload_of
from memvec.server._state import ServerState
from server.conftest import DIM, fill, running, unit_rows

ROW = [1.0] * DIM


@pytest.fixture(scope="module")
def qdrant(tmp_path_factory):
    root = tmp_path_factory.mktemp("qdrant")
    fill(root / "things", 60)
    server = ServerState.of(ServerSettings(root))
    with running(None, build_qdrant(server)) as url:
        yield url
    server.close()


@pytest.fixture
def http(qdrant):
    with httpx.Client(base_url=qdrant, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/collections/things/points/recommend", {}, 501),
        ("GET", "/telemetry", None, 501),
        ("PATCH", "/collections/things", {}, 501),
        ("PUT", "/collections/new", {"vectors": {"a": {"size": 2, "distance": "Cosine"}}}, 501),
        ("PUT", "/collections/new", {"vectors": {"size": 2, "distance": "Dot"}}, 501),
        (
            "PUT",
            "/collections/new",
            {"vectors": {"size": 2, "distance": "Cosine"}, "sparse_vectors": {"s": {}}},
            501,
        ),
        ("PUT", "/collections/new", {"vectors": {"size": 0, "distance": "Cosine"}}, 400),
        ("PUT", "/collections/..%2fx", {"vectors": {"size": 2, "distance": "Cosine"}}, 501),
        ("GET", "/collections/nobody", None, 404),
        ("PUT", "/collections/things/points", {"points": []}, 400),
        ("PUT", "/collections/things/points", {"points": [{"id": -1, "vector": [1.0]}]}, 400),
        ("PUT", "/collections/things/points", {"points": [{"id": "x", "vector": [1.0]}]}, 400),
        ("PUT", "/collections/things/points", {"points": [{"id": 1, "vector": {"a": []}}]}, 501),
        ("PUT", "/collections/things/points", {"points": [{"id": 1, "vector": [1.0]}]}, 400),
        (
            "PUT",
            "/collections/things/points",
            {"points": [{"id": 1, "vector": [1.0] * DIM, "payload": 3}]},
            400,
        ),
        ("PUT", "/collections/things/points", {"batch": {"ids": [1], "vectors": []}}, 400),
        ("POST", "/collections/things/points/query", {"query": {"fusion": "rrf"}}, 501),
        ("POST", "/collections/things/points/query", {"query": [1.0], "using": "a"}, 501),
        ("POST", "/collections/things/points/query", {"query": [1.0], "prefetch": [{}]}, 501),
        ("POST", "/collections/things/points/query", {"query": [1.0], "limit": 0}, 400),
        ("POST", "/collections/things/points/query", {"query": "x"}, 400),
        ("POST", "/collections/things/points/query/batch", {}, 400),
        ("POST", "/collections/things/points/delete", {}, 400),
        ("POST", "/collections/things/points/delete", {"points": 3}, 400),
        ("POST", "/collections/things/points", {"ids": "ab"}, 400),
        ("POST", "/collections/things/points/scroll", {"order_by": "a"}, 501),
        ("POST", "/collections/things/points/count", {"filter": {"min_should": {}}}, 501),
        ("POST", "/collections/things/points/count", {"filter": {"must": [3]}}, 501),
        (
            "POST",
            "/collections/things/points/count",
            {"filter": {"must": [{"key": "a", "match": {"text": "x"}}]}},
            501,
        ),
        (
            "POST",
            "/collections/things/points/count",
            {"filter": {"must": {"key": "a", "range": {"gt": "2020-01-01"}}}},
            501,
        ),
        ("GET", "/collections/things/points/999", None, 404),
        ("PUT", "/collections/things/points", {"points": [3]}, 400),
        ("PUT", "/collections/things/points", {"batch": {"ids": 3, "vectors": []}}, 400),
        ("PUT", "/collections/things/points", {"batch": {"ids": [], "vectors": "x"}}, 400),
        ("POST", "/collections/things/points/query/batch", {"searches": [3]}, 400),
        ("POST", "/collections/things/points/query", {"query": ROW, "params": [3]}, 400),
        ("POST", "/collections/things/points/query", {"query": ROW, "score_threshold": "x"}, 400),
        ("POST", "/collections/things/points/query", {"query": ["x"] * DIM}, 400),
    ],
)
def test_what_is_not_spoken_is_told_as_qdrant_does(http, method, path, body, status):
    answer = http.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["status"]["error"]


def test_body_that_is_no_object_is_refused(http):
    for data in (b"[]", b"{", b"\xff"):
        answer = http.post("/collections/things/points/count", content=data)
        assert answer.status_code == 400
        assert answer.json()["status"]["error"].startswith("Format error")


def test_large_bodies_are_read_and_refused_as_small_ones(http):
    rows, path = unit_rows(700, seed=9), "/collections/large/points"
    http.put("/collections/large", json={"vectors": {"size": DIM, "distance": "Cosine"}})
    points = [{"id": row, "vector": rows[row].tolist()} for row in range(len(rows))]
    assert http.put(path, json={"points": points}).status_code == 200
    assert http.post(f"{path}/count", json={}).json()["result"] == {"count": 700}
    broken = http.put(path, content=b'{"points": [' + b" " * 100_000)
    assert (broken.status_code, broken.json()["status"]["error"][:12]) == (400, "Format error")
    assert http.delete("/collections/large").json()["result"] is True


@pytest.mark.parametrize(
    ("more", "name"), [("with_payload", "full_hits"), ("with_vector", "numbers")]
)
def test_what_comes_with_points_is_bounded(tmp_path, more, name):
    fill(tmp_path / "things", 60)
    limits = Limits(**{name: 9 * (DIM if name == "numbers" else 1)})
    server = ServerState.of(ServerSettings(tmp_path, limits=limits))
    at = "/collections/things/points"
    bare = {"with_payload": False, "with_vector": False}
    with running(None, build_qdrant(server)) as url, httpx.Client(base_url=url) as http:
        for path, few, many in (
            (f"{at}/query", {"query": ROW, "limit": 9}, {"query": ROW, "limit": 10}),
            (f"{at}/scroll", {"limit": 9}, {"limit": 10}),
            (at, {"ids": list(range(10, 28, 2))}, {"ids": list(range(10, 30, 2))}),
        ):
            for asked, status in ((few, 200), (many, 413)):
                found = http.post(path, json={**asked, **bare, more: True})
                assert found.status_code == status, (path, found.text)
            assert http.post(path, json={**many, **bare}).status_code == 200
        one = {"query": ROW, "limit": 5, **bare, more: True}
        for n_searches, status in ((1, 200), (2, 413)):
            found = http.post(f"{at}/query/batch", json={"searches": [one] * n_searches})
            assert found.status_code == status
    server.close()


def test_limits_and_read_only_hold_for_clients_of_qdrant(tmp_path):
    fill(tmp_path / "things", 60)
    limits = Limits(hits=25, body_bytes=10_000)
    server = ServerState.of(ServerSettings(tmp_path, read_only=True, limits=limits))
    path = "/collections/things/points"
    with running(None, build_qdrant(server)) as url, httpx.Client(base_url=url) as http:
        one = {"query": ROW, "limit": 10}
        assert http.post(f"{path}/query/batch", json={"searches": [one] * 2}).status_code == 200
        more = http.post(f"{path}/query/batch", json={"searches": [one] * 3})
        assert more.status_code == 413
        old = {"searches": [{"vector": ROW, "limit": 10}] * 3}
        assert http.post(f"{path}/search/batch", json=old).status_code == 413
        assert http.post(f"{path}/count", content=b" " * 10_001).status_code == 413
        changes = [
            ("PUT", "/collections/new", {"vectors": {"size": 2, "distance": "Cosine"}}),
            ("PUT", path, {"points": [{"id": 1, "vector": ROW}]}),
            ("POST", f"{path}/delete", {"points": [0]}),
            ("DELETE", "/collections/things", None),
        ]
        for method, at, body in changes:
            refused = http.request(method, at, json=body)
            assert refused.status_code == 403, at
            assert refused.json()["status"]["error"] == "This server refuses changes."
        assert http.post(f"{path}/count", json={}).json()["result"] == {"count": 57}
    server.close()


def test_points_travel_in_every_form(http):
    rows = unit_rows(5, seed=2)
    made = {"vectors": {"size": DIM, "distance": "Cosine"}}
    assert http.put("/collections/points", json=made).json()["result"] is True
    assert http.get("/collections/points/exists").json()["result"] == {"exists": True}
    named = str(uuid.UUID(int=7))
    batch = {"ids": [0, 1, named.upper()], "vectors": rows[:3].tolist(), "payloads": None}
    path = "/collections/points/points"
    done = http.put(path, json={"batch": batch}, params={"wait": "true"}).json()
    assert done["result"]["status"] == "completed"
    nested = {"a": {"b": 3}, "c": "x"}
    points = [{"id": 4, "vector": {"": rows[3].tolist()}, "payload": nested}]
    http.put(path, json={"points": points})
    found = http.post(path, json={"ids": [4, 99], "with_vector": True}).json()["result"]
    assert [one["payload"] for one in found] == [nested]
    assert np.allclose(found[0]["vector"], rows[3], atol=1e-6)
    assert http.get(f"{path}/{named}").json()["result"]["id"] == named
    where = {"must": [{"key": "a.b", "range": {"gte": 3}}]}
    assert http.post(f"{path}/count", json={"filter": where}).json()["result"] == {"count": 1}
    assert http.post(f"{path}/count", json={}).json()["result"] == {"count": 4}
    either = {"should": [{"is_null": {"key": "c"}}, {"key": "c", "match": {"value": "x"}}]}
    assert http.post(f"{path}/count", json={"filter": either}).json()["result"] == {"count": 1}
    empty = {"must": [{"is_empty": {"key": "c"}}, {"must_not": {"key": "c", "match": {"any": []}}}]}
    assert http.post(f"{path}/count", json={"filter": empty}).json()["result"] == {"count": 3}
    asked = {"vector": rows[3].tolist(), "limit": 2, "with_payload": ["c"], "filter": where}
    [best] = http.post(f"{path}/search", json=asked).json()["result"]
    assert (best["id"], best["payload"]) == (4, {"c": "x"})
    both = http.post(f"{path}/search/batch", json={"searches": [asked, asked]}).json()["result"]
    assert both == [[best], [best]]
    none = http.post(f"{path}/query", json={"query": rows[0].tolist(), "score_threshold": 1.5})
    assert none.json()["result"] == {"points": []}
    everything = http.post(f"{path}/query", json={"limit": 3}).json()["result"]["points"]
    assert [one["id"] for one in everything] == [0, 1, named]
    page = http.post(f"{path}/scroll", json={"limit": 3}).json()["result"]
    assert page["next_page_offset"] == 4
    rest = http.post(f"{path}/scroll", json={"offset": 4}).json()["result"]
    assert [one["id"] for one in rest["points"]] == [4]
    assert rest["next_page_offset"] is None
    gone = {"filter": {"must": [{"key": "c", "match": {"except": ["y"]}}]}}
    http.post(f"{path}/delete", json=gone)
    http.post(f"{path}/delete", json={"points": [0, 99]})
    left = http.post(f"{path}/count", json={}).json()["result"]["count"]
    assert left in (0, 2)
    assert http.put("/collections/points/index", json={"field_name": "c"}).status_code == 200
    assert http.delete("/collections/points/index/c").status_code == 200
    assert http.delete("/collections/points").json()["result"] is True
    assert http.delete("/collections/points").json()["result"] is False


ODD = [None, True, -1, 10**30, 0.5, "", "x", [], [[]], [1], {}, {"key": 1}, {"a": {"b": []}}]
_CONDITIONS = [
    {"key": "year", "range": {"gt": 2000, "lte": 2010}},
    {"key": "tag", "match": {"any": ["a"]}},
    {"is_null": {"key": "tag"}},
    {"is_empty": {"key": "tag"}},
    {"must": [{"key": "tag", "match": {"except": ["a"]}}]},
]
_WHERE = {"must": _CONDITIONS, "should": _CONDITIONS[:1], "must_not": _CONDITIONS[1:2]}
_ASKED = {
    "filter": _WHERE, "limit": 3, "offset": 1, "score_threshold": 0.5, "params": {"exact": True},
    "with_payload": {"include": ["tag"]}, "with_vector": True,
}  # fmt: skip
_POINT = {"id": 1001, "vector": ROW, "payload": {"a": {"b": 1}}}
BODIES = [
    ("PUT", "/collections/odd", {"vectors": {"size": DIM, "distance": "Cosine"}}),
    ("PUT", "/collections/things/points", {"points": [_POINT]}),
    ("PUT", "/collections/things/points",
     {"batch": {"ids": [1002], "vectors": [ROW], "payloads": [{"a": 1}]}}),
    ("PUT", "/collections/things/index", {"field_name": "a"}),
    ("POST", "/collections/things/points", {"ids": [0], "with_payload": {"exclude": ["tag"]}}),
    ("POST", "/collections/things/points/count", {"filter": _WHERE}),
    ("POST", "/collections/things/points/scroll", {**_ASKED, "offset": 2}),
    ("POST", "/collections/things/points/query", {**_ASKED, "query": ROW}),
    ("POST", "/collections/things/points/query", {"query": {"nearest": ROW}, "prefetch": []}),
    ("POST", "/collections/things/points/query/batch", {"searches": [{**_ASKED, "query": ROW}]}),
    ("POST", "/collections/things/points/search", {**_ASKED, "vector": ROW}),
    ("POST", "/collections/things/points/search/batch", {"searches": [{**_ASKED, "vector": ROW}]}),
    ("POST", "/collections/things/points/delete", {"points": [1001]}),
    ("POST", "/collections/things/points/delete", {"filter": _WHERE}),
]  # fmt: skip


def replaced(body, odd):
    """Yield a body with one of its parts after the other replaced by something odd."""
    yield odd
    if isinstance(body, dict):
        for name, value in body.items():
            yield from ({**body, name: one} for one in replaced(value, odd))
    elif isinstance(body, list) and body:
        for one in replaced(body[0], odd):
            yield [one, *body[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "body"), BODIES)
def test_odd_parts_of_requests_give_no_server_error(tmp_path, method, path, body):
    fill(tmp_path / "things", 30)
    server = ServerState.of(ServerSettings(tmp_path))
    with running(None, build_qdrant(server)) as url, httpx.Client(base_url=url) as http:
        assert http.request(method, path, json=body).status_code == 200
        for odd in ODD:
            for strange in replaced(body, odd):
                answer = http.request(method, path, json=strange)
                assert answer.status_code < 500 or answer.status_code == 501, (strange, answer.text)
                if answer.status_code >= 400:
                    assert answer.json()["status"]["error"]
    server.close()


def test_some_fields_of_a_payload_are_given():
    payload = {"a": 1, "b": 2}
    assert payload_of(payload) == payload
    assert payload_of(payload, False) is None
    assert payload_of(payload, ["a"]) == {"a": 1}
    assert payload_of(payload, {"include": ["b"]}) == {"b": 2}
    assert payload_of(payload, {"exclude": ["b"]}) == {"a": 1}


def test_every_route_needs_a_key_where_there_are_keys(tmp_path):
    key = KeyFile(tmp_path / "keys.json").create("read")
    root = tmp_path / "root"
    root.mkdir()
    server = ServerState.of(ServerSettings(root, key_file=tmp_path / "keys.json"))
    app = build_qdrant(server)
    made = {"vectors": {"size": 2, "distance": "Cosine"}}
    with running(None, app) as url, httpx.Client(base_url=url, timeout=60) as http:
        from memvec.server._qdrant import _ROUTES

        for method, path, scope, _ in _ROUTES:
            address = path.format(name="a", field="f", id="1")
            assert http.request(method, address).status_code == 401, path
            allowed = http.request(method, address, headers={"api-key": key}).status_code
            assert (allowed == 403) == (scope == "write"), path
        assert http.put("/collections/a", json=made, headers={"api-key": key}).status_code == 403
        assert http.get("/collections", headers={"api-key": key}).status_code == 200
        KeyFile(tmp_path / "keys.json").revoke(key.split("_")[1])
        assert http.get("/collections", headers={"api-key": key}).status_code == 401
    server.close()


@pytest.mark.slow
def test_unmodified_client_of_qdrant_finds_everything_above_a_threshold(qdrant):
    qdrant_client = pytest.importorskip("qdrant_client")
    models = qdrant_client.models
    rows = unit_rows(400, seed=11)
    client = qdrant_client.QdrantClient(url=qdrant)
    distance = models.VectorParams(size=DIM, distance=models.Distance.COSINE)
    assert client.create_collection("many", vectors_config=distance)
    assert client.collection_exists("many")
    assert client.get_collection("many").config.params.vectors.size == DIM
    points = [
        models.PointStruct(id=row, vector=vector.tolist(), payload={"row": row, "odd": row % 2})
        for row, vector in enumerate(rows)
    ]
    client.upsert("many", points)
    client.upload_points("many", points[:10], wait=True)
    client.create_payload_index("many", "row", models.PayloadSchemaType.INTEGER)
    assert client.count("many").count == 400
    found = client.query_points("many", rows[0].tolist(), score_threshold=0.3, limit=10_000).points
    truth = {row for row in range(400) if rows[row] @ rows[0] >= 0.3}
    assert {point.id for point in found} == truth
    assert len(truth) > 50
    assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    odd = models.Filter(must=[models.FieldCondition(key="odd", match=models.MatchValue(value=1))])
    some = client.query_points(
        "many", rows[0].tolist(), query_filter=odd, limit=5, with_payload=True, with_vectors=True
    ).points
    assert len(some) == 5
    assert all(point.payload["odd"] == 1 for point in some)
    assert len(some[0].vector) == DIM
    alike = client.query_points("many", 0, limit=3).points
    assert 0 not in {point.id for point in alike}
    batch = client.query_batch_points(
        "many", [models.QueryRequest(query=rows[n].tolist(), limit=1) for n in range(3)]
    )
    assert [one.points[0].id for one in batch] == [0, 1, 2]
    seen, offset = [], None
    while True:
        page, offset = client.scroll("many", limit=150, offset=offset)
        seen += [record.id for record in page]
        if offset is None:
            break
    assert sorted(seen) == list(range(400))
    client.delete("many", points_selector=[0, 1])
    client.delete("many", points_selector=models.FilterSelector(filter=odd))
    assert client.count("many").count == 199
    assert [record.id for record in client.retrieve("many", [2, 3])] == [2]
    assert client.delete_collection("many")
    assert "many" not in {one.name for one in client.get_collections().collections}
    client.close()


@pytest.mark.slow
def test_vector_store_of_langchain_works(qdrant):
    pytest.importorskip("langchain_qdrant")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_core.documents import Document
        from langchain_core.embeddings import DeterministicFakeEmbedding
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import models

    embedding = DeterministicFakeEmbedding(size=16)
    documents = [
        Document(page_content=f"text {n}", metadata={"source": "ab"[n % 2], "n": n})
        for n in range(20)
    ]
    store = QdrantVectorStore.from_documents(
        documents, embedding, url=qdrant, collection_name="langchain"
    )
    [best] = store.similarity_search("text 7", k=1)
    assert (best.page_content, best.metadata["n"]) == ("text 7", 7)
    only = models.Filter(
        must=[models.FieldCondition(key="metadata.source", match=models.MatchValue(value="a"))]
    )
    found = store.similarity_search("text 7", k=20, filter=only)
    assert {one.metadata["source"] for one in found} == {"a"}
    assert len(found) == 10
    near = store.similarity_search_with_score("text 7", k=100, score_threshold=0.99)
    assert [one.page_content for one, _ in near] == ["text 7"]
    [name] = store.add_texts(["another"])
    assert store.get_by_ids([name])[0].page_content == "another"
    store.delete([name])
    assert store.get_by_ids([name]) == []
    store.client.delete_collection("langchain")
