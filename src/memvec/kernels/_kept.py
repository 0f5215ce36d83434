"""Where compiled kernels are kept: in a folder of the user's, by the sources they come from.

What numba keeps are pickles, and reading one runs what it says. So a folder is used only if nobody
else can have written to it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name
from numba.core.codegen import get_host_cpu_features

# Folders that are kept besides the one in use: other versions, environments and machines.
_N_KEPT = 8
# What was used so lately may be in use.
_LEAST_AGE = 24 * 3600.0
_FOLDER_NAME = re.compile("[0-9a-f]{32}")
# Settings of numba, from the environment, that it compiles by and does not keep code by.
_SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@cache
def kept_folder() -> Path | None:
    """Return the folder for kernels of these sources, made if need be; None where none can be."""
    try:
        root = place().absolute()
        if not is_private(root):  # before anything is made where nobody looks for it
            return None
        folder = root / sources_digest()
        is_new = not folder.exists()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if not (is_private(root) and is_private(folder) and os.access(folder, os.W_OK)):
            return None
        os.utime(folder)
        if is_new:
            remove_old(root)
    except (OSError, RuntimeError):  # no disk, no right, or no home
        return None
    return folder


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


def sources_digest(folder: Path = Path(__file__).parent) -> str:
    """Return a digest of all that decides what kernels are compiled to.

    All files count for each kernel: one is compiled anew when another that it calls has changed.
    Numba tells processors apart by itself, but of two that share a home and save at once, one may
    overwrite what the other's index names.
    """
    versions = sys.version, numba.__version__, llvmlite.__version__, np.__version__
    processor = get_host_cpu_name(), get_host_cpu_features()
    settings = (repr(getattr(numba.config, name, None)) for name in _SETTINGS)
    digest = hashlib.sha256("\n".join([*versions, *processor, *settings]).encode())
    for path in sorted(folder.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:32]


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


def remove_old(root: Path) -> None:
    """Remove what other sources left behind, but for the folders that were used last."""
    with suppress(OSError):
        own = [path for path in root.iterdir() if _FOLDER_NAME.fullmatch(path.name)]
        by_age = sorted((path.lstat().st_mtime, path) for path in own)
        for used, path in by_age[: -1 - _N_KEPT]:
            # A process that misses its folder compiles again, and makes it again.
            if time.time() - used > _LEAST_AGE and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
