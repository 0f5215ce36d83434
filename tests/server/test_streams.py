"""Streams, jobs and two servers on one folder."""

import json
import threading
import time

import httpx
import numpy as np
import pytest

import memvec
from memvec.collection import RangeStream
from memvec.errors import ServerError
from memvec.server import Limits, ServerSettings, create_app
from memvec.server import _jobs as jobs_module
from memvec.server._build import build_app
from memvec.server._qdrant import build_qdrant
from memvec.server._state import ServerState
from server.conftest import DIM, endless, fill, running, unit_rows, wait_for


@pytest.fixture
def served(tmp_path):
    """A server whose inside can be looked at."""
    fill(tmp_path / "things", 60)
    limits = Limits(jobs=2, kept_jobs=2, job_pairs=40, stall_seconds=0.5)
    app = create_app(ServerSettings(tmp_path, limits=limits))
    with running(None, app) as address, httpx.Client(base_url=address, timeout=30) as http:
        yield app.state.server, http


def test_stream_stops_when_the_client_goes_away(served, monkeypatch):
    server, http = served
    ended = endless(monkeypatch)
    asked = {"items": [0], "similarity": 0.01}
    headers = {"Accept": "application/x-ndjson"}
    path = "/v1/collections/things/range"
    with http.stream("POST", path, json=asked, headers=headers) as answer:
        pieces = answer.iter_bytes()
        assert b"begin" in next(pieces)
        assert server.workers.streams == 1
    wait_for(lambda: server.workers.streams == 0)
    wait_for(lambda: ended)
    # Nothing holds the collection any more.
    assert http.delete("/v1/collections/things").status_code == 200


def test_streamed_matches_and_their_time_are_counted(served):
    server, http = served
    assert server.metrics.latency("things") is None
    with memvec.Client(str(http.base_url)) as client:
        found = list(client.collection("things").iter_range(unit_rows(3), 0.1))
    assert f'memvec_hits_total{{collection="things"}} {len(found)}\n' in http.get("/metrics").text
    assert 0 < server.metrics.latency("things") < 60


def test_client_that_takes_nothing_is_let_go(served, monkeypatch):
    server, http = served
    endless(monkeypatch)
    asked = {"items": [0], "similarity": 0.01}
    headers = {"Accept": "application/x-ndjson"}
    with http.stream("POST", "/v1/collections/things/range", json=asked, headers=headers):
        assert server.workers.streams == 1
        wait_for(lambda: server.workers.streams == 0)


def test_collection_is_deleted_after_a_stream_and_nobody_else_waits(tmp_path, monkeypatch):
    for name in ("things", "others"):
        fill(tmp_path / name, 60)
    app = create_app(ServerSettings(tmp_path, limits=Limits(running=1)))
    endless(monkeypatch)
    answers = []
    with running(None, app) as url, httpx.Client(base_url=url, timeout=30) as http:
        asked = {"items": [0], "similarity": 0.01}
        headers = {"Accept": "application/x-ndjson"}
        path = "/v1/collections/things"
        with http.stream("POST", f"{path}/range", json=asked, headers=headers) as answer:
            pieces = answer.iter_bytes()
            next(pieces)
            drop = threading.Thread(target=lambda: answers.append(httpx.delete(url + path)))
            drop.start()
            wait_for(lambda: http.get(path).status_code == 503)
            told = http.get(path)
            assert (told.json()["error"]["code"], told.headers["retry-after"]) == ("in_use", "10")
            assert http.delete(path).status_code == 503
            assert (
                http.post("/v1/collections", json={"name": "things", "dim": 2}).status_code == 409
            )
            # One thread works on requests; the deletion does not take it.
            assert http.post("/v1/collections/others/count", json=asked).status_code == 200
            assert next(pieces)
            assert drop.is_alive()
        drop.join(20)
        assert [one.status_code for one in answers] == [200]
        assert http.get(path).status_code == 404
        assert http.get("/v1/collections").json()["collections"][0]["name"] == "others"


