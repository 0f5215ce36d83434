"""The door to the application: imports what it needs when it is opened."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memvec.errors import MissingExtraError, StorageError
from memvec.server._settings import Limits, ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

# A request may take as long as its limit; a little more, and the process ends whatever runs.
_GRACE_SECONDS = 5
# Idle connections are closed after so many seconds.
_IDLE_SECONDS = 30
# A collection holds four to six: its catalog, the journal of that, a lock. Segments are mapped.
_COLLECTION_FILES = 8
# Connections are counted for each port, and the process has some files of its own.
_PORTS, _FILES = 2, 256


def create_app(settings: ServerSettings) -> FastAPI:
    """Return the application, for any ASGI server. Nothing listens yet.

    Parameters
    ----------
    settings : ServerSettings
        The settings of the server.
    """
    _need("fastapi")
    from memvec.server._build import build_app

    return build_app(settings)


def serve(
    settings: ServerSettings,
    *,
    qdrant_port: int | None = None,
    when_ready: Callable[[str], object] | None = None,
    quiet: bool = False,
) -> None:
    """Answer requests until the process is told to stop (SIGTERM or SIGINT).

    Running requests are finished; new ones are refused.

    Parameters
    ----------
    settings : ServerSettings
        The settings of the server.
    qdrant_port : int, optional
        Also speak a part of the REST API of Qdrant, at this port.
    when_ready : callable, optional
        Called with the address once it listens.
    quiet : bool
        Log problems only.
    """
    _need("fastapi", "uvicorn")
    write_log(logging.WARNING if quiet else logging.INFO)
    _allow_files(settings.limits)
    # What uvicorn was told to stop by, it raises again once it has stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    asyncio.run(_serve(settings, qdrant_port, when_ready))


async def _serve(
    settings: ServerSettings,
    qdrant_port: int | None,
    when_ready: Callable[[str], object] | None,
) -> None:
    from memvec.server._build import build_app
    from memvec.server._qdrant import build_qdrant
    from memvec.server._state import ServerState

    server = ServerState.of(settings)
    apps: list[tuple[Any, int]] = [(build_app(settings, server), settings.port)]
    if qdrant_port is not None:
        apps.append((build_qdrant(server), qdrant_port))
    sockets = [listening_at(settings.host, port) for _, port in apps]
    urls = [_url(listener) for listener in sockets]
    print(f"memvec serves {settings.folder} at {urls[0]}", flush=True)
    if qdrant_port is not None:
        print(f"Clients of Qdrant find it at {urls[1]}", flush=True)
    if when_ready is not None:
        when_ready(urls[0])
    runs = [
        run_one(app, listener, settings) for (app, _), listener in zip(apps, sockets, strict=True)
    ]
    try:
        await asyncio.gather(*runs)
    finally:
        # Not before both ports have answered what they took.
        await asyncio.to_thread(server.close)


def _allow_files(limits: Limits) -> None:
    """Let the process open what its limits allow: many systems begin with 1,024 files."""
    try:
        import resource
    except ImportError:
        return  # Windows counts otherwise
    wanted = _FILES + _PORTS * limits.connections + _COLLECTION_FILES * limits.collections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def run_one(app: Any, listener: socket.socket, settings: ServerSettings) -> None:
    """Run an application at a socket until the process is told to stop."""
    import uvicorn

    await uvicorn.Server(configured(app, settings.limits)).serve([listener])


def configured(app: Any, limits: Limits) -> Any:
    """Return how uvicorn runs an application."""
    import uvicorn

    from memvec.server._protocol import protocol_of

    return uvicorn.Config(
        app,
        http=protocol_of(limits),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(limits.seconds) + _GRACE_SECONDS,
        h11_max_incomplete_event_size=1 << 16,
        ws="none",
    )


def listening_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio sends small pieces at once only then; otherwise answers take 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StorageError(error.errno, f"{host}:{port} cannot be used: {error.strerror}") from None
    listener.listen(1024)
    return listener


def write_log(level: int = logging.INFO) -> None:
    """Write the log of the server to stderr, one JSON object a line."""
    from memvec.server._guard import JsonLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    for name in ("memvec", "uvicorn", "py.warnings"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level if name == "memvec" else logging.WARNING)


def _need(*packages: str) -> None:
    for package in packages:
        try:
            __import__(package)
        except ImportError:
            raise MissingExtraError("memvec.server", package, "server") from None
