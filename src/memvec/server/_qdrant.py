"""The part of Qdrant's REST API that its clients use for one unnamed cosine vector.

Points are items, payloads are metadata. What is not here is answered with 501.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from memvec.collection import Collection
from memvec.errors import InvalidTypeError, InvalidValueError, MemvecError
from memvec.server._access import check_key, given_key
from memvec.server._answers import json_text
from memvec.server._bodies import LARGE, read_body
from memvec.server._failures import ApiError, told
from memvec.server._guard import Guard
from memvec.server._keys import Scope
from memvec.server._models import check_carried, check_number
from memvec.server._qdrant_payloads import (
    metadata_of,
    payload_of,
    point_id,
    unsupported,
    where_of,
)
from memvec.server._ranges import bounded_range
from memvec.server._settings import Limits
from memvec.server._state import ServerState

# Clients warn where their own version is further than one minor from it.
_VERSION = "1.20.0"
_LIMIT = 10
_Work = Callable[[ServerState, str, Any], Any]


def build_qdrant(server: ServerState) -> ASGIApp:
    """Return the application that speaks Qdrant's API to the collections of a server."""
    routes = [
        Route(path, _handler(server, work, scope), methods=[method])
        for method, path, scope, work in _ROUTES
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            ApiError: _refuse,
            MemvecError: _refuse,
            HTTPException: _refuse,
            Exception: _refuse,  # the guard logs it
        },
    )
    return Guard(app, server.settings, server.metrics, server.bodies, server.answers)


def _handler(
    server: ServerState, work: _Work, scope: Scope
) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        begun = time.perf_counter()
        await check_key(server, given_key(request), scope)
        data = await read_body(request, server)
        body = _parsed(data) if len(data) <= LARGE else await server.workers.run(_parsed, data)
        name, changes = request.path_params.get("name", ""), scope == "write"
        asked = {**request.path_params, **body} if work is _get_point else body
        workers = server.removals if work is _drop else server.workers
        found = await workers.run(partial(work, server, name, asked), awaited=changes)
        if work is _title:
            return Response(json_text(found), media_type="application/json")
        seconds = time.perf_counter() - begun
        answer = {"result": found, "status": "ok", "time": seconds}
        return Response(json_text(answer), media_type="application/json")

    return handle


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        # Reads numbers in an eighth of the time of json.
        body = from_json(data) if data else {}
    except ValueError as error:
        raise ApiError(400, "invalid_request", f"Format error in JSON body: {error}") from None
    return _fields(body, "Format error in JSON body: it")


