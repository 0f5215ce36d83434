"""What kernels run for the functions of `memvec.kernels._bits`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from memvec.kernels._bits import borrowed, popcount, prefetch


@type_callable(popcount)
def _type_popcount(context: Any) -> Any:
    def typed(word: Any) -> Any:
        return types.uint64(types.uint64)

    return typed


@lower_builtin(popcount, types.uint64)
def _popcount(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    word64 = ir.IntType(64)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(word64, [word64]), "llvm.ctpop.i64"
    )
    return builder.call(function, arguments)


@type_callable(prefetch)
def _type_prefetch(context: Any) -> Any:
    def typed(array: Any, position: Any) -> Any:
        return types.void(array, types.intp)

    return typed


@lower_builtin(prefetch, types.Array, types.intp)
def _prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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


@type_callable(borrowed)
def _type_borrowed(context: Any) -> Any:
    def typed(array: Any) -> Any:
        return array(array)

    return typed


@lower_builtin(borrowed, types.Array)
def _borrowed(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    view = context.make_array(signature.args[0])(context, builder, arguments[0])
    view.meminfo = cgutils.get_null_value(view.meminfo.type)
    view.parent = cgutils.get_null_value(view.parent.type)
    return view._getvalue()
