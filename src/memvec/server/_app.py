"""The door to the application: imports what it needs when it is opened."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import TYPE_CHECKING, Any

from memvec.errors import MissingExtraError, StorageError
from memvec.server._settings import ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

# A request may take as long as its limit; a little more, and the process ends whatever runs.
_GRACE_SECONDS = 5
# Idle connections are closed after so many seconds.
_IDLE_SECONDS = 30


def create_app(settings: ServerSettings) -> FastAPI:
    """Return the application of a server, for any ASGI server; nothing listens yet.

    Parameters
    ----------
    settings : ServerSettings
        What the server is told.
    """
    _need("fastapi")
    from memvec.server._build import build_app

    return build_app(settings)


def serve(settings: ServerSettings, *, qdrant_port: int | None = None) -> None:
    """Answer requests until the process is told to stop (SIGTERM or SIGINT).

    What runs then is finished, what comes is refused.

    Parameters
    ----------
    settings : ServerSettings
        What the server is told.
    qdrant_port : int, optional
        Also speak a part of the REST API of Qdrant, at this port.
    """
    _need("fastapi", "uvicorn")
    write_log()
    asyncio.run(_serve(settings, qdrant_port))


async def _serve(settings: ServerSettings, qdrant_port: int | None) -> None:
    from memvec.server._build import build_app
    from memvec.server._state import ServerState

    server = ServerState.of(settings)
    apps: list[tuple[Any, int]] = [(build_app(settings, server), settings.port)]
    sockets = [listening_at(settings.host, port) for _, port in apps]
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"memvec serves {settings.folder} at http://{shown}:{port}", flush=True)
    runs = [
        run_one(app, listener, settings) for (app, _), listener in zip(apps, sockets, strict=True)
    ]
    await asyncio.gather(*runs)


async def run_one(app: Any, listener: socket.socket, settings: ServerSettings) -> None:
    """Run an application at a socket until the process is told to stop."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(settings.limits.seconds) + _GRACE_SECONDS,
        h11_max_incomplete_event_size=1 << 16,
        ws="none",
    )
    await uvicorn.Server(config).serve([listener])


def listening_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StorageError(error.errno, f"{host}:{port} cannot be used: {error.strerror}") from None
    listener.listen(1024)
    return listener


def write_log() -> None:
    """Write the log of the server to stderr, one JSON object a line."""
    from memvec.server._guard import JsonLines

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    for name in ("memvec", "uvicorn", "py.warnings"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.INFO if name == "memvec" else logging.WARNING)


def _need(*packages: str) -> None:
    for package in packages:
        try:
            __import__(package)
        except ImportError:
            raise MissingExtraError("memvec.server", package, "server") from None
