"""Answers: JSON at once, or lines of it as they are found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from memvec.client import Record, certificate_text
from memvec.guarantee import Certificate
from memvec.server._failures import ApiError, told

if TYPE_CHECKING:
    from memvec.server._state import ServerState

NDJSON = "application/x-ndjson"


def json_text(record: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def answer(record: Record, certificate: Certificate | None = None, status: int = 200) -> Response:
    """Return a record as an answer, with the certificate that belongs to it."""
    return Response(promised_text(record, certificate), status, media_type="application/json")


def promised_text(record: Record, certificate: Certificate | None) -> str:
    """Return a record as JSON, with its certificate."""
    text = json_text(record)
    if certificate is None:
        return text
    return f"{text[:-1]}{',' if record else ''}{certificate_text(certificate)}}}"


class Pieces:
    """The pieces of a stream, made in threads while a collection is held open.

    Parameters
    ----------
    server : ServerState
        Whose threads work.
    make : callable
        Called in a thread; returns what to give back at the end, and the pieces.
    """

    def __init__(
        self,
        server: ServerState,
        make: Callable[[], tuple[AbstractContextManager[Any], Iterator[bytes]]],
    ) -> None:
        self._server, self._make = server, make
        self._held: AbstractContextManager[Any] | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._busy: asyncio.Future[Any] | None = None
        self._counted = False

    async def begin(self) -> bytes:
        """Return the first piece; errors before it are answers of their own."""
        self._server.workers.begin_stream()
        self._counted = True
        try:
            self._held, self._pieces = await self._server.workers.run(self._make, awaited=True)
            return await self._next() or b""
        except BaseException:
            await self.end()
            raise

    async def rest(self) -> AsyncIterator[bytes]:
        """Yield the other pieces."""
        while piece := await self._next():
            yield piece

    async def _next(self) -> bytes | None:
        self._busy = asyncio.ensure_future(
            self._server.workers.run(next, self._pieces, None, awaited=True)
        )
        return await asyncio.shield(self._busy)  # type: ignore[no-any-return]

    def check_holder(self, scope: Scope) -> None:
        """Refuse to go on where the key of the request was revoked meanwhile."""
        holder, keys = scope.get("state", {}).get("holder"), self._server.keys
        if holder is not None and keys is not None and not keys.is_open(holder.id):
            raise ApiError(401, "wrong_key", "The key was revoked.")

    async def end(self) -> None:
        """Give back what is held, after a piece that is being made."""
        if self._busy is not None and not self._busy.done():
            with suppress(Exception):
                await self._busy
        if isinstance(self._pieces, Generator):
            self._pieces.close()  # an error may hold it, and it holds blocks
        if self._held is not None:
            held, self._held = self._held, None
            held.__exit__(None, None, None)
        if self._counted:
            self._counted = False
            self._server.workers.end_stream()


class Stream(Response):
    """An answer in pieces: it stops when the client goes away, or takes nothing for too long."""

    def __init__(self, first: bytes, pieces: Pieces, seconds: float, media_type: str) -> None:
        super().__init__(b"", media_type=media_type)
        del self.headers["content-length"]
        self._first, self._pieces, self._seconds = first, pieces, seconds
        self.background: BackgroundTask | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        sending = asyncio.ensure_future(self._send(scope, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            await self._pieces.end()
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, scope: Scope, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await self._put(send, self._first)
        try:
            async for piece in self._pieces.rest():
                self._pieces.check_holder(scope)
                await self._put(send, piece)
        except TimeoutError:
            raise
        except Exception as error:
            # The status is sent: what went wrong is told in place of the last record.
            failed = told(error)
            if self.media_type == NDJSON:
                await self._put(send, failed.body(scope.get("request_id", "")) + b"\n")
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _put(self, send: Send, piece: bytes) -> None:
        async with asyncio.timeout(self._seconds):
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def stream(
    server: ServerState,
    make: Callable[[], tuple[AbstractContextManager[Any], Iterator[bytes]]],
    media_type: str = NDJSON,
) -> Stream:
    """Return an answer in pieces, once the first of them is there."""
    pieces = Pieces(server, make)
    first = await pieces.begin()
    return Stream(first, pieces, server.settings.limits.stall_seconds, media_type)


def wanted_type(accept: str, known: tuple[str, ...]) -> str:
    """Return the media type that a client asks for: the first of those known; else JSON.

    Examples
    --------
    >>> wanted_type("application/x-ndjson, */*", ("application/x-ndjson",))
    'application/x-ndjson'
    >>> wanted_type("*/*", ("application/x-ndjson",))
    'application/json'
    """
    named = [one.partition(";")[0].strip().lower() for one in accept.split(",")]
    return next((one for one in named if one in known), "application/json")
