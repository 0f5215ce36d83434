"""Reading what a server answers: results, streams, and errors as the library has them."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from memvec import checks, errors
from memvec.client._records import Record, id_array
from memvec.collection import MatchBlock, PairBlock
from memvec.errors import MemvecError, MissingExtraError, ServerError

# Errors that a caller of a collection knows, by the code of the server.
_KNOWN: dict[str, type[MemvecError]] = {
    "invalid_value": errors.InvalidValueError,
    "invalid_type": errors.InvalidTypeError,
    "not_found": errors.IndexNotFoundError,
    "locked": errors.LockedError,
    "damaged": errors.CorruptIndexError,
    "storage": errors.StorageError,
}


def httpx_or_refuse() -> Any:
    """Return the package httpx, or raise what tells how to install it."""
    try:
        import httpx
    except ImportError:
        raise MissingExtraError("memvec.Client", "httpx", "server") from None
    return httpx


def checked_url(url: object, where: str) -> str:
    """Return the address of a server, or refuse what can be none."""
    if not isinstance(url, str) or not re.match(r"https?://[^/]", url):
        expected = "an address such as http://127.0.0.1:8765"
        raise checks.bad_value("url", where, expected, repr(url))
    return url


def error_of(status: int, body: bytes) -> MemvecError:
    """Return the error that an answer tells of."""
    try:
        told = json.loads(body)["error"]
        message, code = str(told["message"]), str(told["code"])
        request_id = told.get("request_id")
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode(errors="replace")
        return ServerError(f"The server answered {status}: {text}", status, "unknown")
    if code in _KNOWN:
        return _KNOWN[code](message)
    return ServerError(f"{message} (HTTP {status}, request {request_id})", status, code, request_id)


def unreachable(url: str, error: Exception) -> ServerError:
    """Return the error of a server that gives no answer."""
    return ServerError(f"{url} does not answer: {error or type(error).__name__}.")


def cut_off(what: str) -> ServerError:
    """Return the error of a stream that ended before its last record."""
    return ServerError(f"The {what} ended before its certificate: it is incomplete.")


class Lines:
    """Puts lines of JSON together from pieces of a stream, in blocks.

    The first line says what comes. The last one is the certificate; :attr:`end` holds it.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.end: Record | None = None

    def feed(self, piece: bytes) -> list[Record]:
        """Return the records that are whole with this piece."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found = [json.loads(line) for line in lines]
        if found and "error" in found[-1]:
            raise error_of(200, lines[-1])
        if found and "end" in found[-1]:
            self.end = found.pop()
        return found


def match_block(found: list[Record]) -> MatchBlock:
    """Return matches as arrays."""
    return MatchBlock(
        np.array([one["query"] for one in found], dtype=np.int64),
        id_array([one["id"] for one in found]),
        np.array([one["score"] for one in found], dtype=np.float32),
    )


def pair_block(found: list[Record]) -> PairBlock:
    """Return pairs as columns."""
    return PairBlock(
        [one["left"] for one in found],
        [one["right"] for one in found],
        [one["score"] for one in found],
    )
