"""What comes over the wire: every strange request gets an error of the one shape."""

import gzip
import json
import socket
import struct
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pytest

import memvec
from memvec.errors import InvalidValueError
from memvec.server import Limits, ServerSettings, create_app
from server.conftest import DIM, fill, running, unit_rows, wait_for

QUERY = unit_rows(1, seed=8)[0].tolist()
RAW, ARROW = "application/octet-stream", "application/vnd.apache.arrow.stream"
RANGE = "/v1/collections/things/range"


def check_error(answer, status, code):
    assert answer.status_code == status, answer.text
    record = answer.json()
    assert set(record) == {"error"}
    assert set(record["error"]) == {"code", "message", "request_id"}
    assert record["error"]["code"] == code
    assert record["error"]["request_id"] == answer.headers["x-request-id"]
    return record["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("get", "/nothing", None, 404, "not_found"),
        ("get", "/v1/collections/nobody", None, 404, "not_found"),
        ("patch", "/v1/collections", None, 405, "wrong_method"),
        ("get", "/page/../../_keys.py", None, 404, "not_found"),
        ("get", "/page/%2e%2e%2f_keys.py", None, 404, "not_found"),
        ("get", "/v1/collections/..", None, 404, "not_found"),
        ("get", "/v1/collections/%2e%2e", None, 422, "invalid_value"),
        ("get", "/v1/collections/..%2fthings", None, 404, "not_found"),
        ("get", "/v1/collections/.copy", None, 422, "invalid_value"),
        ("get", f"/v1/collections/{'a' * 200}", None, 422, "invalid_value"),
        ("post", "/v1/collections", {"name": "../evil", "dim": 2}, 422, "invalid_value"),
        ("post", "/v1/collections", {"name": "a\0b", "dim": 2}, 422, "invalid_value"),
        ("post", "/v1/collections", {"name": "", "dim": 2}, 422, "invalid_value"),
        ("post", "/v1/collections", {"name": "a", "dim": 0}, 422, "invalid_request"),
        ("post", "/v1/collections", {"name": "a", "dim": 10**30}, 422, "invalid_value"),
        ("post", "/v1/collections", {"name": "a"}, 422, "invalid_request"),
        ("post", "/v1/collections", {"name": "a", "dim": 2, "x": 1}, 422, "invalid_request"),
        ("post", "/v1/collections", {"name": "things", "dim": 2}, 409, "exists"),
        ("post", RANGE, {}, 422, "invalid_value"),
        ("post", RANGE, [], 422, "invalid_request"),
        ("post", RANGE, {"queries": []}, 422, "invalid_value"),
        ("post", RANGE, {"queries": [[]]}, 422, "invalid_request"),
        ("post", RANGE, {"queries": [[1], [1, 2]]}, 422, "invalid_type"),
        ("post", RANGE, {"queries": QUERY[:3]}, 422, "invalid_value"),
        ("post", RANGE, {"queries": [0] * DIM}, 422, "invalid_value"),
        ("post", RANGE, {"queries": QUERY, "items": [0]}, 422, "invalid_value"),
        ("post", RANGE, {"items": ["nobody"]}, 422, "invalid_value"),
        ("post", RANGE, {"items": [1.5]}, 422, "invalid_request"),
        ("post", RANGE, {"items": [True]}, 422, "invalid_request"),
        ("post", RANGE, {"items": [10**40]}, 422, "invalid_value"),
        ("post", RANGE, {"queries": QUERY, "similarity": 1.5}, 422, "invalid_value"),
        ("post", RANGE, {"queries": QUERY, "guarantee": "sure"}, 422, "invalid_request"),
        ("post", RANGE, {"queries": QUERY, "where": {"$x": 1}}, 422, "invalid_value"),
        ("post", RANGE, {"queries": QUERY, "include": ["all"]}, 422, "invalid_request"),
        ("post", "/v1/collections/things/search", {"queries": QUERY}, 422, "invalid_request"),
        ("post", "/v1/collections/things/search", {"queries": QUERY, "k": 10**9}, 413, "too_many"),
        ("post", "/v1/collections/things/explain", {"queries": QUERY}, 422, "invalid_request"),
        ("post", "/v1/collections/things/items", {"ids": [1]}, 422, "invalid_value"),
        ("put", "/v1/collections/things/items", {"vectors": [QUERY]}, 422, "invalid_value"),
        ("post", "/v1/collections/things/items/get", {"ids": ["x"]}, 404, "not_found"),
        ("post", "/v1/collections/things/items/delete", {}, 422, "invalid_value"),
        ("post", "/v1/collections/things/items/scroll", {"limit": 10**6}, 413, "too_many"),
        ("get", "/v1/jobs/nothing", None, 404, "not_found"),
        ("post", "/v1/jobs/nothing/cancel", None, 404, "not_found"),
        ("post", "/v1/collections/things/jobs", {"kind": "mine"}, 422, "invalid_request"),
        ("get", "/v1/jobs/x/result?format=doc", None, 422, "invalid_request"),
        ("post", "/v1/encode", {"text": "a"}, 501, "no_encoder"),
    ],
)
def test_request_that_cannot_be_answered(http, method, path, body, status, code):
    # As it is written: httpx would resolve the dots.
    request = http.build_request(method.upper(), path, json=body)
    request.url = request.url.copy_with(raw_path=path.encode())
    check_error(http.send(request), status, code)


