"""How kernels are compiled: cached on disk, without the GIL, with a word to whoever waits."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

_LOGGER = logging.getLogger("memvec")
_NOTICE = "memvec: compiling its loops for this machine; later runs load them from disk."
_NOTICE_UNKEPT = (
    "memvec: compiling its loops for this machine; they are not kept, since there is no folder for "
    "them that can be written. Set NUMBA_CACHE_DIR to one."
)

# Sums may be reordered, so that they fill vector registers. NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz", "arcp"}


def _compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles, and caches on disk where numba finds a place for it."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError as error:  # numba has no class of its own for it
            if "no locator available" not in str(error):
                raise
        _CompileNotice.text = _NOTICE_UNKEPT
        return numba.njit(nogil=True, **options)(function)

    return decorate


class _CompileNotice(event.Listener):
    """Says once per process that kernels are being compiled; a load from the cache is silent."""

    text = _NOTICE

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        # Functions made by exec, as other packages do, have no module.
        module = event.data["dispatcher"].py_func.__module__ or ""
        if self._said or not module.startswith("memvec."):
            return
        self._said = True
        if sys.stderr.isatty():
            print(self.text, file=sys.stderr)
        else:
            _LOGGER.info(self.text)

    def on_end(self, event: Any) -> None:
        """Nothing to say: the call that waited returns."""


event.register("numba:compile", _CompileNotice())

# A kernel that does not say False is compiled with the setting of the first kernel that calls it,
# and cached so: the canonical score would then be summed in any order.
kernel = _compiled(fastmath=False)
fast_kernel = _compiled(fastmath=REORDER)
inline_kernel = _compiled(fastmath=REORDER, inline="always")
# What loops call for every few values: an array is seven arguments, and passing those of a run of
# codes takes longer than comparing it.
inner_kernel = _compiled(fastmath=REORDER, forceinline=True)
