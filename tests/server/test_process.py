"""The command itself: it starts, stops when told, and loses nothing when killed."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

import memvec
from memvec.cli import main
from memvec.errors import ServerError
from server.conftest import DIM, unit_rows


@contextmanager
def process(folder, *options):
    """Run ``memvec serve`` as a process of its own; yield it and its address."""
    code = "import sys; from memvec.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "serve", str(folder), "--port", "0", *options]
    # A file: a pipe that nobody reads would stop the server when it is full.
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as started,
    ):
        started.log = log
        try:
            line = started.stdout.readline()
            yield started, re.search(r"http://\S+", line)[0]
        finally:
            if started.poll() is None:
                started.kill()
            started.wait(30)


def test_sigterm_finishes_what_runs(tmp_path):
    with process(tmp_path) as (server, url):
        with memvec.Client(url) as client:
            made = client.create("things", dim=DIM)
            made.add(unit_rows(20), ids=list(range(20)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        server.log.seek(0)
        lines = [json.loads(line) for line in server.log]
    asked = [line for line in lines if line["message"] == "request"]
    assert {"request_id", "route", "status", "ms"} <= set(asked[0])
    assert "/v1/collections/{name}/items" in {line["route"] for line in asked}
    with memvec.open(tmp_path / "things") as collection:  # nobody has it any more
        assert len(collection) == 20


def test_sigterm_lets_a_stream_end_with_its_certificate(tmp_path):
    rows = unit_rows(700)
    with memvec.open(tmp_path / "things", dim=DIM) as made:
        made.add(rows)
    with process(tmp_path) as (server, url), httpx.Client(base_url=url, timeout=60) as http:
        asked = {"queries": rows.tolist(), "similarity": 0.001, "ordered": False}
        headers = {"Accept": "application/x-ndjson"}
        path = "/v1/collections/things/range"
        with http.stream("POST", path, json=asked, headers=headers) as answer:
            pieces = answer.iter_bytes()
            last = next(pieces)
            n_lines = last.count(b"\n")
            server.send_signal(signal.SIGTERM)
            end = time.monotonic() + 20
            while is_answered(f"{url}/healthz"):
                assert time.monotonic() < end
            assert server.poll() is None  # it waits for the stream
            for piece in pieces:
                n_lines, last = n_lines + piece.count(b"\n"), (last + piece)[-10_000:]
        told = json.loads(last.splitlines()[-1])
        assert (told["end"], told["n_matches"]) == ("range", n_lines - 2)
        assert told["n_matches"] > 100_000
        assert told["certificate"]
        assert server.wait(60) == 0


def test_sigterm_loses_nothing_that_a_client_of_qdrant_was_told(tmp_path):
    rows, told = unit_rows(64), []
    with process(tmp_path, "--qdrant", "0") as (server, url):
        qdrant = re.search(r"http://\S+", server.stdout.readline())[0]
        made = {"vectors": {"size": DIM, "distance": "Cosine"}}
        assert httpx.put(f"{qdrant}/collections/points", json=made).status_code == 200
        assert httpx.get(f"{url}/v1/collections/points").status_code == 200
        threading.Timer(1, server.send_signal, [signal.SIGTERM]).start()
        with httpx.Client(base_url=qdrant, timeout=30) as http:
            statuses = set()
            while statuses <= {200}:
                point = {"id": len(told), "vector": rows[len(told) % 64].tolist()}
                try:
                    answer = http.put("/collections/points/points", json={"points": [point]})
                except httpx.TransportError:
                    break
                statuses.add(answer.status_code)
                if answer.status_code == 200:
                    told.append(point["id"])
        assert statuses <= {200, 503}
        assert server.wait(60) == 0
    with memvec.open(tmp_path / "points") as collection:
        assert set(told) <= set(collection)
    assert len(told) > 10


def is_answered(url):
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path):
    rows, acknowledged = unit_rows(20_000, seed=3), []
    for life in range(3):
        with process(tmp_path) as (server, url), memvec.Client(url) as client:
            if life == 0:
                client.create("things", dim=DIM, seal_at=500)
            things = client.collection("things")
            assert len(things) >= len(acknowledged)
            timer = threading.Timer(1.5, server.kill)
            timer.start()
            try:
                while True:
                    first = (len(acknowledged) // 50 + 1000 * life) * 50
                    ids = list(range(10**6 * life + first, 10**6 * life + first + 50))
                    things.add(rows[np.array(ids) % len(rows)], ids=ids)
                    acknowledged += ids
            except ServerError:
                pass
            timer.join()
    with memvec.open(tmp_path / "things", read_only=True) as collection:
        assert set(acknowledged) <= set(collection)
        some = acknowledged[:: max(1, len(acknowledged) // 50)]
        for name, item in zip(some, collection.get(some), strict=True):
            assert np.allclose(item.vector, rows[name % len(rows)], atol=1e-6)
        assert collection.check().ok
    assert len(acknowledged) > 500


@pytest.mark.slow
def test_sixty_four_clients_that_read_and_write_lose_nothing(tmp_path):
    n_clients, rounds = 64, 12
    failures, kept = [], {}
    lock = threading.Lock()
    with process(tmp_path) as (_, url):
        with memvec.Client(url) as client:
            client.create("things", dim=DIM, similarity=0.5, seal_at=1000)

        def work(number):
            rng = np.random.default_rng(number)
            mine = {}
            try:
                with memvec.Client(url) as client:
                    things = client.collection("things")
                    for turn in range(rounds):
                        rows = unit_rows(5, seed=1000 * number + turn)
                        ids = [f"{number}-{turn}-{row}" for row in range(5)]
                        again(things.add, rows, ids=ids, metadata=[{"n": number}] * 5)
                        mine |= dict(zip(ids, rows, strict=True))
                        # A copy may be missed by chance, unless nothing is.
                        hits = again(things.range_search, rows[0], 0.999, guarantee="exact")
                        assert ids[0] in hits.ids.tolist()
                        found = again(things.iter_range, rows[1], 0.9, guarantee="exact")
                        assert ids[1] in {match.id for match in found}
                        if turn % 3 == 2:
                            gone = str(rng.choice(list(mine)))
                            again(things.delete, gone)
                            del mine[gone]
                            assert gone not in things
                        again(things.search, rows, 3)
            except BaseException as error:
                failures.append(error)
            with lock:
                kept.update(mine)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(n_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        assert not failures, failures[:3]
        names, rows = list(kept), np.array(list(kept.values()))
        with memvec.Client(url) as client:
            things = client.collection("things")
            assert set(things) == set(names)
            for query in rows[:: len(rows) // 20]:
                found = things.range_search(query, 0.7, guarantee="exact")
                truth = {names[row] for row in np.flatnonzero(rows @ query >= 0.7)}
                assert set(found.ids.tolist()) == truth
            assert things.check().ok


def again(call, *arguments, **options):
    """Make a call until the server has room for it."""
    end = time.monotonic() + 120
    while True:
        try:
            return call(*arguments, **options)
        except ServerError as error:
            if error.status != 429 or time.monotonic() > end:
                raise
            time.sleep(0.05)


def test_benchmark_measures_latency_throughput_and_a_stream():
    from benchmarks.__main__ import main as benchmarks

    asked = ["server", "--queries", "2", "--seconds", "0.2", "--clients", "2", "--streamed", "100"]
    done = CliRunner().invoke(benchmarks, asked, catch_exceptions=False)
    assert done.exit_code == 0
    tables = re.findall(r"^\| (one query|queries a second|matches streamed) ", done.output, re.M)
    assert tables == ["one query", "queries a second", "matches streamed"]
    [rate] = re.findall(r"range, raw float32 *\| *(\d+)", done.output)
    assert int(rate) > 0


@pytest.mark.slow
def test_benchmark_measures_the_server_of_chroma_beside():
    from benchmarks.__main__ import main as benchmarks

    program = Path(sys.executable).with_name("chroma")
    if not program.exists():
        pytest.skip("chromadb is of the group extras: make test-extras")
    asked = ["server", "--queries", "2", "--seconds", "0.2", "--clients", "1", "--streamed", "100"]
    done = CliRunner().invoke(benchmarks, [*asked, "--chroma", str(program)])
    assert done.exit_code == 0, done.output
    assert re.search(r"^\| Chroma ", done.output, re.M)
    seen = re.findall(r"^\| (memvec, everything|Chroma, .* cut) .* ([\d.]+) % ", done.output, re.M)
    assert seen[0][0] == "memvec, everything"
    assert len(seen) == 4
    assert all(0 < float(share) <= 100 for _, share in seen)


def test_port_that_is_taken_is_an_error(tmp_path):
    with process(tmp_path) as (_, url):
        port = url.rsplit(":", 1)[1]
        done = CliRunner().invoke(main, ["serve", str(tmp_path), "--port", port])
    assert done.exit_code == 1
    assert "cannot be used" in done.output


def test_limits_are_options_of_the_command(tmp_path):
    limits = "--limit", "vectors=2", "--limit", "k=5"
    with process(tmp_path, *limits) as (_, url), memvec.Client(url) as client:
        things = client.create("things", dim=DIM)
        things.add(unit_rows(2))
        with pytest.raises(ServerError, match="at most 2 vectors"):
            things.add(unit_rows(3))
        with pytest.raises(ServerError, match="at most 5 nearest"):
            things.search(unit_rows(1), 6)
    done = CliRunner().invoke(main, ["serve", str(tmp_path), "--limit", "speed=1"])
    assert done.exit_code == 1
    assert "NAME is one of body_bytes" in done.output


def test_address_that_others_reach_needs_keys(tmp_path):
    done = CliRunner().invoke(main, ["serve", str(tmp_path), "--host", "0.0.0.0"])
    assert done.exit_code == 1
    assert "which needs keys" in done.output


def test_keys_are_made_listed_and_revoked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = CliRunner().invoke(main, ["keys", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    key = run("create", "--scope", "write", "--note", "mine").strip()
    told = json.loads(run("create", "--json"))
    assert told["scope"] == "read"
    [first, second] = json.loads(run("list", "--json"))
    assert (first["note"], first["scope"]) == ("mine", "write")
    assert not {"salt", "hash"} & set(first)
    assert "mine" in run("list")
    assert second["id"] in run("revoke", second["id"])
    assert json.loads(run("list", "--json"))[1]["revoked"]
    with process(tmp_path, "--key-file", "keys.json") as (_, url):
        assert httpx.get(f"{url}/v1/collections").status_code == 401
        with memvec.Client(url, key) as client:
            assert client.collections() == []
        with memvec.Client(url, told["key"]) as client, pytest.raises(ServerError, match="revoked"):
            client.collections()
    assert os.listdir() == ["keys.json"]
