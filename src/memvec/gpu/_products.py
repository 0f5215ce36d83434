"""Exact answers by products of matrices in halves, block by block; canonical scores decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from memvec.gpu._card import Card
from memvec.gpu._packages import cupy
from memvec.gpu._queue import Queue
from memvec.gpu._scores import CardRows, launch_scores
from memvec.kernels import MATCH_SLACK

_THREADS = 256
#: Rows and queries that are multiplied at a time: products of 256 MiB.
ROWS_AT_ONCE, QUERIES_AT_ONCE = 1 << 16, 1 << 11
_ROOM = 1 << 22
# Halves round an entry by 2⁻¹¹ of it at most: two rows of norm 1 by 2⁻¹⁰ of their product, and the
# product itself by 2⁻¹¹; sums in float32 are off by 2⁻²³ for each entry at most, twice over.
_ROUNDING, _ROUNDING_OF_ENTRY = 2e-3, 2.4e-7


def rounding(dim: int) -> float:
    """Return how far a product in halves is from the canonical score at most."""
    return _ROUNDING + _ROUNDING_OF_ENTRY * dim


def queries_at_once(k: int) -> int:
    """Return for how many queries `floors_of_best` has room."""
    return max(1, QUERIES_AT_ONCE * ROWS_AT_ONCE // (ROWS_AT_ONCE + k))


def halves(rows: CardRows, start: int, stop: int, dim: int) -> Any:
    """Return some unit rows in halves, zeros behind them up to a multiple of eight rows."""
    xp, data = cupy(), rows.data[start:stop, :dim]
    some = xp.zeros((-(-len(data) // 8) * 8, dim), dtype=np.float16)
    if rows.scales is None:
        some[: len(data)] = data
    else:
        scales = rows.scales[start:stop, np.newaxis].astype(np.float32)
        some[: len(data)] = data.astype(np.float32) * scales
    return some


def launch_above(products: Any, n_real: int, floors: Any, first_row: int, queue: Queue) -> None:
    """Start to append the pairs of a query and a row whose product reaches the query's floor.

    Parameters
    ----------
    products : cupy.ndarray of shape (n_queries, n_rows), float16
        A multiple of eight rows.
    n_real : int
        Rows past so many are none.
    floors : cupy.ndarray of shape (n_queries,), float32
    first_row : int
        The number of the first row.
    queue : Queue
        Takes pairs of a query and a row.
    """
    n_queries, n_rows = products.shape
    blocks = min(-(-n_rows // (8 * _THREADS)), 64)
    sizes = np.int32(n_rows), np.int32(n_real)
    into = queue.entries, queue.count, np.uint64(queue.capacity)
    arguments = (products, *sizes, floors, np.int32(first_row), *into)
    queue.card.launch(("above", "above", {}), (blocks, n_queries), _THREADS, arguments)


def floors_of_best(
    asked: CardRows, rows: CardRows, dim: int, k: int, card: Card, *, allowed: Any = None
) -> Any:
    """Return for each query a similarity that its k nearest rows reach, and few others do.

    The largest product of every eight rows is looked at; k of these are products of k rows. The
    card must be the current one.

    Parameters
    ----------
    asked, rows, dim, card, allowed
        As in `pairs_above`.
    k : int
        Eight times as many rows are allowed, or each product is looked at.

    Returns
    -------
    cupy.ndarray of shape (n_queries,), float32
    """
    xp, n_queries = cupy(), len(asked.data)
    n_allowed = len(rows.data) if allowed is None else int(xp.count_nonzero(allowed))
    together = 8 if n_allowed >= 8 * k else 1
    queries = halves(asked, 0, n_queries, dim)[:n_queries]
    best = xp.full((n_queries, k), -np.inf, dtype=np.float32)
    for start in range(0, len(rows.data), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(rows.data))
        products = (queries @ halves(rows, start, stop, dim).T)[:, : stop - start]
        if allowed is not None:
            products = xp.where(allowed[start:stop] > 0, products, np.float16(-np.inf))
        whole = (stop - start) // together * together
        largest = products[:, :whole].reshape(n_queries, -1, together).max(axis=2)
        seen = xp.concatenate([best, largest, products[:, whole:]], axis=1)
        best = xp.sort(seen.astype(np.float32), axis=1)[:, -k:]
    # Of k rows the products are that large, and their scores less by one rounding at most.
    return best[:, 0] - np.float32(rounding(dim))


def pairs_above(
    asked: CardRows, rows: CardRows, dim: int, similarity: Any, card: Card, *, allowed: Any = None
) -> Iterator[tuple[Any, Any]]:
    """Yield all pairs of a query and a row above a similarity, with their canonical scores.

    The card must be the current one as long as pairs are asked for.

    Parameters
    ----------
    asked, rows : CardRows
        Stored alike; queries are at most `QUERIES_AT_ONCE`.
    dim : int
    similarity : float or cupy.ndarray of shape (n_queries,), float32
        One for all, or one for each query; then there may be pairs below it, too.
    card : Card
    allowed : cupy.ndarray of shape (n_rows,), uint8, optional
        By place.

    Yields
    ------
    pairs : cupy.ndarray of shape (n, 2), int32
        Query, and place of the row.
    scores : cupy.ndarray of shape (n,), float64
    """
    xp, here = cupy(), rows._replace(places=None)
    queries = halves(asked, 0, len(asked.data), dim)
    levels = xp.full(len(queries), 2, dtype=np.float32)
    levels[: len(asked.data)] = similarity
    floors = levels - np.float32(MATCH_SLACK + rounding(dim))
    each = getattr(similarity, "ndim", 0) > 0
    lowest = float(levels.min() if each else similarity) - MATCH_SLACK
    queue, hits = Queue(card, _ROOM), Queue(card, _ROOM, scored=True)
    for start in range(0, len(rows.data), ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, len(rows.data))
        products = queries @ halves(rows, start, stop, dim).T
        first, size = 0, len(asked.data)
        while first < len(asked.data):
            last = min(first + size, len(asked.data))
            queue.clear()
            hits.clear()
            some = products[first:last], stop - start, floors[first:last]
            launch_above(*some, start, queue)
            if queue.length() > queue.capacity:
                size = max(1, queue.capacity // (stop - start))
                continue
            scored = CardRows(asked.data[first:last], _part(asked.scales, first, last))
            launch_scores(scored, here, queue, lowest, hits, allowed=allowed)
            n = hits.length()
            pairs = hits.entries[:n].copy()
            pairs[:, 0] += first
            yield pairs, hits.scores[:n].copy()
            first = last


def _part(scales: Any, first: int, last: int) -> Any:
    return None if scales is None else scales[first:last]