@pytest.mark.parametrize(
    ("kind", "data", "status", "code"),
    [
        ("application/json", b"{", 422, "invalid_request"),
        ("application/json", b"\xff\xfe", 422, "invalid_request"),
        ("application/json", b"[" * 100_000, 422, "invalid_request"),
        ("application/json", b'{"queries": [NaN]}', 422, "invalid_value"),
        ("application/json", b'{"queries": [1e999]}', 422, "invalid_value"),
        ("application/json", b'{"queries": "' + b"9" * 10_000 + b'"}', 422, "invalid_request"),
        ("text/plain", b"{}", 415, "unknown_media_type"),
        ("", b"{}", 415, "unknown_media_type"),
        (RAW, b"12345", 422, "invalid_value"),
        (RAW, b"", 422, "invalid_value"),
        (RAW, np.full(DIM, np.nan, np.float32).tobytes(), 422, "invalid_value"),
        (ARROW, b"", 422, "invalid_value"),
        (ARROW, b"\xff" * 100, 422, "invalid_value"),
        (ARROW, struct.pack("<ii", -1, 1 << 30) + bytes(64), 422, "invalid_value"),
    ],
)
def test_body_that_cannot_be_read(http, kind, data, status, code):
    check_error(http.post(RANGE, content=data, headers={"Content-Type": kind}), status, code)


def arrow(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()


def vectors_table(rows, **more):
    column = pa.array(rows.tolist(), pa.list_(pa.float32(), rows.shape[1]))
    return pa.table({"vector": column, **more})


def test_queries_come_as_json_raw_or_arrow(http):
    rows = unit_rows(3, seed=9)
    asked = json.dumps({"similarity": 0.4, "p_values": True})
    plain = http.post(RANGE, json={"queries": rows.tolist(), **json.loads(asked)}).json()
    assert plain["ids"]
    assert len(plain["p_values"]) == len(plain["ids"])
    assert "miss at most 1 % of their matches above 0.4" in plain["statement"]
    for kind, data in [(RAW, rows.tobytes()), (ARROW, arrow(vectors_table(rows)))]:
        headers = {"Content-Type": kind}
        found = http.post(RANGE, content=data, headers=headers, params={"ask": asked})
        told = found.json()
        assert told["ids"] == plain["ids"]
        # JSON has numbers of 64 bits, which are scaled to norm 1 before they are rounded.
        assert np.allclose(told["scores"], plain["scores"], atol=1e-6)
    by_id = http.post(RANGE, json={"items": [0], "similarity": 0.4}).json()
    assert by_id["ids"][0] == 0


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"a": [1]}), "needs one column 'vector'"),
        (pa.table({"vector": [1.0]}), "must hold lists of floats"),
        (pa.table({"vector": [[1]]}), "must hold lists of floats"),
        (pa.table({"vector": [[1.0], None]}), "must hold lists of floats"),
        (pa.table({"vector": [[1.0, None]]}), "complete, and of one length"),
        (pa.table({"vector": [[1.0], [1.0, 2.0, 3.0]]}), "complete, and of one length"),
        (pa.table({"vector": pa.array([], pa.list_(pa.float32()))}), "complete, and of one length"),
        (pa.table({"vector": [[1.0] * DIM], "metadata": ["{"]}), "'metadata' is not JSON"),
        (pa.table({"vector": [[1.0] * DIM], "metadata": ["[]"]}), "'metadata' parameter"),
        (pa.table({"vector": [[1.0] * DIM], "id": [0.5]}), "'ids' parameter"),
        (pa.table({"vector": pa.nulls(10**6)}), "rows in"),
    ],
)
def test_arrow_stream_that_holds_no_items(http, table, reason):
    headers = {"Content-Type": ARROW}
    path = "/v1/collections/things/items"
    found = http.post(path, content=arrow(table), headers=headers)
    assert found.status_code == 422
    assert reason in found.json()["error"]["message"]


