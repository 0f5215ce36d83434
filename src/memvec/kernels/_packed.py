"""Arguments that stay the same from call to call, handed to a kernel as one number.

Python hands over an array in 50 ns, and thirty of them take longer than the search of a small
index. So they are written down once, in a table: numbers by their bits, arrays by their address and
shape. A kernel reads them back by name.
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypeVar, get_type_hints
from weakref import WeakValueDictionary

import numpy as np

from memvec.types import ByteArray, Float32Array, Float64Array, Int32Array, IntArray, WordArray

# What a field may hold: its type in Python, in kernels, and its number of dimensions.
Int: TypeAlias = Annotated[int, "int64", 0]
Float: TypeAlias = Annotated[float, "float32", 0]
Floats: TypeAlias = Annotated[Float32Array, "float32", 1]
FloatRows: TypeAlias = Annotated[Float32Array, "float32", 2]
Doubles: TypeAlias = Annotated[Float64Array, "float64", 1]
Ints: TypeAlias = Annotated[Int32Array, "int32", 1]
LongInts: TypeAlias = Annotated[IntArray, "int64", 1]
ByteRows: TypeAlias = Annotated[ByteArray, "uint8", 2]
Words: TypeAlias = Annotated[WordArray, "uint64", 1]
WordRows: TypeAlias = Annotated[WordArray, "uint64", 2]
WordBlocks: TypeAlias = Annotated[WordArray, "uint64", 3]

Fields = TypeVar("Fields", bound=tuple[Any, ...])


class FieldType(NamedTuple):
    """What a field holds, as kernels know it."""

    dtype: str
    n_dims: int


class Packed(Generic[Fields]):
    """The fields of a named tuple in a table that kernels read; it must outlive their calls.

    Examples
    --------
    >>> class Line(NamedTuple):
    ...     base: Float
    ...     factors: Floats
    >>> line = Packed(Line(0.5, np.ones(3, dtype=np.float32)))
    >>> unpacked(line.address, Line).base
    0.5
    """

    def __init__(self, fields: Fields) -> None:
        kinds = field_types(type(fields))
        held = [_held(value, kind) for value, kind in zip(fields, kinds, strict=True)]
        self._words = np.array(list(chain.from_iterable(map(_words_of, held))), dtype=np.int64)
        #: Nothing else keeps an array that had to be copied to lie as kernels read it.
        self.fields = type(fields)._make(  # type: ignore[attr-defined]
            array if array.ndim else array.item() for array in held
        )
        #: What kernels are given.
        self.address: int = self._words.ctypes.data
        _TABLES[self.address] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Be packed anew where a pickle is read: arrays lie elsewhere there."""
        return Packed, (self.fields,)


_TABLES: WeakValueDictionary[int, Packed[Any]] = WeakValueDictionary()


def field_types(kind: type[tuple[Any, ...]]) -> list[FieldType]:
    """Return what the fields of a named tuple hold, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return [FieldType(*hint.__metadata__) for hint in hints.values()]


def unpacked(address: int, kind: type[Fields]) -> Fields:
    """Return the fields that a `Packed` holds; its arrays are `borrowed`.

    This is its meaning in Python; `memvec.kernels._instructions` has what kernels run instead.
    """
    fields: Fields = _TABLES[address].fields
    return fields


def _held(value: Any, kind: FieldType) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a field as an array that lies as kernels read it, of no dimension for a number."""
    array = np.require(value, kind.dtype, ["C", "A"])
    if array.ndim != kind.n_dims:
        raise ValueError(f"{kind.n_dims} dimensions are expected, not {array.ndim}")
    return array


def _words_of(held: np.ndarray[Any, np.dtype[Any]]) -> list[int]:
    """Return a number as float64 or int64 by its bits, and an array by address and shape."""
    if held.ndim:
        return [held.ctypes.data, *held.shape]
    wide = held.astype(np.float64 if held.dtype.kind == "f" else np.int64)
    return [int(wide.view(np.int64))]
