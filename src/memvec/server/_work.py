"""Where requests are worked on: a few threads, a bounded queue, a time limit."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.types import Scope

from memvec.server._failures import ApiError
from memvec.server._settings import Limits

_Result = TypeVar("_Result")


class Bodies:
    """Counts the bytes that requests, or answers, hold at a time, until the answers are sent.

    Parameters
    ----------
    most : int
        So many are held.
    what : {"requests", "answers"}
        Whose bodies they are.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what, self.held = most, what, 0
        self._key = f"memvec.bytes_of_{what}"

    def take(self, scope: Scope, n_bytes: int) -> None:
        """Count bytes of a request, or refuse them."""
        if n_bytes > self._most:
            text = f"The bodies of {self._what} may hold at most {self._most:,} bytes."
            raise ApiError(413, "too_large", text)
        if self.held + n_bytes > self._most:
            text = f"The bodies of other {self._what} take {self.held:,} bytes already."
            raise ApiError(429, "too_busy", text, retry_after=1)
        self.held += n_bytes
        scope[self._key] = scope.get(self._key, 0) + n_bytes

    def give_back(self, scope: Scope) -> None:
        """Forget the bytes of a request."""
        self.held -= scope.pop(self._key, 0)


class Workers:
    """Runs the library in threads, so that one slow search does not stop the others.

    Attributes
    ----------
    pending : int
        Requests that are worked on or wait.
    streams : int
        Answers that are being streamed.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pool = ThreadPoolExecutor(limits.running, thread_name_prefix="memvec-request")
        self.pending = 0
        self.streams = 0

    @property
    def running(self) -> int:
        """How many requests are worked on."""
        return min(self.pending, self._limits.running)

    async def run(
        self, work: Callable[..., _Result], *arguments: Any, awaited: bool = False
    ) -> _Result:
        """Return what a function returns, called in a thread.

        Parameters
        ----------
        work : callable
            What is done.
        awaited : bool
            Wait as long as it takes: what changes a collection is not left alone.
        """
        if self.pending >= self._limits.running + self._limits.queued:
            text = f"{self.pending} requests are worked on or wait already."
            raise ApiError(429, "too_busy", text, retry_after=1)
        self.pending += 1
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Result] = loop.create_future()
        begun: Future[_Result] = self._pool.submit(contextvars.copy_context().run, work, *arguments)
        # Only when the thread is free: a request that was given up still works.
        begun.add_done_callback(lambda done: loop.call_soon_threadsafe(self._ended, done, answer))
        if awaited:
            return await asyncio.shield(answer)
        # As wait_for(wrap_future(…)) does it, waking the loop once in place of twice.
        timer = loop.call_later(self._limits.seconds, self._give_up, answer)
        try:
            return await answer
        finally:
            timer.cancel()
            begun.cancel()  # nobody waits: it need not begin

    def _ended(self, done: Future[_Result], answer: asyncio.Future[_Result]) -> None:
        self.pending -= 1
        if answer.done():
            return
        if done.cancelled():
            answer.cancel()
        elif (error := done.exception()) is not None:
            # No future holds a StopIteration; the request would never be answered.
            stopped = isinstance(error, StopIteration)
            answer.set_exception(RuntimeError(repr(error)) if stopped else error)
        else:
            answer.set_result(done.result())

    def _give_up(self, answer: asyncio.Future[_Result]) -> None:
        if not answer.done():
            text = f"The answer takes longer than {self._limits.seconds:g} s."
            answer.set_exception(ApiError(503, "too_slow", text, retry_after=10))

    def begin_stream(self) -> None:
        """Count a stream, or refuse it."""
        if self.streams >= self._limits.streams:
            text = f"{self.streams} answers are being streamed already."
            raise ApiError(429, "too_many_streams", text, retry_after=5)
        self.streams += 1

    def end_stream(self) -> None:
        """Count a stream that has ended."""
        self.streams -= 1

    def close(self) -> None:
        """Wait for what runs; what waits in the queue is given up."""
        self._pool.shutdown(wait=True, cancel_futures=True)
