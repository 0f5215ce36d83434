"""Where compiled kernels are kept: in a folder of the user's, by the sources they come from.

What numba keeps are pickles, and reading one runs what it says. So the folder is a private one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
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

from memvec.kernels._place import private_folder

# Folders that are kept besides the one in use: other versions, environments and machines.
_N_KEPT = 8
# What was used so lately may be in use.
_LEAST_AGE = 24 * 3600.0
_FOLDER_NAME = re.compile("[0-9a-f]{32}")
# Settings of numba, from the environment, that it compiles by and does not keep code by.
_SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")


@cache
def kept_folder() -> Path | None:
    """Return the folder for kernels of these sources, made if need be; None where none can be."""
    folder = private_folder(sources_digest())
    if folder is not None:
        with suppress(OSError):
            os.utime(folder)
        remove_old(folder.parent)
    return folder


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


def remove_old(root: Path) -> None:
    """Remove what other sources left behind, but for the folders that were used last."""
    with suppress(OSError):
        own = [path for path in root.iterdir() if _FOLDER_NAME.fullmatch(path.name)]
        by_age = sorted((path.lstat().st_mtime, path) for path in own)
        for used, path in by_age[: -1 - _N_KEPT]:
            # A process that misses its folder compiles again, and makes it again.
            if time.time() - used > _LEAST_AGE and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
