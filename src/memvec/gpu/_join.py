"""Joins of balanced codes: all pairs of a row and a column that have enough bits in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from memvec import checks
from memvec.gpu._card import Card, Way
from memvec.gpu._codes import check_codes, check_numbers
from memvec.gpu._queue import Queue
from memvec.gpu._sources import join_shape

# Rows that a block streams past its columns: enough to make up for reading the columns, and so
# few that all blocks that are under way read the same ones.
_LEAST_ROWS, _MOST_ROWS = 2048, 65536
_ROWS_STEP = 128
_BLOCKS = 8  # a multiprocessor, at least, so that none waits long for the last
# Rows and columns are numbered by int32, and tiles reach past the end.
_MOST_NUMBERED = 2**31 - 2 * _MOST_ROWS


def join_codes(
    rows: Any,
    columns: Any,
    thresholds: Any,
    card: Card,
    *,
    stops: Any = None,
    row_range: tuple[int, int] | None = None,
    room: int = 1 << 20,
    way: Way | None = None,
) -> Any:
    """Return all pairs with popcount(row & column) ≥ threshold of the column.

    Sort columns by threshold: a tile of columns is compared with its smallest first.

    Parameters
    ----------
    rows, columns : cupy.ndarray of shape (n, bits / 32), uint32
    thresholds : cupy.ndarray of shape (n_columns,), int16
    card : Card
    stops : cupy.ndarray of shape (n_columns,), int32, optional
        Only rows below the stop of a column are paired with it; all without it. With the number of
        the column itself, a join of codes with themselves tests each unordered pair once.
    row_range : tuple of int, optional
        The first row and the one after the last; all without it.
    room : int
        Pairs to make room for at first. Where more pass, the join runs again with room for all.
    way : {"wgmma", "mma", "popcount"}, optional
        The fastest that the card has without it.

    Returns
    -------
    cupy.ndarray of shape (n_pairs, 2), int32
        Numbers of row and column, in no order.
    """
    queue = Queue(card, checks.integer(room, "room", "join_codes"))
    given = {"stops": stops, "row_range": row_range, "way": way}
    launch_join(rows, columns, thresholds, queue, **given)
    pairs = queue.read()
    if pairs is None:
        queue = Queue(card, queue.length())
        launch_join(rows, columns, thresholds, queue, **given)
        pairs = queue.read()
    return pairs


def launch_join(
    rows: Any,
    columns: Any,
    thresholds: Any,
    queue: Queue,
    *,
    stops: Any = None,
    row_range: tuple[int, int] | None = None,
    way: Way | None = None,
) -> None:
    """Start a join that appends to a queue, and do not wait; see `join_codes`."""
    where, card = "join_codes", queue.card
    way = checks.choice(way or card.ways[0], "way", where, card.ways)
    bits = check_codes(rows, "rows", where)
    check_codes(columns, "columns", where, bits)
    n_columns = len(columns)
    check_numbers(thresholds, "thresholds", where, np.int16, n_columns)
    if stops is not None:
        check_numbers(stops, "stops", where, np.int32, n_columns)
    begin, end = (0, len(rows)) if row_range is None else row_range
    if not 0 <= begin <= end <= len(rows):
        raise checks.bad_value("row_range", where, f"within [0, {len(rows)}]", (begin, end))
    if max(end, n_columns) > _MOST_NUMBERED:
        raise checks.bad_value(
            "rows", where, f"at most {_MOST_NUMBERED} codes", max(end, n_columns)
        )
    if begin == end or n_columns == 0:
        return
    shape = join_shape(f"join_{way}", bits)
    n_blocks = -(-n_columns // shape.columns)
    share = _rows_of_block(end - begin, n_blocks, card.n_processors)
    card.launch(
        (f"join_{way}", "join", shape.macros),
        n_blocks * -(-(end - begin) // share),
        shape.threads,
        (
            *(rows, np.int32(begin), np.int32(end)),
            *(columns, np.int32(n_columns), thresholds, stops, np.int32(share)),
            *(queue.entries, queue.count, np.uint64(queue.capacity)),
        ),
        shape.shared,
    )


def _rows_of_block(n_rows: int, n_blocks: int, n_processors: int) -> int:
    """Return how many rows a block streams, a multiple of the rows of all tiles."""
    share = n_rows * n_blocks // (_BLOCKS * n_processors)
    share = min(max(share, _LEAST_ROWS), _MOST_ROWS)
    return -(-share // _ROWS_STEP) * _ROWS_STEP
