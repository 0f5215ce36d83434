"""The outermost layer: who calls, from where, under which name; headers, log and counts."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memvec.server._failures import ApiError, told
from memvec.server._metrics import Metrics
from memvec.server._settings import ServerSettings
from memvec.server._work import Bodies

LOG = logging.getLogger("memvec.server")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Bytes: answers beyond are counted while they are sent, piece by piece.
_LARGE, _PIECE = 1 << 16, 1 << 18
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """Checks and counts every request before the routes see it.

    Parameters
    ----------
    app : ASGI application
        The routes.
    settings : ServerSettings
        By which names the server may be called.
    metrics : Metrics
        What is counted.
    bodies, answers : Bodies
        What requests hold until they are answered, and answers until they are sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        metrics: Metrics,
        bodies: Bodies,
        answers: Bodies,
    ) -> None:
        self._app, self._metrics = app, metrics
        self._bodies, self._answers = bodies, answers
        self._hosts, self._origins = settings.allowed_hosts, frozenset(settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        request_id = _request_id(headers)
        scope["request_id"] = request_id
        begun, status = time.perf_counter(), 0
        refused: ApiError | None = None

        async def answer(message: Message) -> None:
            nonlocal status, refused
            if message["type"] == "http.response.start":
                try:
                    self._hold(scope, message)
                except ApiError as error:
                    refused = error
                    raise
                status = message["status"]
                own = [*_HEADERS, (b"x-request-id", request_id.encode())]
                named = {name for name, _ in message["headers"]}
                more = [(name, value) for name, value in own if name not in named]
                message = {**message, "headers": [*message["headers"], *more]}
            await send_slowly(send, message)

        try:
            self._check(headers, scope)
            await self._app(scope, receive, answer)
        except Exception as error:
            # The framework has an error of its own for answers that cannot begin.
            failed = refused or told(error)
            if failed.status >= 500 and not isinstance(error, ApiError):
                LOG.error("failed", exc_info=error, extra={"request_id": request_id})
            if not status:
                await send_error(answer, failed, request_id)
        finally:
            self._bodies.give_back(scope)
            self._answers.give_back(scope)
        self._count(scope, status, time.perf_counter() - begun, request_id)

    def _check(self, headers: dict[bytes, bytes], scope: Scope) -> None:
        """Refuse calls of two lengths, by a strange name, or from the page of a strange server.

        A page elsewhere can make a browser call a server on this machine, by a name of its own or
        by a form.
        """
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # A proxy may believe the one and this server the other (RFC 9112, 6.1).
            text = "A request has Content-Length or Transfer-Encoding, not both."
            raise ApiError(400, "two_lengths", text, ends=True)
        names = [value for name, value in scope["headers"] if name == b"host"]
        host = names[0].decode("latin-1").lower() if len(names) == 1 else ""
        if host_name(host) not in self._hosts:
            text = f"The server is not called {host[:100]!r}; name it with --allow-host."
            raise ApiError(421, "wrong_host", text)
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin and origin not in self._origins and urlsplit(origin).netloc != host:
            raise ApiError(
                403, "wrong_origin", f"Pages of {origin[:100]!r} may not use the server."
            )
        if not origin and headers.get(b"sec-fetch-site") == b"cross-site":
            raise ApiError(403, "wrong_origin", "Pages of other servers may not use this one.")

    def _hold(self, scope: Scope, message: Message) -> None:
        """Count the bytes of a large answer, or refuse to send it."""
        lengths = [value for name, value in message["headers"] if name == b"content-length"]
        if lengths and int(lengths[0]) > _LARGE:
            self._answers.take(scope, int(lengths[0]))

    def _count(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        # Whatever a client calls its method, the number of counts stays bounded.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.request(route, method, status, seconds)
        LOG.info(
            "request",
            extra={
                "request_id": request_id,
                "method": scope["method"][:10],
                "path": scope["path"][:500],
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 3),
                "client": (scope.get("client") or ("",))[0],
            },
        )


def _request_id(headers: dict[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id", b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def host_name(host: str) -> str:
    """Return a Host header without its port.

    Examples
    --------
    >>> host_name("localhost:8765"), host_name("[::1]:8765"), host_name("a:b:80")
    ('localhost', '[::1]', '')
    """
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "0"
    plain = port.isascii() and port.isdecimal() and (":" not in name or name.startswith("["))
    return name if plain else ""


async def send_slowly(send: Send, message: Message) -> None:
    """Send a message; a large body in pieces, each when the client has taken the one before."""
    body, sent = message.get("body", b""), 0
    while len(body) - sent > _PIECE:
        piece = body[sent : sent + _PIECE]
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        sent += _PIECE
    await send({**message, "body": body[sent:]} if sent else message)


async def send_error(send: Send, failed: ApiError, request_id: str) -> None:
    """Send an error in the one shape that errors have."""
    body = failed.body(request_id)
    headers = [*failed.headers.items(), ("Content-Length", str(len(body)))]
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": failed.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


class JsonLines(logging.Formatter):
    """Writes one JSON object a line: time, level, message and what belongs to the request."""

    _OWN = ("request_id", "method", "path", "route", "status", "ms", "client")

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name) for name in self._OWN if hasattr(record, name)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
