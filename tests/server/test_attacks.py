"""What somebody who means harm sends: answered with an error, and the server goes on."""

import json
import re
import resource
import socket
import threading
import time
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pytest

import memvec
from memvec.server import KeyFile, Limits, ServerSettings, create_app
from server.conftest import fill, running, unit_rows, wait_for

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def bounded(tmp_path_factory):
    """A server that waits for nobody, and has few connections."""
    root = tmp_path_factory.mktemp("bounded")
    fill(root / "things", 60)
    limits = Limits(head_seconds=0.5, connections=8, body_bytes=100_000, body_seconds=1)
    with running(ServerSettings(root, limits=limits)) as address:
        yield address


def connected(url, takes=None):
    """Return a connection; the system takes so many bytes of an answer that nobody reads."""
    at, made = urlsplit(url), socket.socket()
    made.settimeout(10)
    if takes is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, takes)
    made.connect((at.hostname, at.port))
    return made


def closed_after(connection):
    begun = time.monotonic()
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - begun


def send_slowly(connection, data):
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(0.1)


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_head_that_comes_byte_by_byte_is_not_waited_for(bounded, before):
    with connected(bounded) as slow:
        if before:
            slow.sendall(before)
            assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_slowly(slow, b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 100)
        assert time.monotonic() - begun < 5
    assert httpx.get(f"{bounded}/healthz").status_code == 200


def test_connection_that_asks_for_nothing_is_closed(bounded):
    with connected(bounded) as idle:
        assert closed_after(idle) < 5


def test_connections_beyond_their_number_are_refused(bounded):
    held = [connected(bounded) for _ in range(8)]
    time.sleep(0.1)
    with connected(bounded) as more:
        answer = more.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]
    for one in held:
        one.close()
    time.sleep(0.2)
    assert httpx.get(f"{bounded}/healthz").status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * 200_000,
        b"\r\n".join(b"X-%d: a" % number for number in range(20_000)),
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: -1",
        b"Transfer-Encoding: chunked\r\nContent-Length: 4",
        b"Transfer-Encoding: gzip, chunked",
    ],
)
def test_strange_heads_are_refused(bounded, head):
    with connected(bounded) as strange:
        try:
            strange.sendall(b"POST /v1/collections HTTP/1.1\r\nHost: localhost\r\n" + head)
            strange.sendall(b"\r\n\r\nabcd")
            answer = strange.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        assert answer == b"" or answer.split()[1] in (b"400", b"408", b"415", b"501"), answer
    assert httpx.get(f"{bounded}/healthz").status_code == 200


