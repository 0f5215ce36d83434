"""The errors that memvec raises on purpose.

::

    MemvecError
    ├── InvalidValueError      (ValueError)   an argument or a vector is invalid
    ├── InvalidTypeError       (TypeError)    an argument has the wrong type
    ├── FileFormatError        (ValueError)   a file is truncated, malformed or of another format
    │   ├── CorruptIndexError                 an index or a collection is damaged
    │   └── UnknownVersionError               the format version is unknown to this memvec
    ├── IndexNotFoundError     (FileNotFoundError)  there is no index or collection at the path
    ├── LockedError            (BlockingIOError)    another process or object writes the collection
    ├── StorageError           (OSError)      the disk is full or refuses an operation
    ├── ShardError             (ConnectionError)  a shard of a cluster does not answer
    ├── DeviceError            (RuntimeError) there is no GPU or driver, or it refuses
    │   └── DeviceMemoryError  (MemoryError)  a GPU has less free memory than is needed
    ├── ServerError            (RuntimeError) a server refuses, is busy, or cannot be reached
    └── MissingExtraError      (ImportError)  an optional dependency is not installed

Each one is also the builtin that callers expect, so ``except ValueError`` keeps working.
`DriftWarning` is a warning: a promise may not hold for live queries.
"""

from __future__ import annotations


class MemvecError(Exception):
    """Base class of all errors raised by memvec."""


class InvalidValueError(MemvecError, ValueError):
    """An argument has the right type but an invalid value."""


class InvalidTypeError(MemvecError, TypeError):
    """An argument has an invalid type."""


class FileFormatError(MemvecError, ValueError):
    """A file is truncated, malformed or not of the expected format."""


class CorruptIndexError(FileFormatError):
    """A saved index or a collection is damaged, or the folder is something else."""


class UnknownVersionError(FileFormatError):
    """The folder has a format version that this memvec cannot read."""


class IndexNotFoundError(MemvecError, FileNotFoundError):
    """There is no index or collection at the path."""


class LockedError(MemvecError, BlockingIOError):
    """Another process or object writes the collection; it can be opened for reading."""


class StorageError(MemvecError, OSError):
    """The disk is full or refuses an operation; nothing was changed."""


class ShardError(MemvecError, ConnectionError):
    """A shard of a cluster cannot be opened, or does not answer.

    Attributes
    ----------
    shard : int
        The number of the shard.
    folder : object
        Its folder.
    reason : str
        Why it does not answer.
    """

    def __init__(self, shard: int, folder: object, reason: str) -> None:
        super().__init__(f"Shard {shard}, in {folder}, does not answer: {reason}")
        self.shard, self.folder, self.reason = shard, folder, reason

    def __reduce__(self) -> tuple[type[ShardError], tuple[int, object, str]]:
        return ShardError, (self.shard, self.folder, self.reason)


class DeviceError(MemvecError, RuntimeError):
    """There is no GPU or no driver, or the GPU refuses what is asked."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A GPU has less free memory than is needed."""

    def __init__(self, what: str, needed: int, free: int) -> None:
        super().__init__(
            f"{what} needs {needed / 1e9:.3f} GB of GPU memory, of which "
            f"{free / 1e9:.3f} GB are free."
        )


class ServerError(MemvecError, RuntimeError):
    """A server refuses a request, is busy, or cannot be reached.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if no answer arrived.
    code : str
        The server's word for the error.
    request_id : str or None
        The name of the request in the server's log.
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
    """A feature needs a package that is not installed; the message gives the pip command."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'memvec[{extra}]'"
        )


def damaged(path: object, reason: str) -> CorruptIndexError:
    """Return the error for a file or folder that is not what was saved."""
    return CorruptIndexError(f"{path} is damaged: {reason}.")


class DriftWarning(UserWarning):
    """Live queries miss more than promised, or their matches are harder to find than calibrated."""


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
