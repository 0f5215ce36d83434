"""What numba makes of a kernel, with a word to whoever waits while it compiles."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numba
from numba.core import event

import memvec.kernels._instructions  # noqa: F401 (numba learns them before it compiles)

_LOGGER = logging.getLogger("memvec")
_NOTICE = "memvec: compiling its loops for this machine; later runs load them from disk."
_NOTICE_UNKEPT = (
    "memvec: compiling its loops for this machine; they are not kept, since there is no folder for "
    "them that can be written. Set NUMBA_CACHE_DIR to one."
)


def dispatcher(function: Any, options: dict[str, Any]) -> Any:
    """Return a function's dispatcher, which caches on disk where numba finds a place for it."""
    try:
        return numba.njit(nogil=True, cache=True, no_cfunc_wrapper=True, **options)(function)
    except RuntimeError as error:  # numba has no class of its own for it
        if "no locator available" not in str(error):
            raise
    _CompileNotice.text = _NOTICE_UNKEPT
    return numba.njit(nogil=True, **options)(function)


def inner(function: Any, options: dict[str, Any]) -> Any:
    made = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    template = made.get_call_template
    made.get_call_template = lambda args, kws: template(tuple(map(numba.types.unliteral, args)), kws)
    return made


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
