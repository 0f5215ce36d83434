"""Arrays of users: on a card by DLPack, or in the memory of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from memvec import checks
from memvec.gpu._card import Card
from memvec.gpu._packages import cupy
from memvec.gpu._store import Stored, store_rows
from memvec.types import Float32Array, RowType

# How DLPack numbers the memory of a GPU of NVIDIA.
_CUDA = 2


def lies_on_card(array: object) -> bool:
    """Tell whether an array of CuPy, torch, JAX or others lies on a GPU."""
    if hasattr(array, "__cuda_array_interface__"):
        return True
    where = getattr(array, "__dlpack_device__", None)
    return where is not None and int(where()[0]) == _CUDA


def on_card(array: Any, card: Card) -> Any:
    """Return an array on a card; one that lies there is not copied."""
    xp = cupy()
    with xp.cuda.Device(card.number):
        if isinstance(array, xp.ndarray) or not lies_on_card(array):
            return xp.asarray(array)
        return xp.from_dlpack(array)


def on_host(array: Any) -> Any:
    """Return an array in the memory of this machine."""
    if not lies_on_card(array):
        return np.asarray(array)
    xp = cupy()
    return (array if isinstance(array, xp.ndarray) else xp.from_dlpack(array)).get()


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
        rows = self.stored.unit_rows
        chosen = which if isinstance(which, int | slice) else cupy().asarray(which)
        return np.ascontiguousarray(rows[chosen].get())


def queries_on_card(
    value: Any, name: str, where: str, *, dim: int, dtype: RowType, card: Card
) -> CardQueries:
    """Return queries that lie on a card, one or several, as they are compared there."""
    array = on_card(value, card)
    array = array[np.newaxis] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != dim:
        expected = f"of shape (n_queries, {dim}) or ({dim},)"
        raise checks.bad_value(name, where, expected, f"shape {array.shape}")
    return CardQueries(store_rows(array, dtype, card, where, name=name))
