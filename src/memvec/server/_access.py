"""Who may do what: keys, checked before anything else of a request is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from memvec.server._failures import ApiError
from memvec.server._keys import Key, Scope
from memvec.server._state import ServerState, state_of

_BEARER = HTTPBearer(auto_error=False, description="A key of `memvec keys create`.")
_HEADER = APIKeyHeader(name="api-key", auto_error=False, description="The same key.")


# What looks at a request alone, by the dependency that OpenAPI tells of.
CHECKS: dict[Any, Callable[[Request], Awaitable[None]]] = {}


def needs(scope: Scope) -> Callable[..., Awaitable[None]]:
    """Return what refuses requests without a key of a scope: a dependency."""

    async def check(request: Request) -> None:
        request.state.holder = await check_key(state_of(request), given_key(request), scope)

    async def declared(
        request: Request,
        bearer: HTTPAuthorizationCredentials | None = Security(_BEARER),  # noqa: B008
        header: str | None = Security(_HEADER),
    ) -> None:
        await check(request)

    CHECKS[declared] = check
    return declared


def given_key(request: Request) -> str | None:
    """Return the key that a request came with, in either header."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    return request.headers.get("api-key")


async def given_holder(request: Request) -> Key | None:
    """Return whose key a request came with; None where nobody needs one."""
    found: Key | None = request.state.holder
    return found


Holder = Annotated[Key | None, Depends(given_holder)]


async def check_key(server: ServerState, key: str | None, scope: Scope) -> Key | None:
    """Return whose key it is; refuse one that does not open a scope."""
    if server.keys is None:
        return None
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
    return holder