def test_compressed_bodies_are_refused(http):
    bomb = gzip.compress(bytes(10**7))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    check_error(http.post(RANGE, content=bomb, headers=headers), 415, "compressed")
    packed = arrow(vectors_table(np.ones((1000, DIM), np.float32)), compression="zstd")
    found = http.post(RANGE, content=packed, headers={"Content-Type": ARROW})
    check_error(found, 415, "compressed")


def test_items_come_as_arrow_with_ids_and_metadata(http):
    http.post("/v1/collections", json={"name": "arrows", "dim": DIM})
    path = "/v1/collections/arrows/items"
    table = vectors_table(unit_rows(2), id=["a", "b"], metadata=['{"n": 1}', None])
    made = http.post(path, content=arrow(table), headers={"Content-Type": ARROW})
    assert made.json() == {"ids": ["a", "b"]}
    found = http.post(f"{path}/get", json={"ids": ["b", "a"], "include": ["metadata"]}).json()
    assert found == {"items": [{"id": "b", "metadata": {}}, {"id": "a", "metadata": {"n": 1}}]}
    page = http.post(f"{path}/scroll", json={"limit": 1}).json()
    assert page == {"items": [{"id": "a", "metadata": {"n": 1}}], "next": "b"}
    page = http.post(f"{path}/scroll", json={"first": "b", "include": []}).json()
    assert page == {"items": [{"id": "b"}], "next": None}
    gone = http.post(f"{path}/scroll", json={"first": "c"})
    assert "'first' parameter of Collection.items" in check_error(gone, 422, "invalid_value")
    assert http.post(f"{path}/delete", json={"where": {"n": 1}}).json() == {"deleted": 1}
    assert http.post(f"{path}/delete", json={"where": {"n": 1}}).json() == {"deleted": 0}
    assert http.delete("/v1/collections/arrows").json() == {"deleted": "arrows"}


def test_stream_ends_with_its_certificate(http):
    headers = {"Accept": "application/x-ndjson"}
    asked = {"queries": QUERY, "similarity": 0.2, "p_values": True}
    lines = http.post(RANGE, json=asked, headers=headers).text.splitlines()
    head, *found, end = map(json.loads, lines)
    assert (head["begin"], end["end"], end["n_matches"]) == ("range", "range", len(found))
    assert end["certificate"] == head["certificate"]
    plain = http.post(RANGE, json=asked).json()
    assert [one["id"] for one in found] == plain["ids"]
    assert [one["p_value"] for one in found] == plain["p_values"]
    assert plain["certificate"] == end["certificate"]
    headers = {"Accept": ARROW}
    reader = pa.ipc.open_stream(http.post(RANGE, json=asked, headers=headers).content)
    *batches, last = reader.iter_batches_with_custom_metadata()
    told = json.loads(last.custom_metadata[b"certificate"])
    assert (last.batch.num_rows, told["n_matches"]) == (0, len(found))
    columns = pa.Table.from_batches([one.batch for one in batches]).to_pydict()
    pairs = zip(columns["id"], columns["number"], strict=True)
    assert [number if text is None else text for text, number in pairs] == plain["ids"]


def test_histogram_counts_every_item_beside_the_law(http):
    asked = {"queries": QUERY, "bins": 40}
    told = http.post("/v1/collections/things/histogram", json=asked).json()
    found = http.post(RANGE, json={"queries": QUERY, "similarity": 0.0011, "guarantee": "exact"})
    assert sum(told["counts"]) == len(found.json()["ids"])
    assert len(told["expected"]) == 40
    assert told["p_values"][0] > 0.4
    assert told["p_values"][-1] <= told["p_values"][20] <= told["p_values"][0]
    assert abs(sum(told["expected"]) - 297 / 2) < 40


def test_strange_names_and_origins_are_refused(http, url):
    port = urlsplit(url).port
    for host in ("evil.example", f"evil.example:{port}", "", "127.0.0.1@evil", "localhost:x"):
        check_error(http.get("/healthz", headers={"Host": host}), 421, "wrong_host")
    for host in (f"localhost:{port}", f"[::1]:{port}", "LOCALHOST"):
        assert http.get("/healthz", headers={"Host": host}).status_code == 200
    origin = {"Origin": "https://evil.example"}
    check_error(http.get("/v1/collections", headers=origin), 403, "wrong_origin")
    crossed = {"Sec-Fetch-Site": "cross-site"}
    check_error(http.post("/v1/jobs/x/cancel", headers=crossed), 403, "wrong_origin")
    assert http.get("/v1/collections", headers={"Origin": url}).status_code == 200


