"""One query against all codes, at the speed of the card's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec import checks
from memvec.gpu._card import Card
from memvec.gpu._codes import check_codes, check_numbers
from memvec.gpu._queue import Queue

_THREADS, _BLOCKS = 256, 8  # of a block; a multiprocessor


def scan_codes(
    query: Any, columns: Any, thresholds: Any, card: Card, *, room: int = 1 << 16
) -> Any:
    """Return the columns with popcount(query & column) ≥ threshold of the column.

    Parameters
    ----------
    query : cupy.ndarray of shape (1, bits / 32), uint32
    columns : cupy.ndarray of shape (n_columns, bits / 32), uint32
    thresholds : cupy.ndarray of shape (n_columns,), int16
    card : Card
    room : int
        Columns to make room for at first. Where more pass, the scan runs again with room for all.

    Returns
    -------
    cupy.ndarray of shape (n_passed,), int32
        Numbers of columns, in no order.
    """
    queue = Queue(card, checks.integer(room, "room", "scan_codes"))
    launch_scan(query, columns, thresholds, queue)
    passed = queue.read()
    if passed is None:
        queue = Queue(card, queue.length())
        launch_scan(query, columns, thresholds, queue)
        passed = queue.read()
    return passed[:, 1]


def launch_scan(query: Any, columns: Any, thresholds: Any, queue: Queue) -> None:
    """Start a scan that appends pairs of 0 and a column, and do not wait; see `scan_codes`."""
    where, card = "scan_codes", queue.card
    bits = check_codes(columns, "columns", where)
    check_codes(query, "query", where, bits)
    check_numbers(thresholds, "thresholds", where, np.int16, len(columns))
    if len(query) != 1:
        raise checks.bad_value("query", where, "one code", f"{len(query)} codes")
    if len(columns) == 0:
        return
    grid = min(-(-len(columns) // _THREADS), card.n_processors * _BLOCKS)
    arguments = (query, columns, np.int32(len(columns)), thresholds)
    into = queue.entries, queue.count, np.uint64(queue.capacity)
    card.launch(("scan", "scan", {"BITS": bits}), grid, _THREADS, (*arguments, *into))
