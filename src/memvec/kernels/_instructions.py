"""What kernels run for the functions of `memvec.kernels._bits`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from memvec.kernels._bits import borrowed, lane_products, popcount, prefetch


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


# Eight float64 fill the widest vector register.
_LANES = 8
_DOUBLES = ir.VectorType(ir.DoubleType(), _LANES)
_NUMBER = ir.IntType(64)


@type_callable(lane_products)
def _type_lane_products(context: Any) -> Any:
    def typed(left: Any, right: Any, places: Any) -> Any:
        if (left.layout, right.layout) != ("C", "C"):
            return None
        count = len(places)
        return types.UniTuple(types.float64, count)(left, right, types.UniTuple(types.intp, count))

    return typed


@lower_builtin(lane_products, types.Array, types.Array, types.UniTuple)
def _lane_products(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    left, right = (
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[:2], arguments[:2], strict=True)
    )
    places = cgutils.unpack_tuple(builder, arguments[2], signature.args[2].count)
    rows = [builder.gep(right.data, [place]) for place in places]
    dim = cgutils.unpack_tuple(builder, left.shape, 1)[0]
    rest = builder.urem(dim, _NUMBER(_LANES))
    whole = builder.sub(dim, rest)
    zeros = ir.Constant(_DOUBLES, [0.0] * _LANES)
    sums = [cgutils.alloca_once_value(builder, zeros) for _ in rows]

    def add(position: Any, mask: Any) -> None:
        own = _eight(builder, left.data, position, mask)
        for row, total in zip(rows, sums, strict=True):
            product = builder.fmul(own, _eight(builder, row, position, mask), flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

    with cgutils.for_range_slice(builder, _NUMBER(0), whole, _NUMBER(_LANES)) as (position, _):
        add(position, None)
    with builder.if_then(builder.icmp_unsigned("!=", rest, _NUMBER(0))):
        add(whole, _first(builder, rest))
    totals = [_added_in_order(builder, builder.load(total)) for total in sums]
    return context.make_tuple(builder, signature.return_type, totals)


def _eight(builder: Any, data: Any, position: Any, mask: Any) -> Any:
    """Return eight numbers from a position on as float64, 0 where there is a mask without a bit."""
    kind = ir.VectorType(data.type.pointee, _LANES)
    place = builder.bitcast(builder.gep(data, [position]), kind.as_pointer())
    if mask is None:
        found = builder.load(place, align=4)
    else:
        kinds = [place.type, ir.IntType(32), mask.type, kind]
        name = f"llvm.masked.load.v8f{64 if kind == _DOUBLES else 32}.p0"
        function = ir.FunctionType(kind, kinds)
        load = cgutils.get_or_insert_function(builder.module, function, name)
        zeros = ir.Constant(kind, [0.0] * _LANES)
        found = builder.call(load, [place, ir.IntType(32)(4), mask, zeros])
    return found if kind == _DOUBLES else builder.fpext(found, _DOUBLES)


def _first(builder: Any, count: Any) -> Any:
    """Return a mask of the first lanes."""
    mask = ir.Constant(ir.VectorType(ir.IntType(1), _LANES), ir.Undefined)
    for lane in range(_LANES):
        chosen = builder.icmp_unsigned("<", _NUMBER(lane), count)
        mask = builder.insert_element(mask, chosen, ir.IntType(32)(lane))
    return mask


def _added_in_order(builder: Any, lanes: Any) -> Any:
    total = ir.DoubleType()(0.0)
    for lane in range(_LANES):
        total = builder.fadd(total, builder.extract_element(lanes, ir.IntType(32)(lane)))
    return total
