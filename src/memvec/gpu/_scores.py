"""Canonical scores of pairs of stored rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memvec import checks
from memvec.gpu._codes import check_numbers, check_rows
from memvec.gpu._queue import Queue
from memvec.gpu._sources import ENTRY_TYPES

_THREADS, _BLOCKS = 256, 16  # of a block; a multiprocessor
#: Bytes that rows of int8 take a multiple of: a lane reads so many at a time.
CHUNK = 16


class CardRows(NamedTuple):
    """Rows as they are stored, on a card.

    Attributes
    ----------
    data : cupy.ndarray of shape (n_rows, width)
        float32, float16 or int8; zeros follow the entries of int8 up to a multiple of 16.
    scales : cupy.ndarray of shape (n_rows,), float64, or None
        s = 1/‖row‖; None for float32.
    places : cupy.ndarray of shape (n_named,), int32, or None
        Where the rows lie that pairs name; None where their names are places.
    """

    data: Any
    scales: Any
    places: Any = None


def stored_width(dim: int, dtype: str) -> int:
    """Return how many entries a stored row of a dimension takes."""
    return -(-dim // CHUNK) * CHUNK if dtype == "int8" else dim


def launch_scores(
    left: CardRows,
    right: CardRows,
    pairs: Queue,
    lowest: float,
    queue: Queue,
    *,
    allowed: Any = None,
) -> None:
    """Start to score pairs, and do not wait, neither for the pairs.

    The canonical score is (x·y) · (s_x · s_y). Pairs that reach the lowest are appended, with their
    scores; on the right, by the place of the row.

    Parameters
    ----------
    left, right : CardRows
        Stored alike.
    pairs : Queue
        Rows of `left` and of `right`.
    lowest : float
    queue : Queue
        Takes pairs and scores.
    allowed : cupy.ndarray of shape (n_right,), uint8, optional
        Whether the row of each place may be in a pair; all may without it.
    """
    where, card = "launch_scores", queue.card
    dtype = str(left.data.dtype)
    for name, rows in (("left", left), ("right", right)):
        check_rows(rows.data, name, where, left.data.dtype)
        if rows.scales is not None:
            check_numbers(rows.scales, f"{name} scales", where, np.float64, len(rows.data))
    width = int(left.data.shape[1])
    if right.data.shape[1] != width or width != stored_width(width, dtype):
        expected = "rows of one length, of int8 a multiple of 16"
        got = f"shapes {left.data.shape}, {right.data.shape}"
        raise checks.bad_value("left", where, expected, got)
    card.launch(
        ("scores", "score", {"STORED": ENTRY_TYPES[dtype]}),
        min(-(-pairs.capacity * 8 // _THREADS), card.n_processors * _BLOCKS),
        _THREADS,
        (
            *(left.data, left.scales, left.places),
            *(right.data, right.scales, right.places),
            *(np.int32(width), allowed),
            *(pairs.entries, pairs.count, np.uint64(pairs.capacity)),
            *(np.float64(lowest), queue.entries, queue.scores),
            *(queue.count, np.uint64(queue.capacity)),
        ),
    )
