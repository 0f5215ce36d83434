"""``/v1/collections/NAME/range`` and the other questions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memvec.client import explanation_record, hits_record, measurement_record, top_record
from memvec.collection import MatchBlock, RangeStream
from memvec.server._access import needs
from memvec.server._answers import NDJSON, answer, stream, wanted_type
from memvec.server._arrow import ARROW
from memvec.server._bodies import body, described
from memvec.server._direct import DirectRoute
from memvec.server._models import (
    CountAsk,
    ExplainAsk,
    HistogramAsk,
    MeasureAsk,
    RangeAsk,
    SearchAsk,
    SetAsk,
    check_carried,
    check_number,
)
from memvec.server._ranges import batches_of, bounded_range, histogram, lines_of
from memvec.server._state import Server, ServerState

router = APIRouter(
    prefix="/v1/collections/{name}",
    tags=["search"],
    dependencies=[Depends(needs("read"))],
    route_class=DirectRoute,
)
_VECTORS = ("queries", "items", "dim")


@router.post("/range", openapi_extra=described(RangeAsk))
async def range_search(
    server: Server,
    name: str,
    request: Request,
    asked: Annotated[RangeAsk, Depends(body(RangeAsk))],
) -> Response:
    """Find everything above a similarity.

    JSON by default; with Accept: application/x-ndjson or application/vnd.apache.arrow.stream, a
    stream without limit whose last record is the certificate.
    """
    wanted = wanted_type(request.headers.get("accept", ""), (NDJSON, ARROW))
    if wanted in (NDJSON, ARROW):
        return await stream(server, lambda: _streamed(server, name, asked, wanted), wanted)

    def search() -> Response:
        limits, begun = server.settings.limits, time.perf_counter()
        with server.registry.lease(name) as collection:
            rows = asked.vectors(collection, limits.vectors)
            options = asked.options(*_VECTORS, "similarity", "p_values", "ordered")
            hits = bounded_range(collection, rows, asked.similarity, limits, **options)
        server.metrics.took(name, time.perf_counter() - begun)
        server.metrics.found(name, len(hits.ids))
        return answer(hits_record(hits, p_values=asked.p_values), hits.certificate)

    return await server.workers.run(search)


def _streamed(
    server: ServerState, name: str, asked: RangeAsk, wanted: str
) -> tuple[AbstractContextManager[Any], Iterator[bytes]]:
    """Return a collection that is held open, and the pieces of its answer."""
    held = server.registry.lease(name)
    collection = held.__enter__()
    try:
        rows = asked.vectors(collection, server.settings.limits.vectors)
        options = asked.options(*_VECTORS, "p_values", "include", "shadow")
        found = _watched(server, name, collection.iter_range(rows, **options))
        if wanted == ARROW:
            return held, batches_of(found)
        return held, lines_of(found, p_values=asked.p_values)
    except BaseException:
        held.__exit__(None, None, None)
        raise


def _watched(server: ServerState, name: str, found: RangeStream) -> RangeStream:
    """Return a stream whose matches, and the time that they take, are counted."""

    def blocks() -> Iterator[MatchBlock]:
        left, seconds = found.blocks(), 0.0
        while True:
            begun = time.perf_counter()
            block = next(left, None)
            seconds += time.perf_counter() - begun
            if block is None:
                break
            server.metrics.found(name, len(block.ids))
            yield block
        server.metrics.took(name, seconds)

    return RangeStream(blocks(), found.certificate, found.searched)


@router.post("/count", openapi_extra=described(CountAsk))
async def count(
    server: Server, name: str, asked: Annotated[CountAsk, Depends(body(CountAsk))]
) -> Response:
    """Count everything above a similarity, for each query."""
    return await server.workers.run(_counted, server, name, asked, "counts")


@router.post("/contains", openapi_extra=described(CountAsk))
async def contains(
    server: Server, name: str, asked: Annotated[CountAsk, Depends(body(CountAsk))]
) -> Response:
    """Return for each query whether any item is above a similarity."""
    return await server.workers.run(_counted, server, name, asked, "contained")


def _counted(server: ServerState, name: str, asked: CountAsk, field: str) -> Response:
    with server.registry.lease(name) as collection:
        rows = asked.vectors(collection, server.settings.limits.vectors)
        options = asked.options(*_VECTORS)
        counts = collection.count(rows, **options)
        # A range of no queries computes nothing, and has the promise of the others.
        none = np.empty((0, collection.dim), dtype=np.float32)
        certificate = collection.iter_range(none, **options).certificate
    found = counts if field == "counts" else counts > 0
    return answer({field: found.tolist()}, certificate)


@router.post("/search", openapi_extra=described(SearchAsk))
async def search(
    server: Server, name: str, asked: Annotated[SearchAsk, Depends(body(SearchAsk))]
) -> Response:
    """Find the k most similar items."""
    return await _nearest(server, name, asked, "search")


@router.post("/search_set", openapi_extra=described(SetAsk))
async def search_set(
    server: Server, name: str, asked: Annotated[SetAsk, Depends(body(SetAsk))]
) -> Response:
    """Find the k items most similar to several vectors together."""
    return await _nearest(server, name, asked, "search_set")


async def _nearest(server: ServerState, name: str, asked: SearchAsk, method: str) -> Response:
    limits = server.settings.limits
    check_number(asked.k, limits.k, "nearest items of a query")

    def work() -> Response:
        begun = time.perf_counter()
        with server.registry.lease(name) as collection:
            rows = asked.vectors(collection, limits.vectors)
            check_number(asked.k * len(rows), limits.hits, "results (k × queries)")
            check_carried(asked.k * len(rows), collection.dim, asked.include, limits)
            top = getattr(collection, method)(rows, **asked.options(*_VECTORS))
        server.metrics.took(name, time.perf_counter() - begun)
        return answer(top_record(top), top.certificate)

    return await server.workers.run(work)


@router.post("/explain", openapi_extra=described(ExplainAsk))
async def explain(
    server: Server, name: str, asked: Annotated[ExplainAsk, Depends(body(ExplainAsk))]
) -> Response:
    """Explain why an item is, or is not, returned for a query."""

    def work() -> Response:
        with server.registry.lease(name) as collection:
            rows = asked.vectors(collection, 1)
            told = collection.explain(rows, **asked.options(*_VECTORS, "unit_scores", "where"))
        return answer(explanation_record(told, unit_scores=asked.unit_scores), told.certificate)

    return await server.workers.run(work)


@router.post("/measure", openapi_extra=described(MeasureAsk))
async def measure(
    server: Server, name: str, asked: Annotated[MeasureAsk, Depends(body(MeasureAsk))]
) -> Response:
    """Compare answers with the exhaustive search."""

    def work() -> Response:
        with server.registry.lease(name) as collection:
            rows = asked.vectors(collection, server.settings.limits.vectors)
            seen = collection.measure(rows, **asked.options(*_VECTORS), progress=False)
        return answer(measurement_record(seen))

    return await server.workers.run(work)


@router.post("/histogram", openapi_extra=described(HistogramAsk))
async def scores_histogram(
    server: Server, name: str, asked: Annotated[HistogramAsk, Depends(body(HistogramAsk))]
) -> Response:
    """Count what the items score with one query, beside the law of unrelated vectors."""

    def work() -> Response:
        with server.registry.lease(name) as collection:
            rows = asked.vectors(collection, 1)
            return answer(histogram(collection, rows, asked.where, asked.bins))

    return await server.workers.run(work)
