"""``/healthz``, ``/readyz``, ``/metrics``: for those who run the server; and the encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fastapi import APIRouter, Depends, Request
from starlette.responses import PlainTextResponse, Response

from memvec.collection import Collection
from memvec.guarantee import Health
from memvec.server._access import needs
from memvec.server._answers import answer
from memvec.server._bodies import JSON, described, parsed, read_body
from memvec.server._direct import DirectRoute
from memvec.server._failures import ApiError
from memvec.server._metrics import family, of, resident_bytes
from memvec.server._models import EncodeAsk
from memvec.server._state import Server, ServerState

router = APIRouter(tags=["status"], route_class=DirectRoute)
_PHOTOS = ("image/", "application/octet-stream")


@router.get("/healthz")
async def alive() -> Response:
    """Tell that the process answers."""
    return answer({"status": "ok"})


@router.get("/readyz")
async def ready(server: Server) -> Response:
    """Tell whether requests are taken: the folder can be read, and the queue has room."""

    def look() -> int:
        return len(server.registry.names())

    return answer({"status": "ready", "collections": await server.workers.run(look)})


@router.get("/v1/server", dependencies=[Depends(needs("read"))])
async def about(server: Server) -> Response:
    """Tell what the server can do."""
    from memvec import __version__

    return answer(
        {
            "version": __version__,
            "read_only": server.settings.read_only,
            "encoder": None if server.encoder is None else server.encoder.takes,
            "photos": server.settings.photos is not None,
        }
    )


@router.post(
    "/v1/encode", dependencies=[Depends(needs("read"))], openapi_extra=described(EncodeAsk)
)
async def encode(server: Server, request: Request) -> Response:
    """Make a vector of a text (JSON), or of a photograph (its bytes)."""
    encoder = server.encoder
    data = await read_body(request, server)
    kind = request.headers.get("content-type", "").lower()
    given: str | bytes = data
    if kind.startswith(JSON):
        given = parsed(EncodeAsk, request, data).text
    elif not kind.startswith(_PHOTOS):
        raise ApiError(415, "unknown_media_type", "Send JSON with a text, or a photograph.")
    if encoder is None:
        text = "This server has no encoder; start it with --encoder."
        raise ApiError(501, "no_encoder", text)
    vector = await server.workers.run(encoder, given)
    return answer({"vector": vector.tolist()})


@router.get("/metrics", dependencies=[Depends(needs("read"))])
async def metrics(server: Server) -> Response:
    """Return the numbers of the server as Prometheus reads them."""
    text = "\n".join([*server.metrics.lines(), *_gauges(server)])
    return PlainTextResponse(f"{text}\n", media_type="text/plain; version=0.0.4")


def _gauges(server: ServerState) -> Iterator[str]:
    workers, opened = server.workers, server.registry.opened()
    waiting = max(0, workers.pending - workers.running)
    single = (
        ("memvec_requests_running", "Requests that are worked on.", workers.running),
        ("memvec_requests_queued", "Requests that wait.", waiting),
        ("memvec_streams", "Answers that are being streamed.", workers.streams),
        ("process_resident_memory_bytes", "Memory of the process.", resident_bytes()),
    )
    for name, text, value in single:
        if value is not None:
            yield from family(name, "gauge", text, [((), value)])
    items = ((of(collection=name), len(one)) for name, one in opened.items())
    yield from family("memvec_items", "gauge", "Items that can be found.", items)
    yield from _promises(opened)


def _promises(opened: dict[str, Collection]) -> Iterator[str]:
    """Yield how the promises of open collections are being kept."""
    healths = {name: collection.health for name, collection in opened.items()}
    told: list[tuple[str, str, str, Callable[[Health], float]]] = [
        ("memvec_queries_total", "counter", "Queries answered.", lambda h: h.n_queries),
        ("memvec_shadow_queries", "gauge", "Compared exhaustively.", lambda h: h.shadow.n_queries),
        ("memvec_shadow_miss_rate", "gauge", "Miss rate seen.", lambda h: h.shadow.miss_rate),
        ("memvec_drift", "gauge", "1 where queries have drifted.", lambda h: h.drift.alarmed),
    ]
    for name, kind, text, value in told:
        values = ((of(collection=one), float(value(health))) for one, health in healths.items())
        yield from family(name, kind, text, values)
