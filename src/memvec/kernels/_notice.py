"""A word and a bar for whoever waits while kernels are compiled."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from typing import Any

from numba.core import event

from memvec.kernels._compile import Kernel
from memvec.kernels._kept import kept_folder
from memvec.kernels._place import place
from memvec.progress import Advance, in_notebook, is_silent, on_terminal, progress_bar

_LOGGER = logging.getLogger("memvec")
_NOTICE = (
    "memvec: compiling for this machine. A first build and search take about 10 s longer, once."
)


def _notice() -> str:
    if kept_folder() is not None:
        return _NOTICE
    try:
        reason = f"{place()} is no folder that you can write to and nobody else can"
    except RuntimeError:
        reason = "you have no home folder"
    return (
        "memvec: compiling for this machine, in each process anew, since compiled code cannot be "
        f"kept: {reason}. Set MEMVEC_CACHE_DIR to a folder of your own."
    )


def functions_of(function: Any) -> set[Kernel]:
    """Return the kernels that a function calls, and those that they call."""
    found: set[Kernel] = set()
    left = [function]
    while left:
        code = left.pop()
        named = (code.__globals__.get(name) for name in code.__code__.co_names)
        new = {each for each in named if isinstance(each, Kernel)} - found
        found |= new
        left += [each.function for each in new]
    return found


class CompileNotice(event.Listener):
    """Says once per process that kernels are being compiled, and shows a bar for each.

    Loading what was kept is silent. Numba compiles one function at a time, whatever the thread.
    """

    def __init__(self) -> None:
        self._said = False
        self._depth = 0
        self._advance: Advance = lambda steps: None
        self._shown = ExitStack()

    def on_start(self, event: Any) -> None:
        function = _function_of_event(event)
        if function is None:
            return
        if self._depth == 0:
            self._say()
            left = sum(not each.is_compiled for each in functions_of(function))
            bar = progress_bar("compiling", 1 + left)
            self._advance = self._shown.enter_context(bar)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        if _function_of_event(event) is None:
            return
        self._depth -= 1
        self._advance(1)
        if self._depth == 0:
            self._shown.close()

    def _say(self) -> None:
        if self._said or is_silent():
            return
        self._said = True
        if on_terminal() or in_notebook():
            print(_notice(), file=sys.stderr)
        else:  # a warning, so that it is seen where nobody has set up logging
            _LOGGER.warning(_notice())


def _function_of_event(event: Any) -> Any:
    """Return the function of memvec's that is compiled; None for others, numba's own among them."""
    function = event.data["dispatcher"].py_func
    # Functions made by exec, as other packages do, have no module.
    return function if (function.__module__ or "").startswith("memvec.") else None


event.register("numba:compile", CompileNotice())
