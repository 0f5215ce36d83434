"""Paths that users name: they may lead through links, but to a file."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

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
