"""``/v1/collections``: create, list, look at, delete, look after."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from memvec.client import Record, health_record, settings_record
from memvec.collection import Collection
from memvec.server._access import needs
from memvec.server._answers import answer
from memvec.server._bodies import body, described
from memvec.server._direct import DirectRoute
from memvec.server._models import CreateAsk, NothingAsk, RecalibrateAsk, SealAsk, ShadowAsk
from memvec.server._state import Server, ServerState

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=DirectRoute)
READS, WRITES = [Depends(needs("read"))], [Depends(needs("write"))]


def info_record(server: ServerState, name: str, collection: Collection) -> Record:
    """Return what a collection is, and how it does."""
    note = ""
    if collection.read_only:
        note = "This server only reads it: another process writes it."
        if server.settings.read_only:
            note = "This server refuses changes."
    latency = server.metrics.latency(name)
    return {
        "name": name,
        "writable": not collection.read_only,
        "note": note,
        "settings": settings_record(collection.settings),
        "stats": asdict(collection.stats()),
        "health": health_record(collection.health),
        "shadow": collection.shadow,
        "latency_ms": None if latency is None else 1000 * latency,
    }


@router.get("", dependencies=READS)
async def list_collections(server: Server) -> Response:
    """List all collections: what each is, and how it does."""

    def look() -> list[Record]:
        return [_looked_at(server, name) for name in server.registry.names()]

    return answer({"collections": await server.workers.run(look)})


def _looked_at(server: ServerState, name: str) -> Record:
    """Return what a collection is; of one that cannot be opened, why."""
    from memvec.server._failures import ApiError, told

    try:
        with server.registry.lease(name) as collection:
            return info_record(server, name, collection)
    except Exception as error:
        failed: ApiError = told(error)
        return {"name": name, "error": {"code": failed.code, "message": failed.message}}


@router.post("", dependencies=WRITES, status_code=201, openapi_extra=described(CreateAsk))
async def create_collection(
    server: Server, asked: Annotated[CreateAsk, Depends(body(CreateAsk))]
) -> Response:
    """Make a collection."""
    options = asked.options("name")

    def make() -> Record:
        server.registry.create(asked.name, options)
        return _looked_at(server, asked.name)

    return answer(await server.workers.run(make, awaited=True), status=201)


@router.get("/{name}", dependencies=READS)
async def get_collection(server: Server, name: str) -> Response:
    """Tell what a collection is, and how it does."""

    def look() -> Record:
        with server.registry.lease(name) as collection:
            return info_record(server, name, collection)

    return answer(await server.workers.run(look))


@router.delete("/{name}", dependencies=WRITES)
async def delete_collection(server: Server, name: str) -> Response:
    """Delete a collection with everything in it."""
    await server.removals.run(server.registry.remove, name, awaited=True)
    return answer({"deleted": name})


@router.post("/{name}/check", dependencies=READS, openapi_extra=described(NothingAsk))
async def check_collection(
    server: Server, name: str, asked: Annotated[NothingAsk, Depends(body(NothingAsk))]
) -> Response:
    """Read every file of a collection and compare checksums."""

    def check() -> Record:
        with server.registry.lease(name) as collection:
            found = collection.check()
        return {"ok": found.ok, **asdict(found)}

    return answer(await server.workers.run(check))


@router.post("/{name}/seal", dependencies=WRITES, openapi_extra=described(SealAsk))
async def seal_collection(
    server: Server, name: str, asked: Annotated[SealAsk, Depends(body(SealAsk))]
) -> Response:
    """Make a segment of all vectors that wait."""

    def seal() -> int:
        with server.registry.lease(name, write=True) as collection:
            return collection.seal(merge=asked.merge, progress=False)

    return answer({"rows": await server.workers.run(seal, awaited=True)})


@router.post("/{name}/compact", dependencies=WRITES, openapi_extra=described(NothingAsk))
async def compact_collection(
    server: Server, name: str, asked: Annotated[NothingAsk, Depends(body(NothingAsk))]
) -> Response:
    """Make one segment of everything, without what was deleted."""

    def compact() -> int:
        with server.registry.lease(name, write=True) as collection:
            return collection.compact(progress=False)

    return answer({"rows": await server.workers.run(compact, awaited=True)})


@router.put("/{name}/shadow", dependencies=WRITES, openapi_extra=described(ShadowAsk))
async def set_shadow(
    server: Server, name: str, asked: Annotated[ShadowAsk, Depends(body(ShadowAsk))]
) -> Response:
    """Compare a share of the queries with the exhaustive search."""

    def change() -> float:
        with server.registry.lease(name, change=True) as collection:
            collection.shadow = asked.share
            return collection.shadow

    return answer({"shadow": await server.workers.run(change)})


@router.post("/{name}/recalibrate", dependencies=WRITES, openapi_extra=described(RecalibrateAsk))
async def recalibrate(
    server: Server, name: str, asked: Annotated[RecalibrateAsk, Depends(body(RecalibrateAsk))]
) -> Response:
    """Solve thresholds anew, on recent queries or on those given."""

    def solve() -> Response:
        with server.registry.lease(name, change=True) as collection:
            rows = None
            if asked.is_given:
                rows = asked.vectors(collection, server.settings.limits.vectors)
            return answer({}, collection.recalibrate(rows, progress=False))

    return await server.workers.run(solve, awaited=True)
