"""Rows scaled to norm 1 and stored, on a card."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memvec import checks
from memvec.checks import UNIT_NORM_TOLERANCE
from memvec.gpu._card import Card
from memvec.gpu._packages import cupy
from memvec.gpu._scores import CardRows, stored_width
from memvec.gpu._sources import ENTRY_TYPES
from memvec.types import RowType

_THREADS, _BLOCKS = 128, 16  # of a block; a multiprocessor
_NONE = np.iinfo(np.uint64).max
#: What rows may be given in.
GIVEN_TYPES = ("float16", "float32", "float64")


class Stored(NamedTuple):
    """Rows as they are stored, and what they stand for.

    Attributes
    ----------
    rows : CardRows
    unit_rows : cupy.ndarray of shape (n_rows, dim), float32
    """

    rows: CardRows
    unit_rows: Any


def store_rows(
    given: Any,
    dtype: RowType,
    card: Card,
    where: str,
    *,
    name: str = "vectors",
    first_row: int = 0,
    into: CardRows | None = None,
) -> Stored:
    """Scale rows on a card to norm 1 and store them, with the bytes that the CPU gives.

    Parameters
    ----------
    given : cupy.ndarray of shape (n_rows, dim)
        float16, float32 or float64.
    dtype : {"float32", "float16", "int8"}
    card : Card
    where, name, first_row
        For the error of rows that are zero, NaN or infinite.
    into : CardRows, optional
        Takes the rows that are stored; made where it is not given.
    """
    xp, (n_rows, dim) = cupy(), given.shape
    if str(given.dtype) not in GIVEN_TYPES:
        raise checks.bad_type(name, where, f"an array of {', '.join(GIVEN_TYPES)}", given.dtype)
    unit_rows = card.empty("Unit rows", (n_rows, dim), np.float32)
    with xp.cuda.Device(card.number):
        given = xp.ascontiguousarray(given)
        unusable = xp.full(1, _NONE, dtype=np.uint64)
    plain = dtype == "float32"
    if into is None:
        room = CardRows(unit_rows, None) if plain else room_for_rows(n_rows, dim, dtype, card)
    else:
        room = into
    width = stored_width(dim, dtype)
    if n_rows:
        card.launch(
            ("store", "store", _macros(str(given.dtype), dtype)),
            min(-(-n_rows * 32 // _THREADS), card.n_processors * _BLOCKS),
            _THREADS,
            (
                *(given, np.int32(dim), np.int64(n_rows), np.float64(UNIT_NORM_TOLERANCE)),
                *(unit_rows, None if plain else room.data, np.int32(width)),
                *(room.scales, unusable),
            ),
        )
    first = int(unusable.get()[0])
    if first != _NONE:
        with xp.cuda.Device(card.number):
            peak = float(xp.abs(given[first].astype(np.float64)).max())
        got = f"{checks.row_problem(peak)} in row {first_row + first}"
        raise checks.bad_value(name, where, "free of zero, NaN and infinite rows", got)
    if plain and into is not None:
        into.data[...] = unit_rows
    return Stored(room, unit_rows)


def room_for_rows(n_rows: int, dim: int, dtype: RowType, card: Card) -> CardRows:
    """Return room for rows that are stored."""
    data = card.empty("Vectors", (n_rows, stored_width(dim, dtype)), np.dtype(dtype))
    scales = None
    if dtype != "float32":
        scales = card.empty("Scales of vectors", (n_rows,), np.float64)
    return CardRows(data, scales)


def _macros(given: str, stored: str) -> dict[str, int]:
    return {"GIVEN": ENTRY_TYPES[given], "STORED": ENTRY_TYPES[stored]}
