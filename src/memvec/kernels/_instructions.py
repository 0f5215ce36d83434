"""What kernels run for the functions of `memvec.kernels._bits`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.core.imputils import impl_ret_borrowed
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import populate_array

from memvec.kernels._bits import (
    as_bits,
    borrowed,
    half_level_product,
    has_scales,
    lane_products,
    level_product,
    no_product,
    plus_product,
    popcount,
    prefetch,
    room,
    widened,
)
from memvec.kernels._packed import field_types, unpacked

_FLOAT, _INT32, _NUMBER = ir.FloatType(), ir.IntType(32), ir.IntType(64)
# Bytes that arrays of kernels begin at a multiple of: a cache line, and the widest register.
_ALIGNED = 64


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


@type_callable(room)
def _type_room(context: Any) -> Any:
    def typed(shape: Any, dtype: Any) -> Any:
        n_axes = len(shape) if isinstance(shape, types.BaseTuple) else 1
        axes = types.UniTuple(types.intp, n_axes)
        return types.Array(dtype.dtype, n_axes, "C")(axes if n_axes > 1 else types.intp, dtype)

    return typed


@lower_builtin(room, types.Any, types.Any)
def _room(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    made, [asked, _] = signature.return_type, signature.args
    shape = [arguments[0]]
    if isinstance(asked, types.BaseTuple):
        shape = cgutils.unpack_tuple(builder, arguments[0], made.ndim)
    kind = context.get_data_type(made.dtype)
    strides = [_NUMBER(context.get_abi_sizeof(kind))]
    for length in reversed(shape):
        strides.insert(0, builder.mul(strides[0], length))
    held = context.nrt.meminfo_alloc_aligned(builder, strides[0], _ALIGNED)
    data = builder.bitcast(context.nrt.meminfo_data(builder, held), kind.as_pointer())
    view = context.make_array(made)(context, builder)
    populate_array(view, data, shape, strides[1:], strides[-1], held)
    return view._getvalue()


@type_callable(as_bits)
def _type_as_bits(context: Any) -> Any:
    def typed(array: Any) -> Any:
        if (array.layout, array.dtype) != ("C", types.float32):
            return None
        return array.copy(dtype=types.int32)(array)

    return typed


@lower_builtin(as_bits, types.Array)
def _as_bits(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    floats = context.make_array(signature.args[0])(context, builder, arguments[0])
    view = context.make_array(signature.return_type)(context, builder)
    data = builder.bitcast(floats.data, _INT32.as_pointer())
    populate_array(
        view, data, floats.shape, floats.strides, floats.itemsize, floats.meminfo, floats.parent
    )
    return impl_ret_borrowed(context, builder, signature.return_type, view._getvalue())


def _fields_of(kind: Any) -> Any:
    """Return the type of a named tuple as a kernel has it unpacked."""
    fields = [
        types.Array(getattr(types, field.dtype), field.n_dims, "C")
        if field.n_dims
        else getattr(types, field.dtype)
        for field in field_types(kind)
    ]
    return types.NamedTuple(fields, kind)


@type_callable(unpacked)
def _type_unpacked(context: Any) -> Any:
    def typed(address: Any, kind: Any) -> Any:
        return _fields_of(kind.instance_class)(types.intp, kind)

    return typed


@lower_builtin(unpacked, types.intp, types.NamedTupleClass)
def _unpacked(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    table = builder.inttoptr(arguments[0], _NUMBER.as_pointer())
    place, fields = 0, []

    def word() -> Any:
        nonlocal place
        place += 1
        return builder.load(builder.gep(table, [_NUMBER(place - 1)]))

    for kind in signature.return_type:
        if isinstance(kind, types.Array):
            address, shape = word(), [word() for _ in range(kind.ndim)]
            fields.append(_array_at(context, builder, kind, address, shape))
        elif kind == types.float32:
            fields.append(builder.fptrunc(builder.bitcast(word(), ir.DoubleType()), _FLOAT))
        else:
            fields.append(word())
    return context.make_tuple(builder, signature.return_type, fields)


def _array_at(context: Any, builder: Any, kind: Any, address: Any, shape: Any) -> Any:
    """Return an array of the memory at an address, whose references are not counted."""
    view = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [_NUMBER(size)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        view,
        data=builder.inttoptr(address, view.data.type),
        shape=shape,
        strides=strides,
        itemsize=_NUMBER(size),
        meminfo=None,
    )
    return view._getvalue()


# Eight float64 fill the widest vector register.
_LANES = 8
_DOUBLES = ir.VectorType(ir.DoubleType(), _LANES)
# What LLVM calls eight numbers of a type, and the bytes that they are aligned to.
_EIGHTS = {"double": ("v8f64", 4), "float": ("v8f32", 4), "i16": ("v8i16", 2), "i8": ("v8i8", 1)}


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
    """Return eight numbers from a position on as float64, 0 where there is a mask without a bit.

    Those of 16 bits are halves.
    """
    kind = ir.VectorType(data.type.pointee, _LANES)
    place = builder.bitcast(builder.gep(data, [position]), kind.as_pointer())
    name, align = _EIGHTS[str(kind.element)]
    if mask is None:
        found = builder.load(place, align=align)
    else:
        kinds = [place.type, _INT32, mask.type, kind]
        function = ir.FunctionType(kind, kinds)
        load = cgutils.get_or_insert_function(
            builder.module, function, f"llvm.masked.load.{name}.p0"
        )
        zeros = ir.Constant(kind, [0] * _LANES)
        found = builder.call(load, [place, _INT32(align), mask, zeros])
    if kind == _DOUBLES:
        return found
    if name == "v8i8":
        return builder.sitofp(found, _DOUBLES)
    floats = _half(builder, found, _LANES) if name == "v8i16" else found
    return builder.fpext(floats, _DOUBLES)


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


@type_callable(has_scales)
def _type_has_scales(context: Any) -> Any:
    def typed(rows: Any) -> Any:
        return types.boolean(rows)

    return typed


@lower_builtin(has_scales, types.Array)
def _has_scales(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_constant(types.boolean, signature.args[0].dtype != types.float32)


def _wide(entry: Any) -> Any:
    """Return the type of an entry that is widened."""
    return types.int32 if entry == types.int8 else types.float32


@type_callable(widened)
def _type_widened(context: Any) -> Any:
    def typed(entry: Any) -> Any:
        return _wide(entry)(entry)

    return typed


@lower_builtin(widened, types.Float)
def _widened_float(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return arguments[0]


@lower_builtin(widened, types.Integer)
def _widened(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    if signature.args[0] == types.int8:
        return builder.sext(arguments[0], _INT32)
    return _half(builder, arguments[0])


def _half(builder: Any, bits: Any, lanes: int = 1) -> Any:
    """Return halves of which the 16 bits are given as float32: one, or as many as there are."""
    features = get_host_cpu_features()
    # Of x86, processors before 2012 lack the instruction; others have it, under another name.
    known = "+f16c" in features or "-f16c" not in features
    return (half_by_instruction if known else half_by_bits)(builder, bits, lanes)


def half_by_instruction(builder: Any, bits: Any, lanes: int = 1) -> Any:
    """Return halves as float32."""
    half, single = (_times(kind, lanes) for kind in (ir.HalfType(), _FLOAT))
    return builder.fpext(builder.bitcast(bits, half), single)


def half_by_bits(builder: Any, bits: Any, lanes: int = 1) -> Any:
    """Return finite halves as float32, where there is no instruction for it.

    As those of a float32, the bits of a magnitude are 2⁻¹¹² of it.
    """
    number, single = (_times(kind, lanes) for kind in (_INT32, _FLOAT))

    def constant(value: float, kind: Any) -> Any:
        return ir.Constant(kind, value if lanes == 1 else [value] * lanes)

    bits = builder.zext(bits, number)
    small = builder.shl(builder.and_(bits, constant(0x7FFF, number)), constant(13, number))
    size = builder.fmul(builder.bitcast(small, single), constant(2.0**112, single))
    sign = builder.shl(builder.and_(bits, constant(0x8000, number)), constant(16, number))
    return builder.bitcast(builder.or_(builder.bitcast(size, number), sign), single)


def _times(kind: Any, lanes: int) -> Any:
    return kind if lanes == 1 else ir.VectorType(kind, lanes)


@type_callable(no_product)
def _type_no_product(context: Any) -> Any:
    def typed(row: Any) -> Any:
        return _wide(row.dtype)(row)

    return typed


@lower_builtin(no_product, types.Array)
def _no_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_constant(signature.return_type, 0)


@type_callable(plus_product)
def _type_plus_product(context: Any) -> Any:
    def typed(total: Any, left: Any, right: Any) -> Any:
        return total(total, left, right)

    return typed


@lower_builtin(plus_product, types.Number, types.Number, types.Number)
def _plus_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    # In their own type: numba adds int32 up as int64, which takes twice the registers.
    total, entries = signature.args[0], zip(arguments[1:], signature.args[1:], strict=True)
    left, right = (
        (_widened_float if kind == types.float32 else _widened)(context, builder, kind(kind), [one])
        for one, kind in entries
    )
    if total == types.float32:
        return builder.fadd(arguments[0], builder.fmul(left, right))
    return builder.add(arguments[0], builder.mul(left, right))


# Bytes of a fine code that are taken at once; the words of a query's entries then fill a register.
_BYTES = 32
_WORDS, _TOTALS = (ir.VectorType(ir.IntType(bits), _BYTES) for bits in (16, 32))


@type_callable(level_product)
@type_callable(half_level_product)
def _type_level_product(context: Any) -> Any:
    def typed(codes: Any, place: Any, entries: Any) -> Any:
        if (codes.layout, entries.layout) != ("C", "C"):
            return None
        return types.int32(codes, types.intp, entries)

    return typed


@lower_builtin(level_product, types.Array, types.intp, types.Array)
def _level_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _sum_of_levels(context, builder, signature, arguments, halves=False)


@lower_builtin(half_level_product, types.Array, types.intp, types.Array)
def _half_level_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _sum_of_levels(context, builder, signature, arguments, halves=True)


def _sum_of_levels(
    context: Any, builder: Any, signature: Any, arguments: Any, *, halves: bool
) -> Any:
    """Return Σ uᵢqᵢ. A product of 255 and 127 fits in 16 bits, and so do two of 15 and 127."""
    codes, entries = (
        context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2)
    )
    code = builder.gep(codes.data, [arguments[1]])
    dim = cgutils.unpack_tuple(builder, entries.shape, 1)[0]
    n_bytes = builder.lshr(dim, _NUMBER(1)) if halves else dim
    total = cgutils.alloca_once_value(builder, ir.Constant(_TOTALS, [0] * _BYTES))

    def some(data: Any, position: Any, kind: Any) -> Any:
        place = builder.bitcast(builder.gep(data, [position]), kind.as_pointer())
        return builder.load(place, align=1)

    with cgutils.for_range_slice(builder, _NUMBER(0), n_bytes, _NUMBER(_BYTES)) as (at, _):
        levels = builder.zext(some(code, at, ir.VectorType(ir.IntType(8), _BYTES)), _WORDS)
        own = some(entries.data, at, _WORDS)
        if halves:
            low = builder.and_(levels, ir.Constant(_WORDS, [15] * _BYTES))
            high = builder.lshr(levels, ir.Constant(_WORDS, [4] * _BYTES))
            others = some(entries.data, builder.add(at, n_bytes), _WORDS)
            products = builder.add(builder.mul(low, own), builder.mul(high, others))
        else:
            products = builder.mul(levels, own)
        builder.store(builder.add(builder.load(total), builder.sext(products, _TOTALS)), total)
    function = ir.FunctionType(ir.IntType(32), [_TOTALS])
    add_up = cgutils.get_or_insert_function(
        builder.module, function, f"llvm.vector.reduce.add.v{_BYTES}i32"
    )
    return builder.call(add_up, [builder.load(total)])
