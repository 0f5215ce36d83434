"""How kernels are compiled: cached on disk, without the GIL, with a word to whoever waits."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numba
from numba.core import event

_LOGGER = logging.getLogger("memvec")
_NOTICE = "memvec: compiling its loops for this machine; later runs load them from disk."

# Sums may be reordered, so that they fill vector registers. NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz", "arcp"}

# A kernel that does not say False is compiled with the setting of the first kernel that calls it,
# and cached so: the canonical score would then be summed in any order.
kernel = numba.njit(nogil=True, cache=True, fastmath=False)
fast_kernel = numba.njit(nogil=True, cache=True, fastmath=REORDER)
inline_kernel = numba.njit(nogil=True, cache=True, fastmath=REORDER, inline="always")


class _CompileNotice(event.Listener):
    """Says once per process that kernels are being compiled; a load from the cache is silent."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        # Functions made by exec, as other packages do, have no module.
        module = event.data["dispatcher"].py_func.__module__ or ""
        if self._said or not module.startswith("memvec."):
            return
        self._said = True
        if sys.stderr.isatty():
            print(_NOTICE, file=sys.stderr)
        else:
            _LOGGER.info(_NOTICE)

    def on_end(self, event: Any) -> None:
        """Nothing to say: the call that waited returns."""


event.register("numba:compile", _CompileNotice())
