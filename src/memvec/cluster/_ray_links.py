"""Shards as actors of Ray: each opens its folder, and is asked by the driver."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from memvec.cluster._open import open_shard
from memvec.cluster._ray import reason_of, require_ray, warn_of_cpus
from memvec.cluster._root import Root
from memvec.cluster._wire import (
    Answer,
    Array,
    Held,
    gathered,
    held_answer,
    is_small,
    packed_answer,
    packed_find,
    pieces_of,
    unpacked_answer,
    unpacked_find,
)
from memvec.collection import (
    LOSSES,
    Known,
    Link,
    Listing,
    Shard,
    Sought,
    State,
    Waiting,
    listed_state,
)
from memvec.errors import LockedError, ShardError
from memvec.kernels import THREADS
from memvec.types import Float32Array

# Larger arrays go into the object store, once for all shards; Ray sends smaller ones with the call.
_INLINE_BYTES = 100_000
# How long a shard may take to come back, with the node that it ran on given up for dead.
_RESTART_SECONDS = 120.0
_PAUSE_SECONDS = 0.1
# What is called instead where a call may have been carried out before its actor died.
_AGAIN = {"insert": "insert_again", "delete": "delete_again"}
# Answers that an actor holds for threads that fetch them; one that nobody fetches makes room.
_ANSWERS_HELD = 16
# Pieces of an answer that lie in the object store before the driver takes the first of them.
_PIECES_AHEAD = 4


class ShardActor:
    """What runs in the process of an actor: the shard, opened at its first call."""

    def __init__(self, root: Root, number: int, options: dict[str, Any], threads: int) -> None:
        self._open = root, number, options
        self._threads = threads
        # A shard that seals would take all cores of the node.
        os.environ[THREADS] = str(threads)
        self._shard: Shard | None = None
        self._held: OrderedDict[str, Answer] = OrderedDict()

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the shard."""
        if self._shard is None:
            if method == "close":
                return None
            self._shard = open_shard(*self._open)
            self._shard.threads = self._threads
        return getattr(self._shard, method)(*args)

    def find(self, message: bytes, change: int, allowed: bytes | None) -> bytes | Held:
        """Search the shard; the question, and a small answer, are bytes."""
        return self.find_shared(*unpacked_find(message, change, allowed))

    def find_shared(self, rows: Array, sought: Sought) -> bytes | Held:
        """Search the shard; a large answer is held until its pieces are asked for."""
        answer: Answer = self.call("find", rows, sought)
        if is_small(answer):
            return packed_answer(answer)
        token = uuid.uuid4().hex
        self._held[token] = answer
        while len(self._held) > _ANSWERS_HELD:
            self._held.popitem(last=False)
        return held_answer(token, answer)

    def pieces(self, token: str) -> Iterator[Array]:
        """Yield an answer that is held; nothing where it made room, or an actor before held it."""
        answer = self._held.pop(token, None)
        if answer is not None:
            yield from pieces_of(answer)


class Answers:
    """The results that each thread waits for; the first that is wanted fetches all of them.

    One call of Ray for all shards of a fan-out takes less time than one for each.
    """

    def __init__(self, ray: Any) -> None:
        self._ray, self._of_thread = ray, threading.local()

    def expect(self, reference: Any) -> Any:
        """Take note of a result that will be wanted; return its reference."""
        self._waiting().append(reference)
        return reference

    def get(self, reference: Any) -> Any:
        """Return a result, or raise what its call raised."""
        waiting = self._waiting()
        if reference in waiting:
            some, waiting[:] = list(waiting), []
            # Where any of them fails, each is fetched, or fails, by itself.
            with suppress(self._ray.exceptions.RayError):
                self._of_thread.fetched = dict(zip(some, self._ray.get(some), strict=True))
        fetched: dict[Any, Any] = getattr(self._of_thread, "fetched", {})
        return fetched.pop(reference) if reference in fetched else self._ray.get(reference)

    def _waiting(self) -> list[Any]:
        if not hasattr(self._of_thread, "waiting"):
            self._of_thread.waiting = []
        waiting: list[Any] = self._of_thread.waiting
        return waiting


class Messages:
    """The message of a search, packed once for all shards that are asked the same."""

    def __init__(self) -> None:
        # One tuple, replaced at once: threads may ask at the same time.
        self._last: tuple[Any, Any, Any, set[int], bytes] = (None, None, None, set(), b"")

    def of(self, number: int, rows: Array, sought: Sought) -> bytes:
        """Return queries and what is sought as bytes, for a shard.

        A shard that is told once more is asked something new: rows may have changed in place.
        """
        plain = sought._replace(change=0, allowed=None, thresholds=None)
        lines = sought.thresholds
        queries, known, asked, told, message = self._last
        if queries is not rows or known is not lines or asked != plain or number in told:
            told, message = set(), packed_find(rows, sought)
            self._last = rows, lines, plain, told, message
        told.add(number)
        return message


