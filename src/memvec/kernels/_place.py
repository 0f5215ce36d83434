"""The folder of the user's that compiled code is kept in, and who else can write to it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_folder(name: str) -> Path | None:
    """Return a folder of that name in `place`, made if need be; None where none can be.

    What is kept there is run, so a folder is used only if nobody else can have written to it.
    """
    try:
        root = place().absolute()
        if not is_private(root):  # before anything is made where nobody looks for it
            return None
        folder = root / name
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        usable = is_private(root) and is_private(folder) and os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # no disk, no right, or no home
        return None
    return folder if usable else None


def place() -> Path:
    """Return the folder that users set, or the one that the system has for what can be remade."""
    if own := os.environ.get("MEMVEC_CACHE_DIR"):
        return Path(own)
    if of_numba := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(of_numba) / "memvec"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "memvec" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "memvec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memvec"


def is_private(folder: Path) -> bool:
    """Tell whether only this user can have written to a folder, or put it where it is.

    Of a folder that is not there, tell whether it can be made so.
    """
    if not hasattr(os, "geteuid"):
        return True  # the folders of Windows are those of a user
    if not os.path.lexists(folder):
        made_in = next(path for path in folder.parents if path.exists()).resolve()
        return all(map(_is_safe_parent, (made_in, *made_in.parents)))
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        return False
    return stat.S_ISDIR(found.st_mode) and all(map(_is_safe_parent, folder.resolve().parents))


def _is_safe_parent(folder: Path) -> bool:
    """Tell whether nobody else can rename what lies in a folder."""
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0, Path(folder.anchor).stat().st_uid):
        return False
    return not found.st_mode & stat.S_IWOTH or bool(found.st_mode & stat.S_ISVTX)