def test_answers_carry_a_strict_policy_and_a_request_id(http):
    answer = http.get("/", headers={"X-Request-ID": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    assert http.get("/", headers={"X-Request-ID": "a b"}).headers["x-request-id"] != "a b"
    assert http.get("/page/page.css").headers["content-type"].startswith("text/css")
    assert http.get("/docs").status_code == 200


def test_numbers_are_there_for_prometheus(http):
    http.post(RANGE, json={"queries": QUERY})
    text = http.get("/metrics").text
    for name in (
        'memvec_requests_total{route="/v1/collections/{name}/range",method="POST",status="200"}',
        'memvec_request_seconds_bucket{route="/v1/collections/{name}/range",method="POST",le="60"}',
        'memvec_items{collection="things"} 297',
        'memvec_drift{collection="things"} 0',
        "memvec_requests_running",
        "process_resident_memory_bytes",
    ):
        assert name in text, name
    assert http.get("/readyz").json()["status"] == "ready"
    assert http.get("/v1/server").json()["encoder"] is None


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server with small limits, and pages elsewhere that may use it."""
    root = tmp_path_factory.mktemp("small")
    fill(root / "things", 60)
    limits = Limits(body_bytes=2000, vectors=3, hits=20, k=5, body_seconds=0.3, streams=0)
    settings = ServerSettings(root, limits=limits, origins=("https://friend.example",))
    with running(settings) as address, httpx.Client(base_url=address, timeout=30) as http:
        yield http


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("range", {"queries": [QUERY] * 4}, "too_many"),
        ("range", {"items": [0, 1, 2, 4]}, "too_many"),
        ("range", {"queries": [QUERY] * 3, "similarity": 0.01}, "too_many_hits"),
        ("search", {"queries": QUERY, "k": 6}, "too_many"),
        ("items", {"vectors": [QUERY] * 4}, "too_many"),
        ("range", {"queries": [QUERY] * 40}, "too_large"),
    ],
)
def test_more_than_a_limit_is_refused(small, path, body, code):
    check_error(small.post(f"/v1/collections/things/{path}", json=body), 413, code)


def test_body_without_a_length_is_refused_once_it_is_too_large(small):
    pieces = iter([b"x" * 1000] * 100)
    headers = {"Content-Type": "application/json"}
    check_error(small.post(RANGE, content=pieces, headers=headers), 413, "too_large")


def test_streams_beyond_their_number_wait(small):
    asked, headers = {"queries": QUERY}, {"Accept": "application/x-ndjson"}
    answer = small.post(RANGE, json=asked, headers=headers)
    check_error(answer, 429, "too_many_streams")
    assert int(answer.headers["retry-after"]) > 0


def test_slow_and_half_closed_clients_are_let_go(small):
    at = urlsplit(str(small.base_url))
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection((at.hostname, at.port), timeout=10) as slow:
        slow.sendall(head % RANGE.encode() + b"Content-Length: 100\r\n\r\n{")
        assert b" 408 " in slow.recv(4096)
    with socket.create_connection((at.hostname, at.port), timeout=10) as half:
        half.sendall(head % RANGE.encode() + b"Content-Length: 100\r\n\r\n{")
        half.shutdown(socket.SHUT_WR)
        assert half.recv(4096) == b"" or b" 4" in half.recv(4096)
    with socket.create_connection((at.hostname, at.port), timeout=10) as strange:
        strange.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b" 400 " in strange.recv(4096)
    assert small.get("/healthz").status_code == 200


def test_pages_that_were_named_may_use_the_server(small):
    origin = {"Origin": "https://friend.example"}
    answer = small.get("/v1/collections", headers=origin)
    assert answer.headers["access-control-allow-origin"] == "https://friend.example"
    asked = {**origin, "Access-Control-Request-Method": "POST"}
    assert small.options(RANGE, headers=asked).status_code == 200


def test_many_queries_are_answered_in_lots(small, monkeypatch):
    from memvec.server import _ranges

    rows = unit_rows(3, seed=4)
    asked = {"queries": rows.tolist(), "similarity": 0.7, "include": ["metadata", "vectors"]}
    whole = small.post(RANGE, json=asked).json()
    monkeypatch.setattr(_ranges, "_PAIRS_AT_ONCE", 1)
    lots = small.post(RANGE, json=asked).json()
    assert whole == lots
    assert len(whole["offsets"]) == 4


def test_limits_are_settings(root):
    assert replace(ServerSettings(root).limits, k=3).k == 3


PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def test_photographs_come_from_their_folder_alone(tmp_path):
    root, photos = tmp_path / "root", tmp_path / "photos"
    (photos / "in").mkdir(parents=True)
    (photos / "in" / "a.png").write_bytes(PNG)
    (photos / "b.svg").write_text("<svg onload='x'/>")
    (tmp_path / "secret.png").write_bytes(PNG)
    (photos / "link.png").symlink_to(tmp_path / "secret.png")
    root.mkdir()
    names = ["in/a.png", "../secret.png", str(tmp_path / "secret.png"), "link.png", "b.svg", "no"]
    with memvec.open(root / "shots", dim=2) as made:
        made.add([[1, 0]] * 6, ids=names)
        made.add([1, 0], ids=7, metadata={"path": "in/a.png"})
    with running(ServerSettings(root, photos=photos)) as url, httpx.Client(base_url=url) as http:
        path = "/v1/collections/shots/photo"
        for name in ("in/a.png", 7):
            found = http.get(path, params={"id": json.dumps(name)})
            assert (found.content, found.headers["content-type"]) == (PNG, "image/png")
        for name in (*names[1:], "nobody", [1], None):
            check_error(http.get(path, params={"id": json.dumps(name)}), 404, "not_found")
        check_error(http.get(path, params={"id": "{"}), 422, "invalid_value")


def test_server_without_photographs_shows_none(http):
    found = http.get("/v1/collections/things/photo", params={"id": "0"})
    check_error(found, 404, "not_found")


def test_encoder_makes_vectors_of_texts_and_photographs(tmp_path):
    import cv2

    from memvec.images import made_up_scene

    content = cv2.imencode(".png", made_up_scene(0))[1].tobytes()
    settings = ServerSettings(tmp_path, encoder="images")
    with running(settings) as url, httpx.Client(base_url=url, timeout=60) as http:
        headers = {"Content-Type": "image/png"}
        vector = http.post("/v1/encode", content=content, headers=headers).json()["vector"]
        assert len(vector) == 896
        check_error(http.post("/v1/encode", content=PNG, headers=headers), 422, "no_photo")
        check_error(http.post("/v1/encode", json={"text": "a"}), 422, "no_text_encoder")
        headers = {"Content-Type": "text/html"}
        refused = http.post("/v1/encode", content=b"x", headers=headers)
        check_error(refused, 415, "unknown_media_type")
        assert http.get("/v1/server").json()["encoder"] == "photo"


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("nowhere.onnx", "must be 'images', the configuration"),
        ("nomodule_:f", "must be module:function, which returns a vector. Got 'nomodule_:f'"),
        ("json:nothing", "must be module:function, which returns a vector. Got 'json:nothing'"),
        ("json:__name__", "cannot be called"),
    ],
)
def test_encoder_that_is_not_there_is_refused(tmp_path, named, reason):
    with pytest.raises(InvalidValueError, match=reason):
        create_app(ServerSettings(tmp_path, encoder=named))


def test_error_that_nobody_foresaw_has_the_one_shape(http, monkeypatch, caplog):
    def broken(self, *arguments, **options):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(memvec.Collection, "count", broken)
    answer = http.post("/v1/collections/things/count", json={"queries": QUERY})
    assert "secret" not in check_error(answer, 500, "internal")
    wait_for(lambda: "ZeroDivisionError: secret" in caplog.text)  # written after the answer


@pytest.mark.parametrize("options", [{}, {"similarity": 0.4}, {"where": {"tag": "a"}}])
def test_counts_have_the_certificate_of_the_range(http, options):
    asked = {"queries": [QUERY, QUERY[::-1]], **options}
    found = http.post(RANGE, json=asked).json()
    before = http.get("/v1/collections/things").json()["health"]["n_queries"]
    counted = http.post("/v1/collections/things/count", json=asked).json()
    contained = http.post("/v1/collections/things/contains", json=asked).json()
    counts = np.diff(found["offsets"])
    assert counted["counts"] == counts.tolist()
    assert contained["contained"] == (counts > 0).tolist()
    for answer in (counted, contained):
        assert answer["certificate"] == found["certificate"]
        assert answer["statement"] == found["statement"]
    after = http.get("/v1/collections/things").json()["health"]["n_queries"]
    assert after == before + 4
