"""``/v1/jobs``: joins and deduplications, from their start to their result."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from memvec.client import duplicates_record
from memvec.collection import Duplicates
from memvec.errors import MissingExtraError
from memvec.server._access import Holder, needs
from memvec.server._answers import NDJSON, answer, json_text, promised_text, stream, wanted_type
from memvec.server._bodies import body, described
from memvec.server._direct import DirectRoute
from memvec.server._failures import ApiError
from memvec.server._jobs import Job
from memvec.server._models import JobAsk
from memvec.server._state import Server, ServerState

router = APIRouter(
    prefix="/v1", tags=["jobs"], dependencies=[Depends(needs("read"))], route_class=DirectRoute
)
_COLUMNS = ("group", "id", "keep")
# As OWASP lists them.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@router.post("/collections/{name}/jobs", status_code=202, openapi_extra=described(JobAsk))
async def start_job(
    server: Server, holder: Holder, name: str, asked: Annotated[JobAsk, Depends(body(JobAsk))]
) -> Response:
    """Start a self-join or a deduplication."""

    def start() -> Job:
        with server.registry.lease(name):  # it is there
            return server.jobs.start(name, asked.kind, asked.options("kind"), holder)

    return answer((await server.workers.run(start)).record(), status=202)


@router.get("/jobs")
async def list_jobs(server: Server, holder: Holder) -> Response:
    """List the jobs that are kept, the newest first: of a key that reads, its own."""
    return answer({"jobs": [job.record() for job in server.jobs.all(holder)]})


@router.get("/jobs/{job}")
async def get_job(server: Server, holder: Holder, job: str) -> Response:
    """Tell how far a job is."""
    return answer(server.jobs.get(job, holder).record())


@router.post("/jobs/{job}/cancel")
async def cancel_job(server: Server, holder: Holder, job: str) -> Response:
    """Ask a job to stop."""
    return answer(server.jobs.cancel(job, holder).record())


@router.get("/jobs/{job}/result")
async def job_result(
    server: Server,
    holder: Holder,
    job: str,
    request: Request,
    format: Literal["json", "ndjson", "csv", "parquet"] | None = None,  # noqa: A002
) -> Response:
    """Return what a job found: JSON, lines of JSON, or a file of CSV or Parquet."""
    found = server.jobs.get(job, holder)
    if found.state != "done":
        text = f"The job is {found.state}: {found.message or 'there is no result'}."
        raise ApiError(409, "not_done", text)
    lines = wanted_type(request.headers.get("accept", ""), (NDJSON,)) == NDJSON
    wanted = format or ("ndjson" if lines else "json")
    if wanted == "ndjson" or found.kind == "self_join":
        return await _pairs(server, found, wanted)
    return await server.workers.run(_groups, found, wanted)


def _groups(job: Job, wanted: str) -> Response:
    assert job.duplicates is not None
    if wanted == "json":
        return answer(duplicates_record(job.duplicates), job.certificate)
    return _file(job.duplicates, wanted)


async def _pairs(server: ServerState, job: Job, wanted: str) -> Response:
    if wanted == "parquet":
        raise ApiError(422, "invalid_value", "Pairs come as JSON, lines of JSON or CSV.")
    if wanted == "json" and job.n_found > server.settings.limits.hits:
        text = f"There are {job.n_found:,} pairs: ask for lines (format=ndjson)."
        raise ApiError(413, "too_many_hits", text)
    kinds = {"json": "application/json", "csv": "text/csv"}

    def make() -> tuple[AbstractContextManager[Any], Iterator[bytes]]:
        return nullcontext(), {"json": _array, "csv": _csv}.get(wanted, _lines)(job)

    return await stream(server, make, kinds.get(wanted, NDJSON))


def _lines(job: Job) -> Iterator[bytes]:
    """Yield pairs or groups as lines of JSON, and the certificate at the end."""
    yield f"{promised_text({'begin': job.kind}, job.certificate)}\n".encode()
    yield from job.pieces()
    if job.duplicates is not None:
        for group in job.duplicates.groups:
            yield f"{json_text(group._asdict())}\n".encode()
    end = {"end": job.kind, "n_found": job.n_found}
    yield f"{promised_text(end, job.certificate)}\n".encode()


def _array(job: Job) -> Iterator[bytes]:
    """Yield pairs as one JSON object."""
    yield b'{"pairs":['
    first, rest = True, b""
    for piece in job.pieces():
        *whole, rest = (rest + piece).split(b"\n")
        if whole:
            yield (b"" if first else b",") + b",".join(whole)
            first = False
    yield f"],{promised_text({'n_found': job.n_found}, job.certificate)[1:]}".encode()


def _csv(job: Job) -> Iterator[bytes]:
    """Yield pairs as CSV."""
    import json

    yield b"left,right,score\r\n"
    rest = b""
    for piece in job.pieces():
        *whole, rest = (rest + piece).split(b"\n")
        rows = [json.loads(line) for line in whole]
        yield _csv_text([row["left"], row["right"], row["score"]] for row in rows).encode()


def _csv_text(rows: Any) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(map(_plain, row) for row in rows)
    return text.getvalue()


def _plain(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _file(found: Duplicates[int | str], wanted: str) -> Response:
    """Return groups as a file: one row per item, and whether it is kept."""
    rows = [
        (number, name, name == group.kept)
        for number, group in enumerate(found.groups)
        for name in [group.kept, *group.dropped]
    ]
    named = {"Content-Disposition": f'attachment; filename="duplicates.{wanted}"'}
    if wanted == "csv":
        return Response(_csv_text([_COLUMNS, *rows]), media_type="text/csv", headers=named)
    return Response(_parquet(rows), media_type="application/vnd.apache.parquet", headers=named)


def _parquet(rows: list[tuple[int, int | str, bool]]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("Parquet", "pyarrow", "files") from None
    ids = [name for _, name, _ in rows]
    if len({type(name) for name in ids}) > 1:
        ids = list(map(str, ids))
    columns = {"group": [row[0] for row in rows], "id": ids, "keep": [row[2] for row in rows]}
    with tempfile.SpooledTemporaryFile(1 << 24) as file:
        parquet.write_table(pyarrow.table(columns), file)
        file.seek(0)
        return file.read()
