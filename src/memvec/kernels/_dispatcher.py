"""What numba makes of a kernel, and how it keeps it."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

import memvec.kernels._instructions  # numba learns them before it compiles
import memvec.kernels._notice  # noqa: F401 (whoever waits for the first is told)
from memvec.kernels._kept import kept_folder

_LOGGER = logging.getLogger("memvec")


def dispatcher(function: Any, options: dict[str, Any]) -> Any:
    """Return what Python calls for a function; compiled code is kept on disk where it can be."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return function
    made = _made(_PythonFace, function, options)
    if function.__module__.startswith("memvec.kernels.") and kept_folder() is not None:
        made.enable_caching()
    return made


def callee(function: Any, options: dict[str, Any]) -> Any:
    """Return what kernels call for a function: without a wrapper for Python, which nobody calls."""
    return _made(_KernelFace, function, {**options, "no_cpython_wrapper": True})


def _made(face: type[CPUDispatcher], function: Any, options: dict[str, Any]) -> Any:
    """Do as the decorator numba.njit does, by a dispatcher of our own."""
    always = {"nopython": True, "boundscheck": None, "nogil": True, "no_cfunc_wrapper": True}
    return face(py_func=function, locals={}, targetoptions={**always, **options})


class _PythonFace(CPUDispatcher):
    def enable_caching(self) -> None:
        """Keep compiled code in the folder of all kernels."""
        self._cache = _KeptCode(self.py_func)


class _KernelFace(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Be compiled for types; numba would do so for each whole number that is passed, too."""
        return super().get_call_template(tuple(map(numba.types.unliteral, args)), kws)


class _Locator(_CacheLocator):
    """Tells numba the folder of all kernels; its name says which sources they come from."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(kept_folder())

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func, py_file)


class _KeptCodeFiles(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 (as numba has it)


class _KeptCode(FunctionCache):
    """The code of a kernel on disk; whatever goes wrong there, the kernel is compiled."""

    _impl_class = _KeptCodeFiles

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file raises whatever it likes
            with suppress(OSError):
                self.flush()
            return None
        # Of two processes that save at once, one may overwrite what the other's index names.
        wanted, _ = normalize_signature(sig)
        return found if found is not None and found.signature.args == tuple(wanted) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _LOGGER.info("memvec: compiled loops are not kept: %s", error)
