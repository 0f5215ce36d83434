"""Everything memvec raises on purpose.

::

    MemvecError
    ├── InvalidValueError      (ValueError)   an argument or a vector cannot be used
    ├── InvalidTypeError       (TypeError)    an argument is of the wrong kind
    ├── FileFormatError        (ValueError)   a file is truncated, malformed or not what it claims
    └── MissingExtraError      (ImportError)  an optional dependency is not installed

Each one is also the builtin that callers expect, so ``except ValueError`` keeps working.
"""


class MemvecError(Exception):
    """Base class of all errors raised by memvec."""


class InvalidValueError(MemvecError, ValueError):
    """An argument has the right type but a value that cannot be used."""


class InvalidTypeError(MemvecError, TypeError):
    """An argument is of a type that cannot be used."""


class FileFormatError(MemvecError, ValueError):
    """A file is truncated, malformed or of another format than expected."""


class MissingExtraError(MemvecError, ImportError):
    """A feature needs a package that is not installed; the message says which pip line adds it."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'memvec[{extra}]'"
        )


__all__ = [
    "FileFormatError",
    "InvalidTypeError",
    "InvalidValueError",
    "MemvecError",
    "MissingExtraError",
]
