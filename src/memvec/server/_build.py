"""The application, put together from its routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memvec import __version__
from memvec.errors import MemvecError
from memvec.server import _models
from memvec.server import _routes_collections as collections
from memvec.server import _routes_items as items
from memvec.server import _routes_jobs as jobs
from memvec.server import _routes_page as page
from memvec.server import _routes_photos as photos
from memvec.server import _routes_search as searching
from memvec.server import _routes_status as status
from memvec.server._bodies import complaint
from memvec.server._failures import ApiError, told
from memvec.server._guard import Guard
from memvec.server._settings import ServerSettings
from memvec.server._state import ServerState

_REFUSED = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 500, 501, 503, 507)
_ERROR_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "request_id"],
            "properties": {name: {"type": "string"} for name in ("code", "message", "request_id")},
        }
    },
}


class Application(FastAPI):
    """The routes behind their guard; `server` holds what they share."""

    def __init__(self, server: ServerState, **more: Any) -> None:
        super().__init__(**more)
        self.state.server = server
        self._guard: ASGIApp = Guard(
            super().__call__, server.settings, server.metrics, server.bodies, server.answers
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope["app"] = self
        await self._guard(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return what the API is, with the bodies that are read by hand."""
        if not self.openapi_schema:
            made = get_openapi(title=self.title, version=self.version, routes=self.routes)
            made["components"]["schemas"] |= _schemas()
            refused = {"content": {"application/json": {"schema": _ERROR_SCHEMA}}}
            for operation in _operations(made):
                for code in _REFUSED:
                    operation["responses"][str(code)] = {"description": "Refused.", **refused}
            self.openapi_schema = made
        return self.openapi_schema


def _operations(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for path in schema["paths"].values() for one in path.values()]


def _schemas() -> dict[str, Any]:
    """Return the schemas of all models of bodies."""
    found: dict[str, Any] = {}
    for model in vars(_models).values():
        if isinstance(model, type) and issubclass(model, _models.Ask):
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            found |= schema.pop("$defs", {})
            found[model.__name__] = schema
    return found


def build_app(settings: ServerSettings, server: ServerState | None = None) -> Application:
    """Return the application of a server; nothing listens yet.

    It closes its own parts when it stops; those that it is given may be in use elsewhere.
    """
    is_own, server = server is None, server or ServerState.of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        if is_own:
            await anyio.to_thread.run_sync(server.close)

    # The first ones are found first: searches.
    modules = (searching, collections, items, photos, jobs, status, page)
    app = Application(
        server,
        title="memvec",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=_HANDLERS,
        # Flat: routers that are included are matched twice.
        routes=[route for module in modules for route in module.router.routes],
    )
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "api-key", "content-type", "x-request-id"],
            expose_headers=["x-request-id", "retry-after"],
        )
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer an error in the one shape."""
    if isinstance(error, RequestValidationError):
        failed = complaint(list(error.errors()))
    elif isinstance(error, HTTPException):
        failed = _of_framework(error)
    else:
        failed = told(error)
    headers = {**failed.headers, **dict(getattr(error, "headers", None) or {})}
    return Response(failed.body(request.scope["request_id"]), failed.status, headers)


def _of_framework(error: HTTPException) -> ApiError:
    codes = {404: "not_found", 405: "wrong_method"}
    text = {
        404: "There is nothing at this address.",
        405: "The address does not take this method.",
    }
    status = error.status_code
    message = text.get(status, str(error.detail))
    return ApiError(status, codes.get(status, "refused"), message)


_HANDLERS: Any = cast(
    Any,
    {
        ApiError: _refuse,
        MemvecError: _refuse,
        HTTPException: _refuse,
        RequestValidationError: _refuse,
        Exception: _refuse,  # the guard logs it
    },
)
