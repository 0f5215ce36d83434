"""Bodies of requests: JSON, raw float32 or Arrow, read within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import numpy as np
from fastapi import Request
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from memvec.server._arrow import ARROW, read_vectors
from memvec.server._failures import ApiError
from memvec.server._models import Ask, ItemsAsk, Queries
from memvec.server._settings import Limits
from memvec.server._state import ServerState, state_of

JSON = "application/json"
RAW = "application/octet-stream"
_Ask = TypeVar("_Ask", bound=Ask)
# Complaints that an error names: more do not help.
_MOST_COMPLAINTS = 3
# Bytes; reading more takes milliseconds, for which other requests would wait.
LARGE = 1 << 16


async def read_body(request: Request, server: ServerState) -> bytes:
    """Return the whole body, unless it is too large, too slow or compressed."""
    limits = server.settings.limits
    if request.headers.get("content-encoding", "identity") != "identity":
        # A few bytes can be gigabytes behind it.
        raise ApiError(415, "compressed", "Compressed bodies are not accepted.")
    told = request.headers.get("content-length", "0")
    if told.isdecimal() and (len(told) > 18 or int(told) > limits.body_bytes):
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                if len(body) + len(piece) > limits.body_bytes:
                    raise _too_large(limits)
                server.bodies.take(request.scope, len(piece))
                body += piece
    except TimeoutError:
        text = f"The body did not arrive within {limits.body_seconds:g} s."
        raise ApiError(408, "too_slow", text) from None
    except ClientDisconnect:
        raise ApiError(400, "cut_off", "The client went away.") from None
    return bytes(body)


def _too_large(limits: Limits) -> ApiError:
    text = f"A request may hold at most {limits.body_bytes:,} bytes."
    return ApiError(413, "too_large", text)


def body(model: type[_Ask]) -> Callable[[Request], Awaitable[_Ask]]:
    """Return what reads a request as a model: a dependency."""

    async def read(request: Request) -> _Ask:
        server = state_of(request)
        data = await read_body(request, server)
        if len(data) <= LARGE:
            return parsed(model, request, data)
        return await server.workers.run(parsed, model, request, data)

    return read


def parsed(model: type[_Ask], request: Request, data: bytes) -> _Ask:
    """Return a body as a model, by its media type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        return _checked(model, data)
    takes_vectors = issubclass(model, Queries | ItemsAsk)
    if kind not in (RAW, ARROW) or not takes_vectors:
        known = ", ".join([JSON, RAW, ARROW] if takes_vectors else [JSON])
        text = f"The Content-Type must be {known}. Got {kind[:100]!r} instead."
        raise ApiError(415, "unknown_media_type", text)
    asked = _checked(model, request.query_params.get("ask", "{}").encode(errors="replace"))
    carrier = cast(Any, asked)
    if kind == RAW:
        if len(data) % 4:
            text = f"A raw body must hold float32 numbers. Got {len(data)} bytes instead."
            raise ApiError(422, "invalid_value", text)
        carrier.carry(np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False))
        return asked
    table = read_vectors(data)
    carrier.carry(table.vectors)
    if isinstance(asked, ItemsAsk):
        asked.ids = table.ids if asked.ids is None else asked.ids
        asked.metadata = table.metadata if asked.metadata is None else asked.metadata
    return asked


def _checked(model: type[_Ask], text: bytes) -> _Ask:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise complaint(error.errors(include_url=False, include_input=False)) from None


def complaint(found: list[Any]) -> ApiError:
    """Return the error of a request that is not as OpenAPI says."""
    told = [
        f"{'.'.join(str(place) for place in one['loc']) or 'the body'}: {one['msg']}"
        for one in found[:_MOST_COMPLAINTS]
    ]
    return ApiError(422, "invalid_request", "; ".join(told)[:1000] + ".")


def described(model: type[Ask]) -> dict[str, Any]:
    """Return how OpenAPI tells of the body of a model."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    content: dict[str, Any] = {JSON: {"schema": schema}}
    extra: dict[str, Any] = {"requestBody": {"required": True, "content": content}}
    if issubclass(model, Queries | ItemsAsk):
        binary = {"schema": {"type": "string", "format": "binary"}}
        content |= {RAW: binary, ARROW: binary}
        extra["parameters"] = [
            {
                "name": "ask",
                "in": "query",
                "description": f"{model.__name__} as JSON, without vectors, where the body is not "
                "JSON.",
                "schema": {"type": "string"},
            }
        ]
    return extra
