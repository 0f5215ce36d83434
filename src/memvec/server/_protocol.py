"""Connections that ask for nothing: closed after a while, and counted."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from memvec.server._failures import ApiError
from memvec.server._settings import Limits


def protocol_of(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with three limits that it lacks.

    uvicorn times the pause between requests, and nothing before the first one or within the head of
    one: a client that sends a byte a second holds its connection for ever. Its
    ``limit_concurrency`` refuses requests, but keeps their connections. A connection that is closed
    stays open until the client has taken what was sent, if ever.
    """

    class Bounded(H11Protocol):
        """A connection whose next request must begin in time, and whose answers must be taken."""

        _asking: asyncio.TimerHandle | None = None
        _taking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # told of every byte that waits
            if len(self.connections) > limits.connections:
                transport.write(_REFUSAL)
                transport.close()
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            self.resume_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._expect_less_than(self.transport.get_write_buffer_size())

        def resume_writing(self) -> None:
            if self._taking is not None:
                self._taking.cancel()
                self._taking = None
            super().resume_writing()

        def _expect_less_than(self, n_bytes: int) -> None:
            """Cut the client off where it has taken nothing of what waits, after a while."""

            def look() -> None:
                waiting = self.transport.get_write_buffer_size()
                if waiting >= n_bytes:
                    self.transport.abort()
                else:
                    self._expect_less_than(waiting)

            self._taking = self.loop.call_later(limits.stall_seconds, look)

        def _watch(self) -> None:
            """Wait for the head of a request, from its first byte on, or for it to be answered.

            The rest of a body that nobody reads any more is waited for as long.
            """
            if self.cycle is not None and not self.cycle.response_complete:
                self._forget()
            elif self._asking is None:
                self._asking = self.loop.call_later(limits.head_seconds, self.transport.close)

        def _forget(self) -> None:
            if self._asking is not None:
                self._asking.cancel()
                self._asking = None

    return Bounded


def _refusal() -> bytes:
    failed = ApiError(503, "too_many_connections", "Too many connections are open.", retry_after=5)
    body = failed.body("")
    headers = {**failed.headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode() + body


_REFUSAL = _refusal()
