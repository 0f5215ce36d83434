"""The true matches of calibration queries, found on a card by products in halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from memvec.evaluation import TopK
from memvec.gpu._copied import few_rows_on_card
from memvec.gpu._held import OnCard
from memvec.gpu._packages import cupy
from memvec.gpu._products import (
    QUERIES_AT_ONCE,
    ROWS_AT_ONCE,
    halves,
    launch_above,
    pairs_above,
    rounding,
)
from memvec.gpu._queue import Queue
from memvec.gpu._scores import CardRows, launch_scores
from memvec.gpu._search import in_order
from memvec.kernels import StoredRows
from memvec.matches import N_COUNTS, Matches
from memvec.progress import progress_bar
from memvec.types import Float32Array, IntArray

_ROOM = 1 << 23
_NOWHERE = -1
# Blocks of rows grow again while they fill less than this share of the room.
_FILLED = 4


@dataclass(frozen=True, eq=False)
class CardTruth:
    """Compares calibration queries with every row on a card.

    Attributes
    ----------
    held : OnCard
        What they are compared with; rows are numbered in the order of the codes.
    progress : bool or None
    """

    held: OnCard
    progress: bool | None

    def nearest(self, queries: Float32Array, k: int, exclude: IntArray | None) -> TopK:
        """Return the k rows of highest canonical score; `exclude` is one row for each query."""
        ids = np.empty((len(queries), k), dtype=np.int64)
        scores = np.empty((len(queries), k), dtype=np.float32)
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            own = None if exclude is None else exclude[part]
            ids[part], scores[part] = self._nearest(queries[part], k, own)
        return TopK(ids, scores)

    def above(self, queries: Float32Array, floor: float, exclude: IntArray | None) -> Matches:
        """Return everything above a similarity."""
        held = self.held
        none = np.zeros((len(queries), N_COUNTS), dtype=np.int64)
        parts = []
        with held.card.at_work("Ground truth"):
            rows_of = self._rows_of_places()
            for start in range(0, len(queries), QUERIES_AT_ONCE):
                asked = self._stored(queries[start : start + QUERIES_AT_ONCE])
                blocks = pairs_above(asked, held.rows, held.dim, floor, held.card)
                parts += [
                    (start + pairs[:, 0].get(), rows_of[pairs[:, 1]].get(), scores.get())
                    for pairs, scores in blocks
                ]
        owners, rows, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
        found = in_order(owners, rows.astype(np.int64), scores, none)
        if exclude is None:
            return found
        return found.kept(found.ids != exclude[found.queries])

    def _nearest(
        self, queries: Float32Array, k: int, own: IntArray | None
    ) -> tuple[IntArray, Float32Array]:
        held, xp = self.held, cupy()
        card, rows = held.card, held.rows._replace(places=None)
        n_rows, slack = len(rows.data), rounding(held.dim)
        with (
            card.at_work("Ground truth"),
            progress_bar("ground truth", n_rows, self.progress) as advance,
        ):
            rows_of, asked = self._rows_of_places(), self._stored(queries)
            hidden = xp.full(len(queries), _NOWHERE) if own is None else xp.asarray(own)
            halved = halves(asked, 0, len(queries), held.dim)
            queue, hits = Queue(card, _ROOM), Queue(card, _ROOM, scored=True)
            best = _Best(len(queries), k)
            start, size = 0, ROWS_AT_ONCE
            while start < n_rows:
                stop = min(start + size, n_rows)
                products = halved @ halves(rows, start, stop, held.dim).T
                if start == 0:  # one more than k: the query itself may be among them
                    best.begin(products[: len(queries), : stop - start], k + 1, slack)
                queue.clear()
                hits.clear()
                floors = best.floors
                launch_above(products[: len(queries)], stop - start, floors, start, queue)
                launch_scores(asked, rows, queue, -2.0, hits)
                n, n_close = hits.length(), queue.length()
                if n_close > queue.capacity:  # like rows lie together
                    size = max(8, size // 2)
                    continue
                pairs, scores = hits.entries[:n], hits.scores[:n]
                found = rows_of[pairs[:, 1]]
                other = found != hidden[pairs[:, 0]]
                best.take(pairs[other, 0], found[other], scores[other], slack)
                advance(stop - start)
                start = stop
                if _FILLED * n_close < queue.capacity:
                    size = min(2 * size, ROWS_AT_ONCE)
            return best.result()

    def _stored(self, queries: Float32Array) -> CardRows:
        return few_rows_on_card(StoredRows.of(queries, self.held.dtype))

    def _rows_of_places(self) -> Any:
        """Return the number of the row at each place."""
        places = self.held.rows.places
        rows = cupy().empty(len(places), dtype=np.int32)
        rows[places] = cupy().arange(len(places), dtype=np.int32)
        return rows


class _Best:
    """The k best of each query so far, on a card, and the floors below which none is looked at."""

    def __init__(self, n_queries: int, k: int) -> None:
        xp = cupy()
        self._k, self._n = k, n_queries
        self._parts = [(xp.empty(0, np.int32), xp.empty(0, np.int32), xp.empty(0, np.float64))]
        self._waiting = 0
        self.floors = xp.full(n_queries, -2.0, dtype=np.float32)

    def begin(self, products: Any, k: int, slack: float) -> None:
        """Set floors by the k-th best of some rows, as halves tell it."""
        if products.shape[1] > k:
            kth = cupy().partition(products.astype(np.float32), -k, axis=1)[:, -k]
            self.floors = (kth - np.float32(2 * slack)).astype(np.float32)

    def take(self, queries: Any, rows: Any, scores: Any, slack: float) -> None:
        """Take more rows; floors rise now and then."""
        self._parts.append((queries.copy(), rows.copy(), scores.copy()))
        self._waiting += len(queries)
        if self._waiting > self._k * self._n:
            self._shrink(slack)

    def _shrink(self, slack: float) -> None:
        xp = cupy()
        queries, rows, scores = (xp.concatenate(part) for part in zip(*self._parts, strict=True))
        order = xp.lexsort(xp.stack([rows.astype(np.float64), -scores, queries.astype(np.float64)]))
        queries, rows, scores = queries[order], rows[order], scores[order]
        first = xp.searchsorted(queries, xp.arange(self._n, dtype=queries.dtype))
        rank = xp.arange(len(queries)) - first[queries]
        last = scores[rank == self._k - 1], queries[rank == self._k - 1]
        self.floors[last[1]] = xp.maximum(
            self.floors[last[1]], (last[0] - slack).astype(np.float32)
        )
        kept = rank < self._k
        self._parts, self._waiting = [(queries[kept], rows[kept], scores[kept])], 0

    def result(self) -> tuple[IntArray, Float32Array]:
        """Return rows and scores, shape (n_queries, k), the best first."""
        self._shrink(0.0)
        [(_, rows, scores)] = self._parts
        shape = self._n, self._k
        return (
            rows.get().astype(np.int64).reshape(shape),
            scores.get().astype(np.float32).reshape(shape),
        )