def test_server_stops_though_a_client_takes_nothing(tmp_path, monkeypatch):
    fill(tmp_path / "things", 60)
    endless(monkeypatch)
    limits = Limits(stall_seconds=0.5)
    asked = {"items": [0], "similarity": 0.01}
    headers = {"Accept": "application/x-ndjson"}
    with httpx.Client(timeout=30) as http:
        with running(ServerSettings(tmp_path, limits=limits)) as url:
            path = f"{url}/v1/collections/things/range"
            stalled = http.send(
                http.build_request("POST", path, json=asked, headers=headers), stream=True
            )
            begun = time.monotonic()
        assert time.monotonic() - begun < 10
        stalled.close()
    with memvec.open(tmp_path / "things") as collection:  # nobody has it any more
        assert len(collection) == 57


def test_stream_that_fails_ends_with_the_error(served, monkeypatch):
    server, http = served
    true_range = memvec.Collection.iter_range

    def iter_range(self, *arguments, **options):
        stream = true_range(self, *arguments, **options)
        blocks = (1 / 0 for _ in range(1))
        return RangeStream(blocks, stream.certificate, stream.searched)

    monkeypatch.setattr(memvec.Collection, "iter_range", iter_range)
    with memvec.Client(str(http.base_url)) as client:
        things = client.collection("things")
        with pytest.raises(ServerError, match="The server failed"):
            list(things.iter_range(np.ones(DIM), 0.1))
    wait_for(lambda: server.workers.streams == 0)


def start(http, **asked):
    return http.post("/v1/collections/things/jobs", json=asked)


def ended(http, job):
    wait_for(lambda: http.get(f"/v1/jobs/{job}").json()["ended"] is not None)
    return http.get(f"/v1/jobs/{job}").json()


def test_job_gives_its_result_in_every_form(served):
    _, http = served
    job = start(http, kind="deduplicate", similarity=0.8, keep="last").json()["id"]
    told = ended(http, job)
    assert (told["state"], told["step"]) == ("done", "joining")
    path = f"/v1/jobs/{job}/result"
    groups = http.get(path).json()
    rows = http.get(f"{path}?format=csv").text.splitlines()
    assert rows[0] == "group,id,keep"
    assert len(rows) == 1 + sum(1 + len(one["dropped"]) for one in groups["groups"])
    assert http.get(f"{path}?format=parquet").content.startswith(b"PAR1")
    lines = http.get(f"{path}?format=ndjson").text.splitlines()
    assert len(lines) == 2 + len(groups["groups"])
    assert json.loads(lines[-1])["certificate"] == groups["certificate"]
    pairs = start(http, kind="self_join", similarity=0.85).json()["id"]
    ended(http, pairs)
    path = f"/v1/jobs/{pairs}/result"
    found = http.get(path).json()
    assert found["n_found"] == len(found["pairs"]) > 0
    assert len(http.get(f"{path}?format=csv").text.splitlines()) == 1 + found["n_found"]
    assert http.get(f"{path}?format=parquet").status_code == 422
    assert [job["id"] for job in http.get("/v1/jobs").json()["jobs"]] == [pairs, job]


def test_job_with_too_many_pairs_fails_and_says_so(served):
    _, http = served
    job = start(http, kind="self_join", similarity=0.1).json()["id"]
    told = ended(http, job)
    assert told["state"] == "failed"
    assert told["message"] == "More than 40 pairs: ask for a higher similarity."
    assert http.get(f"/v1/jobs/{job}/result").status_code == 409
    with memvec.Client(str(http.base_url)) as client, pytest.raises(ServerError, match="More than"):
        client.collection("things").self_join(0.1)


