"""``/v1/collections/NAME/photo``: the photographs that items name, of one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from memvec.server._access import needs
from memvec.server._failures import ApiError
from memvec.server._state import Server, ServerState

router = APIRouter(
    prefix="/v1/collections/{name}", tags=["items"], dependencies=[Depends(needs("read"))]
)
# What browsers show, and nothing that could hold a script.
_KINDS = {
    ".avif": "image/avif",
    ".bmp": "image/bmp",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
# A photograph of 50 megapixels.
_MOST_BYTES = 32 << 20


@router.get("/photo")
async def photo(
    server: Server,
    name: str,
    id: Annotated[str, Query(description="The id, as JSON.")],  # noqa: A002
) -> Response:
    """Return the photograph of an item: its metadata ``path``, or its id, below --photos."""

    def read() -> Response:
        root = server.settings.photos
        if root is None:
            raise ApiError(404, "not_found", "This server shows no photographs (--photos).")
        path = _path_of(server, name, id)
        return _photo(root.resolve(), path)

    return await server.workers.run(read)


def _path_of(server: ServerState, name: str, text: str) -> str:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise ApiError(422, "invalid_value", 'The id must be JSON: 7 or "seven".') from None
    with server.registry.lease(name) as collection:
        if given not in collection:
            raise ApiError(404, "not_found", f"There is no item {given!r}.")
        path = collection.get(given).metadata.get("path", given)
    return str(path)


def _photo(root: Path, named: str) -> Response:
    """Return a file below the root; links and dots lead nowhere else."""
    try:
        path = (root / named).resolve(strict=True)
        good = path.is_relative_to(root) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        good = False
    if not good or path.suffix.lower() not in _KINDS or path.stat().st_size > _MOST_BYTES:
        raise ApiError(404, "not_found", "The item has no photograph here.")
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix.lower()])
