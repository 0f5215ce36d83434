"""Errors as clients see them: one shape, one place."""

from __future__ import annotations

import json
from http import HTTPStatus

from memvec import errors

# What each error of the library is over HTTP: status and code. The first that fits counts.
_TOLD: tuple[tuple[type[Exception], int, str], ...] = (
    (errors.InvalidTypeError, 422, "invalid_type"),
    (errors.InvalidValueError, 422, "invalid_value"),
    (errors.IndexNotFoundError, 404, "not_found"),
    (errors.LockedError, 409, "locked"),
    (errors.StorageError, 507, "storage"),
    (errors.MissingExtraError, 501, "missing_extra"),
    (errors.UnknownVersionError, 500, "unknown_version"),
    (errors.FileFormatError, 500, "damaged"),
)


class ApiError(Exception):
    """A request that is refused.

    Attributes
    ----------
    status : int
        The HTTP status.
    code : str
        What is wrong, in one word.
    message : str
        The same in a sentence.
    retry_after : int or None
        Seconds after which the same request may be taken.
    ends : bool
        Whether the connection is closed, since nobody knows where its next request begins.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        ends: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.retry_after, self.ends = retry_after, ends

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        named = {"Content-Type": "application/json"}
        if self.retry_after is not None:
            named["Retry-After"] = str(self.retry_after)
        if self.status == HTTPStatus.UNAUTHORIZED:
            named["WWW-Authenticate"] = "Bearer"
        if self.ends:
            named["Connection"] = "close"
        return named

    def body(self, request_id: str) -> bytes:
        """Return the one shape that errors have."""
        told = {"code": self.code, "message": self.message, "request_id": request_id}
        return json.dumps({"error": told}, ensure_ascii=False).encode(errors="replace")


def told(error: Exception) -> ApiError:
    """Return how an error is told to a client; nothing of the inside is."""
    if isinstance(error, ApiError):
        return error
    for kind, status, code in _TOLD:
        if isinstance(error, kind):
            return ApiError(status, code, str(error))
    return ApiError(500, "internal", "The server failed. Its log has details under the request id.")