def test_jobs_wait_for_each_other_and_can_be_cancelled(served, monkeypatch):
    server, http = served
    true_join = memvec.Collection.deduplicate

    def slow(self, *arguments, **options):
        from memvec.progress import progress_bar

        with progress_bar("waiting", 10**6) as advance:
            while True:
                advance(1)
                time.sleep(0.01)

    monkeypatch.setattr(memvec.Collection, "deduplicate", slow)
    first, second = (start(http, kind="deduplicate").json()["id"] for _ in range(2))
    answer = start(http, kind="deduplicate")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "10"
    wait_for(lambda: http.get(f"/v1/jobs/{first}").json()["done"] > 2)
    assert http.get(f"/v1/jobs/{second}").json()["state"] == "waiting"
    for job in (second, first):
        http.post(f"/v1/jobs/{job}/cancel")
        assert ended(http, job)["state"] == "cancelled"
    monkeypatch.setattr(memvec.Collection, "deduplicate", true_join)
    kept = [start(http, kind="self_join", similarity=0.9).json()["id"] for _ in range(1)]
    ended(http, kept[0])
    assert http.get(f"/v1/jobs/{first}").status_code == 404  # the oldest is forgotten
    assert len(server.jobs.all()) == 2


def test_job_of_a_collection_that_is_not_there(served):
    _, http = served
    assert http.post("/v1/collections/no/jobs", json={"kind": "self_join"}).status_code == 404


def test_job_that_breaks_tells_nothing_of_the_inside(served, monkeypatch):
    _, http = served

    def broken(self, *arguments, **options):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(memvec.Collection, "deduplicate", broken)
    told = ended(http, start(http, kind="deduplicate").json()["id"])
    assert told["state"] == "failed"
    assert told["message"].startswith("The server failed")


def test_job_runs_after_one_that_broke(served, monkeypatch, caplog):
    _, http = served
    true_join = memvec.Collection.deduplicate
    monkeypatch.setattr(memvec.Collection, "deduplicate", lambda self, *args, **options: 1 / 0)
    broken = start(http, kind="deduplicate").json()["id"]
    assert ended(http, broken)["state"] == "failed"
    assert f"the job {broken} failed" in caplog.text
    monkeypatch.setattr(memvec.Collection, "deduplicate", true_join)
    job = start(http, kind="deduplicate", similarity=0.9).json()["id"]
    assert ended(http, job)["state"] == "done"


def test_result_that_was_forgotten_is_told():
    job = jobs_module.Job("a", "b", "self_join", {})
    with pytest.raises(jobs_module.ApiError, match="no longer kept"):
        job._read(0)
    assert list(job.pieces()) == []


def test_second_server_reads_and_takes_over(tmp_path):
    fill(tmp_path / "things", 40)
    with running(ServerSettings(tmp_path)) as first, running(ServerSettings(tmp_path)) as second:
        with memvec.Client(first) as writer, memvec.Client(second) as reader:
            ours, theirs = writer.collection("things"), reader.collection("things")
            assert (ours.read_only, theirs.read_only) == (False, True)
            with pytest.raises(memvec.errors.LockedError, match="open for writing in another"):
                theirs.add(unit_rows(1), ids=["late"])
            ours.add(unit_rows(1), ids=["new"])
            wait_for(lambda: "new" in theirs)
            with pytest.raises(memvec.errors.LockedError):
                reader.drop("things")
            writer.drop("things")
        with memvec.Client(second) as reader:
            assert reader.collections() == []


def test_reader_writes_once_the_writer_is_gone(tmp_path):
    fill(tmp_path / "things", 40)
    with (
        memvec.open(tmp_path / "things") as writer,
        running(ServerSettings(tmp_path)) as url,
        memvec.Client(url) as client,
    ):
        things = client.collection("things")
        assert things.read_only
        writer.close()
        assert things.add(unit_rows(1), ids=["new"]) == ["new"]
        assert not things.read_only


