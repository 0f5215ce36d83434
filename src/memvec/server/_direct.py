"""Routes without FastAPI's solver of dependencies, which takes as long as a search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from inspect import signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import Request
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.responses import Response

from memvec.server._access import CHECKS

# Gives an endpoint one of its parameters.
_Giver = Callable[[Request], Awaitable[Any]]


class DirectRoute(APIRoute):
    """A route whose dependencies are awaited one after the other, those of the router first.

    FastAPI solves the tree of dependencies anew for each request, in 0.1 to 0.2 ms. Where each of
    them looks at the request alone, awaiting them is the same. OpenAPI tells of them in any case.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        checks = [CHECKS.get(one.dependency) for one in self.dependencies]
        givers = _givers(self.endpoint, set(self.param_convertors))
        known = [one for one in checks if one is not None]
        if givers is None or len(known) < len(checks):
            return super().get_route_handler()
        endpoint = self.endpoint

        async def handle(request: Request) -> Response:
            for check in known:
                await check(request)
            given = {name: await giver(request) for name, giver in givers.items()}
            return await endpoint(**given)  # type: ignore[no-any-return]

        return handle


def _givers(endpoint: Callable[..., Any], in_path: set[str]) -> dict[str, _Giver] | None:
    """Return what gives an endpoint each of its parameters; None where FastAPI has to."""
    kinds = get_type_hints(endpoint, include_extras=True)
    found = {name: _giver(name, kinds[name], in_path) for name in signature(endpoint).parameters}
    known = {name: giver for name, giver in found.items() if giver is not None}
    return known if len(known) == len(found) else None


def _giver(name: str, kind: Any, in_path: set[str]) -> _Giver | None:
    if kind is Request:
        return _itself
    if kind is str and name in in_path:
        return _from_path(name)
    if get_origin(kind) is Annotated:
        _, *told = get_args(kind)
        if len(told) == 1 and isinstance(told[0], Depends):
            return _of_request_alone(told[0].dependency)
    return None


def _of_request_alone(dependency: Any) -> _Giver | None:
    kinds = [one.annotation for one in signature(dependency, eval_str=True).parameters.values()]
    giver: _Giver = dependency
    return giver if kinds == [Request] else None


async def _itself(request: Request) -> Request:
    return request


def _from_path(name: str) -> _Giver:
    async def value(request: Request) -> str:
        found: str = request.path_params[name]
        return found

    return value
