"""Keys: without a good one, no route gives anything away."""

import json
import time

import httpx
import pytest

from memvec.errors import FileFormatError, IndexNotFoundError, InvalidValueError
from memvec.server import KeyFile, Limits, ServerSettings, _keys, create_app
from memvec.server._failures import ApiError
from server.conftest import endless, fill, running, wait_for

OPEN = {"/healthz", "/readyz"}
# Where a read key is not enough.
WRITING = {
    ("post", "/v1/collections"),
    ("delete", "/v1/collections/{name}"),
    ("post", "/v1/collections/{name}/seal"),
    ("post", "/v1/collections/{name}/compact"),
    ("put", "/v1/collections/{name}/shadow"),
    ("post", "/v1/collections/{name}/recalibrate"),
    ("post", "/v1/collections/{name}/items"),
    ("put", "/v1/collections/{name}/items"),
    ("post", "/v1/collections/{name}/items/delete"),
}


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    return KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")


@pytest.fixture(scope="module")
def keys(key_file):
    made = {
        "read": key_file.create("read", "a reader"),
        "write": key_file.create("write"),
        "revoked": key_file.create("write"),
    }
    key_file.revoke(made["revoked"].split("_")[1])
    return made


@pytest.fixture(scope="module")
def guarded(root, things, key_file, keys):
    with running(ServerSettings(root, key_file=key_file._path)) as address:
        yield address


def routes(root):
    schema = create_app(ServerSettings(root)).openapi()
    return [(method, path) for path, found in schema["paths"].items() for method in found]


def test_every_route_refuses_wrong_missing_and_revoked_keys(guarded, root, keys):
    listed = routes(root)
    assert set(listed) >= WRITING
    wrong = [
        ({}, "no_key"),
        ({"Authorization": "Basic dTpw"}, "no_key"),
        ({"Authorization": "Bearer nonsense"}, "wrong_key"),
        ({"api-key": keys["read"][:-1] + "g"}, "wrong_key"),
        ({"Authorization": f"Bearer {keys['revoked']}"}, "wrong_key"),
    ]
    with httpx.Client(base_url=guarded, timeout=60) as http:
        for method, path in listed:
            address = path.format(name="things", job="0")
            if path in OPEN:
                assert http.request(method, address).status_code == 200
                continue
            for headers, code in wrong:
                answer = http.request(method, address, headers=headers)
                assert answer.status_code == 401, (method, path)
                assert answer.json()["error"]["code"] == code, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"


def test_every_route_that_changes_something_needs_a_key_that_writes(guarded, root, keys):
    with httpx.Client(base_url=guarded, timeout=60) as http:
        for method, path in routes(root):
            address = path.format(name="things", job="0")
            answer = http.request(method, address, headers={"api-key": keys["read"]})
            refused = answer.status_code == 403
            assert refused == ((method, path) in WRITING), (method, path, answer.text)
        made = {"name": "ours", "dim": 2}
        headers = {"Authorization": f"Bearer {keys['write']}"}
        assert http.post("/v1/collections", json=made, headers=headers).status_code == 201
        assert http.delete("/v1/collections/ours", headers=headers).status_code == 200


def test_key_that_is_revoked_opens_nothing_any_more(guarded, key_file):
    key = key_file.create("read")
    with httpx.Client(base_url=guarded, headers={"api-key": key}, timeout=60) as http:
        assert http.get("/v1/collections").status_code == 200
        key_file.revoke(key.split("_")[1])
        assert http.get("/v1/collections").status_code == 401


def test_jobs_are_seen_by_the_key_that_started_them_and_by_those_that_write(
    guarded, key_file, keys
):
    mine, other = (key_file.create("read") for _ in range(2))
    with httpx.Client(base_url=guarded, timeout=60) as http:

        def asked(method, path, key, **more):
            return http.request(method, path, headers={"api-key": key}, **more)

        body = {"kind": "deduplicate", "similarity": 0.9}
        job = asked("POST", "/v1/collections/things/jobs", mine, json=body).json()["id"]
        while asked("GET", f"/v1/jobs/{job}", mine).json()["ended"] is None:
            time.sleep(0.02)
        for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/result")):
            refused = asked(method, f"/v1/jobs/{job}{path}", other)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
            nobody = asked(method, f"/v1/jobs/nobody{path}", other).json()["error"]["message"]
            assert refused.json()["error"]["message"].replace(job, "nobody") == nobody
        listed = {
            key: [one["id"] for one in asked("GET", "/v1/jobs", key).json()["jobs"]]
            for key in (mine, other, keys["write"])
        }
        assert listed == {mine: [job], other: [], keys["write"]: [job]}
        for key in (mine, keys["write"]):
            assert asked("GET", f"/v1/jobs/{job}/result", key).json()["groups"]


