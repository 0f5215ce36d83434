"""A real server on loopback, and collections for it."""

import os
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
import uvicorn

import memvec
from memvec.collection import RangeStream
from memvec.server import Limits, ServerSettings, create_app
from memvec.server._app import configured, listening_at

DIM = 8


@contextmanager
def running(settings, app=None):
    """Run a server in a thread; yield its address."""
    listener = listening_at("127.0.0.1", 0)
    limits = Limits() if settings is None else settings.limits
    server = uvicorn.Server(configured(app or create_app(settings), limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()
        assert not thread.is_alive()


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def endless(monkeypatch, collection_class=memvec.Collection):
    """Let ranges be streamed for ever, and tell when that ends."""
    true_range = collection_class.iter_range
    ended = []

    def iter_range(self, *arguments, **options):
        stream = true_range(self, *arguments, **options)
        block = next(stream.blocks(), None)
        if block is None:  # asked for the certificate alone
            return stream

        def blocks():
            try:
                while True:
                    yield block
            finally:
                ended.append(True)

        return RangeStream(blocks(), stream.certificate, stream.searched)

    monkeypatch.setattr(collection_class, "iter_range", iter_range)
    return ended


def unit_rows(n_rows, dim=DIM, seed=5):
    rows = np.random.default_rng(seed).standard_normal((n_rows, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fill(path, n_rows=300, dim=DIM):
    """Make a collection with a segment, waiting vectors and deleted ones."""
    rows = unit_rows(n_rows, dim)
    ids = [f"t{row}" if row % 2 else row for row in range(n_rows)]
    metadata = [{"year": 2000 + row % 30, "tag": "ab"[row % 2]} for row in range(n_rows)]
    with memvec.open(path, dim=dim, similarity=0.6, seal_at=0) as collection:
        half = n_rows // 2
        collection.add(rows[:half], ids[:half], metadata[:half])
        collection.seal(progress=False)
        collection.add(rows[half:], ids[half:], metadata[half:])
        collection.delete(ids[3:6])
    return rows


@pytest.fixture(scope="module")
def root():
    """A folder in memory where there is one, so that syncing takes no time."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="memvec-test-", dir=parent))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def things(root):
    """300 things, in the folder of the server."""
    return fill(root / "things")


@pytest.fixture(scope="module")
def url(root, things):
    with running(ServerSettings(root)) as address:
        yield address


@pytest.fixture
def http(url):
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture
def client(url):
    with memvec.Client(url) as made:
        yield made