def test_second_request_is_not_read_out_of_one_with_two_lengths(bounded):
    """A proxy that believes the length has sent one request; reading two would smuggle one."""
    with connected(bounded) as smuggler:
        smuggler.sendall(
            b"POST /v1/collections/things/range HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 48\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        data = b""
        while piece := smuggler.recv(4096):
            data += piece
    assert data.count(b"HTTP/1.1 ") == 1
    assert data.startswith(b"HTTP/1.1 400 ")
    assert b"two_lengths" in data
    assert b"connection: close" in data.lower()


def test_chunks_without_end_are_refused(bounded):
    with connected(bounded) as endless:
        endless.sendall(
            b"POST /v1/collections/things/range HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        try:
            for _ in range(50):
                endless.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            answer = endless.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        assert answer == b"" or b" 413 " in answer
        assert closed_after(endless) < 5


@pytest.fixture(scope="module")
def large_answer(tmp_path_factory):
    """A server that gives up on clients after a second, and a request whose answer is large."""
    root, rows = tmp_path_factory.mktemp("large"), unit_rows(900)
    with memvec.open(root / "things", dim=rows.shape[1]) as made:
        made.add(rows)
    body = json.dumps({"queries": rows.tolist(), "similarity": 0.001}).encode()
    head = "POST /v1/collections/things/range HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with running(ServerSettings(root, limits=Limits(stall_seconds=1))) as url:
        yield url, head.encode() + body


def taken(connection, n_bytes, pause):
    """Return how much of an answer comes, and how much of it there is; read with pauses."""
    data = bytearray()
    try:
        while piece := connection.recv(n_bytes):
            data += piece
            time.sleep(pause)
    except ConnectionResetError:
        pass
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    return len(body), int(re.search(rb"content-length: (\d+)", head)[1])


@pytest.mark.slow
def test_answer_that_nobody_takes_is_given_up(large_answer):
    url, request = large_answer
    with connected(url) as idle:
        idle.sendall(request)
        assert idle.recv(1, socket.MSG_PEEK) == b"H"
        time.sleep(2.5)
        seen, whole = taken(idle, 1 << 20, 0)
    assert seen < whole


@pytest.mark.slow
def test_client_that_is_slow_gets_its_whole_answer(large_answer):
    url, request = large_answer
    with connected(url) as slow:
        slow.sendall(request)
        begun = time.monotonic()
        seen, whole = taken(slow, 1 << 18, 0.08)
        assert time.monotonic() - begun > 2
    assert seen == whole


def test_bodies_together_are_bounded_and_given_back(tmp_path):
    fill(tmp_path / "things", 60)
    limits = Limits(body_bytes=100_000, bodies_bytes=150_000)
    app = create_app(ServerSettings(tmp_path, limits=limits))
    bodies = app.state.server.bodies
    asked = {"items": [0], "similarity": 0.5, "where": {"tag": {"$in": ["x" * 60_000]}}}
    with running(None, app) as url:
        path = f"{url}/v1/collections/things/range"
        with connected(url) as first, connected(url) as second:
            for one in (first, second):
                one.sendall(
                    b"POST /v1/collections/things/range HTTP/1.1\r\nHost: localhost\r\n"
                    b"Content-Type: application/json\r\nContent-Length: 90000\r\n\r\n"
                )
                one.sendall(b" " * 60_000)
            wait_for(lambda: bodies.held == 120_000)
            full = httpx.post(path, json=asked)
            assert (full.status_code, full.json()["error"]["code"]) == (429, "too_busy")
            assert full.headers["retry-after"] == "1"
            small = httpx.post(path, json={"items": [0], "similarity": 0.5})
            assert small.status_code == 200
        wait_for(lambda: bodies.held == 0)
        assert httpx.post(path, json=asked).status_code == 200
        assert httpx.post(path, content=b"x" * 100_001).status_code == 413
        wait_for(lambda: bodies.held == 0)


@pytest.mark.slow
def test_answers_together_are_bounded_and_given_back(tmp_path):
    """Clients that take an answer byte by byte do not fill the memory with answers."""
    rows = unit_rows(900)
    with memvec.open(tmp_path / "things", dim=rows.shape[1]) as made:
        made.add(rows)
    app = create_app(ServerSettings(tmp_path, limits=Limits(answers_bytes=15_000_000)))
    answers = app.state.server.answers
    asked = json.dumps({"queries": rows.tolist(), "similarity": 0.001}).encode()
    head = b"POST /v1/collections/things/range HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(asked)
    with running(None, app) as url, httpx.Client(base_url=url, timeout=60) as http:
        path = "/v1/collections/things/range"
        with connected(url, takes=4096) as slow:
            slow.sendall(head + asked)
            assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")
            assert answers.held > 8_000_000
            headers = {"Content-Type": "application/json"}
            full = http.post(path, content=asked, headers=headers)
            assert (full.status_code, full.json()["error"]["code"]) == (429, "too_busy")
            assert full.headers["retry-after"] == "1"
            small = http.post(path, json={"items": [0], "similarity": 0.5})
            assert small.status_code == 200
        wait_for(lambda: answers.held == 0)
        whole = http.post(path, content=asked, headers=headers)
        assert whole.status_code == 200
        assert len(whole.json()["ids"]) > 100_000
        wait_for(lambda: answers.held == 0)


def test_answer_that_never_fits_is_not_asked_for_again(tmp_path):
    fill(tmp_path / "things", 300)
    limits = Limits(answers_bytes=70_000)
    with running(ServerSettings(tmp_path, limits=limits)) as url:
        asked = {"queries": unit_rows(60).tolist(), "similarity": 0.001}
        refused = httpx.post(f"{url}/v1/collections/things/range", json=asked, timeout=60)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
        assert "retry-after" not in refused.headers


@pytest.mark.parametrize(
    ("path", "asked", "n_items"),
    [
        ("range", {"items": [0, 1], "similarity": 0.001}, None),
        ("search", {"items": [0, 1], "k": 10}, 20),
        ("items/get", {"ids": list(range(20))}, 20),
        ("items/scroll", {"limit": 20}, 20),
    ],
)
def test_what_comes_with_items_is_bounded(tmp_path, path, asked, n_items):
    with memvec.open(tmp_path / "things", dim=8) as made:
        made.add(unit_rows(40), metadata=[{"n": row} for row in range(40)])
        n_items = n_items or int(made.count(unit_rows(2), 0.001).sum())
    path = f"/v1/collections/things/{path}"
    for more, name, needed in (("metadata", "full_hits", 1), ("vectors", "numbers", 8)):
        for spare, status in ((0, 200), (-1, 413)):
            limits = Limits(**{name: needed * n_items + spare})
            app = create_app(ServerSettings(tmp_path, limits=limits))
            with running(None, app) as url, httpx.Client(base_url=url, timeout=60) as http:
                found = http.post(path, json={**asked, "include": [more]})
                assert found.status_code == status, found.text
                assert http.post(path, json={**asked, "include": []}).status_code == 200
                # What was counted before it was read was no query of the collection.
                health = http.get("/v1/collections/things").json()["health"]
                assert health["n_queries"] <= (4 if status == 200 else 2)


def test_no_more_collections_are_open_than_allowed_however_many_are_made(tmp_path):
    app = create_app(ServerSettings(tmp_path, limits=Limits(collections=2)))
    with running(None, app) as url, httpx.Client(base_url=url, timeout=60) as http:
        for name in "abcd":
            made = http.post("/v1/collections", json={"name": name, "dim": 2})
            assert made.status_code == 201
            assert len(app.state.server.registry.opened()) <= 2
        assert len(http.get("/v1/collections").json()["collections"]) == 4


@pytest.mark.parametrize(
    ("soft", "hard", "given"),
    [
        (1024, 100_000, 3328), (1024, 2000, 2000), (1024, -1, 3328),
        (8192, 8192, None), (-1, -1, None),
    ],
)  # fmt: skip
def test_server_asks_for_the_files_that_its_limits_allow(monkeypatch, soft, hard, given):
    from memvec.server import _app

    seen = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, both: seen.append(both))
    _app._allow_files(Limits())
    assert seen == ([] if given is None else [(given, hard)])


def test_large_bodies_are_read_beside_other_requests(tmp_path, monkeypatch):
    from memvec.server import _bodies

    fill(tmp_path / "things", 60)
    going, go_on, true_parsed = threading.Event(), threading.Event(), _bodies.parsed

    def parsed(model, request, data):
        going.set()
        assert go_on.wait(20)
        return true_parsed(model, request, data)

    monkeypatch.setattr(_bodies, "parsed", parsed)
    large = {"queries": unit_rows(2000).tolist(), "similarity": 0.9}
    answers = []
    with running(ServerSettings(tmp_path)) as url:
        path = f"{url}/v1/collections/things/count"
        asking = threading.Thread(target=lambda: answers.append(httpx.post(path, json=large)))
        asking.start()
        assert going.wait(20)
        assert httpx.get(f"{url}/healthz").status_code == 200
        go_on.set()
        asking.join(30)
        assert len(answers[0].json()["counts"]) == 2000
        broken = b"[" * 100_000
        headers = {"Content-Type": "application/json"}
        assert httpx.post(path, content=broken, headers=headers).status_code == 422


@pytest.mark.parametrize(
    "name",
    [
        "things.", "THINGS", "things ", "thing\u0455", "things/", "things%00",
        "things%2e", "..%2f..", "%2e%2e", "things%0a", "con", "\uff0e\uff0e", "a" * 5000,
    ],
)  # fmt: skip
def test_names_that_are_nearly_right_open_nothing(http, name):
    found = http.get(f"/v1/collections/{name}")
    assert found.status_code in (404, 422), name
    assert set(found.json()) == {"error"}


@pytest.mark.parametrize(
    ("text", "statuses"),
    [
        ('{"a":' * 5000 + "1" + "}" * 5000, (422,)),
        ('{"x": NaN}', (201, 422)),
        ('{"x": Infinity}', (201, 422)),
        ('{"x": 1e999}', (201, 422)),
        (f'{{"x": {"9" * 4000}}}', (201, 422)),
        ('{"x": "\\ud800"}', (201, 422)),
        ('{"\\u0000": "\\u0000"}', (201, 422)),
        ('{"x": {"y": [[[]]]}}', (201, 422)),
    ],
)
def test_metadata_that_is_taken_can_be_read_again(http, text, statuses):
    """Whatever is stored must come back in every form, or was refused."""
    http.post("/v1/collections", json={"name": "odd", "dim": 2})
    body = f'{{"vectors": [[1, 0]], "ids": ["a"], "metadata": [{text}]}}'
    headers = {"Content-Type": "application/json"}
    path = "/v1/collections/odd/items"
    made = http.post(path, content=body.encode("utf-8", "surrogatepass"), headers=headers)
    assert made.status_code in statuses, made.text
    if made.status_code == 201:
        assert http.post(f"{path}/get", json={"ids": ["a"]}).status_code == 200
        assert http.post(f"{path}/scroll", json={}).status_code == 200
        asked = {"queries": [1, 0], "similarity": 0.5, "include": ["metadata"]}
        assert http.post("/v1/collections/odd/range", json=asked).status_code == 200
    assert http.delete("/v1/collections/odd").status_code == 200


@pytest.mark.parametrize(
    "where",
    [
        {"$or": [{"year": n} for n in range(2000)]},
        {"tag": {"$in": ["a" * 10] * 5000}},
        {"tag": {"$regex": "(a+)+$"}},
        {"tag" * 5000: 1},
        {"year": {"$gte": 10**400}},
        {"": None},
    ],
)
def test_filters_take_little_or_are_refused(http, where):
    begun = time.monotonic()
    asked = {"items": [0], "similarity": 0.5, "where": where}
    found = http.post("/v1/collections/things/range", json=asked)
    assert found.status_code in (200, 422)
    assert time.monotonic() - begun < 10


def test_filter_that_is_nested_without_end_is_refused(http):
    text = '{"items": [0], "where": ' + '{"$not": ' * 3000 + '{"a": 1}' + "}" * 3000 + "}"
    headers = {"Content-Type": "application/json"}
    found = http.post("/v1/collections/things/range", content=text, headers=headers)
    assert found.status_code == 422


def arrow_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()


def test_arrow_streams_whose_bytes_were_changed_give_no_server_error(http):
    rows = pa.array(unit_rows(4).tolist(), pa.list_(pa.float32()))
    whole = arrow_of(pa.table({"vector": rows, "id": ["a", "b", "c", "d"]}))
    rng, headers = np.random.default_rng(3), {"Content-Type": ARROW}
    for _ in range(300):
        broken = np.frombuffer(whole, np.uint8).copy()
        places = rng.integers(0, len(broken), 4)
        broken[places] = rng.choice([0, 1, 127, 128, 255], 4)
        found = http.post("/v1/collections/things/range", content=broken.tobytes(), headers=headers)
        assert found.status_code in (200, 415, 422), found.text


def test_arrow_dictionaries_are_refused(http):
    table = pa.table({
        "vector": pa.array(unit_rows(2).tolist(), pa.list_(pa.float32())),
        "id": pa.array(["a", "b"]).dictionary_encode(),
    })  # fmt: skip
    headers = {"Content-Type": ARROW}
    found = http.post("/v1/collections/things/items", content=arrow_of(table), headers=headers)
    assert found.status_code == 422


def test_counts_do_not_grow_with_what_clients_make_up(http):
    def lines():
        return [one for one in http.get("/metrics").text.splitlines() if "requests_total{" in one]

    http.request("FROB0", "/healthz")
    http.get("/v1/collections/x0")
    before = len(lines())
    for number in range(1, 20):
        http.request(f"FROB{number}", "/healthz")
        http.get(f"/v1/collections/x{number}")
        http.get(f"/nothing/{number}")
    assert len(lines()) <= before + 2


def test_exported_ids_are_no_formulas(tmp_path):
    names = ['=cmd|"/c calc"!A0', "+1", "-1", "@SUM(A1)", "\tx", "plain"]
    with memvec.open(tmp_path / "evil", dim=2) as made:
        made.add([[1, 0]] * len(names), ids=names)
    with running(ServerSettings(tmp_path)) as url, httpx.Client(base_url=url, timeout=60) as http:
        for kind in ("deduplicate", "self_join"):
            path = "/v1/collections/evil/jobs"
            job = http.post(path, json={"kind": kind, "similarity": 0.9}).json()["id"]
            while http.get(f"/v1/jobs/{job}").json()["ended"] is None:
                time.sleep(0.05)
            text = http.get(f"/v1/jobs/{job}/result?format=csv").text
            cells = [cell.strip('"') for line in text.splitlines() for cell in line.split(",")]
            assert any(cell.startswith("'=cmd") for cell in cells)
            assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in cells)