def cut_off_end(pieces):
    """Return the last bytes of a stream whose certificate never comes."""
    last = b""
    try:
        for piece in pieces:
            last = (last + piece)[-1000:]
    except httpx.RemoteProtocolError:
        return last
    return pytest.fail("The stream ended as if it were complete.")


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/vnd.apache.arrow.stream"])
def test_stream_ends_when_its_key_is_revoked(tmp_path, monkeypatch, kind):
    ended = endless(monkeypatch)
    key_file = KeyFile(tmp_path / "keys.json")
    key = key_file.create("read")
    (tmp_path / "root").mkdir()
    fill(tmp_path / "root" / "things", 60)
    app = create_app(ServerSettings(tmp_path / "root", key_file=tmp_path / "keys.json"))
    with running(None, app) as url, httpx.Client(base_url=url, timeout=30) as http:
        asked = {"items": [0], "similarity": 0.01}
        headers = {"Accept": kind, "api-key": key}
        path = "/v1/collections/things/range"
        with http.stream("POST", path, json=asked, headers=headers) as answer:
            pieces = answer.iter_bytes()
            next(pieces)
            key_file.revoke(key.split("_")[1])
            last = cut_off_end(pieces)
        if kind == "application/x-ndjson":
            told = json.loads(last.splitlines()[-1])["error"]
            assert (told["code"], told["message"]) == ("wrong_key", "The key was revoked.")
        wait_for(lambda: app.state.server.workers.streams == 0 and ended)


def test_keys_are_not_kept(key_file, keys):
    text = key_file._path.read_text()
    assert not any(key in text or key.split("_")[2] in text for key in keys.values())
    assert key_file._path.stat().st_mode & 0o077 == 0
    assert key_file.listed()[0].note == "a reader"


def test_keys_that_were_checked_are_not_hashed_again(key_file, keys, monkeypatch):
    assert key_file.holder(keys["read"]).scope == "read"
    monkeypatch.setattr(_keys, "_hashed", lambda secret, salt: pytest.fail("hashed again"))
    for _ in range(100):
        assert key_file.holder(keys["read"]).opens("read")
        assert not key_file.holder(keys["read"]).opens("write")


def test_guesses_wait_for_each_other(guarded):
    async def guess():
        async with httpx.AsyncClient(base_url=guarded, timeout=60) as http:
            asked = [
                http.get("/v1/collections", headers={"api-key": f"mv_{n}_x"}) for n in range(30)
            ]
            return [answer.status_code for answer in await asyncio.gather(*asked)]

    import asyncio

    assert set(asyncio.run(guess())) <= {401, 429}
    assert httpx.get(f"{guarded}/healthz").status_code == 200


def test_unknown_key_cannot_be_revoked(key_file):
    with pytest.raises(InvalidValueError, match="'name' parameter of KeyFile.revoke must be"):
        key_file.revoke("nobody")
    with pytest.raises(InvalidValueError, match="'scope' parameter of KeyFile.create must be one"):
        key_file.create("all")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "keys": []}',
        '{"version": 1, "keys": [{}]}',
        '{"version": 1, "keys": [{"id": "a", "scope": "root", "note": "", "created": "", '
        '"revoked": null, "salt": "00", "hash": "00"}]}',
    ],
)
def test_file_that_holds_no_keys_is_refused(tmp_path, text):
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(FileFormatError, match="is not a file of keys"):
        KeyFile(tmp_path / "keys.json").listed()


def test_missing_file_of_keys_is_told(tmp_path):
    with pytest.raises(IndexNotFoundError, match="no file of keys"):
        KeyFile(tmp_path / "keys.json").listed()


def test_other_addresses_need_keys(tmp_path):
    for host in ("0.0.0.0", "::", "example.org", "10.0.0.1"):
        with pytest.raises(InvalidValueError, match="which needs keys"):
            ServerSettings(tmp_path, host=host)
    ServerSettings(tmp_path, host="::1")
    with pytest.raises(InvalidValueError, match="must be a folder that exists"):
        ServerSettings(tmp_path / "nothing")


def test_errors_tell_nothing_of_the_inside():
    from memvec.server._failures import told

    record = json.loads(told(RuntimeError("secret")).body("r1"))
    assert record["error"]["code"] == "internal"
    assert "secret" not in record["error"]["message"]
    assert told(ApiError(409, "a", "b")).code == "a"


def test_limits_are_set_by_name():
    found = Limits.named(["seconds=0.5", "vectors=7", "queued=0"])
    assert (found.seconds, found.vectors, found.queued, found.k) == (0.5, 7, 0, Limits().k)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("second=1", InvalidValueError, "NAME is one of body_bytes, .* Got 'second=1' instead"),
        ("seconds", InvalidValueError, "a number after seconds=. Got 'seconds' instead"),
        ("vectors=1.5", InvalidValueError, "a number after vectors=. Got 'vectors=1.5' instead"),
        ("running=0", InvalidValueError, "'running' parameter of Limits must be .* Got 0 instead"),
        ("queued=-1", InvalidValueError, "'queued' parameter of Limits must be .* Got -1 instead"),
        ("seconds=0", InvalidValueError, "'seconds' parameter of Limits must be .* Got 0.0 inst"),
        ("seconds=nan", InvalidValueError, "'seconds' parameter of Limits must be .* Got nan"),
    ],
)
def test_limits_that_are_none_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        Limits.named([text])
