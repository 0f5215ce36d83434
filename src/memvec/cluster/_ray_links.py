"""Shards as actors of Ray: each opens its folder, and is asked by the driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from memvec.cluster._open import open_shard
from memvec.cluster._ray import require_ray
from memvec.cluster._root import Root
from memvec.collection import LOSSES, Known, Link, Listing, Shard, State, Waiting, listed_state
from memvec.errors import LockedError, ShardError
from memvec.types import Float32Array

# Larger arrays go into the object store, once for all shards; Ray sends smaller ones with the call.
_INLINE_BYTES = 100_000
# How long a shard may take to come back, with the node that it ran on given up for dead.
_RESTART_SECONDS = 120.0
_PAUSE_SECONDS = 0.1
# What is called instead where a call may have been carried out before its actor died.
_AGAIN = {"insert": "insert_again", "delete": "delete_again"}


class ShardActor:
    """What runs in the process of an actor: the shard, opened at its first call."""

    def __init__(self, root: Root, number: int, options: dict[str, Any], threads: int) -> None:
        self._open = root, number, options
        self._threads = threads
        self._shard: Shard | None = None

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the shard."""
        if self._shard is None:
            if method == "close":
                return None
            self._shard = open_shard(*self._open)
            self._shard.threads = self._threads
        return getattr(self._shard, method)(*args)


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

    def __init__(self, ray: Any, root: Root, number: int, actor: Any) -> None:
        self.number, self.folder, self.actor = number, root.shard_folder(number), actor
        self._ray, self._settings = ray, root.settings
        gone = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        self._failures = _Failures(ray.exceptions.RayTaskError, gone)

    def begin(self, method: str, *args: Any) -> Callable[[], Any]:
        """Send a call to the actor; return what waits for its result."""
        answer = self.actor.call.remote(method, *args)

        def wait() -> Any:
            try:
                return self._result(answer, method, args)
            except LOSSES as error:
                raise ShardError(self.number, self.folder, str(error)) from error
            finally:
                if method == "close":
                    self._ray.kill(self.actor)

        return wait

    def _result(self, answer: Any, method: str, args: tuple[Any, ...]) -> Any:
        """Return the result of a call; after a death, that of another one."""
        end = time.monotonic() + _RESTART_SECONDS
        while True:
            try:
                return self._ray.get(answer)
            except self._failures.of_task as error:
                cause = getattr(error, "cause", error)
                # The lock of an actor that was just killed.
                if not isinstance(cause, LockedError) or method not in _AGAIN.values():
                    raise cause from None
                reason = str(cause)
            except self._failures.of_actor as error:
                reason = str(error).splitlines()[0]
                method = _AGAIN.get(method, method)
            if method == "close":
                return None
            if time.monotonic() > end:
                raise ShardError(self.number, self.folder, reason)
            time.sleep(_PAUSE_SECONDS)
            answer = self.actor.call.remote(method, *args)

    def state(self, known: State | None) -> Callable[[], State]:
        """Ask for the state of the shard; its segments are mapped here, too."""
        listing = self.begin("listing", Known.of(known))

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
    made = ray.remote(ShardActor).options(num_cpus=cpus, max_restarts=-1, max_task_retries=0)
    threads = max(1, int(cpus))
    return [
        RayLink(ray, root, number, made.remote(root, number, options, threads))
        for number in range(root.n_shards)
    ]
