"""The steps by which numba compiles a kernel: those that kernels need."""

from __future__ import annotations

from typing import Any

from numba.core.compiler import Compiler, Flags
from numba.core.compiler_machinery import PassManager

# What these steps look for stands in no kernel: functions defined in functions, comprehensions, and
# expressions of whole arrays. To look for it takes a twentieth of a compilation.
_NOT_NEEDED = frozenset({"InlineClosureLikes", "NopythonRewrites"})


class KernelCompiler(Compiler):
    """Compiles a kernel by the steps that it needs."""

    def __init__(
        self,
        typingctx: Any,
        targetctx: Any,
        library: Any,
        args: Any,
        return_type: Any,
        flags: Any,
        locals: Any,  # noqa: A002 (as numba has it)
    ) -> None:
        flags = _Flags(flags)
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    def define_pipelines(self) -> list[Any]:
        made = []
        for every in super().define_pipelines():
            needed = PassManager(every.pipeline_name)
            needed.passes = [one for one in every.passes if one[0].__name__ not in _NOT_NEEDED]
            needed.finalize()
            made.append(needed)
        return made


class _Flags(Flags):
    """Settings of a compilation; what numba copies of them, to look things up by, is fixed."""

    __slots__ = ()

    def copy(self) -> Any:
        values = self.values()
        for fixed in _KNOWN:
            if fixed.values() == values:
                return fixed
        _KNOWN.append(_FixedFlags(self))
        return _KNOWN[-1]


class _FixedFlags(Flags):
    """Settings of which there is one for all that are equal.

    Numba looks its functions up by them whenever it meets a call, ten thousand times in a first
    build, and would compare twenty settings each time: their hash is the same for all.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_KNOWN: list[_FixedFlags] = []
