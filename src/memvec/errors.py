"""Everything memvec raises on purpose.

::

    MemvecError
    ├── InvalidValueError      (ValueError)   an argument or a vector cannot be used
    ├── InvalidTypeError       (TypeError)    an argument is of the wrong kind
    ├── FileFormatError        (ValueError)   a file is truncated, malformed or not what it claims
    │   ├── CorruptIndexError                 a saved index is damaged, or the folder is no index
    │   └── UnknownVersionError               a saved index is of a version this memvec cannot read
    ├── IndexNotFoundError     (FileNotFoundError)  there is no saved index at this path
    ├── LockedError            (BlockingIOError)    a collection is being written by someone else
    ├── StorageError           (OSError)      the disk is full or refuses
    ├── ShardError             (ConnectionError)  a shard of a cluster does not answer
    ├── DeviceError            (RuntimeError) there is no GPU, no driver, or it refuses
    │   └── DeviceMemoryError  (MemoryError)  a GPU has less free memory than is needed
    ├── ServerError            (RuntimeError) a server refuses, is busy, or cannot be reached
    └── MissingExtraError      (ImportError)  an optional dependency is not installed

Each one is also the builtin that callers expect, so ``except ValueError`` keeps working.
`DriftWarning` is a warning: a promise may not hold for the queries that come now.
"""

from __future__ import annotations


class MemvecError(Exception):
    """Base class of all errors raised by memvec."""


class InvalidValueError(MemvecError, ValueError):
    """An argument has the right type but a value that cannot be used."""


class InvalidTypeError(MemvecError, TypeError):
    """An argument is of a type that cannot be used."""


class FileFormatError(MemvecError, ValueError):
    """A file is truncated, malformed or of another format than expected."""


class CorruptIndexError(FileFormatError):
    """A saved index is damaged, or the folder that should hold one is not an index."""


class UnknownVersionError(FileFormatError):
    """A saved index is of a format version that this memvec cannot read."""


class IndexNotFoundError(MemvecError, FileNotFoundError):
    """There is no saved index at the path."""


class LockedError(MemvecError, BlockingIOError):
    """A collection is being written by someone else; readers are welcome."""


class StorageError(MemvecError, OSError):
    """The disk is full or refuses; nothing was changed."""


class ShardError(MemvecError, ConnectionError):
    """A shard of a cluster cannot be opened, or does not answer.

    Attributes
    ----------
    shard : int
        Its number.
    """

    def __init__(self, shard: int, folder: object, reason: str) -> None:
        super().__init__(f"Shard {shard}, in {folder}, does not answer: {reason}")
        self.shard, self.folder, self.reason = shard, folder, reason

    def __reduce__(self) -> tuple[type[ShardError], tuple[int, object, str]]:
        return ShardError, (self.shard, self.folder, self.reason)


class DeviceError(MemvecError, RuntimeError):
    """There is no GPU, no driver for it, or it refuses what is asked."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A GPU has less free memory than is needed."""

    def __init__(self, what: str, needed: int, free: int) -> None:
        super().__init__(
            f"{what} needs {needed / 1e9:.3f} GB of the memory of the GPU, of which "
            f"{free / 1e9:.3f} GB are free."
        )


class ServerError(MemvecError, RuntimeError):
    """A server refuses a request, is busy, or cannot be reached.

    Attributes
    ----------
    status : int or None
        The HTTP status; None where no answer came.
    code : str
        What is wrong, in one word, as the server names it.
    request_id : str or None
        What the server's log calls the request.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        code: str = "unreachable",
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.request_id = status, code, request_id


class MissingExtraError(MemvecError, ImportError):
    """A feature needs a package that is not installed; the message says which pip line adds it."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'memvec[{extra}]'"
        )


def damaged(path: object, reason: str) -> CorruptIndexError:
    """Return the error of a file or folder that is not what was saved."""
    return CorruptIndexError(f"{path} is damaged: {reason}.")


class DriftWarning(UserWarning):
    """Matches of live queries are harder to find than calibration knows, or more are missed."""


__all__ = [
    "CorruptIndexError",
    "DeviceError",
    "DeviceMemoryError",
    "DriftWarning",
    "FileFormatError",
    "IndexNotFoundError",
    "InvalidTypeError",
    "InvalidValueError",
    "LockedError",
    "MemvecError",
    "MissingExtraError",
    "ServerError",
    "ShardError",
    "StorageError",
    "UnknownVersionError",
    "damaged",
]
