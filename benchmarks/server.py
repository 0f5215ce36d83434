"""The server beside the library: latency of one query, throughput, memory of a long stream."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import memvec
from benchmarks.measure import print_table
from memvec.evaluation import load_sample
from memvec.types import Float32Array

_RANGE = "/v1/collections/synsets/range"
_SIMILARITY = 0.7
_STREAMED = 1_000_000


def run(n_queries: int, seconds: float, clients: tuple[int, ...]) -> None:
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
            _print_throughput(at[1], queries, seconds, clients)
            _print_stream(here, *at, sample.vectors)


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


class _Connection:
    """A connection that is kept, and no more than that."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, query: Float32Array, raw: bool) -> bytes:
        if raw:
            path, body = f"{_RANGE}?ask=%7B%22similarity%22:{_SIMILARITY}%7D", query.tobytes()
        else:
            asked = {"queries": query.tolist(), "similarity": _SIMILARITY}
            path, body = _RANGE, json.dumps(asked).encode()
        kind = "application/octet-stream" if raw else "application/json"
        self._http.request("POST", path, body, {"Content-Type": kind})
        answer = self._http.getresponse()
        told = answer.read()
        assert answer.status == 200, told
        return told


def _print_latency(here: memvec.Collection, port: int, queries: Float32Array) -> None:
    connection = _Connection(port)
    ways: dict[str, Callable[[Float32Array], object]] = {
        "in process": lambda query: here.range_search(query, _SIMILARITY),
        "HTTP, JSON": lambda query: connection.ask(query, raw=False),
        "HTTP, raw float32": lambda query: connection.ask(query, raw=True),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for ask in ways.values():
        ask(queries[0])
    for query in queries:  # in turns, so that all see the same machine
        for name, ask in ways.items():
            begun = time.perf_counter()
            ask(query)
            times[name].append(1000 * (time.perf_counter() - begun))
    base = float(np.median(times["in process"]))
    rows = [
        [
            name,
            *(f"{np.quantile(seen, q):.3f}" for q in (0.5, 0.95)),
            f"{np.median(seen) - base:+.3f}",
        ]
        for name, seen in times.items()
    ]
    print_table(
        "One query over HTTP", ["one query", "p50 ms", "p95 ms", "more than in process, p50"], rows
    )


def _print_throughput(
    port: int, queries: Float32Array, seconds: float, clients: tuple[int, ...]
) -> None:
    rows = []
    for n_clients in clients:
        done, end = [0] * n_clients, time.perf_counter() + seconds

        def work(number: int, done: list[int] = done, end: float = end) -> None:
            connection = _Connection(port)
            while time.perf_counter() < end:
                connection.ask(queries[(number + done[number]) % len(queries)], raw=True)
                done[number] += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(n_clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows.append([f"{n_clients}", f"{sum(done) / seconds:.0f}"])
    print_table("Throughput over HTTP", ["clients", "queries a second"], rows)


def _print_stream(here: memvec.Collection, process: int, port: int, vectors: Float32Array) -> None:
    """Stream about a million matches, and look at the memory of the server meanwhile."""
    each = int(here.count(vectors[:20], 0.05).mean())
    queries = vectors[: max(1, _STREAMED // max(1, each))]
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
