"""``/``: the page, and the files it is made of."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from memvec.server._failures import ApiError

router = APIRouter(include_in_schema=False)
_KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
# Read once: a name that is not among them is nothing, whatever it looks like.
_FILES = {
    file.name: file.read_bytes()
    for file in (files("memvec.server") / "page").iterdir()
    if file.name.rpartition(".")[2] in _KINDS
}


def _file(name: str) -> Response:
    if name not in _FILES:
        raise ApiError(404, "not_found", "There is nothing at this address.")
    return Response(_FILES[name], media_type=_KINDS[name.rpartition(".")[2]])


@router.get("/")
async def front() -> Response:
    """Return the page."""
    return _file("index.html")


@router.get("/docs")
async def docs() -> Response:
    """Return the page that tells of the API."""
    return _file("docs.html")


@router.get("/page/{name}")
async def page_file(name: str) -> Response:
    """Return a file of the page."""
    return _file(name)
