"""Spherical k-means on a card: rows of one batch, all units at once; every sum has an order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from memvec.constructions import Construction
from memvec.gpu._card import Card
from memvec.gpu._packages import cupy
from memvec.gpu._sources import MOST_SOLVED

_THREADS, _ROW_THREADS, _BLOCKS = 128, 256, 16  # of a block; a multiprocessor
# Of the trace: where a pivot is smaller, members depend on each other.
_CUT = 1e-6
# Rounds in which seeds are drawn, and the share of rows whose moves end them, as on the CPU.
_SEEDING_ROUNDS = 8
_FEW_MOVES, _STEADY = 0.01, 0.85
# Distances under the rounding of halves are no distance.
_ROUNDING = 1e-3
# Products that are made at a time: 256 MiB.
_PRODUCTS = 1 << 27


class CardUnitsOfRows(NamedTuple):
    """Which rows are in a unit together.

    Attributes
    ----------
    order : cupy.ndarray of shape (n_rows,), int32
        Rows, unit after unit, rising in each.
    offsets : cupy.ndarray of shape (n_units + 1,), int32
        Where units begin.
    """

    order: Any
    offsets: Any

    @property
    def sizes(self) -> Any:
        """Members of each unit."""
        return self.offsets[1:] - self.offsets[:-1]

    @classmethod
    def of_labels(cls, labels: Any, n_units: int) -> CardUnitsOfRows:
        """Return the units that labels tell."""
        xp = cupy()
        offsets = xp.zeros(n_units + 1, dtype=np.int32)
        offsets[1:] = xp.cumsum(xp.bincount(labels, minlength=n_units))
        return cls(xp.argsort(labels, kind="stable").astype(np.int32), offsets)


def memory_vectors_on_card(
    rows: Any,
    units: CardUnitsOfRows,
    card: Card,
    *,
    construction: Construction = "pinv",
    normalised: bool = False,
) -> Any:
    """Return the memory vectors of units of rows.

    Parameters
    ----------
    rows : cupy.ndarray of shape (n_rows, dim), float32
    units : CardUnitsOfRows
    card : Card
    construction : {"pinv", "sum"}
        Units of more than 64 members, and of members that depend on each other, have the sum in
        place of pinv, scaled so that members score 1 on average.
    normalised : bool
        Scale them to norm 1.

    Returns
    -------
    cupy.ndarray of shape (n_units, dim), float32
    """
    vectors = combined(rows, units, None, card)
    if construction == "pinv":
        weights, easy = solve_members(rows, units, card)
        solved = combined(rows, units, weights, card)
        # Members score sᵀs/n on the sum s, on average.
        means = (vectors * vectors).sum(axis=1) / cupy().maximum(units.sizes, 1)
        scaled = vectors / cupy().maximum(means, 1e-30)[:, np.newaxis].astype(np.float32)
        vectors = cupy().where(easy[:, np.newaxis] > 0, solved, scaled)
    if normalised:
        norms = cupy().sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        vectors = vectors / cupy().maximum(norms, np.float32(1e-30))
    return vectors


def solve_members(rows: Any, units: CardUnitsOfRows, card: Card) -> tuple[Any, Any]:
    """Return the weights w of members with G w = 1, and for which units there are any.

    Returns
    -------
    weights : cupy.ndarray of shape (n_slots,), float32
        In the order of the units; zeros where there are none.
    easy : cupy.ndarray of shape (n_units,), uint8
    """
    n_units = len(units.offsets) - 1
    weights = card.empty("Weights of members", (len(units.order),), np.float32)
    easy = card.empty("Weights of members", (n_units,), np.uint8)
    given = rows, np.int32(rows.shape[1]), units.order, units.offsets, np.int32(n_units)
    kernel = "weights", "weights", {"MOST": MOST_SOLVED}
    card.launch(kernel, n_units, _THREADS, (*given, np.float64(_CUT), weights, easy))
    return weights, easy


def combined(rows: Any, units: CardUnitsOfRows, weights: Any, card: Card) -> Any:
    """Return the sum of the rows of each unit, weighted or not, in the order of the units."""
    n_units, dim = len(units.offsets) - 1, rows.shape[1]
    vectors = card.empty("Memory vectors", (n_units, dim), np.float32)
    given = rows, np.int32(dim), units.order, units.offsets, np.int32(n_units)
    card.launch(("combine", "combine", {}), n_units, _THREADS, (*given, weights, vectors))
    return vectors


class NearestUnits:
    """The best unit of each row so far, and its score."""

    def __init__(self, rows: Any, card: Card) -> None:
        xp = cupy()
        self._halves, self._card = rows.astype(np.float16), card
        self.labels = xp.zeros(len(rows), dtype=np.int32)
        self.best = xp.full(len(rows), -np.inf, dtype=np.float32)

    def forget(self) -> None:
        """Let the next units be the first."""
        self.best.fill(-np.inf)

    def see(self, vectors: Any, first_unit: int) -> None:
        """Let every row try more units."""
        xp, n = cupy(), len(vectors)
        # A power of 2 keeps long vectors within what halves hold, and rounds nothing.
        longest = xp.sqrt((vectors * vectors).sum(axis=1).max())
        scale = xp.exp2(xp.ceil(xp.log2(xp.maximum(longest, np.float32(1)))))
        padded = xp.zeros((-(-n // 8) * 8, vectors.shape[1]), dtype=np.float16)
        padded[:n] = vectors / scale
        step = max(8, _PRODUCTS // len(padded))
        best = self.best / scale
        for start in range(0, len(self.labels), step):
            products = self._halves[start : start + step] @ padded.T
            some = slice(start, start + len(products))
            self._card.launch(
                ("nearest", "nearest", {}),
                min(-(-len(products) * 32 // _ROW_THREADS), self._card.n_processors * _BLOCKS),
                _ROW_THREADS,
                (
                    *(products, np.int32(len(products)), np.int32(len(padded)), np.int32(n)),
                    *(np.int32(first_unit), best[some], self.labels[some]),
                ),
            )
        self.best[...] = best * scale


def kmeans_on_card(
    rows: Any,
    n_units: int,
    card: Card,
    *,
    construction: Construction = "pinv",
    normalised: bool = False,
    iterations: int = 10,
    seed: int = 0,
) -> CardUnitsOfRows:
    """Pack similar rows into the same unit, as `memvec.assignment.kmeans_assignment` does.

    Scores are products in halves, so that units differ from those of the CPU. The same call on the
    same card gives the same units.

    Parameters
    ----------
    rows : cupy.ndarray of shape (n_rows, dim), float32
        Of norm 1.
    n_units : int
        At most as many as rows.
    card : Card
    construction, normalised, iterations
        As on the CPU; see `memory_vectors_on_card` for pinv.
    seed : int

    Returns
    -------
    CardUnitsOfRows
        No unit is empty.
    """
    xp = cupy()
    with xp.cuda.Device(card.number):
        nearest, n_before = NearestUnits(rows, card), len(rows)
        _seed(rows, n_units, nearest, seed)
        _fill_empty(nearest, n_units)
        for _ in range(1, iterations):
            before = nearest.labels.copy()
            units = CardUnitsOfRows.of_labels(before, n_units)
            given = {"construction": construction, "normalised": normalised}
            vectors = memory_vectors_on_card(rows, units, card, **given)  # type: ignore[arg-type]
            nearest.forget()
            nearest.see(vectors, 0)
            _fill_empty(nearest, n_units)
            n_moved = int((before != nearest.labels).sum())
            many = n_moved > _FEW_MOVES * len(rows) and n_moved > _STEADY * n_before
            if n_moved == 0 or (construction != "sum" and many):
                break
            n_before = n_moved
        return CardUnitsOfRows.of_labels(nearest.labels, n_units)


def _seed(rows: Any, n_units: int, nearest: NearestUnits, seed: int) -> None:
    """Draw rows far from each other as seeds, in a few rounds, and find the nearest of each row."""
    xp = cupy()
    random = xp.random.RandomState(seed)
    taken = xp.zeros(len(rows), dtype=bool)
    bounds = np.linspace(0, n_units, min(_SEEDING_ROUNDS, n_units) + 1).astype(np.int64)
    for first, last in pairwise(bounds.tolist()):
        distances = xp.ones(len(rows))
        if first:
            distances = 1.0 - nearest.best.astype(np.float64)
        noise = xp.log(random.random_sample(len(rows)))
        far = distances > _ROUNDING
        keys = xp.where(far, noise / xp.maximum(distances, _ROUNDING), noise - 1e12)
        keys[taken] = -np.inf
        chosen = xp.sort(xp.argsort(-keys, kind="stable")[: last - first])
        taken[chosen] = True
        nearest.see(rows[chosen], first)


def _fill_empty(nearest: NearestUnits, n_units: int) -> None:
    """Give every empty unit the row that scores lowest in a unit which can spare it."""
    xp, labels = cupy(), nearest.labels
    empty = xp.flatnonzero(xp.bincount(labels, minlength=n_units) == 0)
    if not len(empty):
        return
    rising = xp.argsort(nearest.best, kind="stable")
    by_unit = rising[xp.argsort(labels[rising], kind="stable")]
    own = labels[by_unit]
    stays = xp.ones(len(own), dtype=bool)  # the best of its unit, the last there
    stays[:-1] = own[1:] != own[:-1]
    spare = xp.ones(len(own), dtype=bool)
    spare[by_unit[stays]] = False
    labels[rising[spare[rising]][: len(empty)]] = empty
