"""How kernels are compiled: when they are first called, without the GIL, and kept on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

# Sums may be reordered, so that they fill vector registers. NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz", "arcp"}
_LOCK = threading.Lock()


class Kernel:
    """A function that numba compiles; numba itself is imported when the first one is called.

    It has two faces: what Python calls, which is kept on disk, and what other kernels call by its
    name, which becomes a part of them. To numba, it is the second.
    """

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self._function, self._options = function, options
        self._dispatcher: Any = None
        self._callee: Any = None

    @property
    def function(self) -> Any:
        """What is compiled."""
        return self._function

    @property
    def is_compiled(self) -> bool:
        """Whether kernels that call it find it compiled, or take in its statements instead."""
        inlined = "inline" in self._options
        return inlined or (self._callee is not None and bool(self._callee.overloads))

    @property
    def compiled(self) -> Any:
        """What a call ends in, for who calls it often: a step of Python less."""
        return self._made() if self._dispatcher is None else self._dispatcher

    def __call__(self, *arguments: Any) -> Any:
        return (self._made() if self._dispatcher is None else self._dispatcher)(*arguments)

    def __getattr__(self, name: str) -> Any:
        # What numba asks a global for: its type (_numba_type_), and how to inline it. A copy that
        # is being made has no function yet.
        if "_function" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name!r} yet", name=name)
        from memvec.kernels._dispatcher import callee

        with _LOCK:
            if self._callee is None:
                self._callee = callee(self._function, self._options)
        return getattr(self._callee, name)

    def _made(self) -> Any:
        from memvec.kernels._dispatcher import dispatcher

        with _LOCK:  # two would be compiled twice
            if self._dispatcher is None:
                self._dispatcher = dispatcher(self._function, self._options)
        return self._dispatcher


def _compiled(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles with these options of numba."""
    return lambda function: Kernel(function, options)


# A kernel that does not say False is compiled with the setting of the first kernel that calls it:
# the canonical score would then be summed in any order. Where nothing is summed, the setting
# changes nothing, and one for all saves time: numba learns what `+` means for each anew.
kernel = _compiled(fastmath=False)
inner_exact_kernel = _compiled(fastmath=False, forceinline=True)
fast_kernel = _compiled(fastmath=REORDER)
inline_kernel = _compiled(fastmath=REORDER, inline="always")
# What loops call for every few values: an array is seven arguments, and passing those of a run of
# codes takes longer than comparing it.
inner_kernel = _compiled(fastmath=REORDER, forceinline=True)
