"""Machine instructions that NumPy's operators do not reach."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic

# Untyped on purpose: a kernel calls an intrinsic without its first argument.
intrinsic: Any = _intrinsic


@intrinsic
def popcount(typing_context: Any, word: Any) -> Any:
    """Return the number of ones in a uint64; LLVM turns loops of it into vector instructions."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word64 = ir.IntType(64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word64, [word64]), "llvm.ctpop.i64"
        )
        return builder.call(function, arguments)

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    """Ask for the cache line of ``array[position]``, a flat array, ahead of its use."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number]),
            "llvm.prefetch.p0",
        )
        # For reading, to be kept in all caches, data rather than instructions.
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def borrowed(typing_context: Any, array: Any) -> Any:
    """Return an array of the same memory whose references are not counted.

    A slice of an array counts a reference up and down, by two locked instructions: of a run of
    eight codes they take most of the time. The array itself must be an argument of the kernel, so
    that the caller keeps it; one that is made in a kernel would be freed after its last use.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate
