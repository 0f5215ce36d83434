"""Routes that find what they depend on themselves refuse and give what FastAPI would."""

from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from starlette.responses import PlainTextResponse

from memvec.server import ServerSettings, create_app
from memvec.server._direct import DirectRoute
from server.conftest import running

# Their parameters of the address are checked by FastAPI.
OF_FASTAPI = {"job_result"}


async def shouted(request: Request) -> str:
    return request.headers["word"].upper()


async def doubled(word: Annotated[str, Depends(shouted)]) -> str:
    return 2 * word


async def locked() -> None:
    raise HTTPException(403)


async def direct(name: str, word: Annotated[str, Depends(shouted)], request: Request):
    return PlainTextResponse(f"{name} {word} {request.method}")


async def nested(word: Annotated[str, Depends(doubled)]):
    return PlainTextResponse(word)


async def asked(number: Annotated[int, Query()]):
    return PlainTextResponse(str(number + 1))


def answered(endpoint, path, url, *dependencies):
    app = FastAPI()
    router = APIRouter(route_class=DirectRoute, dependencies=[Depends(one) for one in dependencies])
    router.add_api_route(path, endpoint)
    app.router.routes.extend(router.routes)
    with running(None, app) as at:
        return httpx.get(f"{at}{url}", headers={"word": "a"})


@pytest.mark.parametrize(
    ("endpoint", "path", "url", "status", "text"),
    [
        (direct, "/{name}", "/x%20y", 200, "x y A GET"),
        (nested, "/", "/", 200, "AA"),
        (asked, "/", "/?number=2", 200, "3"),
        (asked, "/", "/?number=no", 422, None),
    ],
)
def test_endpoints_get_what_they_declare(endpoint, path, url, status, text):
    found = answered(endpoint, path, url)
    assert found.status_code == status
    assert text is None or found.text == text


def test_dependency_that_is_no_key_is_not_skipped():
    assert answered(direct, "/{name}", "/x").status_code == 200
    assert answered(direct, "/{name}", "/x", locked).status_code == 403


def test_searches_and_changes_do_without_the_solver(tmp_path):
    app = create_app(ServerSettings(tmp_path))
    told = [route for route in app.routes if isinstance(route, DirectRoute)]
    solved = {
        route.name for route in told if "DirectRoute" not in route.get_route_handler().__qualname__
    }
    assert solved == OF_FASTAPI
    assert {"range_search", "search", "count", "contains", "add_items"} <= {
        route.name for route in told
    }
    assert all(
        isinstance(route, DirectRoute) or route.name == "photo"
        for route in app.routes
        if route.path.startswith("/v1")
    )
