"""What numba makes of a kernel, and how it keeps it."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any

import numba
from llvmlite.binding import Linkage, parse_assembly
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

import memvec.kernels._code_instructions  # numba learns them before it compiles
import memvec.kernels._instructions
import memvec.kernels._notice  # noqa: F401 (whoever waits for the first is told)
from memvec.kernels._kept import kept_folder
from memvec.kernels._pipeline import KernelCompiler

_LOGGER = logging.getLogger("memvec")
# Seen with 0.60 to 0.68. A later one without these parts compiles the plain way, and longer.
_NUMBA_IS_KNOWN = all(
    hasattr(JITCodeLibrary, name) for name in ("_optimize_final_module", "_finalize_final_module")
)


def dispatcher(function: Any, options: dict[str, Any]) -> Any:
    """Return what Python calls for a function; compiled code is kept on disk where it can be."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return function
    made = _made(_PythonFace, function, options, pipeline_class=KernelCompiler)
    if function.__module__.startswith("memvec.kernels.") and kept_folder() is not None:
        made.enable_caching()
    return made


def callee(function: Any, options: dict[str, Any]) -> Any:
    """Return what kernels call for a function: without a wrapper for Python, which nobody calls."""
    options = {**options, "no_cpython_wrapper": True}
    compiler = _CalleeCompiler if _NUMBA_IS_KNOWN else KernelCompiler
    return _made(_KernelFace, function, options, pipeline_class=compiler)


def _made(face: type[CPUDispatcher], function: Any, options: dict[str, Any], **more: Any) -> Any:
    """Do as the decorator numba.njit does, by a dispatcher of our own."""
    always = {"nopython": True, "boundscheck": None, "nogil": True, "no_cfunc_wrapper": True}
    return face(py_func=function, locals={}, targetoptions={**always, **options}, **more)


def _called(call: Callable[..., Any], arguments: tuple[Any, ...], more: dict[str, Any]) -> Any:
    return call(*arguments, **more)


# Python keeps frames in pieces of 16 KB, and maps and unmaps one whenever a loop calls across its
# end: half a million times in a compilation, which nests deep. A frame that asks for 1 MB gets a
# piece of 2 MB, and what it calls has the rest of it.
_with_room = FunctionType(_called.__code__.replace(co_stacksize=2**17), globals())


@contextmanager
def _without_collector() -> Iterator[None]:
    """Let garbage lie: the collector takes a tenth of a compilation to look at what is in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _PythonFace(CPUDispatcher):
    def enable_caching(self) -> None:
        """Keep compiled code in the folder of all kernels."""
        self._cache = _KeptCode(self.py_func)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        with _without_collector():
            return _with_room(super()._compile_for_args, args, kws)  # type: ignore[misc]


class _KernelFace(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Be compiled for types; numba would do so for each whole number that is passed, too."""
        return super().get_call_template(tuple(map(numba.types.unliteral, args)), kws)


class _CalleeCompiler(KernelCompiler):
    """Leaves the code of a callee as it is: it is optimised with that of the kernel it is part of.

    Numba optimises it by itself first, and again for each kernel on the way up.
    """

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        library = _PlainCode(targetctx.codegen(), "callee")
        super().__init__(typingctx, targetctx, library, *rest)


class _PlainCode(JITCodeLibrary):
    def _optimize_final_module(self) -> None:
        """Do nothing."""

    def _finalize_final_module(self) -> None:
        """Hand the code on to callers; what becomes machine code here is empty.

        Machine code of a callee would be found by its name and be called, slow as it is, in place
        of what a caller has made of it.
        """
        linked = self._final_module.clone()
        for function in linked.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = linked
        # Numba looks these up by name, and writes an address there.
        own = [each.name for each in linked.global_variables if "NumbaEnv" in each.name]
        target = f'target triple = "{linked.triple}"\ntarget datalayout = "{linked.data_layout}"\n'
        places = (f'@"{name}" = common global i64 0\n' for name in own)
        self._final_module = parse_assembly(target + "".join(places))
        super()._finalize_final_module()


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