def test_log_holds_one_line_a_request(caplog, http):
    from memvec.server._guard import JsonLines

    with caplog.at_level("INFO", "memvec.server"):
        http.get("/v1/collections/a%0d%0a%7b%22forged%22:1%7d", headers={"X-Request-ID": "a\tb"})
        wait_for(lambda: caplog.records)  # written after the answer
    lines = [JsonLines().format(record) for record in caplog.records]
    assert lines
    assert all("\n" not in line and "forged" not in json.loads(line) for line in lines)


def test_server_that_only_reads_refuses_every_route_that_writes(tmp_path):
    from server.test_access import WRITING

    fill(tmp_path / "things", 40)
    row = unit_rows(1).tolist()
    bodies = {
        "/v1/collections": {"name": "new", "dim": 2},
        "/v1/collections/{name}/items": {"vectors": row, "ids": ["n"]},
        "/v1/collections/{name}/items/delete": {"ids": [0]},
        "/v1/collections/{name}/shadow": {"share": 0.5},
    }
    settings = ServerSettings(tmp_path, read_only=True)
    with running(settings) as url, httpx.Client(base_url=url, timeout=60) as http:
        for method, path in sorted(WRITING):
            body = None if method == "delete" else bodies.get(path, {})
            answer = http.request(method, path.format(name="things"), json=body)
            assert answer.status_code == 403, (method, path, answer.text)
            assert answer.json()["error"]["code"] == "read_only"
        assert http.get("/v1/collections/things").json()["stats"]["n_items"] == 37


