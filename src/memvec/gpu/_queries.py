"""Arrays of users: on a card by DLPack, or in the memory of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from memvec import checks
from memvec.gpu._card import Card
from memvec.gpu._packages import cupy
from memvec.gpu._store import GIVEN_TYPES, Stored, store_rows
from memvec.types import Float32Array, RowType

# How DLPack numbers the memory of a GPU of NVIDIA, and memory that is shared with one.
_CUDA, _CUDA_MANAGED = 2, 13


def lies_on_card(array: object) -> bool:
    """Tell whether an array of CuPy, torch, JAX or others lies on a GPU."""
    device = getattr(array, "__dlpack_device__", None)
    # The other protocol second: of tensors that require a gradient, it raises.
    if device is None:
        return hasattr(array, "__cuda_array_interface__")
    try:
        return int(device()[0]) in (_CUDA, _CUDA_MANAGED)
    except (BufferError, RuntimeError, ValueError):  # an array that lies on several
        return False


def on_card(array: Any, card: Card, name: str, where: str) -> Any:
    """Return real numbers on a card; those that lie there are copied only to be cast.

    The library that an array is of has its work on the array finished before CuPy's current stream
    goes on: DLPack sees to it.
    """
    xp = cupy()
    with xp.cuda.Device(card.number):
        if not lies_on_card(array):
            numbers = checks.numbers(array, name, where)
            kept = numbers.dtype.name if numbers.dtype.name in GIVEN_TYPES else "float64"
            return xp.asarray(numbers.astype(kept, copy=False))
        try:
            found = _of_cupy(array)
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            got = f"{type(array).__name__} ({error})"
            raise checks.bad_type(name, where, "an array of real numbers", got) from None
        if found.dtype.kind in "iu":
            return found.astype(np.float32 if found.dtype.itemsize <= 2 else np.float64)
        return found.astype(np.float32) if found.dtype.name == "bfloat16" else found


def _of_cupy(array: Any) -> Any:
    """Return an array that lies on a card as one of CuPy on the current card."""
    xp = cupy()
    if str(getattr(array, "dtype", "")) == "torch.bfloat16":
        array = array.float()  # not every CuPy knows such numbers
    if not isinstance(array, xp.ndarray) and hasattr(array, "__dlpack__"):
        array = xp.from_dlpack(array)
    return xp.asarray(array)  # copied where it lies on another card


@dataclass(frozen=True, eq=False)
class CardQueries:
    """Queries on a card, scaled to norm 1 and stored; items are unit rows, which are fetched.

    Attributes
    ----------
    stored : Stored
    """

    stored: Stored

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries there are, and their dimension."""
        n_queries, dim = self.stored.unit_rows.shape
        return int(n_queries), int(dim)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> Float32Array:
        rows, xp = self.stored.unit_rows, cupy()
        with rows.device:
            chosen = which if isinstance(which, int | slice) else xp.asarray(which)
            return np.ascontiguousarray(rows[chosen].get())


def queries_on_card(
    value: Any, name: str, where: str, *, dim: int, dtype: RowType, card: Card
) -> CardQueries:
    """Return queries that lie on a card, one or several, as they are compared there."""
    array = on_card(value, card, name, where)
    array = array[np.newaxis] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dim:
        expected = f"of shape (n_queries, {dim}) or ({dim},)"
        raise checks.bad_value(name, where, expected, f"shape {array.shape}")
    return CardQueries(store_rows(array, dtype, card, where, name=name))
