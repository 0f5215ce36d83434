"""What the routes of a server share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, cast

from fastapi import Depends, Request

from memvec.server._encoders import Encoder
from memvec.server._jobs import Jobs
from memvec.server._keys import KeyFile
from memvec.server._metrics import Metrics
from memvec.server._registry import Registry
from memvec.server._settings import ServerSettings
from memvec.server._work import Bodies, Workers

# Each waits for those who read its collection, and so has a thread that no search needs.
_REMOVALS = 16


@dataclass(frozen=True)
class ServerState:
    """What the routes share.

    Attributes
    ----------
    settings : ServerSettings
        What the server was told.
    registry : Registry
        Its collections.
    workers, key_checks, removals : Workers
        Its threads, those that check keys, and those that wait to delete a collection.
    bodies, answers : Bodies
        What requests hold, and what is sent to them.
    jobs : Jobs
        Its joins.
    metrics : Metrics
        Its counts.
    keys : KeyFile or None
        Who may come.
    encoder : Encoder or None
        What makes vectors of texts or photographs.
    """

    settings: ServerSettings
    registry: Registry
    workers: Workers
    key_checks: Workers
    removals: Workers
    bodies: Bodies
    answers: Bodies
    jobs: Jobs
    metrics: Metrics
    keys: KeyFile | None
    encoder: Encoder | None

    @classmethod
    def of(cls, settings: ServerSettings) -> ServerState:
        """Return the parts of a server."""
        registry = Registry(settings)
        return cls(
            settings,
            registry,
            Workers(settings.limits),
            Workers(replace(settings.limits, running=1, queued=settings.limits.key_checks)),
            Workers(replace(settings.limits, running=_REMOVALS, queued=0)),
            Bodies(settings.limits.bodies_bytes, "requests"),
            Bodies(settings.limits.answers_bytes, "answers"),
            Jobs(registry, settings.limits),
            Metrics(),
            None if settings.key_file is None else KeyFile(settings.key_file),
            None if settings.encoder is None else Encoder(settings.encoder),
        )

    def close(self) -> None:
        """Stop: jobs are cancelled, requests finished, collections closed."""
        self.jobs.close()
        self.workers.close()
        self.key_checks.close()
        self.removals.close()
        self.registry.close()


def state_of(request: Request) -> ServerState:
    """Return the parts of the server that a request came to."""
    return cast(ServerState, request.app.state.server)


async def given_state(request: Request) -> ServerState:
    """Return the same as a dependency: awaited, since others are called in a thread."""
    return state_of(request)


Server = Annotated[ServerState, Depends(given_state)]