def test_link_that_takes_the_place_of_a_collection_is_not_followed(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    fill(outside, 40)
    fill(root / "things", 20)
    settings = ServerSettings(root, limits=Limits(collections=1))
    with running(settings) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/v1/collections/things").status_code == 200
        fill(root / "other", 20)
        assert http.get("/v1/collections/other").status_code == 200  # things is closed
        (root / "things").rename(tmp_path / "moved")
        (root / "things").symlink_to(outside)
        assert http.get("/v1/collections/things").status_code == 404
        assert http.delete("/v1/collections/things").status_code == 404
    assert (outside / "catalog.sqlite").exists()


def test_cancelling_from_many_sides_leaves_a_job_ended(tmp_path):
    fill(tmp_path / "things", 60)
    with running(ServerSettings(tmp_path)) as url, httpx.Client(base_url=url, timeout=60) as http:
        for _ in range(5):
            asked = {"kind": "self_join", "similarity": 0.5}
            job = http.post("/v1/collections/things/jobs", json=asked).json()["id"]
            cancel = [
                threading.Thread(target=httpx.post, args=(f"{url}/v1/jobs/{job}/cancel",))
                for _ in range(4)
            ]
            for thread in cancel:
                thread.start()
            for thread in cancel:
                thread.join(30)
            end = time.monotonic() + 20
            while http.get(f"/v1/jobs/{job}").json()["ended"] is None:
                assert time.monotonic() < end
                time.sleep(0.02)
            told = http.get(f"/v1/jobs/{job}").json()
            assert told["state"] in ("cancelled", "done")


def test_file_of_keys_that_others_can_read_is_refused(tmp_path):
    file = KeyFile(tmp_path / "keys.json")
    file.create("read")
    (tmp_path / "keys.json").chmod(0o644)
    assert file.listed()  # hashes tell nothing that opens
    (tmp_path / "keys.json").chmod(0o666)
    with pytest.raises(memvec.errors.FileFormatError, match="others may change"):
        KeyFile(tmp_path / "keys.json").listed()


def test_queries_by_hostile_hosts_are_refused(http):
    for host in ("localhost.", "127.0.0.1.evil.example", "[::1", "localhost#x", "0x7f.1"):
        assert http.get("/healthz", headers={"Host": host}).status_code in (400, 421), host