def test_port_that_stops_leaves_the_other_one_what_it_works_on(tmp_path):
    fill(tmp_path / "things", 40)
    settings = ServerSettings(tmp_path)
    server = ServerState.of(settings)
    with running(None, build_qdrant(server)) as qdrant:
        with running(None, build_app(settings, server)) as url:
            assert httpx.get(f"{url}/v1/collections/things").status_code == 200
        asked = {"points": [{"id": 99, "vector": [1.0] * DIM}]}
        done = httpx.put(f"{qdrant}/collections/things/points", json=asked)
        assert done.status_code == 200, done.text
    server.close()


def test_server_that_is_told_to_refuses_all_changes(tmp_path):
    fill(tmp_path / "things", 40)
    with running(ServerSettings(tmp_path, read_only=True)) as url, memvec.Client(url) as client:
        things = client.collection("things")
        assert len(things.range_search(unit_rows(1), 0.1)) == 1
        for change in (
            lambda: things.add(unit_rows(1)),
            lambda: client.create("more", dim=2),
            lambda: client.drop("things"),
            things.compact,
        ):
            with pytest.raises(ServerError, match="refuses changes"):
                change()


def test_links_and_strangers_are_no_collections(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    fill(tmp_path / "outside", 20)
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "half").mkdir()
    (root / "half" / "catalog.sqlite").symlink_to(tmp_path / "outside" / "catalog.sqlite")
    (root / "file").write_text("")
    (root / "broken").mkdir()
    (root / "broken" / "catalog.sqlite").write_text("nothing")
    (root / ".removed-old").mkdir()
    with running(ServerSettings(root)) as url, httpx.Client(base_url=url) as http:
        [broken] = http.get("/v1/collections").json()["collections"]
        assert (broken["name"], broken["error"]["code"]) == ("broken", "damaged")
        assert broken["error"]["message"].startswith("broken/catalog.sqlite is damaged")
        told = http.get("/v1/collections/broken").json()["error"]
        assert (told["code"], told["message"]) == ("damaged", broken["error"]["message"])
        for name in ("link", "half", "file"):
            assert http.get(f"/v1/collections/{name}").status_code == 404
            assert http.delete(f"/v1/collections/{name}").status_code == 404
            made = http.post("/v1/collections", json={"name": name, "dim": 2})
            assert made.status_code == 409
    assert (tmp_path / "outside" / "catalog.sqlite").exists()
    assert not (root / ".removed-old").exists()


def test_too_many_open_collections_take_turns(tmp_path):
    for name in "abc":
        fill(tmp_path / name, 20)
    settings = ServerSettings(tmp_path, limits=Limits(collections=1))
    with running(settings) as url, memvec.Client(url) as client:
        for name in "abcab":
            assert len(client.collection(name)) == 17


def test_busy_server_refuses_and_slow_answers_are_given_up(tmp_path, monkeypatch):
    fill(tmp_path / "things", 20)
    limits = Limits(running=1, queued=0, seconds=0.3)

    def slow(self, *arguments, **options):
        time.sleep(1)

    with (
        running(ServerSettings(tmp_path, limits=limits)) as url,
        httpx.Client(base_url=url, timeout=30) as http,
    ):
        assert http.get("/v1/collections").status_code == 200
        monkeypatch.setattr(memvec.Collection, "count", slow)
        answer = http.post("/v1/collections/things/count", json={"items": [0]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_slow")
        assert answer.headers["retry-after"] == "10"
        answer = http.get("/v1/collections")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_busy")
        wait_for(lambda: http.get("/v1/collections").status_code == 200)


def test_collection_that_is_read_is_not_deleted(served, monkeypatch):
    from memvec.server import _registry

    server, http = served
    monkeypatch.setattr(_registry, "_DRAIN_SECONDS", 0.1)
    with server.registry.lease("things"):
        answer = http.delete("/v1/collections/things")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "in_use")
    assert http.delete("/v1/collections/things").status_code == 200
    assert http.delete("/v1/collections/things").status_code == 404