def _fields(given: Any, what: str) -> dict[str, Any]:
    """Return an object of a request, or refuse what is none."""
    if not isinstance(given, dict):
        raise ApiError(400, "invalid_request", f"{what} must be an object.")
    return given


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer an error as Qdrant does."""
    failed = told(error)
    if isinstance(error, HTTPException):
        failed = unsupported(f"{request.method} {request.url.path[:100]}")
    status = 400 if isinstance(error, InvalidValueError | InvalidTypeError) else failed.status
    body = json_text({"status": {"error": failed.message}, "time": 0.0})
    return Response(body, status, failed.headers)


def _title(server: ServerState, name: str, asked: Any) -> Any:
    return {"title": "qdrant - vector search engine", "version": _VERSION, "commit": "memvec"}


def _list(server: ServerState, name: str, asked: Any) -> Any:
    return {"collections": [{"name": one} for one in server.registry.names()]}


def _exists(server: ServerState, name: str, asked: Any) -> Any:
    return {"exists": name in server.registry.names()}


def _create(server: ServerState, name: str, asked: Any) -> Any:
    vectors = asked.get("vectors")
    if isinstance(vectors, dict) and list(vectors) == [""]:  # as LangChain writes it
        vectors = vectors[""]
    if not isinstance(vectors, dict) or "size" not in vectors:
        raise unsupported("other than one unnamed vector a point")
    if asked.get("sparse_vectors") or vectors.get("multivector_config"):
        raise unsupported("sparse and multiple vectors")
    if vectors.get("distance") != "Cosine":
        raise unsupported(f"the distance {vectors.get('distance')!r}")
    server.registry.create(name, {"dim": vectors["size"]})
    return True


def _info(server: ServerState, name: str, asked: Any) -> Any:
    with server.registry.lease(name) as collection:
        stats, dim = collection.stats(), collection.dim
        distance = "Cosine" if collection.metric == "cosine" else "Euclid"
    return {
        "status": "green",
        "optimizer_status": "ok",
        "points_count": stats.n_items,
        "indexed_vectors_count": sum(stats.segment_sizes),
        "segments_count": len(stats.segment_sizes),
        "config": {
            "params": {"vectors": {"size": dim, "distance": distance}, "shard_number": 1},
            "hnsw_config": {"m": 0, "ef_construct": 4, "full_scan_threshold": 10},
            "optimizer_config": {
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 0,
            },
            "wal_config": {"wal_capacity_mb": 16, "wal_segments_ahead": 0},
        },
        "payload_schema": {},
    }


def _drop(server: ServerState, name: str, asked: Any) -> Any:
    if name not in server.registry.names():
        return False
    server.registry.remove(name)
    return True


def _done(server: ServerState, name: str, asked: Any) -> Any:
    """Nothing is to be done: payloads are filtered without an index of their own."""
    with server.registry.lease(name):
        return {"operation_id": 0, "status": "completed"}


def _upsert(server: ServerState, name: str, asked: Any) -> Any:
    points = asked.get("points")
    if points is None and isinstance(asked.get("batch"), dict):
        points = _of_columns(asked["batch"])
    if not isinstance(points, list) or not points:
        raise ApiError(400, "invalid_value", "There are no points.")
    check_number(len(points), server.settings.limits.vectors, "points")
    rows = {point_id(one.get("id")): one for one in (_fields(one, "A point") for one in points)}
    vectors = [_vector(one.get("vector")) for one in rows.values()]
    metadata = [metadata_of(one.get("payload")) for one in rows.values()]
    with server.registry.lease(name, write=True) as collection:
        collection.upsert(vectors, list(rows), metadata)
        return {"operation_id": collection.stats().change, "status": "completed"}


def _of_columns(batch: dict[str, Any]) -> list[dict[str, Any]]:
    ids, vectors = _listed(batch.get("ids", [])), _listed(batch.get("vectors", []))
    payloads = _listed(batch.get("payloads") or [None] * len(ids))
    if not len(ids) == len(vectors) == len(payloads):
        raise ApiError(400, "invalid_value", "ids, vectors and payloads differ in number.")
    rows = zip(ids, vectors, payloads, strict=True)
    return [{"id": one, "vector": vector, "payload": payload} for one, vector, payload in rows]


def _vector(given: Any) -> list[float]:
    if isinstance(given, dict) and list(given) == [""]:
        given = given[""]
    if not isinstance(given, list):
        raise unsupported("other than one unnamed vector a point")
    return given


def _retrieve(server: ServerState, name: str, asked: Any) -> Any:
    ids = asked.get("ids", [])
    check_number(len(_listed(ids)), server.settings.limits.page_items, "ids")
    wanted, vector = asked.get("with_payload", True), asked.get("with_vector", False)
    with server.registry.lease(name) as collection:
        known = _known(collection, ids)
        check_carried(len(known), collection.dim, _include(wanted, vector), server.settings.limits)
        items = collection.get(known) if known else []
        return [_record(item, wanted, vector) for item in items]


def _known(collection: Collection, given: Any) -> list[int | str]:
    """Return the ids that are there, each once; what no point can be called is not."""
    found: dict[int | str, None] = {}
    for one in _listed(given):
        with suppress(ApiError):
            found[point_id(one)] = None
    return [one for one in found if one in collection]


def _listed(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise ApiError(400, "invalid_value", "Points are given as a list.")
    return given


def _get_point(server: ServerState, name: str, asked: Any) -> Any:
    text = asked["id"]
    given = point_id(int(text) if text.isascii() and text.isdecimal() else text)
    found = _retrieve(server, name, {"ids": [given], "with_vector": True})
    if not found:
        raise ApiError(404, "not_found", f"Not found: Point with id {given} does not exist!")
    return found[0]


def _include(payload: Any, vector: Any) -> list[str]:
    """Return what comes with the points of an answer, as the library calls it."""
    return [name for name, wanted in (("metadata", payload), ("vectors", vector)) if wanted]


def _record(item: Any, payload: Any, vector: Any) -> dict[str, Any]:
    record = {"id": item.id, "payload": payload_of(item.metadata, payload)}
    return {**record, "vector": item.vector.tolist()} if vector else record


def _delete(server: ServerState, name: str, asked: Any) -> Any:
    with server.registry.lease(name, write=True) as collection:
        if "points" in asked:
            gone = _known(collection, asked["points"])
        elif asked.get("filter"):
            gone = [item.id for item in collection.items(where_of(asked["filter"]))]
        else:
            raise ApiError(400, "invalid_value", "Give points or a filter.")
        if gone:
            collection.delete(gone)
        return {"operation_id": collection.stats().change, "status": "completed"}


def _count(server: ServerState, name: str, asked: Any) -> Any:
    with server.registry.lease(name) as collection:
        where = where_of(asked.get("filter"))
        if where is None:
            return {"count": len(collection)}
        return {"count": sum(1 for _ in collection.items(where))}


def _scroll(server: ServerState, name: str, asked: Any) -> Any:
    """Return a page of points; the offset is the id that it begins with."""
    limit, offset = _number(asked, "limit", _LIMIT), asked.get("offset")
    if asked.get("order_by") is not None:
        raise unsupported("order_by")
    check_number(limit, server.settings.limits.page_items, "points")
    wanted, vector = asked.get("with_payload", True), asked.get("with_vector", False)
    with server.registry.lease(name) as collection:
        check_carried(limit, collection.dim, _include(wanted, vector), server.settings.limits)
        first = None if offset is None else point_id(offset)
        items = collection.items(where_of(asked.get("filter")), first=first)
        found = list(islice(items, limit + 1))
    more = found[limit].id if len(found) > limit else None
    points = [_record(item, wanted, vector) for item in found[:limit]]
    return {"points": points, "next_page_offset": more}


def _number(asked: Any, name: str, default: int, least: int = 1) -> int:
    given = asked.get(name)
    value = default if given is None else given
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ApiError(400, "invalid_value", f"{name} must be an integer of at least {least}.")
    return value


def _query(server: ServerState, name: str, asked: Any) -> Any:
    return {"points": _found(server, name, asked, asked.get("query"))}


def _search(server: ServerState, name: str, asked: Any) -> Any:
    return _found(server, name, asked, asked.get("vector"))


def _batch(one: _Work, server: ServerState, name: str, asked: Any) -> Any:
    searches = asked.get("searches")
    if not isinstance(searches, list):
        raise ApiError(400, "invalid_value", "There are no searches.")
    check_number(len(searches), server.settings.limits.vectors, "searches")
    answers: list[Any] = []
    n_points, include, limits = 0, set[str](), server.settings.limits
    with server.registry.lease(name) as collection:
        dim = collection.dim
    for search in searches:
        answers.append(one(server, name, _fields(search, "A search")))
        n_points += len(answers[-1]["points"] if one is _query else answers[-1])
        include |= set(_include(search.get("with_payload"), search.get("with_vector")))
        check_number(n_points, limits.hits, "points of an answer")
        check_carried(n_points, dim, list(include), limits)
    return answers


_query_batch, _search_batch = partial(_batch, _query), partial(_batch, _search)


def _found(server: ServerState, name: str, asked: Any, query: Any) -> list[dict[str, Any]]:
    """Return the points nearest to a query, of those above the threshold if there is one."""
    for field in ("prefetch", "lookup_from"):
        if asked.get(field):
            raise unsupported(field)
    if asked.get("using") or isinstance(query, dict):
        query = _plain_query(asked, query)
    limits = server.settings.limits
    limit, offset = _number(asked, "limit", _LIMIT), _number(asked, "offset", 0, least=0)
    with server.registry.lease(name) as collection:
        if query is None:
            page = _scroll(server, name, {**asked, "offset": None})["points"]
            return [{**point, "version": 0, "score": 0.0} for point in page]
        given = None if isinstance(query, list) else point_id(query)
        vector = query if given is None else collection.get(given).vector
        hits = _above(collection, vector, asked, limit + offset + 1, limits)
        points = [hit for hit in hits if hit[0] != given][offset : offset + limit]
        return _told(collection, points, asked, limits)


def _plain_query(asked: Any, query: Any) -> Any:
    if asked.get("using"):
        raise unsupported("named vectors")
    if set(query) != {"nearest"} or isinstance(query["nearest"], dict):
        raise unsupported(f"queries of the kind {', '.join(query)[:50]!r}")
    return query["nearest"]


def _above(
    collection: Collection, vector: Any, asked: Any, wanted: int, limits: Limits
) -> list[tuple[int | str, float]]:
    """Return ids and scores, the best first: everything above a threshold, or the nearest."""
    threshold, where = asked.get("score_threshold"), where_of(asked.get("filter"))
    exact = _fields(asked.get("params") or {}, "params").get("exact")
    if threshold is not None and not isinstance(threshold, int | float):
        raise ApiError(400, "invalid_value", "score_threshold must be a number.")
    options: dict[str, Any] = {"guarantee": "exact"} if exact else {}
    if collection.metric == "cosine" and isinstance(threshold, int | float) and threshold > 0:
        if threshold > 1:
            return []
        hits = bounded_range(collection, [vector], threshold, limits, where=where, **options)
        return list(zip(hits.ids.tolist(), hits.scores.tolist(), strict=True))[:wanted]
    check_number(wanted, limits.hits, "points")
    top = collection.search(vector, wanted, where=where, **options)
    pairs = zip(top.ids[0].tolist(), top.scores[0].tolist(), strict=True)
    low = -2.0 if threshold is None else float(threshold)
    return [(name, score) for name, score in pairs if name is not None and score >= low]


def _told(
    collection: Collection, points: list[tuple[int | str, float]], asked: Any, limits: Limits
) -> list[dict[str, Any]]:
    wanted, vector = asked.get("with_payload", False), asked.get("with_vector", False)
    if not points or not (wanted or vector):
        return [{"id": name, "version": 0, "score": score} for name, score in points]
    check_carried(len(points), collection.dim, _include(wanted, vector), limits)
    items = collection.get([name for name, _ in points])
    return [
        {**_record(item, wanted, vector), "version": 0, "score": score}
        for item, (_, score) in zip(items, points, strict=True)
    ]


_AT = "/collections/{name}"
_ROUTES: tuple[tuple[str, str, Scope, _Work], ...] = (
    ("GET", "/", "read", _title),
    ("GET", "/collections", "read", _list),
    ("GET", _AT, "read", _info),
    ("PUT", _AT, "write", _create),
    ("DELETE", _AT, "write", _drop),
    ("GET", f"{_AT}/exists", "read", _exists),
    ("PUT", f"{_AT}/index", "write", _done),
    ("DELETE", f"{_AT}/index/{{field}}", "write", _done),
    ("PUT", f"{_AT}/points", "write", _upsert),
    ("POST", f"{_AT}/points", "read", _retrieve),
    ("GET", f"{_AT}/points/{{id}}", "read", _get_point),
    ("POST", f"{_AT}/points/delete", "write", _delete),
    ("POST", f"{_AT}/points/count", "read", _count),
    ("POST", f"{_AT}/points/scroll", "read", _scroll),
    ("POST", f"{_AT}/points/query", "read", _query),
    ("POST", f"{_AT}/points/query/batch", "read", _query_batch),
    ("POST", f"{_AT}/points/search", "read", _search),
    ("POST", f"{_AT}/points/search/batch", "read", _search_batch),
)
