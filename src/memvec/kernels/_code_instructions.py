"""What kernels run for the functions of `memvec.kernels._bits` that make and compare sign codes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

from memvec.kernels._bits import fill_disagreements, mix_registers, passing

# Words of the widest vector register, and registers that a loop over words keeps its sums in.
_LANES, _TOGETHER = 8, 4
_INT32, _NUMBER = ir.IntType(32), ir.IntType(64)
_EIGHT = ir.VectorType(_NUMBER, _LANES)
_ZEROS = ir.Constant(_EIGHT, [0] * _LANES)
_ONES = ir.Constant(_EIGHT, [1] * _LANES)


_FLOATS = ir.VectorType(ir.FloatType(), _LANES)


@type_callable(mix_registers)
def _type_mix_registers(context: Any) -> Any:
    def typed(values: Any, mixed: Any) -> Any:
        if (values.layout, mixed.layout) != ("C", "C"):
            return None
        return types.intp(values, mixed)

    return typed


@lower_builtin(mix_registers, types.Array, types.Array)
def _mix_registers(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    values, mixed = (
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args, arguments, strict=True)
    )
    length = builder.udiv(cgutils.unpack_tuple(builder, values.shape, 1)[0], _NUMBER(_LANES))
    whole = builder.and_(length, _NUMBER(-_LANES))
    with cgutils.for_range_slice(builder, _NUMBER(0), whole, _NUMBER(_LANES)) as (first, _):
        runs = []
        for i in range(_LANES):
            at = builder.add(first, builder.mul(_NUMBER(i), length))
            place = builder.bitcast(builder.gep(values.data, [at]), _FLOATS.as_pointer())
            runs.append(builder.load(place, align=4))
        together = _interleaved(builder, _transformed(builder, runs))
        start = builder.gep(mixed.data, [builder.mul(first, _NUMBER(_LANES))])
        place = builder.bitcast(start, together.type.as_pointer())
        builder.store(together, place, align=4)
    return whole


def _transformed(builder: Any, runs: list[Any]) -> list[Any]:
    """Return the Walsh-Hadamard transform across runs: neighbours first, then those farther off."""
    distance = 1
    while distance < len(runs):
        pairs = [(runs[i & ~distance], runs[i | distance]) for i in range(len(runs))]
        runs = [
            (builder.fsub if i & distance else builder.fadd)(*pair) for i, pair in enumerate(pairs)
        ]
        distance *= 2
    return runs


def _interleaved(builder: Any, runs: list[Any]) -> Any:
    """Return the first entries of all runs, then the second ones, and so on."""
    if len(runs) == 1:
        return runs[0]
    even, odd = _interleaved(builder, runs[::2]), _interleaved(builder, runs[1::2])
    n = even.type.count
    order = [one for i in range(n) for one in (i, n + i)]
    places = ir.Constant(ir.VectorType(_INT32, 2 * n), order)
    return builder.shuffle_vector(even, odd, places)


@type_callable(fill_disagreements)
def _type_fill_disagreements(context: Any) -> Any:
    def typed(run: Any, stride: Any, n_words: Any, planes: Any, totals: Any) -> Any:
        if {run.layout, planes.layout, totals.layout} != {"C"}:
            return None
        return types.void(run, types.intp, types.intp, planes, totals)

    return typed


@lower_builtin(fill_disagreements, types.Array, types.intp, types.intp, types.Array, types.Array)
def _fill_disagreements(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    totals = context.make_array(signature.args[4])(context, builder, arguments[4])
    size = cgutils.unpack_tuple(builder, totals.shape, 1)[0]
    narrow = ir.VectorType(_INT32, _LANES)

    def keep(first: Any, found: Any, mask: Any) -> None:
        place = builder.bitcast(builder.gep(totals.data, [first]), narrow.as_pointer())
        found = builder.trunc(found, narrow)
        if mask is None:
            builder.store(found, place, align=4)
        else:
            function = ir.FunctionType(ir.VoidType(), [narrow, place.type, _INT32, mask.type])
            store = cgutils.get_or_insert_function(
                builder.module, function, f"llvm.masked.store.v{_LANES}i32.p0"
            )
            builder.call(store, [found, place, _INT32(4), mask])

    _compare(context, builder, signature.args, arguments, size, keep)
    return context.get_dummy_value()


@type_callable(passing)
def _type_passing(context: Any) -> Any:
    def typed(run: Any, stride: Any, n_words: Any, planes: Any, limit: Any, size: Any) -> Any:
        if (run.layout, planes.layout) != ("C", "C"):
            return None
        return types.uint64(run, types.intp, types.intp, planes, types.intp, types.intp)

    return typed


@lower_builtin(passing, types.Array, types.intp, types.intp, types.Array, types.intp, types.intp)
def _passing(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    limit, size = _splat(builder, arguments[4]), arguments[5]
    bits = cgutils.alloca_once_value(builder, _NUMBER(0))

    def keep(first: Any, found: Any, mask: Any) -> None:
        passed = builder.icmp_signed("<=", found, limit)
        if mask is not None:
            passed = builder.and_(passed, mask)
        byte = builder.zext(builder.bitcast(passed, ir.IntType(_LANES)), _NUMBER)
        builder.store(builder.or_(builder.load(bits), builder.shl(byte, first)), bits)

    _compare(context, builder, signature.args, arguments, size, keep)
    return builder.load(bits)


def _compare(
    context: Any,
    builder: Any,
    kinds: Any,
    arguments: Any,
    size: Any,
    keep: Callable[[Any, Any, Any], None],
) -> None:
    """Hand over the disagreements of a run's codes: where the first is, those of eight, and a mask.

    The run, its stride, the number of words and the planes of the query are the first arguments.
    Four registers of codes are compared at a time, then one, then what is left; nothing beyond the
    run is read.
    """
    run = context.make_array(kinds[0])(context, builder, arguments[0]).data
    stride, n_words = arguments[1:3]
    planes = _planes(context, builder, kinds[3], arguments[3])

    def some(first: Any, n_registers: int, mask: Any = None) -> None:
        sums = [
            [cgutils.alloca_once(builder, _EIGHT) for _ in range(2)] for _ in range(n_registers)
        ]
        for total in chain.from_iterable(sums):
            builder.store(_ZEROS, total)
        starts = [builder.add(first, _NUMBER(i * _LANES)) for i in range(n_registers)]
        with cgutils.for_range(builder, n_words) as word:
            moved = builder.mul(word.index, stride)
            own = [builder.load(builder.gep(plane, [word.index])) for plane in planes]
            sign, *levels = (_splat(builder, one) for one in own)
            for start, totals in zip(starts, sums, strict=True):
                words = _eight(builder, run, builder.add(moved, start), mask)
                _add_counts(builder, builder.xor(words, sign), levels, totals)
        for start, totals in zip(starts, sums, strict=True):
            keep(start, _total(builder, totals), mask)

    most, rest = _LANES * _TOGETHER, builder.and_(size, _NUMBER(_LANES - 1))
    together, whole = builder.and_(size, _NUMBER(-most)), builder.sub(size, rest)
    with cgutils.for_range_slice(builder, _NUMBER(0), together, _NUMBER(most)) as (first, _):
        some(first, _TOGETHER)
    with cgutils.for_range_slice(builder, together, whole, _NUMBER(_LANES)) as (first, _):
        some(first, 1)
    with builder.if_then(builder.icmp_unsigned("!=", rest, _NUMBER(0))):
        some(whole, 1, _first(builder, rest))


def _planes(context: Any, builder: Any, kind: Any, value: Any) -> list[Any]:
    """Return where the sign bits of a query begin, and both bits of its levels."""
    planes = context.make_array(kind)(context, builder, value)
    width = cgutils.unpack_tuple(builder, planes.shape, 2)[1]
    return [builder.gep(planes.data, [builder.mul(_NUMBER(i), width)]) for i in range(3)]


def _eight(builder: Any, data: Any, position: Any, mask: Any) -> Any:
    """Return eight words from a position on, 0 where there is a mask without a bit."""
    place = builder.bitcast(builder.gep(data, [position]), _EIGHT.as_pointer())
    if mask is None:
        return builder.load(place, align=8)
    function = ir.FunctionType(_EIGHT, [place.type, _INT32, mask.type, _EIGHT])
    load = cgutils.get_or_insert_function(
        builder.module, function, f"llvm.masked.load.v{_LANES}i64.p0"
    )
    return builder.call(load, [place, _INT32(8), mask, _ZEROS])


def _first(builder: Any, count: Any) -> Any:
    """Return a mask of the first lanes."""
    places = ir.Constant(_EIGHT, list(range(_LANES)))
    return builder.icmp_unsigned("<", places, _splat(builder, count))


def _splat(builder: Any, number: Any) -> Any:
    """Return eight times the same number."""
    one = builder.insert_element(ir.Constant(_EIGHT, ir.Undefined), number, _INT32(0))
    same = ir.Constant(ir.VectorType(_INT32, _LANES), [0] * _LANES)
    return builder.shuffle_vector(one, one, same)


def _add_counts(builder: Any, differ: Any, levels: Any, sums: list[Any]) -> None:
    """Add the ones of each level's bits where words and signs differ."""
    function = ir.FunctionType(_EIGHT, [_EIGHT])
    count = cgutils.get_or_insert_function(builder.module, function, f"llvm.ctpop.v{_LANES}i64")
    for level, total in zip(levels, sums, strict=True):
        ones = builder.call(count, [builder.and_(differ, level)])
        builder.store(builder.add(builder.load(total), ones), total)


def _total(builder: Any, sums: list[Any]) -> Any:
    """Return Σ v over the bits that differ: those of the second level count twice."""
    once, twice = (builder.load(total) for total in sums)
    return builder.add(once, builder.shl(twice, _ONES))
