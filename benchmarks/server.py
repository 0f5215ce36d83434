"""The server beside the library and beside Chroma's: latency, throughput, memory of a stream."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import memvec
from benchmarks.measure import print_table
from memvec.evaluation import load_sample
from memvec.types import Float32Array

_AT = "/v1/collections/synsets"
_SIMILARITY, _K = 0.7, 10
# Few queries have so many matches that they are more than a search for the nearest asks for.
_LOW, _CUTS = 0.5, (10, 100, 1000)
_STREAMED = 1_000_000
_ADDED_AT_ONCE = 1000
_START_SECONDS = 60.0

Ask = Callable[[Float32Array], bytes]


def run(
    n_queries: int,
    seconds: float,
    clients: tuple[int, ...],
    chroma: str | None,
    streamed: int = _STREAMED,
) -> None:
    """Print what HTTP adds to a query, how many are answered, and what a stream takes."""
    sample = load_sample()
    queries = sample.vectors[:n_queries]
    with tempfile.TemporaryDirectory() as folder:
        with memvec.open(
            Path(folder) / "synsets", dim=sample.vectors.shape[1], similarity=_SIMILARITY, seal_at=0
        ) as collection:
            collection.add(sample.vectors)
            collection.seal(progress=False)
        with memvec.open(Path(folder) / "synsets", read_only=True) as here, _served(folder) as at:
            _print_latency(here, at[1], queries)
            _print_throughput(
                {"range, raw float32": (at[1], _raw_range)}, queries, seconds, clients
            )
            _print_stream(here, *at, sample.vectors, streamed)
            if chroma is not None:
                _print_chroma(chroma, at, sample.vectors, queries, seconds, clients)


@contextmanager
def _served(folder: str) -> Iterator[tuple[int, int]]:
    """Run the server as a process; yield its number and its port."""
    code = "import sys; from memvec.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "serve", folder, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        found = re.search(r":(\d+)$", process.stdout.readline().strip())
        assert found is not None
        try:
            yield process.pid, int(found[1])
        finally:
            process.terminate()


class Connection:
    """A bare socket that is kept: what a client adds of its own is not measured."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the body of its answer."""
        self._socket.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._received()
        head, body = data[:end], data[end + 4 :]
        found = re.search(rb"content-length: *(\d+)", head.lower())
        assert found is not None, head
        pieces, missing = [body], int(found[1]) - len(body)
        while missing > 0:
            pieces.append(self._received())
            missing -= len(pieces[-1])
        whole = b"".join(pieces)
        assert head.split()[1] in (b"200", b"201"), whole
        return whole

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 16)
        assert data, "the server closed the connection"
        return data

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _request(path: str, kind: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _posted(path: str, asked: object) -> bytes:
    return _request(path, "application/json", json.dumps(asked).encode())


def _json_range(query: Float32Array) -> bytes:
    return _posted(f"{_AT}/range", {"queries": query.tolist(), "similarity": _SIMILARITY})


def _raw_range(query: Float32Array) -> bytes:
    path = f"{_AT}/range?ask=%7B%22similarity%22:{_SIMILARITY}%7D"
    return _request(path, "application/octet-stream", query.tobytes())


def _nearest(query: Float32Array) -> bytes:
    return _posted(f"{_AT}/search", {"queries": query.tolist(), "k": _K})


def _print_latency(here: memvec.Collection, port: int, queries: Float32Array) -> None:
    connection = Connection(port)
    ways: dict[str, Callable[[int], object]] = {
        "in process": lambda row: here.range_search(queries[row], _SIMILARITY)
    }
    for name, request in (("HTTP, JSON", _json_range), ("HTTP, raw float32", _raw_range)):
        made = [request(query) for query in queries]
        ways[name] = lambda row, made=made: connection.ask(made[row])  # type: ignore[misc]
    times = _timed(ways, len(queries))
    connection.close()
    base = float(np.median(times["in process"]))
    rows = [[*cells, f"{np.median(times[cells[0]]) - base:+.3f}"] for cells in _quantiles(times)]
    print_table(
        "One query over HTTP", ["one query", "p50 ms", "p95 ms", "more than in process, p50"], rows
    )


def _timed(ways: Mapping[str, Callable[[int], object]], n_queries: int) -> dict[str, list[float]]:
    """Return milliseconds, asked in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for ask in ways.values():
        ask(0)
    for row in range(n_queries):
        for name, ask in ways.items():
            begun = time.perf_counter()
            ask(row)
            times[name].append(1000 * (time.perf_counter() - begun))
    return times


def _quantiles(times: dict[str, list[float]]) -> list[list[str]]:
    return [
        [name, *(f"{np.quantile(seen, q):.3f}" for q in (0.5, 0.95))]
        for name, seen in times.items()
    ]


def _print_throughput(
    servers: dict[str, tuple[int, Ask]],
    queries: Float32Array,
    seconds: float,
    clients: tuple[int, ...],
) -> None:
    rows = []
    for name, (port, ask) in servers.items():
        made = [ask(query) for query in queries]
        rates = [_rate(port, made, seconds, number) for number in clients]
        rows.append([name, *(f"{rate:.0f}" for rate in rates)])
    header = ["queries a second", *(f"{number} clients" for number in clients)]
    print_table("Throughput over HTTP", header, rows)


def _rate(port: int, made: list[bytes], seconds: float, n_clients: int) -> float:
    """Return how many requests are answered in a second."""
    done, end = [0] * n_clients, time.perf_counter() + seconds

    def work(number: int) -> None:
        connection = Connection(port)
        while time.perf_counter() < end:
            connection.ask(made[(number + done[number]) % len(made)])
            done[number] += 1
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def _print_stream(
    here: memvec.Collection, process: int, port: int, vectors: Float32Array, streamed: int
) -> None:
    """Stream about a million matches, and look at the memory of the server meanwhile."""
    each = int(here.count(vectors[:20], 0.05).mean())
    queries = vectors[: max(1, streamed // max(1, each))]
    before, most, n_matches = _resident(process), 0, 0
    with memvec.Client(f"http://127.0.0.1:{port}") as client:
        stream = client.collection("synsets").iter_range(queries, 0.05, ordered=False)
        begun = time.perf_counter()
        for number, block in enumerate(stream.blocks()):
            n_matches += len(block.ids)
            if number % 20 == 0:
                most = max(most, _resident(process))
        took = time.perf_counter() - begun
    cells = [f"{n_matches:,}", f"{took:.1f}", f"{before / 1e6:.0f}", f"{most / 1e6:.0f}"]
    print_table(
        "A long stream", ["matches streamed", "s", "memory before, MB", "most, MB"], [cells]
    )


def _resident(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * 4096


def _cpu_seconds(process: int) -> float:
    """Return the time that a process has computed, whatever else the machine does."""
    told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def _print_chroma(
    program: str,
    ours: tuple[int, int],
    vectors: Float32Array,
    queries: Float32Array,
    seconds: float,
    clients: tuple[int, ...],
) -> None:
    """Compare with Chroma's server: the nearest few over JSON, which both know."""
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    title = f"The {_K} nearest of {len(vectors):,}, JSON, {version.stdout.strip()}"
    with tempfile.TemporaryDirectory() as folder, _chroma(program, folder) as (process, port):
        path = _filled(port, vectors)

        def theirs(query: Float32Array) -> bytes:
            asked = {"query_embeddings": [query.tolist()], "n_results": _K}
            return _posted(f"{path}/query", {**asked, "include": ["distances"]})

        servers = {"memvec": (ours[1], _nearest), "Chroma": (port, theirs)}
        ways: dict[str, Callable[[int], bytes]] = {}
        with ExitStack() as connections:
            for name, (at, ask) in servers.items():
                to = connections.enter_context(closing(Connection(at)))
                made = [ask(query) for query in queries]
                ways[name] = lambda row, to=to, made=made: to.ask(made[row])  # type: ignore[misc]
            times = _timed(ways, len(queries))
            recalls = {name: _recall(ask, vectors, queries) for name, ask in ways.items()}
        memory = {"memvec": ours[0], "Chroma": process}
        rows = [
            [*cells, f"{recalls[cells[0]]:.4f}", f"{_resident(memory[cells[0]]) / 1e6:.0f}"]
            for cells in _quantiles(times)
        ]
        print_table(title, ["server", "p50 ms", "p95 ms", "recall", "memory, MB"], rows)
        _print_throughput(servers, queries, seconds, clients)
        _print_threshold(ours, (process, port), f"{path}/query", vectors, queries)


def _print_threshold(
    ours: tuple[int, int],
    chroma: tuple[int, int],
    path: str,
    vectors: Float32Array,
    queries: Float32Array,
) -> None:
    """Ask for everything above a similarity; of Chroma, for the nearest, which are then cut."""

    def everything(query: Float32Array) -> bytes:
        return _posted(f"{_AT}/range", {"queries": query.tolist(), "similarity": _LOW})

    def nearest(query: Float32Array, k: int) -> bytes:
        asked = {"query_embeddings": [query.tolist()], "n_results": k, "include": ["distances"]}
        return _posted(path, asked)

    true = [{int(row) for row in np.flatnonzero(vectors @ query >= _LOW)} for query in queries]
    asks = {"memvec, everything": (ours, everything)} | {
        f"Chroma, {k:,} nearest, cut": (chroma, partial(nearest, k=k)) for k in _CUTS
    }
    found, spent = {}, {}
    with ExitStack() as connections:
        ways: dict[str, Callable[[int], bytes]] = {}
        for name, ((_, port), ask) in asks.items():
            to = connections.enter_context(closing(Connection(port)))
            made = [ask(query) for query in queries]
            ways[name] = lambda row, to=to, made=made: to.ask(made[row])  # type: ignore[misc]
        times = _timed(ways, len(queries))
        for name, way in ways.items():
            process = asks[name][0][0]
            begun = _cpu_seconds(process)
            answers = [way(row) for row in range(len(queries))]
            spent[name] = f"{1000 * (_cpu_seconds(process) - begun) / len(queries):.2f}"
            found[name] = [_above(answer) for answer in answers]
    rows = []
    for name, p50, p95 in _quantiles(times):
        shares = [
            len(seen & whole) / len(whole)
            for seen, whole in zip(found[name], true, strict=True)
            if whole
        ]
        cut = sum(not whole <= seen for seen, whole in zip(found[name], true, strict=True))
        rows.append([name, p50, p95, spent[name], f"{100 * np.mean(shares):.2f} %", f"{cut:,}"])
    n_matches = [len(whole) for whole in true]
    title = f"Above {_LOW}: {np.mean(n_matches):.0f} matches a query, {max(n_matches):,} at most"
    header = [
        f"above {_LOW}",
        "p50 ms",
        "p95 ms",
        "CPU ms",
        "matches found",
        "queries that miss some",
    ]
    print_table(title, header, rows)


def _above(answer: bytes) -> set[int]:
    """Return the rows above the similarity; Chroma's distances are 1 − cosine."""
    told = json.loads(answer)
    if "offsets" in told:
        return set(told["ids"])
    pairs = zip(told["ids"][0], told["distances"][0], strict=True)
    return {int(name) for name, distance in pairs if distance <= 1 - _LOW}


def _recall(ask: Callable[[int], bytes], vectors: Float32Array, queries: Float32Array) -> float:
    """Return the share of the true nearest that a server finds; both name items by their rows."""
    found = 0
    for row, query in enumerate(queries):
        true = np.argpartition(-(vectors @ query), _K)[:_K]
        found += len({int(name) for name in json.loads(ask(row))["ids"][0]} & set(true.tolist()))
    return found / (_K * len(queries))


@contextmanager
def _chroma(program: str, folder: str) -> Iterator[tuple[int, int]]:
    """Run Chroma's server as a process; yield its number and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "run", "--path", folder, "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            yield process.pid, port
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            Connection(port).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _filled(port: int, vectors: Float32Array) -> str:
    """Store vectors with Chroma; return where their collection is."""
    path = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    connection = Connection(port)
    asked = {"name": "synsets", "configuration": {"hnsw": {"space": "cosine"}}}
    path = f"{path}/{json.loads(connection.ask(_posted(path, asked)))['id']}"
    for start in range(0, len(vectors), _ADDED_AT_ONCE):
        some = vectors[start : start + _ADDED_AT_ONCE]
        ids = [str(row) for row in range(start, start + len(some))]
        connection.ask(_posted(f"{path}/add", {"ids": ids, "embeddings": some.tolist()}))
    connection.close()
    return path
