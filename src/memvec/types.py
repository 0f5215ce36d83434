"""Array aliases used in signatures across the rooms."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]
Int32Array: TypeAlias = NDArray[np.int32]
BoolArray: TypeAlias = NDArray[np.bool_]
ByteArray: TypeAlias = NDArray[np.uint8]
WordArray: TypeAlias = NDArray[np.uint64]
# What rows are stored in.
RowType: TypeAlias = Literal["float32", "float16", "int8"]

__all__ = [
    "ArrayLike",
    "BoolArray",
    "ByteArray",
    "Float32Array",
    "Float64Array",
    "FloatArray",
    "Int32Array",
    "IntArray",
    "RowType",
    "WordArray",
]
