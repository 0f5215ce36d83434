"""Who may do what: keys, checked before anything else of a request is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from memvec.server._failures import ApiError
from memvec.server._keys import Scope
from memvec.server._state import ServerState, state_of

_BEARER = HTTPBearer(auto_error=False, description="A key of `memvec keys create`.")
_HEADER = APIKeyHeader(name="api-key", auto_error=False, description="The same key.")


def needs(scope: Scope) -> Callable[..., Awaitable[None]]:
    """Return what refuses requests without a key of a scope: a dependency."""

    async def check(
        request: Request,
        bearer: HTTPAuthorizationCredentials | None = Security(_BEARER),  # noqa: B008
        header: str | None = Security(_HEADER),
    ) -> None:
        await check_key(state_of(request), bearer.credentials if bearer else header, scope)

    return check


async def check_key(server: ServerState, key: str | None, scope: Scope) -> None:
    """Refuse a key that does not open a scope."""
    if server.keys is None:
        return
    if not key:
        raise ApiError(401, "no_key", "This server needs a key: Authorization: Bearer KEY.")
    if server.keys.is_known(key):
        holder = server.keys.holder(key)
    else:
        # A check takes 50 ms: those who guess wait for each other, and nobody else does.
        holder = await server.key_checks.run(server.keys.holder, key)
    if holder is None or holder.revoked is not None:
        raise ApiError(401, "wrong_key", "The key is unknown, or was revoked.")
    if not holder.opens(scope):
        raise ApiError(403, "wrong_scope", f"The key does not open the scope {scope!r}.")