class _Failures(NamedTuple):
    """The exceptions of Ray: what a method raised, and what tells that an actor or node is gone."""

    of_task: type[Exception]
    of_actor: tuple[type[Exception], ...]


class RayLink:
    """The way to a shard that is an actor; a call that its death cut short is made again.

    Attributes
    ----------
    number : int
        Of the shard.
    folder : Path
        Of the shard.
    actor : actor handle
        What Ray knows the shard by.
    """

    def __init__(
        self, ray: Any, root: Root, number: int, actor: Any, answers: Answers, messages: Messages
    ) -> None:
        self.number, self.folder, self.actor = number, root.shard_folder(number), actor
        self._ray, self._settings = ray, root.settings
        self._answers, self._messages = answers, messages
        self._has_answered = self._was_open = False
        gone = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        self._failures = _Failures(ray.exceptions.RayTaskError, gone)

    def begin(self, method: str, *args: Any) -> Callable[[], Any]:
        """Send a call to the actor; return what waits for its result."""
        if method == "close":
            return self._closing()
        answer = self._sent(method, args)

        def wait() -> Any:
            try:
                return self._result(answer, method, args)
            except LOSSES as error:
                raise ShardError(self.number, self.folder, str(error)) from error

        return wait

    def _closing(self) -> Callable[[], None]:
        """Have the shard closed and its actor ended; one that never answered may not run at all."""
        answer = self._sent("close", ()) if self._has_answered else None

        def wait() -> None:
            try:
                if answer is not None:
                    self._answers.get(answer)
            except self._failures.of_actor:
                pass  # it is gone, and so is what it had open
            finally:
                self._ray.kill(self.actor)

        return wait

    def _result(self, answer: Any, method: str, args: tuple[Any, ...]) -> Any:
        """Return the result of a call; after a death, that of another one."""
        end = None
        while True:
            try:
                told = self._answers.get(answer)
                self._has_answered = True
                found = self._fetched(told) if isinstance(told, Held) else told
                self._was_open = True
                if found is not None or not isinstance(told, Held):
                    return unpacked_answer(found) if isinstance(found, bytes) else found
                reason = "an answer that it held was lost"
            except self._failures.of_task as error:
                self._has_answered = True
                cause = getattr(error, "cause", error)
                # The lock of the actor before, whose process has not quite ended.
                if not (self._was_open and isinstance(cause, LockedError)):
                    raise cause from None
                reason = str(cause)
            except self._failures.of_actor as error:
                reason = reason_of(error)
                method = _AGAIN.get(method, method)
            # A shard has that long from its death on, however long the call took before.
            end = end or time.monotonic() + _RESTART_SECONDS
            if time.monotonic() > end:
                raise ShardError(self.number, self.folder, reason)
            time.sleep(_PAUSE_SECONDS)
            answer = self._sent(method, args)

    def _fetched(self, held: Held) -> Answer | None:
        """Return an answer that the actor holds, piece by piece; None where it does not."""
        stream = self.actor.pieces.options(
            num_returns="streaming", _generator_backpressure_num_objects=_PIECES_AHEAD
        ).remote(held.token)
        return gathered(held, (self._ray.get(piece) for piece in stream))

    def _sent(self, method: str, args: tuple[Any, ...]) -> Any:
        """Send a call; small searches without a filter as bytes."""
        if method != "find":
            reference = self.actor.call.remote(method, *args)
        elif isinstance(args[0], np.ndarray) and args[1].where is None:
            rows, sought = args
            message = self._messages.of(self.number, rows, sought)
            reference = self.actor.find.remote(message, sought.change, sought.allowed)
        else:
            reference = self.actor.find_shared.remote(*args)
        return self._answers.expect(reference)

    def state(self, known: State | None, in_use: frozenset[int]) -> Callable[[], State]:
        """Ask for the state of the shard; its segments are mapped here, too."""
        listing = self.begin("listing", Known.of(known, in_use))

        def wait() -> State:
            found: Listing = listing()
            if known is not None and known.change == found.change:
                return known
            empty = Waiting.empty(self._settings.dim, self._settings.dtype)
            try:
                return listed_state(self.folder, found, known, empty)
            except LOSSES as error:
                raise ShardError(self.number, self.folder, str(error)) from error

        return wait

    def share(self, rows: Float32Array) -> Any:
        """Return rows, or what the object store knows them by."""
        return rows if rows.nbytes <= _INLINE_BYTES else self._ray.put(rows)


def ray_links(root: Root, options: dict[str, Any], cpus: float) -> list[Link]:
    """Start an actor for each shard; Ray restarts those that die, on whichever node is left."""
    ray = require_ray("memvec.cluster.open without local=True")
    warn_of_cpus(ray, "shards", cpus, root.n_shards)
    made = ray.remote(ShardActor).options(num_cpus=cpus, max_restarts=-1, max_task_retries=0)
    threads, answers, messages = max(1, int(cpus)), Answers(ray), Messages()
    return [
        RayLink(ray, root, number, made.remote(root, number, options, threads), answers, messages)
        for number in range(root.n_shards)
    ]
