"""Paths that users name: they may lead through links, but to a file."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from memvec import checks
from memvec.errors import FileFormatError

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}


def refuse_special(path: Path) -> None:
    """Raise FileFormatError for pipes and devices, whose readers may wait or read for ever.

    A missing file or a folder gets its error where it is opened.
    """
    mode = stat.S_IFREG
    with suppress(OSError, ValueError):
        mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        raise FileFormatError(f"{path} is not a file but {kind}.")


def expand_paths(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], where: str
) -> list[Path]:
    """Return the paths that names and patterns match, those of a pattern sorted by name.

    ``**`` matches any number of folders.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b-1.npy", "b-0.npy", "a.npy"):
    ...         Path(folder, name).touch()
    ...     [path.name for path in expand_paths([f"{folder}/a.npy", f"{folder}/b-*.npy"], "")]
    ['a.npy', 'b-0.npy', 'b-1.npy']
    """
    named = [files] if isinstance(files, str | os.PathLike) else list(files)
    found: list[Path] = []
    for one in named:
        path = checks.path(one, "files", where, "paths or patterns")
        # A name that exists is no pattern, whatever it holds.
        is_plain = path.exists() or not glob.has_magic(str(path))
        names = [str(path)] if is_plain else sorted(glob.glob(str(path), recursive=True))
        matching = [Path(name) for name in names]
        if not all(one.is_file() for one in matching) or not matching:
            expected = "paths of files, or patterns that some files match"
            raise checks.bad_value("files", where, expected, repr(str(path)))
        found += matching
    if not found:
        raise checks.bad_value("files", where, "at least one file", "none")
    seen: set[Path] = set()
    for path in found:
        if path in seen:
            raise checks.bad_value("files", where, "files, each named once", f"{str(path)!r} twice")
        seen.add(path)
    return found
