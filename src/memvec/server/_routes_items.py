"""``/v1/collections/NAME/items``: add, replace, get, delete, list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memvec.client import Record, item_record
from memvec.collection import Collection
from memvec.server._access import needs
from memvec.server._answers import NDJSON, answer, json_text, stream, wanted_type
from memvec.server._bodies import body, described
from memvec.server._direct import DirectRoute
from memvec.server._failures import ApiError
from memvec.server._models import (
    DeleteAsk,
    GetAsk,
    ItemsAsk,
    ScrollAsk,
    check_carried,
    check_number,
)
from memvec.server._state import Server

router = APIRouter(prefix="/v1/collections/{name}/items", tags=["items"], route_class=DirectRoute)
READS, WRITES = [Depends(needs("read"))], [Depends(needs("write"))]
_AT_ONCE = 256


@router.post("", dependencies=WRITES, status_code=201, openapi_extra=described(ItemsAsk))
async def add_items(
    server: Server, name: str, asked: Annotated[ItemsAsk, Depends(body(ItemsAsk))]
) -> Response:
    """Add new items, all or none of them; they are on the disk when the answer comes."""

    def add() -> list[int | str]:
        with server.registry.lease(name, write=True) as collection:
            rows = asked.matrix(collection, server.settings.limits.vectors)
            return collection.add(rows, asked.ids, asked.metadata)

    return answer({"ids": await server.workers.run(add, awaited=True)}, status=201)


@router.put("", dependencies=WRITES, openapi_extra=described(ItemsAsk))
async def upsert_items(
    server: Server, name: str, asked: Annotated[ItemsAsk, Depends(body(ItemsAsk))]
) -> Response:
    """Add items and replace those that have the same ids; all or none of them."""

    def upsert() -> list[int | str]:
        with server.registry.lease(name, write=True) as collection:
            rows = asked.matrix(collection, server.settings.limits.vectors)
            if asked.ids is None:
                raise ApiError(422, "invalid_value", "Items that may be replaced need ids.")
            return collection.upsert(rows, asked.ids, asked.metadata)

    return answer({"ids": await server.workers.run(upsert, awaited=True)})


@router.post("/get", dependencies=READS, openapi_extra=described(GetAsk))
async def get_items(
    server: Server, name: str, asked: Annotated[GetAsk, Depends(body(GetAsk))]
) -> Response:
    """Return items by id."""
    check_number(len(asked.ids), server.settings.limits.page_items, "ids")

    def get() -> Response:
        with server.registry.lease(name) as collection:
            missing = [one for one in asked.ids if one not in collection]
            if missing and asked.missing == "refuse":
                raise ApiError(404, "not_found", f"There is no item {missing[0]!r}.")
            ids = [one for one in asked.ids if one not in set(missing)]
            check_carried(len(ids), collection.dim, asked.include, server.settings.limits)
            items = collection.get(ids) if ids else []
            return answer({"items": [item_record(item, asked.include) for item in items]})

    return await server.workers.run(get)


@router.post("/delete", dependencies=WRITES, openapi_extra=described(DeleteAsk))
async def delete_items(
    server: Server, name: str, asked: Annotated[DeleteAsk, Depends(body(DeleteAsk))]
) -> Response:
    """Delete items by id, all or none of them, or all that pass a filter."""
    if (asked.ids is None) == (asked.where is None):
        raise ApiError(422, "invalid_value", "Give either ids or where.")

    def delete() -> int:
        with server.registry.lease(name, write=True) as collection:
            ids = asked.ids
            if ids is None:
                ids = [item.id for item in collection.items(asked.where)]
            return collection.delete(ids) if ids else 0

    return answer({"deleted": await server.workers.run(delete, awaited=True)})


@router.post("/scroll", dependencies=READS, openapi_extra=described(ScrollAsk))
async def scroll_items(
    server: Server,
    name: str,
    request: Request,
    asked: Annotated[ScrollAsk, Depends(body(ScrollAsk))],
) -> Response:
    """Return a page of items in the order they came; with Accept: application/x-ndjson, all."""
    if wanted_type(request.headers.get("accept", ""), (NDJSON,)) == NDJSON:

        def make() -> tuple[AbstractContextManager[Any], Iterator[bytes]]:
            held = server.registry.lease(name)
            return held, _lines(held.__enter__(), asked)

        return await stream(server, make)
    check_number(asked.limit, server.settings.limits.page_items, "items")

    def page() -> Record:
        with server.registry.lease(name) as collection:
            check_carried(asked.limit, collection.dim, asked.include, server.settings.limits)
            items = collection.items(asked.where, first=asked.first)
            *found, after = [*islice(items, asked.limit + 1), None][: asked.limit + 1]
            records = [item_record(item, asked.include) for item in found if item is not None]
            return {"items": records, "next": None if after is None else after.id}

    return answer(await server.workers.run(page))


def _lines(collection: Collection, asked: ScrollAsk) -> Iterator[bytes]:
    """Yield all items as lines of JSON."""
    yield b'{"begin":"items"}\n'
    items, n_items = iter(collection.items(asked.where, first=asked.first)), 0
    while some := [item_record(item, asked.include) for item in islice(items, _AT_ONCE)]:
        n_items += len(some)
        yield "".join(f"{json_text(record)}\n" for record in some).encode()
    yield f"{json_text({'end': 'items', 'n_items': n_items})}\n".encode()
